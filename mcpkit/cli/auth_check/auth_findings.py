"""Findings about logins at a server: their catalogue by code, with severity, affected clients, reason and fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..findings import Severity

EVERY_CLIENT: Final = "every client"
SDKS: Final = "clients on the official SDKs"
CLAUDE: Final = "Claude"
CHATGPT: Final = "ChatGPT"
UNREGISTERED: Final = "clients without a preregistered client ID: Claude, ChatGPT, MCP Inspector"
UNDOCUMENTED: Final = "clients without a client ID metadata document: Cursor, mcp-remote, MCP Inspector"
NEWEST: Final = "clients of 2026-07-28"
JUNE: Final = "clients of 2025-06-18 that do not try the well-known URLs"
MARCH: Final = "clients of 2025-03-26"
SSE: Final = "clients of HTTP with SSE (2024-11-05)"
WEB: Final = "clients that run in a web page, such as MCP Inspector without its proxy"
EAGER: Final = "hosts that log in only after a 401 to their first request"


class CatalogueEntry(NamedTuple):
    """An entry of the catalogue; `{...}` is filled with the facts of a finding."""

    severity: Severity
    clients: tuple[str, ...]
    why: str
    cure: str


CATALOGUE: Final[Mapping[str, CatalogueEntry]] = {
    # The URL
    "not-https": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The URL is http, so tokens would travel unencrypted. Clients refuse to send them.",
        "serve the URL over https",
    ),
    "credential-in-url": CatalogueEntry(
        "warning",
        (),
        "The query of the URL seems to contain a credential. Servers and proxies log URLs, and the specification"
        " forbids tokens there.",
        "accept credentials only in the Authorization header",
    ),
    "trailing-slash": CatalogueEntry(
        "note",
        (CLAUDE,),
        "The URL ends with a slash. Some clients remove it and then request tokens for another resource.",
        "serve the URL without the slash, and give users that URL",
    ),
    # The responses of the server
    "unreachable": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The server sent no response: {problem}.",
        "make the URL reachable from this machine",
    ),
    "redirect": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The URL redirects to {target} (HTTP {status}). Clients turn the POST into a GET and drop the token.",
        "respond at this URL without a redirect (/mcp, not /mcp/), or give users the target URL",
    ),
    "redirect-kept": CatalogueEntry(
        "warning",
        (SDKS, CLAUDE),
        "The URL redirects to {target} (HTTP {status}). Some clients drop the token when they follow it, and the"
        " resource in the metadata differs from the URL that users enter.",
        "respond at this URL without a redirect (/mcp, not /mcp/), or give users the target URL",
    ),
    "first-is-no-401": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The server answers a request without a token with HTTP {status}. Clients start the login only after a 401.",
        "check the token before anything else, and answer 401 with WWW-Authenticate: Bearer if there is none",
    ),
    "no-mcp": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The server answers the first request with HTTP {status} and publishes no protected resource metadata. The URL"
        " may not be an MCP endpoint.",
        "check the path of the URL; a protected server answers 401",
    ),
    "anonymous": CatalogueEntry(
        "warning",
        (EAGER,),
        "The server publishes protected resource metadata but accepts the first request without a token. These hosts"
        " never offer a login.",
        "answer 401 to the first request if all users must log in; else document how to log in from these hosts",
    ),
    "open": CatalogueEntry(
        "note",
        (),
        "The server accepts requests without a token and publishes no protected resource metadata: it requires no"
        " login.",
        "nothing, if that is intended",
    ),
    "no-challenge": CatalogueEntry(
        "warning",
        (JUNE,),
        "The 401 has no Bearer challenge in WWW-Authenticate. Schemes found: {schemes}.",
        'add WWW-Authenticate: Bearer resource_metadata="...", scope="..."',
    ),
    "challenge-without-metadata": CatalogueEntry(
        "warning",
        (JUNE,),
        "The challenge has no resource_metadata parameter.",
        "add resource_metadata with the URL of the protected resource metadata",
    ),
    "challenge-without-scope": CatalogueEntry(
        "note",
        (),
        "The challenge has no scope parameter, so clients request all of scopes_supported at once.",
        "add scope with the scopes that the first request needs",
    ),
    "challenge-with-error": CatalogueEntry(
        "note",
        (),
        "The challenge has error={error} although the request had no token (RFC 6750, 3.1). Clients may discard a valid"
        " stored token.",
        "omit error from the challenge when the request has no token",
    ),
    "metadata-http": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The challenge's resource_metadata is {named}, an http URL, although clients reach the server over https. A"
        " server behind a proxy does not know its public URL.",
        "set the public URL in the server's configuration (public_url= in mcpkit)",
    ),
    "metadata-origin": CatalogueEntry(
        "error",
        (SDKS,),
        "The challenge's resource_metadata is {named}, which is not on the server's origin. Clients only trust metadata"
        " of the same origin.",
        "set the public URL in the server's configuration, and publish the document there",
    ),
    "any-token": CatalogueEntry(
        "error",
        (),
        "The server accepts a made-up token: it does not verify tokens.",
        "verify the signature, issuer, audience and expiry of each token",
    ),
    "bad-token-passes": CatalogueEntry(
        "warning",
        (EVERY_CLIENT,),
        "The server ignores an invalid token and treats the request as anonymous. Clients with an expired token never"
        " log in again.",
        "answer an invalid token with 401, also where no token is required",
    ),
    "bad-token-is-no-401": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The server answers an invalid token with HTTP {status} instead of 401, so clients never refresh their tokens.",
        'answer 401 with error="invalid_token"',
    ),
    "offline-access": CatalogueEntry(
        "warning",
        ("clients of authorization servers that grant them no refresh tokens",),
        "{what} lists the scope offline_access. It is not a scope of the MCP server, and authorization servers reject"
        " it for clients that may not have refresh tokens.",
        "remove it; clients add it themselves if the authorization server lists it",
    ),
    # Its metadata
    "no-metadata": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "There is no protected resource metadata (RFC 9728) at {places}, so clients cannot find the authorization"
        " server.",
        "publish it at the first of these URLs without authentication, and name it in the challenge",
    ),
    "metadata-protected": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The metadata URL requires a token (HTTP {status}), which clients do not have yet.",
        "exclude /.well-known/ from authentication",
    ),
    "metadata-unusable": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The protected resource metadata is unusable: {problem}.",
        "answer with HTTP 200 and a JSON object as application/json, without a redirect",
    ),
    "no-resource": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The metadata has no resource member.",
        "add resource: {server}",
    ),
    "resource-slash": CatalogueEntry(
        "warning",
        (SDKS, NEWEST),
        "The metadata has resource {resource}, which differs from {server} in the trailing slash. Tokens for one may be"
        " rejected for the other.",
        "publish resource: {server}",
    ),
    "resource-wide": CatalogueEntry(
        "note",
        (),
        "The metadata has resource {resource}, a parent of {server}. Tokens are valid for all servers below it.",
        "publish resource: {server}, unless these servers share tokens on purpose",
    ),
    "resource-http": CatalogueEntry(
        "error",
        (SDKS, NEWEST),
        "The metadata has resource {resource} instead of {server}. A server behind a proxy does not know that clients"
        " use https.",
        "set the public URL in the server's configuration (public_url= in mcpkit), not by headers",
    ),
    "resource-origin": CatalogueEntry(
        "error",
        (SDKS, NEWEST),
        "The metadata has resource {resource}, which is not on the origin of {server}. Clients must reject metadata of"
        " another server.",
        "set the public URL in the server's configuration, so that it publishes resource: {server}",
    ),
    "resource-mismatch": CatalogueEntry(
        "error",
        (SDKS, NEWEST),
        "The metadata has resource {resource} instead of {server}. Clients must reject metadata of another server.",
        "publish a separate document for each server, here with resource: {server}",
    ),
    "no-issuer": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The metadata has no authorization_servers.",
        "add authorization_servers with the issuer, exactly as in the authorization server's metadata",
    ),
    "token-not-in-header": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The metadata lists only {methods} in bearer_methods_supported, but clients send tokens in the header.",
        "accept tokens in the Authorization header, and list header",
    ),
    "token-in-query": CatalogueEntry(
        "warning",
        (),
        "The metadata lists query in bearer_methods_supported. The specification forbids tokens in the query, where"
        " servers and proxies log them.",
        "accept tokens only in the Authorization header",
    ),
    "sse-metadata": CatalogueEntry(
        "error",
        (SSE,),
        "Clients treat the SSE URL {server} as a separate server, and it has no metadata of its own. {why}",
        "publish a document with resource: {server}",
    ),
    "march-foreign-issuer": CatalogueEntry(
        "warning",
        (MARCH,),
        "Clients of 2025-03-26 only look for authorization server metadata at {own}, and there is none.",
        "nothing, or run an authorization server or an OAuth proxy at the MCP server's origin",
    ),
    # Its authorization server
    "issuer-unusable": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The issuer {issuer} is unusable: {problem}.",
        "name an issuer with an https:// URL that all clients can reach",
    ),
    "issuer-metadata": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The authorization server {issuer} publishes no metadata. {tried}",
        "publish it by RFC 8414 or OpenID Connect Discovery, at one of these URLs",
    ),
    "issuer-unreachable": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The authorization server {issuer} does not respond. {tried}",
        "make it reachable for all clients",
    ),
    "issuer-mismatch": CatalogueEntry(
        "error",
        (NEWEST,),
        "The metadata of {issuer} has issuer {named}. The two must be equal byte for byte, or one server could"
        " impersonate the other.",
        "list the issuer in authorization_servers exactly as its metadata has it",
    ),
    "issuer-slash": CatalogueEntry(
        "error",
        (NEWEST,),
        "The MCP server names the issuer {issuer}, but the issuer's metadata has {named}. They differ in the trailing"
        " slash and must be equal byte for byte.",
        "list the issuer in authorization_servers exactly as its metadata has it",
    ),
    "no-endpoint": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The metadata of {issuer} has no usable {endpoint}: {problem}.",
        "publish the endpoint's https:// URL",
    ),
    "no-code": CatalogueEntry(
        "error",
        (EVERY_CLIENT,),
        "The {what} of the authorization server {issuer} lacks the authorization code flow, which every user login"
        " needs.",
        "enable the authorization_code grant with the response type code; nothing, if all clients are services",
    ),
    "no-pkce": CatalogueEntry(
        "error",
        (CLAUDE, CHATGPT, NEWEST),
        "The metadata of the authorization server {issuer} does not list S256 in code_challenge_methods_supported."
        " Clients must stop here. Microsoft Entra ID and Amazon Cognito support PKCE but do not list it.",
        "add S256 to the metadata, or use an OAuth proxy that lists it",
    ),
    "no-registration": CatalogueEntry(
        "error",
        (UNREGISTERED,),
        "The authorization server {issuer} supports neither client ID metadata documents nor dynamic registration."
        " Users must enter a client ID in each client.",
        "enable client ID metadata documents, use an OAuth proxy, or give users a client ID for each client",
    ),
    "no-client-documents": CatalogueEntry(
        "note",
        (),
        "The authorization server {issuer} only supports dynamic registration. 2026-07-28 deprecates it, and clients"
        " may drop it after July 2027.",
        "enable client ID metadata documents",
    ),
    "documents-alone": CatalogueEntry(
        "warning",
        (UNDOCUMENTED,),
        "The authorization server {issuer} supports client ID metadata documents but no dynamic registration. Users of"
        " clients without such a document must enter a client ID.",
        "enable dynamic registration as well, as long as such clients are in use",
    ),
    "no-public-clients": CatalogueEntry(
        "warning",
        (CLAUDE,),
        "The authorization server {issuer} supports client ID metadata documents but does not list none in"
        " token_endpoint_auth_methods_supported. Claude then does not use its document.",
        "add none, for clients that cannot keep a secret",
    ),
    "no-iss": CatalogueEntry(
        "note",
        (),
        "The authorization server {issuer} does not send iss in authorization responses (RFC 9207), so clients cannot"
        " detect mix-up attacks. A later revision will require it.",
        "send iss in each authorization response, and set authorization_response_iss_parameter_supported",
    ),
    "no-refresh": CatalogueEntry(
        "note",
        (),
        "The authorization server {issuer} does not list the refresh_token grant. Users must log in again whenever an"
        " access token expires.",
        "enable the refresh_token grant",
    ),
    "unknown-scopes": CatalogueEntry(
        "warning",
        (EVERY_CLIENT,),
        "The MCP server names scopes that the authorization server {issuer} does not list: {scopes}. Clients that"
        " request them may get invalid_scope.",
        "use scopes that the authorization server lists",
    ),
    # Web pages
    "cors": CatalogueEntry(
        "warning",
        (WEB,),
        "CORS blocks pages of {origin} at: {places}.",
        "allow this origin there, with the headers Authorization, Content-Type and MCP-Protocol-Version, and expose"
        " WWW-Authenticate",
    ),
}


@dataclass(frozen=True)
class Finding:
    """A finding about logins at a server.

    Attributes:
        code: The stable code of the finding.
        severity: `error`: clients cannot log in, or requests are accepted without a token; `warning`: some clients have
            a problem; `note`: information.
        clients: The affected clients; may be empty.
        why: The observation and its consequence.
        cure: The recommended change.
        url: The URL of the observation.
    """

    code: str
    severity: Severity
    clients: tuple[str, ...]
    why: str
    cure: str
    url: str

    def __str__(self) -> str:
        lines = [f"{self.severity} {self.code}: {self.url}", self.why]
        if self.clients:
            lines.append(f"Affected clients: {'; '.join(self.clients)}.")
        return "\n  ".join([*lines, f"What to change: {self.cure}."])


def make_finding(code: str, url: str, **facts: object) -> Finding:
    """Return the finding of a code from the catalogue.

    Args:
        code: The code.
        url: The URL of the observation.
        facts: The values for the placeholders. Texts from servers are shortened.
    """
    entry = CATALOGUE[code]
    why, cure = entry.why.format(**facts), entry.cure.format(**facts)
    return Finding(code, entry.severity, entry.clients, why, cure, url)

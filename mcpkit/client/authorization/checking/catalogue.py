"""All that is found, as a table: how bad it is, which clients fail, why, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Severity = Literal["error", "warning", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""The worst first."""

EVERYBODY: Final = "every client"
SDKS: Final = "clients on the official SDKs"
CLAUDE: Final = "Claude"
CHATGPT: Final = "ChatGPT"
UNREGISTERED: Final = "every client that nobody has registered by hand: Claude, ChatGPT, MCP Inspector"
UNDOCUMENTED: Final = "clients that have no metadata document: Cursor, mcp-remote, MCP Inspector"
NEWEST: Final = "clients that follow 2026-07-28"
JUNE: Final = "clients of 2025-06-18 that know no well-known paths"
MARCH: Final = "clients of 2025-03-26"
SSE: Final = "clients of HTTP with SSE (2024-11-05)"
WEB: Final = "clients in web pages: MCP Inspector without its proxy"
EAGER: Final = "hosts that log in only when their first request gets a 401"


class Known(NamedTuple):
    """What is known of something that may be found; `{...}` stands for what was seen."""

    severity: Severity
    clients: tuple[str, ...]
    why: str
    cure: str


CATALOGUE: Final[Mapping[str, Known]] = {
    # The URL
    "not-https": Known(
        "error",
        (EVERYBODY,),
        "The URL is not encrypted: whoever is on the way reads each token, and clients send none.",
        "serve https",
    ),
    "credential-in-url": Known(
        "warning",
        (),
        "The URL has what looks like a credential in its query, where it ends in logs, and where the specification"
        " forbids tokens.",
        "take credentials from the header Authorization alone",
    ),
    "trailing-slash": Known(
        "note",
        (CLAUDE,),
        "The URL ends in a slash, which some clients leave out: the resource is another one then.",
        "serve the URL without it, and give users that",
    ),
    # What the server answers
    "unreachable": Known(
        "error", (EVERYBODY,), "There is no answer: {problem}.", "let the URL be reached from here"
    ),
    "redirect": Known(
        "error",
        (EVERYBODY,),
        "The URL redirects (HTTP {status}) to {target}: on the way a POST becomes a GET, and the token is lost.",
        "serve the URL that users give, as /mcp and not /mcp/; or give them the other one",
    ),
    "redirect-kept": Known(
        "warning",
        (SDKS, CLAUDE),
        "The URL redirects (HTTP {status}) to {target}: some clients drop the token on the way, and the resource of"
        " the metadata is another than the URL that users give.",
        "serve the URL that users give, as /mcp and not /mcp/; or give them the other one",
    ),
    "first-is-no-401": Known(
        "error",
        (EVERYBODY,),
        "The first request, without a token, gets HTTP {status}: clients begin to log in at 401 alone.",
        "look for the token before anything else, and answer 401 with WWW-Authenticate: Bearer where there is none",
    ),
    "no-mcp": Known(
        "error",
        (EVERYBODY,),
        "The first request gets HTTP {status}, and no metadata says where to log in: it may be no MCP server.",
        "check the path of the URL; a protected server answers 401",
    ),
    "anonymous": Known(
        "warning",
        (EAGER,),
        "The first request is answered without a token, though the server publishes where to log in: such hosts never"
        " offer that.",
        "answer 401 to the first request if all users log in; else tell those of such hosts",
    ),
    "open": Known(
        "note",
        (),
        "The server answers without a token and publishes no metadata: nobody has to log in.",
        "nothing, if that is meant",
    ),
    "no-challenge": Known(
        "warning",
        (JUNE,),
        "The 401 has no challenge of Bearer in WWW-Authenticate, but {schemes}.",
        'add WWW-Authenticate: Bearer resource_metadata="...", scope="..."',
    ),
    "challenge-without-metadata": Known(
        "warning",
        (JUNE,),
        "The challenge does not say where the metadata is (resource_metadata).",
        "add resource_metadata with the URL of the document",
    ),
    "challenge-without-scope": Known(
        "note",
        (),
        "The challenge names no scope: clients ask for all of scopes_supported at once.",
        "add scope with what the first request needs",
    ),
    "challenge-with-error": Known(
        "note",
        (),
        "The challenge says error={error} though no token was sent (RFC 6750, 3.1): clients may take a token that"
        " they have stored for a bad one.",
        "leave error out where a request has no token",
    ),
    "metadata-http": Known(
        "error",
        (EVERYBODY,),
        "The challenge names {named}, which is not encrypted: behind a proxy the server does not know that it is"
        " reached by https.",
        "tell it its public URL in its settings (public_url= of mcpkit)",
    ),
    "metadata-origin": Known(
        "error",
        (SDKS,),
        "The challenge names {named}, which is no URL of the server's own origin: clients trust no other for it.",
        "tell the server its public URL in its settings, and publish the document there",
    ),
    "any-token": Known(
        "error",
        (),
        "A request is answered that has a token which nobody has issued: everybody can make one up.",
        "verify tokens: signature, issuer, audience and time",
    ),
    "bad-token-passes": Known(
        "warning",
        (EVERYBODY,),
        "A bad token is passed over as if there were none: whoever's token has expired never logs in again.",
        "answer a bad token with 401, also where none is needed",
    ),
    "bad-token-is-no-401": Known(
        "error",
        (EVERYBODY,),
        "A bad token gets HTTP {status} where 401 is due: clients never refresh theirs.",
        'answer 401 with error="invalid_token"',
    ),
    "offline-access": Known(
        "warning",
        ("clients of authorization servers that grant them no refresh tokens",),
        "{what} names the scope offline_access, which is no business of the server's: authorization servers refuse it"
        " to clients that may have none.",
        "leave it out; clients add it where the authorization server lists it",
    ),
    # Its metadata
    "no-metadata": Known(
        "error",
        (EVERYBODY,),
        "Nobody finds where to log in: there is no metadata of a protected resource (RFC 9728) at {places}.",
        "publish it at the first of these, open to everybody, and name it in the challenge",
    ),
    "metadata-protected": Known(
        "error",
        (EVERYBODY,),
        "The metadata wants a token itself (HTTP {status}), which nobody can have yet.",
        "leave /.well-known/ out of what is protected",
    ),
    "metadata-unusable": Known(
        "error",
        (EVERYBODY,),
        "The metadata cannot be used: {problem}.",
        "answer with HTTP 200 and a JSON object as application/json, without a redirect",
    ),
    "no-resource": Known(
        "error",
        (EVERYBODY,),
        "The metadata does not say which resource it is about.",
        "add resource: {server}",
    ),
    "resource-slash": Known(
        "warning",
        (SDKS, NEWEST),
        "The metadata is about {resource}, which differs from {server} in the slash at the end: tokens for one may be"
        " refused for the other.",
        "publish resource: {server}",
    ),
    "resource-wide": Known(
        "note",
        (),
        "The metadata is about {resource}, above {server}: tokens are good for all servers below it.",
        "publish resource: {server}, unless all of them are one",
    ),
    "resource-http": Known(
        "error",
        (SDKS, NEWEST),
        "The metadata is about {resource} in the place of {server}: behind a proxy the server does not know that it"
        " is reached by https.",
        "tell it its public URL in its settings (public_url= of mcpkit), rather than by headers",
    ),
    "resource-origin": Known(
        "error",
        (SDKS, NEWEST),
        "The metadata is about {resource}, of another origin than {server}: clients must not log in for another"
        " server than the one that they call.",
        "tell the server its public URL, so that it publishes resource: {server}",
    ),
    "resource-mismatch": Known(
        "error",
        (SDKS, NEWEST),
        "The metadata is about {resource}, and not about {server}: clients must not log in for another server than"
        " the one that they call.",
        "publish resource: {server}, for each server a document of its own",
    ),
    "no-issuer": Known(
        "error",
        (EVERYBODY,),
        "The metadata names no authorization server.",
        "add authorization_servers with the issuer, exactly as it writes itself",
    ),
    "token-not-in-header": Known(
        "error",
        (EVERYBODY,),
        "The metadata takes tokens by {methods} alone: clients send them in the header.",
        "take the header Authorization",
    ),
    "token-in-query": Known(
        "warning",
        (),
        "The metadata takes tokens in the query, which the specification forbids: they end in logs.",
        "take the header Authorization alone",
    ),
    "sse-metadata": Known(
        "error",
        (SSE,),
        "{server} is a server of its own to clients, and has no metadata about itself. {why}",
        "publish one with resource: {server}",
    ),
    "march-foreign-issuer": Known(
        "warning",
        (MARCH,),
        "Clients of that revision look for the authorization server at {own} alone, and there is none.",
        "nothing, or put an authorization server of its own, or a proxy, at the server's origin",
    ),
    # Its authorization server
    "issuer-unusable": Known(
        "error",
        (EVERYBODY,),
        "The issuer {issuer} cannot be asked: {problem}.",
        "name an issuer that begins with https:// and that everybody reaches",
    ),
    "issuer-metadata": Known(
        "error",
        (EVERYBODY,),
        "The authorization server {issuer} publishes no metadata. {tried}",
        "publish it by RFC 8414 or OpenID Connect Discovery, at one of these",
    ),
    "issuer-unreachable": Known(
        "error",
        (EVERYBODY,),
        "The authorization server {issuer} gives no answer. {tried}",
        "let it be reached from wherever clients are",
    ),
    "issuer-mismatch": Known(
        "error",
        (NEWEST,),
        "The metadata of {issuer} says that it is of {says}: it must be the same to the byte, or anybody could speak"
        " for the other.",
        "name in authorization_servers the issuer as it writes itself",
    ),
    "issuer-slash": Known(
        "error",
        (NEWEST,),
        "The server names {issuer}, and that says that it is {says}: they differ in the slash at the end, and must be"
        " the same to the byte.",
        "name in authorization_servers the issuer as it writes itself",
    ),
    "no-endpoint": Known(
        "error",
        (EVERYBODY,),
        "The metadata of {issuer} has no {endpoint} that can be used: {problem}.",
        "publish its URL, with https://",
    ),
    "no-code": Known(
        "error",
        (EVERYBODY,),
        "The authorization server {issuer} does not offer the code flow ({what}), the only one in which users log in.",
        "offer authorization_code with response_types_supported: code; nothing, where only programs come",
    ),
    "no-pkce": Known(
        "error",
        (CLAUDE, CHATGPT, NEWEST),
        "The authorization server {issuer} does not say that it knows PKCE with S256"
        " (code_challenge_methods_supported): clients must not go on. Microsoft Entra ID and Amazon Cognito leave it"
        " out, though they know it.",
        "publish it, or put a proxy in front that does",
    ),
    "no-registration": Known(
        "error",
        (UNREGISTERED,),
        "The authorization server {issuer} takes neither client ID metadata documents nor registrations: each client"
        " needs an id that its user enters.",
        "let it take client ID metadata documents, put a proxy in front, or tell users an id for each client",
    ),
    "no-client-documents": Known(
        "note",
        (),
        "The authorization server {issuer} takes registrations alone, which 2026-07-28 deprecates: they may be gone"
        " after July 2027.",
        "let it take client ID metadata documents",
    ),
    "documents-alone": Known(
        "warning",
        (UNDOCUMENTED,),
        "The authorization server {issuer} takes client ID metadata documents alone: clients that have none need an id"
        " that their user enters.",
        "let it take registrations as well, as long as such clients are in use",
    ),
    "no-public-clients": Known(
        "warning",
        (CLAUDE,),
        "The authorization server {issuer} takes client ID metadata documents, and does not list none among its"
        " token_endpoint_auth_methods_supported: Claude uses them only where it does.",
        "list none; clients on the machines of users can keep no secret",
    ),
    "no-iss": Known(
        "note",
        (),
        "The authorization server {issuer} does not say who answers (iss, RFC 9207): clients of several authorization"
        " servers cannot tell a mix-up. A later revision will demand it.",
        "send iss with each answer, and set authorization_response_iss_parameter_supported",
    ),
    "no-refresh": Known(
        "note",
        (),
        "The authorization server {issuer} lists no grant of refresh tokens: users log in again whenever a token"
        " expires.",
        "offer refresh_token",
    ),
    "unknown-scopes": Known(
        "warning",
        (EVERYBODY,),
        "The server names scopes that the authorization server {issuer} does not list, {scopes}: clients that ask for"
        " them may get invalid_scope.",
        "name those that it knows",
    ),
    # Web pages
    "cors": Known(
        "warning",
        (WEB,),
        "Pages of {origin} may not read: {places}.",
        "allow their origin there, with the headers Authorization, Content-Type and MCP-Protocol-Version, and expose"
        " WWW-Authenticate",
    ),
}

"""Catalogues of the findings of `mcpkit doctor`, and of its check of the authorization, by code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..findings import CatalogueEntry, Severity, error, finding_text, note, warning

CATALOGUE: Final[Mapping[str, CatalogueEntry]] = {
    # Reaching the server
    "not-started": error("{problem}.",
        "configure the absolute path of the program, as `which` shows it: hosts start servers with another PATH"),
    "ended-at-start": error("The process ended {how} before its first response{last}.",
        "run the command by hand and fix the errors on standard error. Hosts pass few environment variables: set those"
        " that the server needs in the host's entry, and here with -e NAME=VALUE"),
    "buffered-output": error(
        "The first response came only after standard input was closed: the server buffers its output.",
        "flush standard output after each message: print(..., flush=True), python -u, or PYTHONUNBUFFERED=1"),
    "no-answer": error("No response to the first request within {seconds:g} s{last}.",
        "make the server read standard input (or handle POST) before slow work such as downloads"),
    "slow-start": warning("The first response took {seconds:.1f} s; hosts time out after 30 s or less.",
        "delay slow work (imports, downloads, connections) until it is needed, and install packages before the start"),
    "dns": error("The host name {host} cannot be resolved.", "correct the name, or its DNS record"),
    "refused": error("The connection failed: {problem}.", "start the server, or correct host and port"),
    "tls": error("The TLS connection failed: {problem}.",
        "serve a certificate that is valid for this host name, with its full chain"),
    "closed": error("The server closed the connection without a response: {problem}.",
        "check the log of the server or of its proxy"),
    "no-mcp": error("The server supports no known protocol revision: initialize got {answer}.",
        "use the URL of the MCP endpoint, such as https://host/mcp, or the command of a server"),
    "server-error": error("The first request got HTTP {status}.", "check the log of the server or of its proxy"),
    "redirect": error(
        "The URL redirects (HTTP {status}) to {target}: clients turn the POST into a GET and drop its body.",
        "configure the target URL in hosts, and serve the endpoint with and without a trailing slash"),
    "redirect-kept": warning(
        "The URL redirects (HTTP {status}) to {target}: many clients do not follow a redirect of a POST, or drop the"
        " header Authorization.",
        "configure the target URL in hosts, and serve the endpoint with and without a trailing slash"),
    "redirect-downgrade": error("The URL redirects from https to {target}, which is not encrypted.",
        "make the server trust its proxy: X-Forwarded-Proto, uvicorn --proxy-headers --forwarded-allow-ips"),
    "certificate-ends": warning("The certificate of {host} is valid until {until}.",
        "renew it, and set up automatic renewal"),
    "clock": warning(
        "The clock of the server is {seconds:.0f} s {way} this machine's: tokens and certificates can seem expired or"
        " not yet valid.",
        "synchronize the clock with NTP"),
    # Messages
    "noise": error("Line {line} of standard output is not a JSON-RPC message: {text}.",
        "write only messages to standard output, and other output to standard error: print(..., file=sys.stderr),"
        " or logging"),
    "byte-order-mark": error("Standard output begins with a byte order mark.",
        "write UTF-8 without one: utf-8, not utf-8-sig"),
    "crlf": warning("Messages end with CRLF instead of a newline.",
        "write bytes, or open standard output with newline='\\n'"),
    "encoding": error("Non-ASCII text in a message is changed: {problem}.",
        "read and write UTF-8: sys.stdout.reconfigure(encoding='utf-8'), or PYTHONUTF8=1 in the environment"),
    "encoding-windows": warning(
        "Non-ASCII text in a message is changed if the system's encoding is not UTF-8, as on Windows: {problem}.",
        "always read and write UTF-8: sys.stdin and sys.stdout.reconfigure(encoding='utf-8'), or PYTHONUTF8=1 in the"
        " environment in hosts' entries"),
    "no-common-revision": error(
        "initialize with revision {asked} got {answer} instead of a revision that the server supports.",
        "respond to initialize with the newest supported revision if the requested one is not supported"),
    "echoed-revision": error(
        "The server accepts revision {asked}, which does not exist: it returns the revision of the request.",
        "respond to initialize with a revision that the server supports"),
    "unknown-revision": error("initialize returned the unknown revision {answer}.",
        "return a revision of the specification"),
    "discover-ends": error(
        "The server exits or stops responding after server/discover, the first request of 2026-07-28 clients.",
        "respond to unknown methods with error -32601, also before initialize"),
    "discover-silent": warning(
        "server/discover gets no response: clients of 2026-07-28 wait before they try initialize.",
        "respond to unknown methods with error -32601, also before initialize"),
    "list-fails": error("The server declares {capability}, but {method} got {answer}.",
        "return a list, which may be empty, or do not declare {capability}"),
    "undeclared": error(
        "{method} returns {count} items, but {capability} is not declared: hosts do not request the list.",
        "declare the capability {capability}"),
    "cursor-loops": error("{method} returns the same nextCursor again: a client that reads all pages never stops.",
        "omit nextCursor on the last page"),
    "cursor-accepted": warning("{method} accepts a cursor that it did not issue: expected error -32602, got {answer}.",
        "respond to an unknown cursor with error -32602"),
    "subscribe-fails": error("The server declares resources.subscribe, but resources/subscribe got {answer}.",
        "implement resources/subscribe, or do not declare it"),
    "logging-fails": error("The server declares logging, but logging/setLevel got {answer}.",
        "return an empty result, or do not declare logging"),
    "completions-fail": error("The server declares completions, but completion/complete got {answer}.",
        "return a result, which may have no values, or do not declare completions"),
    "listen-refused": warning("The server declares {declared}, but subscriptions/listen does not grant it: {answer}.",
        "grant what the server declares, or do not declare it"),
    "ping-fails": error("ping got {answer}: hosts assume that the server is down.", "return an empty result"),
    "unknown-method": warning("An unknown method got {answer}.", "respond with error -32601 (method not found)"),
    "malformed-ends": error("The server stops responding after a line that is not JSON.",
        "respond with error -32700, or ignore the line, and continue"),
    "client-fails": error(
        "A client that supports every revision and starts with the newest cannot use the server: {problem}.",
        "respond to unknown methods with error -32601 at any time, and continue"),
    "call-fails": warning("The call of tool {tool} without arguments got {answer}.",
        "return a result, with isError and a message if the call fails"),
    "output-mismatch": error("The result of tool {tool} does not match its outputSchema: {problem}.",
        "return structuredContent that matches outputSchema, or remove the schema"),
    # Shutdown of a process
    "input-end-ignored": error(
        "The process still runs {seconds:g} s after its standard input was closed: hosts leave it behind.",
        "exit at the end of standard input"),
    "orphans": warning("The process ended, but child processes still run.",
        "stop child processes before the server exits; use exec if a shell script starts the server"),
    "sigterm-ignored": warning("The process still runs {seconds:g} s after SIGTERM.",
        "exit on SIGTERM; do not ignore the signal"),
    # HTTP
    "content-type": error("The response to a request has the Content-Type {type}.",
        "respond with application/json or text/event-stream"),
    "session-id": error("The session id {id} contains characters other than visible ASCII.",
        "use only visible ASCII (0x21 to 0x7E)"),
    "no-affinity": error(
        "{failed} of {asked} requests of one session over new connections got HTTP {status}: they reach an instance"
        " that does not have the session.",
        "route all requests of a session to one instance (affinity by Mcp-Session-Id), or share sessions between the"
        " instances: with mcpkit, the same secret or a shared engine"),
    "revision-header": warning("A request with an unknown MCP-Protocol-Version got HTTP {status}.",
        "respond with 400"),
    "unknown-session": warning(
        "A request with an unknown session id got HTTP {status}: clients start a new session only after 404.",
        "respond with 404"),
    "session-goes-on": warning("A session still responds after DELETE (HTTP {status}).",
        "respond to its requests with 404 after DELETE, or respond to DELETE with 405"),
    "delete-fails": warning("DELETE got HTTP {status}.", "end the session, or respond with 405"),
    "get-status": warning("GET for an event stream got {answer}.", "open an event stream, or respond with 405"),
    "notification-status": warning("A notification got {answer}.", "respond with 202 and no body"),
    "malformed-status": warning("A request body that is not JSON got {answer}.", "respond with 400 and error -32700"),
    "foreign-origin": error(
        "Web pages of any site can call this server in the local network: a request with a foreign Origin got HTTP"
        " {status} (DNS rebinding).",
        "respond to a foreign Origin with 403"),
    "foreign-host": error(
        "The server is on this machine, but a request with a foreign Host header got HTTP {status} (DNS rebinding).",
        "reject every Host except localhost and 127.0.0.1"),
    "cors-preflight": warning("CORS allows {page}, but not its request headers {names}.",
        "add them to Access-Control-Allow-Headers"),
    "cors-exposed": warning("CORS allows {page}, but it cannot read the response header {names}.",
        "add it to Access-Control-Expose-Headers"),
    "cors-answer": warning("The CORS preflight allows {page}, but the response does not.",
        "send Access-Control-Allow-Origin with every response, including errors"),
    "buffered-events": error(
        "{what} did not arrive while the stream was open: a proxy or middleware buffers events, so progress, server"
        " requests and notifications are late.",
        "configure the proxy to pass events at once: no compression of text/event-stream (nginx gzip_types), and no"
        " buffering (nginx proxy_buffering off, or the header X-Accel-Buffering: no, unless proxy_ignore_headers names"
        " it)"),
    "endpoint-origin": error("The HTTP+SSE stream names an endpoint at another origin, {endpoint}: clients reject it.",
        "send a path, or the public URL; make the server trust its proxy (X-Forwarded-Host and -Proto)"),
}  # fmt: skip


# Authorization

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

AUTHORIZATION_CATALOGUE: Final[Mapping[str, CatalogueEntry]] = {
    # The URL
    "not-https": error("The URL is http, so tokens would travel unencrypted. Clients refuse to send them.",
        "serve the URL over https", EVERY_CLIENT),
    "credential-in-url": warning(
        "The query of the URL seems to contain a credential. Servers and proxies log URLs, and the specification"
        " forbids tokens there.",
        "accept credentials only in the Authorization header"),
    "trailing-slash": note(
        "The URL ends with a slash. Some clients remove it and then request tokens for another resource.",
        "serve the URL without the slash, and give users that URL", CLAUDE),
    # The responses of the server
    "unreachable": error("The server sent no response: {problem}.",
        "make the URL reachable from this machine", EVERY_CLIENT),
    "redirect": error(
        "The URL redirects to {target} (HTTP {status}). Clients turn the POST into a GET and drop the token.",
        "respond at this URL without a redirect (/mcp, not /mcp/), or give users the target URL", EVERY_CLIENT),
    "redirect-kept": warning(
        "The URL redirects to {target} (HTTP {status}). Some clients drop the token when they follow it, and the"
        " resource in the metadata differs from the URL that users enter.",
        "respond at this URL without a redirect (/mcp, not /mcp/), or give users the target URL", SDKS, CLAUDE),
    "first-is-no-401": error(
        "The server answers a request without a token with HTTP {status}. Clients start the login only after a 401.",
        "check the token before anything else, and answer 401 with WWW-Authenticate: Bearer if there is none",
        EVERY_CLIENT),
    "no-mcp": error(
        "The server answers the first request with HTTP {status} and publishes no protected resource metadata. The URL"
        " may not be an MCP endpoint.",
        "check the path of the URL; a protected server answers 401", EVERY_CLIENT),
    "anonymous": warning(
        "The server publishes protected resource metadata but accepts the first request without a token. These hosts"
        " never offer a login.",
        "answer 401 to the first request if all users must log in; else document how to log in from these hosts",
        EAGER),
    "open": note(
        "The server accepts requests without a token and publishes no protected resource metadata: it requires no"
        " login.",
        "nothing, if that is intended"),
    "no-challenge": warning("The 401 has no Bearer challenge in WWW-Authenticate. Schemes found: {schemes}.",
        'add WWW-Authenticate: Bearer resource_metadata="...", scope="..."', JUNE),
    "challenge-without-metadata": warning("The challenge has no resource_metadata parameter.",
        "add resource_metadata with the URL of the protected resource metadata", JUNE),
    "challenge-without-scope": note(
        "The challenge has no scope parameter, so clients request all of scopes_supported at once.",
        "add scope with the scopes that the first request needs"),
    "challenge-with-error": note(
        "The challenge has error={error} although the request had no token (RFC 6750, 3.1). Clients may discard a valid"
        " stored token.",
        "omit error from the challenge when the request has no token"),
    "metadata-http": error(
        "The challenge's resource_metadata is {named}, an http URL, although clients reach the server over https. A"
        " server behind a proxy does not know its public URL.",
        "set the public URL in the server's configuration (public_url= in mcpkit)", EVERY_CLIENT),
    "metadata-origin": error(
        "The challenge's resource_metadata is {named}, which is not on the server's origin. Clients only trust metadata"
        " of the same origin.",
        "set the public URL in the server's configuration, and publish the document there", SDKS),
    "any-token": error("The server accepts a made-up token: it does not verify tokens.",
        "verify the signature, issuer, audience and expiry of each token"),
    "bad-token-passes": warning(
        "The server ignores an invalid token and treats the request as anonymous. Clients with an expired token never"
        " log in again.",
        "answer an invalid token with 401, also where no token is required", EVERY_CLIENT),
    "bad-token-is-no-401": error(
        "The server answers an invalid token with HTTP {status} instead of 401, so clients never refresh their tokens.",
        'answer 401 with error="invalid_token"', EVERY_CLIENT),
    "offline-access": warning(
        "{what} lists the scope offline_access. It is not a scope of the MCP server, and authorization servers reject"
        " it for clients that may not have refresh tokens.",
        "remove it; clients add it themselves if the authorization server lists it",
        "clients of authorization servers that grant them no refresh tokens"),
    # Its metadata
    "no-metadata": error(
        "There is no protected resource metadata (RFC 9728) at {places}, so clients cannot find the authorization"
        " server.",
        "publish it at the first of these URLs without authentication, and name it in the challenge", EVERY_CLIENT),
    "metadata-protected": error("The metadata URL requires a token (HTTP {status}), which clients do not have yet.",
        "exclude /.well-known/ from authentication", EVERY_CLIENT),
    "metadata-unusable": error("The protected resource metadata is unusable: {problem}.",
        "answer with HTTP 200 and a JSON object as application/json, without a redirect", EVERY_CLIENT),
    "no-resource": error("The metadata has no resource member.", "add resource: {server}", EVERY_CLIENT),
    "resource-slash": warning(
        "The metadata has resource {resource}, which differs from {server} in the trailing slash. Tokens for one may be"
        " rejected for the other.",
        "publish resource: {server}", SDKS, NEWEST),
    "resource-wide": note(
        "The metadata has resource {resource}, a parent of {server}. Tokens are valid for all servers below it.",
        "publish resource: {server}, unless these servers share tokens on purpose"),
    "resource-http": error(
        "The metadata has resource {resource} instead of {server}. A server behind a proxy does not know that clients"
        " use https.",
        "set the public URL in the server's configuration (public_url= in mcpkit), not by headers", SDKS, NEWEST),
    "resource-origin": error(
        "The metadata has resource {resource}, which is not on the origin of {server}. Clients must reject metadata of"
        " another server.",
        "set the public URL in the server's configuration, so that it publishes resource: {server}", SDKS, NEWEST),
    "resource-mismatch": error(
        "The metadata has resource {resource} instead of {server}. Clients must reject metadata of another server.",
        "publish a separate document for each server, here with resource: {server}", SDKS, NEWEST),
    "no-issuer": error("The metadata has no authorization_servers.",
        "add authorization_servers with the issuer, exactly as in the authorization server's metadata", EVERY_CLIENT),
    "token-not-in-header": error(
        "The metadata lists only {methods} in bearer_methods_supported, but clients send tokens in the header.",
        "accept tokens in the Authorization header, and list header", EVERY_CLIENT),
    "token-in-query": warning(
        "The metadata lists query in bearer_methods_supported. The specification forbids tokens in the query, where"
        " servers and proxies log them.",
        "accept tokens only in the Authorization header"),
    "sse-metadata": error(
        "Clients treat the SSE URL {server} as a separate server, and it has no metadata of its own. {why}",
        "publish a document with resource: {server}", SSE),
    "march-foreign-issuer": warning(
        "Clients of 2025-03-26 only look for authorization server metadata at {own}, and there is none.",
        "nothing, or run an authorization server or an OAuth proxy at the MCP server's origin", MARCH),
    # Its authorization server
    "issuer-unusable": error("The issuer {issuer} is unusable: {problem}.",
        "name an issuer with an https:// URL that all clients can reach", EVERY_CLIENT),
    "issuer-metadata": error("The authorization server {issuer} publishes no metadata. {tried}",
        "publish it by RFC 8414 or OpenID Connect Discovery, at one of these URLs", EVERY_CLIENT),
    "issuer-unreachable": error("The authorization server {issuer} does not respond. {tried}",
        "make it reachable for all clients", EVERY_CLIENT),
    "issuer-mismatch": error(
        "The metadata of {issuer} has issuer {named}. The two must be equal byte for byte, or one server could"
        " impersonate the other.",
        "list the issuer in authorization_servers exactly as its metadata has it", NEWEST),
    "issuer-slash": error(
        "The MCP server names the issuer {issuer}, but the issuer's metadata has {named}. They differ in the trailing"
        " slash and must be equal byte for byte.",
        "list the issuer in authorization_servers exactly as its metadata has it", NEWEST),
    "no-endpoint": error("The metadata of {issuer} has no usable {endpoint}: {problem}.",
        "publish the endpoint's https:// URL", EVERY_CLIENT),
    "no-code": error(
        "The {what} of the authorization server {issuer} lacks the authorization code flow, which every user login"
        " needs.",
        "enable the authorization_code grant with the response type code; nothing, if all clients are services",
        EVERY_CLIENT),
    "no-pkce": error(
        "The metadata of the authorization server {issuer} does not list S256 in code_challenge_methods_supported."
        " Clients must stop here. Microsoft Entra ID and Amazon Cognito support PKCE but do not list it.",
        "add S256 to the metadata, or use an OAuth proxy that lists it", CLAUDE, CHATGPT, NEWEST),
    "no-registration": error(
        "The authorization server {issuer} supports neither client ID metadata documents nor dynamic registration."
        " Users must enter a client ID in each client.",
        "enable client ID metadata documents, use an OAuth proxy, or give users a client ID for each client",
        UNREGISTERED),
    "no-client-documents": note(
        "The authorization server {issuer} only supports dynamic registration. 2026-07-28 deprecates it, and clients"
        " may drop it after July 2027.",
        "enable client ID metadata documents"),
    "documents-alone": warning(
        "The authorization server {issuer} supports client ID metadata documents but no dynamic registration. Users of"
        " clients without such a document must enter a client ID.",
        "enable dynamic registration as well, as long as such clients are in use", UNDOCUMENTED),
    "no-public-clients": warning(
        "The authorization server {issuer} supports client ID metadata documents but does not list none in"
        " token_endpoint_auth_methods_supported. Claude then does not use its document.",
        "add none, for clients that cannot keep a secret", CLAUDE),
    "no-iss": note(
        "The authorization server {issuer} does not send iss in authorization responses (RFC 9207), so clients cannot"
        " detect mix-up attacks. A later revision will require it.",
        "send iss in each authorization response, and set authorization_response_iss_parameter_supported"),
    "no-refresh": note(
        "The authorization server {issuer} does not list the refresh_token grant. Users must log in again whenever an"
        " access token expires.",
        "enable the refresh_token grant"),
    "unknown-scopes": warning(
        "The MCP server names scopes that the authorization server {issuer} does not list: {scopes}. Clients that"
        " request them may get invalid_scope.",
        "use scopes that the authorization server lists", EVERY_CLIENT),
    # Web pages
    "cors": warning("CORS blocks pages of {origin} at: {places}.",
        "allow this origin there, with the headers Authorization, Content-Type and MCP-Protocol-Version, and expose"
        " WWW-Authenticate", WEB),
}  # fmt: skip


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
        return finding_text(self.severity, self.code, f"{self.url}: {self.why}", self.cure, self.clients)


def make_finding(code: str, url: str, **facts: object) -> Finding:
    """Return the finding of a code from the catalogue.

    Args:
        code: The code.
        url: The URL of the observation.
        facts: The values for the placeholders. Texts from servers are shortened.
    """
    entry = AUTHORIZATION_CATALOGUE[code]
    why, cure = entry.message.format(**facts), entry.cure.format(**facts)
    return Finding(code, entry.severity, entry.clients, why, cure, url)

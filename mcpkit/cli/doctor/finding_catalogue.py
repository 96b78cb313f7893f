"""Catalogue of the findings of `mcpkit doctor` by code, and the result of a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..findings import CatalogueEntry, Finding

_STDERR: Final = (
    "write only messages to standard output, and other output to standard error: print(..., file=sys.stderr),"
    " or logging"
)
_ONE_PLACE: Final = (
    "route all requests of a session to one instance (affinity by Mcp-Session-Id), or share sessions between the"
    " instances: with mcpkit, the same secret or a shared engine"
)
_UNBUFFERED: Final = (
    "configure the proxy to pass events at once: no compression of text/event-stream (nginx gzip_types), and no"
    " buffering (nginx proxy_buffering off, or the header X-Accel-Buffering: no, unless proxy_ignore_headers names it)"
)

REACHING: Final[Mapping[str, CatalogueEntry]] = {
    "not-started": CatalogueEntry(
        "error",
        "{problem}.",
        "configure the absolute path of the program, as `which` shows it: hosts start servers with another PATH",
    ),
    "ended-at-start": CatalogueEntry(
        "error",
        "The process ended {how} before its first response{last}.",
        "run the command by hand and fix the errors on standard error. Hosts pass few environment variables: set those"
        " that the server needs in the host's entry, and here with -e NAME=VALUE",
    ),
    "buffered-output": CatalogueEntry(
        "error",
        "The first response came only after standard input was closed: the server buffers its output.",
        "flush standard output after each message: print(..., flush=True), python -u, or PYTHONUNBUFFERED=1",
    ),
    "no-answer": CatalogueEntry(
        "error",
        "No response to the first request within {seconds:g} s{last}.",
        "make the server read standard input (or handle POST) before slow work such as downloads",
    ),
    "slow-start": CatalogueEntry(
        "warning",
        "The first response took {seconds:.1f} s; hosts time out after 30 s or less.",
        "delay slow work (imports, downloads, connections) until it is needed, and install packages before the start",
    ),
    "dns": CatalogueEntry(
        "error", "The host name {host} cannot be resolved.", "correct the name, or its DNS record"
    ),
    "refused": CatalogueEntry(
        "error", "The connection failed: {problem}.", "start the server, or correct host and port"
    ),
    "tls": CatalogueEntry(
        "error",
        "The TLS connection failed: {problem}.",
        "serve a certificate that is valid for this host name, with its full chain",
    ),
    "closed": CatalogueEntry(
        "error",
        "The server closed the connection without a response: {problem}.",
        "check the log of the server or of its proxy",
    ),
    "no-mcp": CatalogueEntry(
        "error",
        "The server supports no known protocol revision: initialize got {answer}.",
        "use the URL of the MCP endpoint, such as https://host/mcp, or the command of a server",
    ),
    "server-error": CatalogueEntry(
        "error",
        "The first request got HTTP {status}.",
        "check the log of the server or of its proxy",
    ),
    "redirect": CatalogueEntry(
        "error",
        "The URL redirects (HTTP {status}) to {target}: clients turn the POST into a GET and drop its body.",
        "configure the target URL in hosts, and serve the endpoint with and without a trailing slash",
    ),
    "redirect-kept": CatalogueEntry(
        "warning",
        "The URL redirects (HTTP {status}) to {target}: many clients do not follow a redirect of a POST, or drop the"
        " header Authorization.",
        "configure the target URL in hosts, and serve the endpoint with and without a trailing slash",
    ),
    "redirect-downgrade": CatalogueEntry(
        "error",
        "The URL redirects from https to {target}, which is not encrypted.",
        "make the server trust its proxy: X-Forwarded-Proto, uvicorn --proxy-headers --forwarded-allow-ips",
    ),
    "certificate-ends": CatalogueEntry(
        "warning",
        "The certificate of {host} is valid until {until}.",
        "renew it, and set up automatic renewal",
    ),
    "clock": CatalogueEntry(
        "warning",
        "The clock of the server is {seconds:.0f} s {way} this machine's: tokens and certificates can seem expired or"
        " not yet valid.",
        "synchronize the clock with NTP",
    ),
}

MESSAGES: Final[Mapping[str, CatalogueEntry]] = {
    "noise": CatalogueEntry(
        "error",
        "Line {line} of standard output is not a JSON-RPC message: {text}.",
        _STDERR,
    ),
    "byte-order-mark": CatalogueEntry(
        "error",
        "Standard output begins with a byte order mark.",
        "write UTF-8 without one: utf-8, not utf-8-sig",
    ),
    "crlf": CatalogueEntry(
        "warning",
        "Messages end with CRLF instead of a newline.",
        "write bytes, or open standard output with newline='\\n'",
    ),
    "encoding": CatalogueEntry(
        "error",
        "Non-ASCII text in a message is changed: {problem}.",
        "read and write UTF-8: sys.stdout.reconfigure(encoding='utf-8'), or PYTHONUTF8=1 in the environment",
    ),
    "encoding-windows": CatalogueEntry(
        "warning",
        "Non-ASCII text in a message is changed if the system's encoding is not UTF-8, as on Windows: {problem}.",
        "always read and write UTF-8: sys.stdin and sys.stdout.reconfigure(encoding='utf-8'), or PYTHONUTF8=1 in the"
        " environment in hosts' entries",
    ),
    "no-common-revision": CatalogueEntry(
        "error",
        "initialize with revision {asked} got {answer} instead of a revision that the server supports.",
        "respond to initialize with the newest supported revision if the requested one is not supported",
    ),
    "echoed-revision": CatalogueEntry(
        "error",
        "The server accepts revision {asked}, which does not exist: it returns the revision of the request.",
        "respond to initialize with a revision that the server supports",
    ),
    "unknown-revision": CatalogueEntry(
        "error",
        "initialize returned the unknown revision {answer}.",
        "return a revision of the specification",
    ),
    "discover-ends": CatalogueEntry(
        "error",
        "The server exits or stops responding after server/discover, the first request of 2026-07-28 clients.",
        "respond to unknown methods with error -32601, also before initialize",
    ),
    "discover-silent": CatalogueEntry(
        "warning",
        "server/discover gets no response: clients of 2026-07-28 wait before they try initialize.",
        "respond to unknown methods with error -32601, also before initialize",
    ),
    "list-fails": CatalogueEntry(
        "error",
        "The server declares {capability}, but {method} got {answer}.",
        "return a list, which may be empty, or do not declare {capability}",
    ),
    "undeclared": CatalogueEntry(
        "error",
        "{method} returns {count} items, but {capability} is not declared: hosts do not request the list.",
        "declare the capability {capability}",
    ),
    "cursor-loops": CatalogueEntry(
        "error",
        "{method} returns the same nextCursor again: a client that reads all pages never stops.",
        "omit nextCursor on the last page",
    ),
    "cursor-accepted": CatalogueEntry(
        "warning",
        "{method} accepts a cursor that it did not issue: expected error -32602, got {answer}.",
        "respond to an unknown cursor with error -32602",
    ),
    "subscribe-fails": CatalogueEntry(
        "error",
        "The server declares resources.subscribe, but resources/subscribe got {answer}.",
        "implement resources/subscribe, or do not declare it",
    ),
    "logging-fails": CatalogueEntry(
        "error",
        "The server declares logging, but logging/setLevel got {answer}.",
        "return an empty result, or do not declare logging",
    ),
    "completions-fail": CatalogueEntry(
        "error",
        "The server declares completions, but completion/complete got {answer}.",
        "return a result, which may have no values, or do not declare completions",
    ),
    "listen-refused": CatalogueEntry(
        "warning",
        "The server declares {declared}, but subscriptions/listen does not grant it: {answer}.",
        "grant what the server declares, or do not declare it",
    ),
    "ping-fails": CatalogueEntry(
        "error",
        "ping got {answer}: hosts assume that the server is down.",
        "return an empty result",
    ),
    "unknown-method": CatalogueEntry(
        "warning",
        "An unknown method got {answer}.",
        "respond with error -32601 (method not found)",
    ),
    "malformed-ends": CatalogueEntry(
        "error",
        "The server stops responding after a line that is not JSON.",
        "respond with error -32700, or ignore the line, and continue",
    ),
    "client-fails": CatalogueEntry(
        "error",
        "A client that supports every revision and starts with the newest cannot use the server: {problem}.",
        "respond to unknown methods with error -32601 at any time, and continue",
    ),
    "call-fails": CatalogueEntry(
        "warning",
        "The call of tool {tool} without arguments got {answer}.",
        "return a result, with isError and a message if the call fails",
    ),
    "output-mismatch": CatalogueEntry(
        "error",
        "The result of tool {tool} does not match its outputSchema: {problem}.",
        "return structuredContent that matches outputSchema, or remove the schema",
    ),
}

LEAVING: Final[Mapping[str, CatalogueEntry]] = {
    "input-end-ignored": CatalogueEntry(
        "error",
        "The process still runs {seconds:g} s after its standard input was closed: hosts leave it behind.",
        "exit at the end of standard input",
    ),
    "orphans": CatalogueEntry(
        "warning",
        "The process ended, but child processes still run.",
        "stop child processes before the server exits; use exec if a shell script starts the server",
    ),
    "sigterm-ignored": CatalogueEntry(
        "warning",
        "The process still runs {seconds:g} s after SIGTERM.",
        "exit on SIGTERM; do not ignore the signal",
    ),
}

HTTP: Final[Mapping[str, CatalogueEntry]] = {
    "content-type": CatalogueEntry(
        "error",
        "The response to a request has the Content-Type {type}.",
        "respond with application/json or text/event-stream",
    ),
    "session-id": CatalogueEntry(
        "error",
        "The session id {id} contains characters other than visible ASCII.",
        "use only visible ASCII (0x21 to 0x7E)",
    ),
    "no-affinity": CatalogueEntry(
        "error",
        "{failed} of {asked} requests of one session over new connections got HTTP {status}: they reach an instance"
        " that does not have the session.",
        _ONE_PLACE,
    ),
    "revision-header": CatalogueEntry(
        "warning",
        "A request with an unknown MCP-Protocol-Version got HTTP {status}.",
        "respond with 400",
    ),
    "unknown-session": CatalogueEntry(
        "warning",
        "A request with an unknown session id got HTTP {status}: clients start a new session only after 404.",
        "respond with 404",
    ),
    "session-goes-on": CatalogueEntry(
        "warning",
        "A session still responds after DELETE (HTTP {status}).",
        "respond to its requests with 404 after DELETE, or respond to DELETE with 405",
    ),
    "delete-fails": CatalogueEntry(
        "warning", "DELETE got HTTP {status}.", "end the session, or respond with 405"
    ),
    "get-status": CatalogueEntry(
        "warning",
        "GET for an event stream got {answer}.",
        "open an event stream, or respond with 405",
    ),
    "notification-status": CatalogueEntry(
        "warning",
        "A notification got {answer}.",
        "respond with 202 and no body",
    ),
    "malformed-status": CatalogueEntry(
        "warning",
        "A request body that is not JSON got {answer}.",
        "respond with 400 and error -32700",
    ),
    "foreign-origin": CatalogueEntry(
        "error",
        "Web pages of any site can call this server in the local network: a request with a foreign Origin got HTTP"
        " {status} (DNS rebinding).",
        "respond to a foreign Origin with 403",
    ),
    "foreign-host": CatalogueEntry(
        "error",
        "The server is on this machine, but a request with a foreign Host header got HTTP {status} (DNS rebinding).",
        "reject every Host except localhost and 127.0.0.1",
    ),
    "cors-preflight": CatalogueEntry(
        "warning",
        "CORS allows {page}, but not its request headers {names}.",
        "add them to Access-Control-Allow-Headers",
    ),
    "cors-exposed": CatalogueEntry(
        "warning",
        "CORS allows {page}, but it cannot read the response header {names}.",
        "add it to Access-Control-Expose-Headers",
    ),
    "cors-answer": CatalogueEntry(
        "warning",
        "The CORS preflight allows {page}, but the response does not.",
        "send Access-Control-Allow-Origin with every response, including errors",
    ),
    "buffered-events": CatalogueEntry(
        "error",
        "{what} did not arrive while the stream was open: a proxy or middleware buffers events, so progress, server"
        " requests and notifications are late.",
        _UNBUFFERED,
    ),
    "endpoint-origin": CatalogueEntry(
        "error",
        "The HTTP+SSE stream names an endpoint at another origin, {endpoint}: clients reject it.",
        "send a path, or the public URL; make the server trust its proxy (X-Forwarded-Host and -Proto)",
    ),
}

CATALOGUE: Final[Mapping[str, CatalogueEntry]] = {**REACHING, **MESSAGES, **LEAVING, **HTTP}


@dataclass
class CheckResult:
    """Result of a check.

    Attributes:
        step: The name of the check.
        summary: The observation in a line; may be empty.
        findings: The problems.
        stops: Whether the following checks cannot run.
    """

    step: str
    summary: str = ""
    findings: list[Finding] = field(default_factory=list[Finding])
    stops: bool = False

    def add_finding(self, code: str, **facts: object) -> CheckResult:
        """Add a finding of the catalogue unless it has been added already, and return this result."""
        finding = CATALOGUE[code].finding(code, self.step, **facts)
        if finding not in self.findings:
            self.findings.append(finding)
        return self


def quoted(text: str, max_length: int = 80) -> str:
    """Return untrusted text quoted and shortened for one line."""
    return repr(text if len(text) <= max_length else f"{text[:max_length]}...")

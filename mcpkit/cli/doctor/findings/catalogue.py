"""All that `mcpkit doctor` finds, as a table: how bad it is, what was seen, and what cures it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Severity = Literal["error", "warning", "note"]


class Known(NamedTuple):
    """What is known of something that may be found; `{...}` stands for what was seen."""

    severity: Severity
    seen: str
    cure: str


_STDERR: Final = "write to standard error what is no message: print(..., file=sys.stderr), or logging"
_ONE_PLACE: Final = (
    "send all requests of a session to one instance (affinity by Mcp-Session-Id), or share sessions between them:"
    " the same secret, or an engine that all use"
)
_UNBUFFERED: Final = (
    "let the proxy pass events as they come: no compression of text/event-stream (nginx gzip_types), and no buffering"
    " (nginx proxy_buffering off, or the header X-Accel-Buffering: no, unless proxy_ignore_headers names it)"
)

REACHING: Final[Mapping[str, Known]] = {
    "not-started": Known(
        "error",
        "{problem}.",
        "hosts start with a PATH of their own: give the absolute path of the program, as `which` shows it",
    ),
    "ended-at-start": Known(
        "error",
        "The process ended {how} before it answered{last}.",
        "run the command by hand, and mend what it says on standard error; hosts give a process few variables of the"
        " environment: name those that it needs in their entries, and here by -e NAME=VALUE",
    ),
    "buffered-output": Known(
        "error",
        "The first answer came only when standard input had ended: it was kept in a buffer.",
        "flush standard output after each message: print(..., flush=True), python -u, or PYTHONUNBUFFERED=1",
    ),
    "no-answer": Known(
        "error",
        "There is no answer to the first request within {seconds:g} s{last}.",
        "see that the server reads standard input (or answers a POST) before it does anything slow",
    ),
    "slow-start": Known(
        "warning",
        "The first answer took {seconds:.1f} s; hosts give up after 30 s or less.",
        "put off what is slow (imports, downloads, connections) until it is needed; install rather than fetch at start",
    ),
    "dns": Known("error", "The name {host} has no address.", "mend the name, or its record in the DNS"),
    "refused": Known(
        "error", "Nobody can be connected to: {problem}.", "start the server, or mend host and port"
    ),
    "tls": Known(
        "error",
        "There is no encrypted connection: {problem}.",
        "serve a certificate that is valid for this name, with the chain of its authorities",
    ),
    "closed": Known(
        "error",
        "The connection ended without an answer: {problem}.",
        "look into the log of the server, or of a proxy",
    ),
    "no-mcp": Known(
        "error",
        "No revision of the protocol is spoken here: initialize was answered with {answer}.",
        "give the URL of the endpoint itself, such as https://host/mcp, or the command of a server",
    ),
    "server-error": Known(
        "error",
        "The first request is answered with HTTP {status}.",
        "look into the log of the server, or of a proxy",
    ),
    "redirect": Known(
        "error",
        "The URL redirects (HTTP {status}) to {target}: on the way a POST becomes a GET, and its body is lost.",
        "give hosts the URL that it leads to, and serve the endpoint with and without a slash at the end",
    ),
    "redirect-kept": Known(
        "warning",
        "The URL redirects (HTTP {status}) to {target}: many clients follow no redirect of a POST, or drop"
        " Authorization on the way.",
        "give hosts the URL that it leads to, and serve the endpoint with and without a slash at the end",
    ),
    "redirect-downgrade": Known(
        "error",
        "The URL redirects from https to {target}, which is not encrypted.",
        "have the server believe its proxy: X-Forwarded-Proto, uvicorn --proxy-headers --forwarded-allow-ips",
    ),
    "certificate-ends": Known(
        "warning",
        "The certificate of {host} is valid until {until}.",
        "renew it, and see that that happens by itself",
    ),
    "clock": Known(
        "warning",
        "The clock of the server is {seconds:.0f} s {way} this machine's: tokens and certificates seem to have ended,"
        " or not to hold yet.",
        "set the clock by NTP",
    ),
}

MESSAGES: Final[Mapping[str, Known]] = {
    "noise": Known(
        "error",
        "Line {line} of standard output is no message: {text}.",
        _STDERR,
    ),
    "byte-order-mark": Known(
        "error",
        "Standard output begins with a byte order mark.",
        "write UTF-8 without one: utf-8, not utf-8-sig",
    ),
    "crlf": Known(
        "warning",
        "Messages end with a carriage return and a newline.",
        "write bytes, or open standard output with newline='\\n'",
    ),
    "encoding": Known(
        "error",
        "What is not ASCII comes back changed: {problem}.",
        "read and write UTF-8: sys.stdout.reconfigure(encoding='utf-8'), or PYTHONUTF8=1 in the environment",
    ),
    "encoding-windows": Known(
        "warning",
        "Where the system's encoding is another one than UTF-8, as on Windows, what is not ASCII comes back changed:"
        " {problem}.",
        "read and write UTF-8 whatever the system has: sys.stdin and sys.stdout.reconfigure(encoding='utf-8'), or"
        " PYTHONUTF8=1 in the environment of hosts' entries",
    ),
    "no-common-revision": Known(
        "error",
        "A client that asks for the revision {asked} gets {answer}, and no revision that the server speaks.",
        "answer initialize with the newest revision that the server speaks, whatever is asked for",
    ),
    "echoed-revision": Known(
        "error",
        "The server claims to speak {asked}, which nobody has written yet: it repeats what it is asked for.",
        "answer initialize with a revision that the server speaks",
    ),
    "unknown-revision": Known(
        "error",
        "Initialize is answered with the revision {answer}, which there is not.",
        "answer with one that there is",
    ),
    "discover-ends": Known(
        "error",
        "The server ends, or answers nothing any more, when a client of 2026-07-28 asks first whether it is spoken.",
        "answer requests that are not known with the error -32601, also before initialize",
    ),
    "discover-silent": Known(
        "warning",
        "server/discover gets no answer: clients of 2026-07-28 wait before they try initialize.",
        "answer requests that are not known with the error -32601, also before initialize",
    ),
    "list-fails": Known(
        "error",
        "The server declares {capability}, and {method} is answered with {answer}.",
        "answer it, with an empty list where there is nothing, or do not declare {capability}",
    ),
    "undeclared": Known(
        "error",
        "{method} lists {count}, and {capability} is not declared: hosts do not ask for them.",
        "declare the capability {capability}",
    ),
    "cursor-loops": Known(
        "error",
        "{method} gives the same nextCursor again: a client that reads all pages never ends.",
        "leave nextCursor out on the last page",
    ),
    "cursor-accepted": Known(
        "warning",
        "{method} has pages, and takes a cursor that it never gave: {answer}.",
        "refuse a cursor that is not known with the error -32602",
    ),
    "subscribe-fails": Known(
        "error",
        "The server declares resources.subscribe, and resources/subscribe is answered with {answer}.",
        "answer it, or do not declare it",
    ),
    "logging-fails": Known(
        "error",
        "The server declares logging, and logging/setLevel is answered with {answer}.",
        "answer it with an empty result, or do not declare it",
    ),
    "completions-fail": Known(
        "error",
        "The server declares completions, and completion/complete is answered with {answer}.",
        "answer it, with no values where there are none, or do not declare it",
    ),
    "listen-refused": Known(
        "warning",
        "The server declares {declared}, and does not grant it to who listens (subscriptions/listen): {answer}.",
        "grant what is declared, or do not declare it",
    ),
    "ping-fails": Known(
        "error",
        "Ping is answered with {answer}: hosts take the server for dead.",
        "answer it with an empty result",
    ),
    "unknown-method": Known(
        "warning",
        "A method that there is not is answered with {answer}.",
        "answer it with the error -32601 (method not found)",
    ),
    "malformed-ends": Known(
        "error",
        "A message that is no JSON ends the server: nothing is answered any more.",
        "answer it with the error -32700, or pass over it, and read on",
    ),
    "client-fails": Known(
        "error",
        "A client that speaks every revision, and asks for the newest first, does not get on with the server:"
        " {problem}.",
        "answer what is not known with the error -32601, at any time, and go on",
    ),
    "call-fails": Known(
        "warning",
        "The tool {tool}, which needs no arguments, is answered with {answer}.",
        "let it answer, or say in its result (isError) what is wrong",
    ),
    "output-mismatch": Known(
        "error",
        "The tool {tool} does not answer what its outputSchema promises: {problem}.",
        "return structuredContent that fits outputSchema, or leave the schema out",
    ),
}

LEAVING: Final[Mapping[str, Known]] = {
    "input-end-ignored": Known(
        "error",
        "The process goes on {seconds:g} s after its standard input has ended: hosts leave it behind.",
        "end when standard input ends",
    ),
    "orphans": Known(
        "warning",
        "The process has ended, and processes that it has started go on.",
        "end what the server has started before it ends; exec the server where a script starts it",
    ),
    "sigterm-ignored": Known(
        "warning",
        "The process goes on {seconds:g} s after SIGTERM.",
        "end at SIGTERM; do not catch and forget it",
    ),
}

HTTP: Final[Mapping[str, Known]] = {
    "content-type": Known(
        "error",
        "An answer to a request has the content type {type}.",
        "answer as application/json or text/event-stream",
    ),
    "session-id": Known(
        "error",
        "The session id {id} has other characters than visible ASCII.",
        "make it of visible ASCII (0x21 to 0x7E)",
    ),
    "no-affinity": Known(
        "error",
        "{failed} of {asked} requests of one session over new connections were answered with HTTP {status}: they reach"
        " an instance that does not know it.",
        _ONE_PLACE,
    ),
    "revision-header": Known(
        "warning",
        "A request with an MCP-Protocol-Version that there is not is answered with HTTP {status}.",
        "refuse it with 400",
    ),
    "unknown-session": Known(
        "warning",
        "A request of a session that there is not is answered with HTTP {status}: clients begin another session at 404"
        " alone.",
        "answer it with 404",
    ),
    "session-goes-on": Known(
        "warning",
        "A session that was ended by DELETE (HTTP {status}) answers still.",
        "answer its requests with 404 from then on, or refuse DELETE with 405",
    ),
    "delete-fails": Known(
        "warning", "DELETE is answered with HTTP {status}.", "end the session, or refuse with 405"
    ),
    "get-status": Known(
        "warning",
        "GET for a stream is answered with {answer}.",
        "open an event stream, or refuse with 405",
    ),
    "notification-status": Known(
        "warning",
        "A notification is answered with {answer}.",
        "answer it with 202 and no body",
    ),
    "malformed-status": Known(
        "warning",
        "A body that is no JSON is answered with {answer}.",
        "answer it with 400, and the error -32700",
    ),
    "foreign-origin": Known(
        "error",
        "A page of any site may ask this server, which is on this machine or in its network: a foreign Origin is"
        " answered with HTTP {status} (DNS rebinding).",
        "refuse a foreign Origin with 403",
    ),
    "foreign-host": Known(
        "error",
        "The server is on this machine, and answers requests for any other Host with HTTP {status} (DNS rebinding).",
        "refuse any Host but localhost and 127.0.0.1",
    ),
    "cors-preflight": Known(
        "warning",
        "Pages of {page} may ask, and may not send {names}.",
        "name them in Access-Control-Allow-Headers",
    ),
    "cors-exposed": Known(
        "warning",
        "Pages of {page} may ask, and cannot read {names} of the answer.",
        "name them in Access-Control-Expose-Headers",
    ),
    "cors-answer": Known(
        "warning",
        "A preflight allows pages of {page}, and the answer itself does not.",
        "send Access-Control-Allow-Origin with each answer, errors too",
    ),
    "buffered-events": Known(
        "error",
        "{what} does not come while the answer is open: something on the way keeps events back, and with them progress,"
        " questions and changes.",
        _UNBUFFERED,
    ),
    "endpoint-origin": Known(
        "error",
        "The stream of HTTP+SSE names an endpoint at another origin, {endpoint}: clients refuse it.",
        "name a path, or the URL that clients use; have the server believe its proxy (X-Forwarded-Host and -Proto)",
    ),
}

CATALOGUE: Final[Mapping[str, Known]] = {**REACHING, **MESSAGES, **LEAVING, **HTTP}

"""Headers of HTTP requests, challenges of servers (`WWW-Authenticate`), and errors of HTTP in words."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple

from ..._utils.exceptions import (
    UNSUPPORTED_PROTOCOL_VERSION,
    AuthorizationError,
    ProtocolError,
    StatusError,
    TransportError,
)
from ...protocol import http_headers, jsonrpc
from ...protocol.jsonrpc import Json, is_object
from ...protocol.revisions import STATELESS

if TYPE_CHECKING:
    import httpx2

# Headers

Pairs = list[tuple[bytes, bytes]]
"""Headers, with names in any case."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"(?![ \t])[ -~\t\x80-\xff]*(?<![ \t])")
_SHORTEST_SECRET = 6
"""The fewest characters of a secret that is removed from messages. Shorter ones occur in many words."""
_TRANSPORT_HEADERS = frozenset({
    "accept", "accept-encoding", "connection", "content-length", "content-type", "last-event-id", "mcp-method",
    "mcp-name", "mcp-protocol-version", "mcp-session-id", "transfer-encoding",
})  # fmt: skip
"""Headers that the transport sets."""


def check_headers(headers: Mapping[str, object]) -> Pairs:
    """Encode the headers of a user after checking them.

    Raises:
        TypeError: A value is not a string.
        ValueError: A header cannot be sent, or is set by the transport. No value is shown, as it may be secret.
    """
    pairs: Pairs = []
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid header name")
        if name.lower() in _TRANSPORT_HEADERS:
            raise ValueError(f"the header {name} is set by the transport. Leave it out")
        if not isinstance(value, str):
            raise TypeError(f"the value of the header {name} must be a string, got {type(value).__name__}")
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(
                f"the value of the header {name} contains characters, or leading or trailing blanks, that "
                "are not allowed in a header"
            )
        pairs.append((name.encode("ascii"), value.encode("latin-1")))
    return pairs


def bearer_header(token: str) -> tuple[bytes, bytes]:
    """Return the `Authorization` header with a bearer token.

    Raises:
        ValueError: The token cannot be sent.
    """
    if not _HEADER_VALUE.fullmatch(token):
        raise ValueError(
            "the token contains characters, or leading or trailing blanks, that are not allowed in a header"
        )
    return b"Authorization", b"Bearer " + token.encode("latin-1")


def without_credentials(text: str, response: httpx2.Response) -> str:
    """Return a text of a response without the credentials of its request, which the server may repeat."""
    secret = response.request.headers.get("authorization", "").partition(" ")[2].strip()
    return text.replace(secret, "...") if len(secret) >= _SHORTEST_SECRET else text


def header(response: httpx2.Response, name: bytes) -> bytes:
    """Return the value of a header by its name in lower case; empty if there is none."""
    for each, value in response.headers.raw:
        if each.lower() == name:
            return value
    return b""


# Challenges (RFC 9110, "WWW-Authenticate")

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME = re.compile(rf"[\s,]*({_TOKEN})(?=[\s,]|$)")
_PARAMETER = re.compile(rf'[\s,]*({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))(?=[\s,]|$)', re.DOTALL)
_TOKEN_68 = re.compile(r"\s+[A-Za-z0-9._~+/-]+=*(?=\s*(?:,|$))")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_SHOWN_PARAMETERS = {
    "realm": "realm",
    "scope": "scope",
    "error": "error",
    "error_description": "says",
    "resource_metadata": "described at",
}
"""The parts of a challenge that an error message shows, in this order."""
_MOST_SHOWN_PARAMETER = 300
"""The most characters of a value in an error message."""


class Challenge(NamedTuple):
    """One challenge of `WWW-Authenticate`.

    Args:
        scheme: The authentication scheme as the server writes it, such as `Bearer`.
        parameters: Its parameters by name in lower case; the first of each.
    """

    scheme: str
    parameters: Mapping[str, str]


def read_challenges(values: Iterable[str]) -> list[Challenge]:
    """Parse the values of `WWW-Authenticate`, of which each may hold several challenges.

    A syntax error ends the parsing of that value.
    """
    found: list[Challenge] = []
    for value in values:
        place = 0
        while scheme := _SCHEME.match(value, place):
            place = scheme.end()
            if token := _TOKEN_68.match(value, place):
                place = token.end()
            parameters: dict[str, str] = {}
            while parameter := _PARAMETER.match(value, place):
                name, quoted, plain = parameter.groups()
                parameters.setdefault(name.lower(), plain or _ESCAPED.sub(r"\1", quoted))
                place = parameter.end()
            found.append(Challenge(scheme[1], parameters))
    return found


def describe_challenges(challenges: Iterable[Challenge]) -> str:
    """Describe challenges in words; empty if there are none."""
    descriptions: list[str] = []
    for challenge in challenges:
        parts = [challenge.scheme[:_MOST_SHOWN_PARAMETER]]
        for name, word in _SHOWN_PARAMETERS.items():
            if value := challenge.parameters.get(name):
                text = "".join(char if char.isprintable() else " " for char in value[:_MOST_SHOWN_PARAMETER])
                parts.append(f"{word} {text!r}")
        descriptions.append(", ".join(parts))
    return "; or ".join(descriptions)


# Errors

_SECONDS = re.compile(r"[0-9]{1,9}")
_HTTP_STATUSES = frozenset({401, 403, 429})
"""Statuses that are more specific than the JSON-RPC error in their body."""
_NEEDS_HANDSHAKE = re.compile(r"session.?id|not initialized|unsupported protocol version", re.IGNORECASE)
_MOST_SHOWN = 160
_MOST_PARSED = 20_000
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)
_SCRIPTS = re.compile(r"<(script|style)\b.{0,20000}?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,2000}>")


def connection_error(
    error: BaseException, origin: str, connect_timeout: float, by_proxy: Callable[[], str]
) -> TransportError:
    """Return the transport error for an exception of httpx2.

    Args:
        error: The exception.
        origin: The origin of the server.
        connect_timeout: The time limit of the connection in seconds.
        by_proxy: Returns the proxy in use, in words.
    """
    import httpx2

    text = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectTimeout):
        message = f"{origin} did not accept the connection within {connect_timeout:g} s"
    elif isinstance(error, httpx2.PoolTimeout):
        message = "the http_client has no free connection. Allow more connections (limits=)"
    elif isinstance(error, httpx2.ProxyError):
        message = f"the proxy for {origin} rejected the connection: {text}"
    elif isinstance(error, httpx2.UnsupportedProtocol):  # such as a proxy that cannot be used
        message = f"cannot connect to {origin}: {text}"
        return TransportError(message, may_have_begun=False, may_pass=False)
    elif isinstance(error, (httpx2.ConnectError, httpx2.LocalProtocolError)):
        message = f"cannot connect to {origin}{by_proxy()}: {_reason(error) or text}"
        if "CERTIFICATE_VERIFY_FAILED" in text:
            message += ". Pass the certificate authorities of the server as verify="
        elif "WRONG_VERSION_NUMBER" in text:
            message += ". The server may only support http://"
    elif isinstance(error, httpx2.DecodingError):
        return TransportError(
            f"{origin} sent a response that cannot be decompressed: {text}", may_have_begun=True
        )
    else:
        message = f"the connection to {origin} was lost before the response was complete: {text}"
        return TransportError(message, may_have_begun=True)
    return TransportError(message, may_have_begun=False)


def _reason(error: BaseException | None) -> str | None:
    """Return the operating system's message in an exception or its causes, or None."""
    while error is not None:
        if isinstance(error, ConnectionError) and error.errno:
            return os.strerror(error.errno)
        error = error.__cause__ or error.__context__
    return None


class ErrorResponse:
    """An error response, with the beginning of its body.

    Args:
        response: The response.
        body: The beginning of its body.
        origin: The origin of the server.
        has_credentials: Whether the request carried credentials.

    Attributes:
        status: The HTTP status.
        error: The JSON-RPC error in the body, with any id; None if there is none.
    """

    def __init__(self, response: httpx2.Response, body: bytes, origin: str, *, has_credentials: bool) -> None:
        body = without_credentials(body.decode("latin-1"), response).encode("latin-1")
        self.status = response.status_code
        self.error = _json_error_of(body)
        self._response = response
        self._body = body
        self._origin = origin
        self._has_credentials = has_credentials

    def json_error(self, *, has_session: bool) -> Json | None:
        """Return the JSON-RPC error if it is the response to the request, and not about the HTTP exchange.

        Args:
            has_session: Whether the request had a session id.
        """
        is_about_http = not 400 <= self.status < 500 or self.status in _HTTP_STATUSES
        return None if is_about_http or (has_session and self.is_session_gone) else self.error

    @property
    def is_session_gone(self) -> bool:
        """Whether the session has ended: 404, or 400 with an error about the session id, as many servers send."""
        if self.status == 400 and self.error is not None:
            return "session id" in str(self.error["error"]["message"]).lower().replace("-", " ")
        return self.status == 404

    def is_other_revision(self, revision: str | None) -> bool:
        """Return whether a server with a negotiated revision uses another one by now.

        Servers of versions before 2026-07-28 reject a request without a session in many ways.

        Args:
            revision: The negotiated revision; None before the negotiation.
        """
        if self.error is None:
            return revision in STATELESS and self.status == 404
        error = self.error["error"]
        if error["code"] == UNSUPPORTED_PROTOCOL_VERSION:
            return revision is not None
        return (
            revision in STATELESS and self.status == 400 and bool(_NEEDS_HANDSHAKE.search(error["message"]))
        )

    def as_error(self, *, has_session: bool, is_other_revision: bool = False) -> StatusError:
        """Return the transport error for the response.

        Args:
            has_session: Whether the request had a session id.
            is_other_revision: Whether the server uses another revision by now.
        """
        status = self.status
        if is_other_revision:
            what = "no longer supports the negotiated revision"
            if self.error is None:
                what = f"has no MCP endpoint at the path of the URL, or {what}"
            message = f"{self._origin} {what} (HTTP {status})"
            return StatusError(message + self._reason, status, may_have_begun=False, session_is_gone=True)
        wait = retry_after(self._response)
        if status in {401, 403}:
            return self._unauthorized()
        if has_session and self.is_session_gone:
            message = f"{self._origin} no longer has the session (HTTP {status})"
            return StatusError(message + self._reason, status, may_have_begun=False, session_is_gone=True)
        if 300 <= status < 400:
            message = f"{self._origin} answered with HTTP {status}"
            target = header(self._response, b"location").decode("latin-1").partition("?")[0]
            if target:  # without the query, which may be secret
                message += (
                    f", a redirect to {printable(target)}, which the client does not follow. If that is the "
                    "server, use its URL"
                )
            return StatusError(message, status, may_have_begun=False)
        if status == 429:
            later = "" if wait is None else f". Try again in {wait:g} s"
            message = f"{self._origin} received too many requests (HTTP 429){later}"
        elif status in {404, 405}:
            message = f"{self._origin} has no MCP endpoint at the path of the URL (HTTP {status})"
        else:
            message = f"{self._origin} answered with HTTP {status}"
        # A JSON-RPC error with `Retry-After` comes from the server itself, which has not begun with the request.
        # A gateway may send 503 for a server that has begun.
        is_turned_away = status == 503 and wait is not None and self.error is not None
        return StatusError(
            message + self._reason,
            status,
            may_have_begun=status >= 500 and not is_turned_away,
            retry_after=wait,
        )

    def _unauthorized(self) -> AuthorizationError:
        values = [
            without_credentials(value.decode("latin-1"), self._response)
            for name, value in self._response.headers.raw
            if name.lower() == b"www-authenticate"
        ]
        challenges = read_challenges(values)
        required = describe_challenges(challenges)
        if self.status == 403:
            message = f"{self._origin} denied access (HTTP 403)"
        elif self._has_credentials:
            message = f"{self._origin} rejected the credentials of the client (HTTP 401)"
        else:
            message = f"{self._origin} requires authentication (HTTP 401). Pass token=, auth= or headers="
            if any("resource_metadata" in each.parameters for each in challenges):
                message += ', or auth="oauth" to have a user log in'
        if required:
            message += f"; it requires {required}"
        challenge = ", ".join(values)
        if self.error is None or self.error["error"]["message"] != challenge:
            message += self._reason
        return AuthorizationError(message, self.status, challenge)

    @property
    def _reason(self) -> str:
        """The message of the JSON-RPC error, or an excerpt of the body, after a colon; may be empty."""
        if self.error is not None:
            return f": {printable(self.error['error']['message'])}"
        text = excerpt(self._body)
        return f": {text}" if text else ""


def retry_after(response: httpx2.Response) -> float | None:
    """Return the seconds of a `Retry-After` header; None if there is none."""
    value = header(response, b"retry-after").decode("latin-1").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    until = _date(value)
    if until is None:
        return None
    # By the clock of the server, if it sends its time.
    now = _date(header(response, b"date").decode("latin-1")) or datetime.now(timezone.utc)
    return max(0.0, (until - now).total_seconds())


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date.replace(tzinfo=timezone.utc) if date.tzinfo is None else date


def unexpected_response(response: httpx2.Response, body: bytes, origin: str) -> StatusError:
    """Return the error for a successful response without JSON-RPC messages.

    Args:
        response: The response.
        body: The beginning of its body.
        origin: The origin of the server.
    """
    kind = media_type(response)
    if kind == b"text/html":
        what = "with a web page, perhaps a login page,"
    elif kind:
        what = f"with {printable(kind.decode('latin-1'))}"
    else:
        what = "without a Content-Type"
    message = f"{origin} answered {what} instead of JSON or an event stream"
    text = excerpt(body)
    return StatusError(f"{message}: {text}" if text else message, response.status_code, may_have_begun=True)


def media_type(response: httpx2.Response) -> bytes:
    """Return the media type of a body in lower case; the whole field if it is malformed."""
    field = header(response, b"content-type")
    kind = http_headers.media_type(field.decode("latin-1"))
    return field if kind is None else kind.encode()


def excerpt(body: bytes) -> str:
    """Return the beginning of a text on one line: the title of a web page; an empty string for binary data."""
    try:
        text = body[:_MOST_PARSED].decode("utf-8", "strict" if len(body) <= _MOST_PARSED else "ignore")
    except UnicodeDecodeError:
        return ""
    if text.lstrip()[:1] == "<":
        from html import unescape

        title = _TITLE.search(text)
        text = unescape(title[1] if title else _TAG.sub(" ", _SCRIPTS.sub(" ", text)))
    return printable(text) if text.strip() else ""


def printable(text: str) -> str:
    """Return a text of a server for an error message: short, printable, on one line."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[:4000]).split())
    return repr(line if len(line) <= _MOST_SHOWN else line[:_MOST_SHOWN] + "...")


def _json_error_of(body: bytes) -> Json | None:
    """Return the JSON-RPC error in a body; None if the body is something else."""
    try:
        message = jsonrpc.decode(body)
    except ProtocolError:
        return None
    if not is_object(message) or message.get("jsonrpc") != "2.0":
        return None
    error = message.get("error")
    if is_object(error) and type(error.get("code")) is int and type(error.get("message")) is str:
        return message
    return None

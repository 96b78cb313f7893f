"""Interpretation of responses without a message."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from ..._utils.exceptions import (
    UNSUPPORTED_PROTOCOL_VERSION,
    AuthorizationError,
    ProtocolError,
    StatusError,
    TransportError,
)
from ...protocol import http_headers, jsonrpc
from ...protocol.jsonrpc import Json, RequestId, is_object
from ...protocol.revisions import STATELESS
from .challenge import in_words, read_challenges
from .headers import header, without_credentials
from .http_client import HttpClient

if TYPE_CHECKING:
    import httpx2

_SECONDS = re.compile(r"[0-9]{1,9}")
_OF_HTTP = frozenset({401, 403, 429})
"""Statuses that are more specific than the JSON-RPC error in their body."""
_HANDSHAKE_WANTED = re.compile(r"session.?id|not initialized|unsupported protocol version", re.IGNORECASE)
_MOST_SHOWN = 160
_MOST_LOOKED_AT = 20_000
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)
_SCRIPTS = re.compile(r"<(script|style)\b.{0,20000}?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,2000}>")


class Refusal:
    """An error response, with the beginning of its body.

    Args:
        http: The HTTP client.
        response: The response.
        body: The beginning of its body.

    Attributes:
        status: The HTTP status.
        error: The JSON-RPC error in the body, with any id; None if there is none.
    """

    def __init__(self, http: HttpClient, response: httpx2.Response, body: bytes) -> None:
        self.status = response.status_code
        self.error = error_of(body)
        self._response = response
        self._body = body
        self._origin = http.origin
        self._has_credentials = http.has_credentials

    def answer(self, *, has_session: bool) -> Json | None:
        """Return the JSON-RPC error if it is the response to the request, and not about the HTTP exchange.

        Args:
            has_session: Whether the request had a session id.
        """
        is_of_http = not 400 <= self.status < 500 or self.status in _OF_HTTP
        return None if is_of_http or (has_session and self.knows_no_session) else self.error

    @property
    def knows_no_session(self) -> bool:
        """Whether the session has ended: 404, or 400 with an error about the session id, as many servers send."""
        if self.status == 400 and self.error is not None:
            return "session id" in str(self.error["error"]["message"]).lower().replace("-", " ")
        return self.status == 404

    def is_of_another_revision(self, revision: str | None) -> bool:
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
            revision in STATELESS and self.status == 400 and bool(_HANDSHAKE_WANTED.search(error["message"]))
        )

    def as_error(self, *, has_session: bool, is_of_another_revision: bool = False) -> StatusError:
        """Return the transport error for the response.

        Args:
            has_session: Whether the request had a session id.
            is_of_another_revision: Whether the server uses another revision by now.
        """
        status = self.status
        if is_of_another_revision:
            what = "no longer supports the negotiated revision"
            if self.error is None:
                what = f"has no MCP endpoint at the path of the URL, or {what}"
            message = f"{self._origin} {what} (HTTP {status})"
            return StatusError(message + self._said, status, may_have_begun=False, session_is_gone=True)
        wait = retry_after(self._response)
        if status in {401, 403}:
            return self._unauthorized()
        if has_session and self.knows_no_session:
            message = f"{self._origin} no longer has the session (HTTP {status})"
            return StatusError(message + self._said, status, may_have_begun=False, session_is_gone=True)
        if 300 <= status < 400:
            return StatusError(self._redirect, status, may_have_begun=False)
        if status == 429:
            later = "" if wait is None else f". Try again in {wait:g} s"
            message = f"{self._origin} received too many requests (HTTP 429){later}"
        elif status in {404, 405}:
            message = f"{self._origin} has no MCP endpoint at the path of the URL (HTTP {status})"
        else:
            message = f"{self._origin} answered with HTTP {status}"
        # A server that answers the request itself by "come again later" has not begun with it; a gateway may say 503
        # of a server that has.
        is_turned_away = status == 503 and wait is not None and self.error is not None
        return StatusError(
            message + self._said,
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
        asked = in_words(challenges)
        if self.status == 403:
            message = f"{self._origin} denied access (HTTP 403)"
        elif self._has_credentials:
            message = f"{self._origin} rejected the credentials of the client (HTTP 401)"
        else:
            message = f"{self._origin} requires authentication (HTTP 401). Pass token=, auth= or headers="
            if any("resource_metadata" in each.parameters for each in challenges):
                message += ', or auth="oauth" to have a user log in'
        if asked:
            message += f"; it requires {asked}"
        challenge = ", ".join(values)
        if self.error is None or self.error["error"]["message"] != challenge:
            message += self._said
        return AuthorizationError(message, self.status, challenge)

    @property
    def _said(self) -> str:
        if self.error is not None:
            return f": {shown(self.error['error']['message'])}"
        text = excerpt(self._body)
        return f": {text}" if text else ""

    @property
    def _redirect(self) -> str:
        target = header(self._response, b"location").decode("latin-1")
        message = f"{self._origin} answered with HTTP {self.status}"
        if not target:
            return message
        where = target.partition("?")[0]  # what follows may be a secret
        return (
            f"{message}, a redirect to {shown(where)}, which the client does not follow. If that is the "
            "server, use its URL"
        )


def retry_after(response: httpx2.Response) -> float | None:
    """Return the seconds of a `Retry-After` header; None if there is none."""
    value = header(response, b"retry-after").decode("latin-1").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    until = _date(value)
    if until is None:
        return None
    # By the server's own clock, where it tells it.
    now = _date(header(response, b"date").decode("latin-1")) or datetime.now(timezone.utc)
    return max(0.0, (until - now).total_seconds())


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date.replace(tzinfo=timezone.utc) if date.tzinfo is None else date


def answer_to(id_: RequestId, error: Json) -> bytes:
    """Return an error as the answer to a request."""
    return jsonrpc.encode({**error, "id": id_})


async def refused(http: HttpClient, response: httpx2.Response) -> Refusal:
    """Read an error response. Missing parts of its body are ignored."""
    try:
        body = await http.beginning(response)
    except TransportError:
        body = b""
    text = body.decode("latin-1")
    return Refusal(http, response, without_credentials(text, response).encode("latin-1"))


async def unexpected(http: HttpClient, response: httpx2.Response) -> StatusError:
    """Return the error for a successful response without JSON-RPC messages."""
    kind = media_type(response)
    try:
        text = excerpt(await http.beginning(response))
    except TransportError:
        text = ""
    if kind == b"text/html":
        what = "with a web page, perhaps a login page,"
    elif kind:
        what = f"with {shown(kind.decode('latin-1'))}"
    else:
        what = "without a Content-Type"
    message = f"{http.origin} answered {what} instead of JSON or an event stream"
    return StatusError(f"{message}: {text}" if text else message, response.status_code, may_have_begun=True)


def media_type(response: httpx2.Response) -> bytes:
    """Return the media type of a body in lower case; the whole field where that has another form."""
    field = header(response, b"content-type")
    kind = http_headers.media_type(field.decode("latin-1"))
    return field if kind is None else kind.encode()


def excerpt(body: bytes) -> str:
    """Return the beginning of a text that a person can read, on one line: of a web page its title; of bytes nothing."""
    try:
        text = body[:_MOST_LOOKED_AT].decode("utf-8", "strict" if len(body) <= _MOST_LOOKED_AT else "ignore")
    except UnicodeDecodeError:
        return ""
    if text.lstrip()[:1] == "<":
        from html import unescape

        title = _TITLE.search(text)
        text = unescape(title[1] if title else _TAG.sub(" ", _SCRIPTS.sub(" ", text)))
    return shown(text) if text.strip() else ""


def shown(text: str) -> str:
    """Return a text of a server's as a message shows it: short, printable, on one line."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[:4000]).split())
    return repr(line if len(line) <= _MOST_SHOWN else line[:_MOST_SHOWN] + "...")


def error_of(body: bytes) -> Json | None:
    """Return the JSON-RPC error that a body is; None where it is none."""
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

"""Unread bodies of refused requests.

In HTTP/1 the next request follows the body, so the connection can stay open only if the body is read to its end. A
connection that is closed while the client still sends is reset, which can lose the response (RFC 9112, "Tear-down"). So
the rest is read and dropped, within limits.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from ....execution.coroutines import within
from ..exchange import Receive, RefusedError, Scope, Send

Message = MutableMapping[str, Any]

_SHORT = 64 * 1024
"""Maximum bytes of a body that is read before the response, to keep the connection."""

_SOON = 1.0
"""Seconds for which the response waits for such a body."""

_MUCH = 64 * 1024 * 1024
_LATE = 5.0
"""Bytes that are dropped behind an answer, and seconds that this may take; then the connection is closed."""

_REFUSED = 400
_CLOSE = (b"connection", b"close")


class UnreadError(RefusedError):
    """The request is refused before its body has been read."""


def watch(scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Return ASGI channels for a request that may be refused before its body has been read.

    Args:
        scope: Scope of the request.
        headers: Headers of the request by name.
        receive: ASGI channel of the request, from which at most a part of the body has been read.
        send: ASGI channel of the response, which has not begun.
    """
    length = headers.get(b"content-length", b"0")
    is_chunked = b"transfer-encoding" in headers
    has_body = is_chunked or length.strip(b"0") != b""
    if not has_body or not scope.get("http_version", "").startswith("1"):
        return receive, send
    is_short = not is_chunked and length.isdigit() and len(length) < 10 and int(length) <= _SHORT
    rest = _Rest(receive, send, is_short=is_short)
    return rest.receive, rest.send


class _Rest:
    """A body, and a response that can begin before the end of the body."""

    def __init__(self, receive: Receive, send: Send, *, is_short: bool) -> None:
        self._receive = receive
        self._send = send
        self._is_short = is_short
        self._is_read = False
        self._is_gone = False
        self._is_closing = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_gone = message["type"] == "http.disconnect"
        self._is_read = self._is_gone or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif self._is_closing and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._drop(_LATE)
            if not self._is_gone:
                await self._send({"type": "http.response.body", "body": b""})
        else:
            await self._send(message)

    async def _begin(self, start: Message) -> None:
        if start["status"] >= _REFUSED:
            if self._is_short:
                await self._drop(_SOON)
            if not self._is_read:
                self._is_closing = True
                start = {**start, "headers": [*start.get("headers", ()), _CLOSE]}
        await self._send(start)

    async def _drop(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await within(seconds, self._drop_all())

    async def _drop_all(self) -> None:
        room = _MUCH
        while not self._is_read and room > 0:
            room -= len((await self.receive()).get("body", b""))

"""Reading of request bodies, with limits on size, total size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from inspect import iscoroutine
from io import BytesIO

from ....execution.coroutines import resume, run_to_first_wait, uncancel, within
from ....requests.timeouts_and_concurrency import Shares
from ..exchange import Exchange, RefusedError
from ..options import Settings
from .refused_body import Message, UnreadError

_LATER = ((b"retry-after", b"1"),)


class Bodies:
    """Reader of the request bodies of one app.

    Bodies being received share a total number of bytes, with a limit for each client. A body of known length is counted
    from its first part on, another as it is received, and one that is complete at once is not counted.

    Args:
        settings: The limits.
    """

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.limits.max_request_body_size
        self._limit_length = len(str(settings.limits.max_request_body_size))
        self._total = settings.limits.max_buffered_bytes
        self._seconds = settings.timeouts.request_body
        self._shares = Shares()
        self._reading: set[asyncio.Task[object]] = set()
        self._is_closed = False

    def close(self) -> None:
        """Refuse the requests with bodies being received, because the server ends."""
        self._is_closed = True
        for task in self._reading:
            task.cancel()

    async def read(self, exchange: Exchange) -> bytes:
        """Read a whole body.

        Args:
            exchange: The exchange of the request, with an unread body.

        Raises:
            RefusedError: 413 for too many bytes, 408 for too much time, 503 if too many bytes are being received, 400
                for a disconnected client or a body that the HTTP server has lost, 401 for a token that was revoked
                meanwhile. It is an UnreadError if a part of the body is unread.
        """
        limit = self._limit
        length = exchange.request_headers.get(b"content-length")
        if (
            length is not None
            and self._limit_length <= len(length) < 20
            and length.isdigit()
            and int(length) > limit
        ):
            raise UnreadError(413, _too_long(limit))
        message: Message | None = None
        reading: Awaitable[Message] = exchange.receive()
        if iscoroutine(reading):  # most bodies are there already, and need no timer
            is_there, value = run_to_first_wait(reading)
            if is_there:
                message = value
            else:
                reading = resume(reading, value)
        if message is not None and message["type"] == "http.request" and not message.get("more_body"):
            body: bytes = message.get("body", b"")
            if len(body) > limit:
                raise RefusedError(413, _too_long(limit))
            if not body:
                _check_lost(exchange.request_headers)
            return body
        body = await self._read_in_time(message, reading, length, exchange)
        if not body:
            _check_lost(exchange.request_headers)
        if exchange.challenger is not None and exchange.grant is not None:  # time has passed
            exchange.challenger.check(exchange.grant)
        return body

    async def _read_in_time(
        self,
        message: Message | None,
        reading: Awaitable[Message],
        length: bytes | None,
        exchange: Exchange,
    ) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        self._reading.add(task)
        try:
            parts = self._read_parts(message, reading, length, exchange)
            return await within(self._seconds, parts)
        except TimeoutError:
            raise UnreadError(
                408, f"the request body did not arrive within {self._seconds:g} seconds"
            ) from None
        except asyncio.CancelledError:
            if not self._is_closed or uncancel(task) > 0:
                raise
            raise UnreadError(503, "the server is shutting down. Try again later", _LATER) from None
        finally:
            self._reading.discard(task)

    async def _read_parts(
        self,
        message: Message | None,
        reading: Awaitable[Message],
        length: bytes | None,
        exchange: Exchange,
    ) -> bytes:
        caller = exchange.caller
        declared = int(length) if length is not None and len(length) < 20 and length.isdigit() else 0
        body = BytesIO()  # it gives its bytes away without a copy
        size = counted = 0
        try:
            while True:
                if message is None:
                    message = await reading
                if message["type"] == "http.disconnect":
                    raise RefusedError(
                        400, "the client closed the connection before the end of the request body"
                    )
                has_more = message.get("more_body", False)
                size += body.write(message.get("body", b""))
                if size > self._limit:
                    raise (UnreadError if has_more else RefusedError)(413, _too_long(self._limit))
                if not has_more:
                    return body.getvalue()
                if (uncounted := max(size, declared) - counted) > 0:
                    self._count(caller, uncounted, is_alone=self._shares.taken == counted)
                    counted += uncounted
                message, reading = None, exchange.receive()
        finally:
            if counted:
                self._shares.release(caller, counted)

    def _count(self, caller: str | None, amount: int, *, is_alone: bool) -> None:
        if not is_alone and not self._shares.has_room(self._total, caller, amount):
            excess = self._shares.excess(self._total, caller, amount)
            raise UnreadError(
                503, f"the server is receiving too many bytes {excess}. Try again later", _LATER
            )
        self._shares.take(caller, amount)


def _check_lost(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a request without a body if its headers announce one.

    Raises:
        RefusedError: 400. It names uvicorn with httptools, which drops the body where a client offers an upgrade.
    """
    length = headers.get(b"content-length", b"0")
    if b"transfer-encoding" not in headers and not length.strip(b"0 \t"):
        return
    found = "the request body is empty, although the headers announce one"
    if b"upgrade" in headers:
        raise RefusedError(
            400,
            f"{found}: uvicorn with httptools drops the body of a request with an Upgrade header. Start "
            "uvicorn with --http h11",
        )
    raise RefusedError(400, f"{found}. Send a body, and check that no middleware before the app reads it")


def _too_long(limit: int) -> str:
    return (
        f"the request body is longer than {limit} bytes. "
        "The server can accept more: Limits(max_request_body_size=...)"
    )

"""Reads the body of a request: no more than is allowed, and no longer than is patient."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import iscoroutine

from ...running.steps import first_step, go_on, within
from .exchange import Receive, RefusedError
from .unread import Message, UnreadError


async def read_body(receive: Receive, length: bytes | None, limit: int, seconds: float) -> bytes:
    """Read the whole body.

    Args:
        receive: The request's ASGI channel.
        length: The value of its Content-Length header.
        limit: The most bytes that are taken.
        seconds: How long the body may take.

    Raises:
        RefusedError: 413 for more bytes, 408 for a longer time, 400 for a client that has gone. It is an
            UnreadError where there is more of the body.
    """
    if (
        length is not None
        and len(str(limit)) <= len(length) < 20
        and length.isdigit()
        and int(length) > limit
    ):
        raise UnreadError(413, _too_long(limit))
    message: Message | None = None
    reading: Awaitable[Message] = receive()
    if iscoroutine(reading):  # most bodies are there already, and need no timer
        is_there, value = first_step(reading)
        if is_there:
            message = value
        else:
            reading = go_on(reading, value)
    if message is not None and message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise RefusedError(413, _too_long(limit))
        return body
    try:
        return await within(seconds, _read_parts(message, reading, receive, limit))
    except TimeoutError:
        raise UnreadError(408, f"the body did not arrive within {seconds:g} seconds") from None


async def _read_parts(
    message: Message | None, reading: Awaitable[Message], receive: Receive, limit: int
) -> bytes:
    parts: list[bytes] = []
    room = limit
    while True:
        if message is None:
            message = await reading
        if message["type"] == "http.disconnect":
            raise RefusedError(400, "the request has ended before its body")
        part: bytes = message.get("body", b"")
        has_more = message.get("more_body", False)
        room -= len(part)
        if room < 0:
            raise (UnreadError if has_more else RefusedError)(413, _too_long(limit))
        parts.append(part)
        if not has_more:
            return b"".join(parts)
        message, reading = None, receive()


def _too_long(limit: int) -> str:
    return f"a message has at most {limit} bytes; server.asgi(max_body=...) sets the limit"

"""Reads the body of a request: no more than is allowed, and no longer than is patient."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from .exchange import Receive


class Refusal(NamedTuple):
    """A request that is refused before anybody has looked at its message."""

    status: int
    text: str


GONE = Refusal(400, "the request has ended before its body")


async def read_body(receive: Receive, length: bytes | None, limit: int, seconds: float) -> bytes | Refusal:
    """Read the whole body.

    Args:
        receive: The request's ASGI channel.
        length: The value of its Content-Length header.
        limit: The most bytes that are taken; 413 for more.
        seconds: How long the body may take; 408 for longer.

    Returns:
        The body, or why there is none.
    """
    if length is not None and length.isdigit() and len(length) < 20 and int(length) > limit:
        return _too_long(limit)
    task = asyncio.current_task()
    assert task is not None
    patience = _Patience(task)
    timer = asyncio.get_running_loop().call_later(seconds, patience.lose)
    try:
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            body: bytes = message.get("body", b"")
            return body if len(body) <= limit else _too_long(limit)
        return await _read_parts(message.get("body", b""), message["type"], receive, limit)
    except asyncio.CancelledError:
        if not patience.is_lost:
            raise
        patience.found()
        return Refusal(408, f"the body did not arrive within {seconds:g} seconds")
    finally:
        timer.cancel()


async def _read_parts(part: bytes, kind: str, receive: Receive, limit: int) -> bytes | Refusal:
    parts: list[bytes] = []
    room = limit
    is_more = True
    while True:
        if kind == "http.disconnect":
            return GONE
        room -= len(part)
        if room < 0:
            return _too_long(limit)
        parts.append(part)
        if not is_more:
            return b"".join(parts)
        message = await receive()
        kind, part, is_more = message["type"], message.get("body", b""), message.get("more_body", False)


def _too_long(limit: int) -> Refusal:
    return Refusal(413, f"a message has at most {limit} bytes; server.asgi(max_body=...) sets the limit")


class _Patience:
    """Cancels a task that waits for too long, and takes that back from the task's count."""

    __slots__ = ("_task", "is_lost")

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._task = task
        self.is_lost = False

    def lose(self) -> None:
        self.is_lost = True
        self._task.cancel()

    def found(self) -> None:
        uncancel = getattr(self._task, "uncancel", None)  # Python 3.11
        if uncancel is not None:
            uncancel()

"""Transport over two streams of Python objects in the same process, such as anyio's memory streams."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from pydantic_core import from_json

from .._utils.concurrency import require_loop
from ..engine.engine import Served
from ..engine.message_dispatch import Connection
from ..identity.principals_and_scopes import ANYONE, Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json

_FULL = 1024 * 1024
"""Bytes waiting for the client above which input is not read, and handlers that wait for room are blocked."""

_LAST_WORDS = 1.0
"""Seconds in which the client must read the last messages after it closed its side."""

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)
Sent = TypeVar("Sent")
Sent_contra = TypeVar("Sent_contra", contravariant=True)


class ObjectSource(AsyncIterable[Item_co], Protocol[Item_co]):
    """Asynchronous iterable of messages, such as `anyio.abc.ObjectReceiveStream`."""

    def aclose(self) -> Awaitable[None]:
        """Close the stream."""
        ...


class ObjectSink(Protocol[Sent_contra]):
    """Stream for messages, such as `anyio.abc.ObjectSendStream`."""

    def send(self, item: Sent_contra, /) -> Awaitable[None]:
        """Send a message as soon as there is room for it."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Close the stream."""
        ...


async def serve_objects(
    server: Served,
    read: ObjectSource[Item | Exception],
    write: ObjectSink[Sent],
    *,
    dump: Callable[[Item], Json],
    make: Callable[[Json], Sent],
    principal: Principal = ANYONE,
) -> None:
    """Serve one client over object streams, until `read` ends or fails, or the client closes `write`.

    Then running requests are cancelled, and answered with an error if the client still reads. The lifespan is left, and
    both streams are closed. A cancellation has the same effects, except for the responses. A client can repeat the
    handshake, as agents do that have lost its state. Running requests continue.

    Input is not read while more than a megabyte waits for the client. Exceptions in `read`, which represent unreadable
    messages, are logged, because an unreadable message has no ID to answer. Exceptions of `dump` and `make` are logged
    as well.

    Args:
        server: The server.
        read: Messages from the client.
        write: Messages to the client.
        dump: Converts an item of `read` to a JSON-RPC message.
        make: Converts a JSON-RPC message to an item of `write`.
        principal: Principal of the client.

    Raises:
        RuntimeError: The running event loop is not one of asyncio.
        BaseException: The exception of the lifespan or of a stream, except anyio's errors for a closed peer.
    """
    require_loop("mcpkit")
    from anyio import CancelScope

    # A cancel scope of anyio cancels what it holds over and over; in a task of its own the end is reached in order.
    serving = asyncio.create_task(_serve(server, read, write, dump, make, principal))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        serving.cancel()
        with CancelScope(shield=True):
            await asyncio.wait((serving,))
        if not serving.cancelled():
            serving.result()
        raise


async def _serve(
    server: Served,
    read: ObjectSource[Item | Exception],
    write: ObjectSink[Sent],
    dump: Callable[[Item], Json],
    make: Callable[[Json], Sent],
    principal: Principal,
) -> None:
    output = _Output(write, make)
    async with server.engine.running():
        connection = Connection(
            server, output.send, ready=output.room, principal=principal, may_begin_again=True
        )
        entering = asyncio.create_task(server.engine.ready())
        reading = asyncio.create_task(_receive(read, dump, connection, output))
        sending = asyncio.create_task(output.run())
        is_heard = False
        try:
            while not (reading.done() or sending.done()):
                await asyncio.wait(
                    {reading, sending} if entering.done() else {reading, sending, entering},
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if entering.done():
                    entering.result()
            is_heard = not sending.done()
        finally:
            for task in (entering, reading):
                task.cancel()
            await connection.aclose(graceful=is_heard)
            output.end()
            if is_heard:
                await asyncio.wait((sending,), timeout=_LAST_WORDS)
            sending.cancel()
            await asyncio.wait((entering, reading, sending))
            await write.aclose()
            await read.aclose()
        for task in (reading, sending):
            if not task.cancelled():
                task.result()


async def _receive(
    read: ObjectSource[Item | Exception],
    dump: Callable[[Item], Json],
    connection: Connection,
    output: _Output[Sent],
) -> None:
    """Pass messages of the client to the connection, until the stream ends."""
    from anyio import BrokenResourceError, ClosedResourceError

    try:
        async for item in read:
            if isinstance(item, Exception):
                logger.warning("ignored a message from the client that could not be read: %s", item)
                continue
            try:
                line = _line(dump(item))
            except Exception:
                logger.exception("ignored a message from the client that is not JSON-RPC: %.200r", item)
                continue
            connection.receive(line)
            await output.room()
    except (BrokenResourceError, ClosedResourceError):
        pass


def _line(message: Json) -> bytes:
    try:
        return jsonrpc.encode(message)
    except ValueError:  # half of a surrogate pair: what reads the line refuses it under its id
        return json.dumps(message).encode()


class _Output(Generic[Sent]):
    """Queue of messages to the client, sent in order as fast as the client reads."""

    def __init__(self, write: ObjectSink[Sent], make: Callable[[Json], Sent]) -> None:
        self._write = write
        self._make = make
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_ending = False
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def send(self, message: bytes) -> None:
        """Queue a message."""
        self._waiting.append(message)
        self._size += len(message)
        if self._size > _FULL:
            self._has_room.clear()
        self._has_news.set()

    async def room(self) -> None:
        """Wait until the client has read enough."""
        if self._size > _FULL:
            await self._has_room.wait()

    def end(self) -> None:
        """Make `run` return once the queue is empty."""
        self._is_ending = True
        self._has_news.set()

    async def run(self) -> None:
        """Send messages until the end, or until the client closes the stream."""
        from anyio import BrokenResourceError, ClosedResourceError

        try:
            while not self._is_ending:
                await self._has_news.wait()
                self._has_news.clear()
                while self._waiting:
                    await self._send_first()
        except (BrokenResourceError, ClosedResourceError):
            pass

    async def _send_first(self) -> None:
        message = self._waiting.popleft()
        try:
            item = self._make(from_json(message))
        except Exception:
            logger.exception(
                "a message could not be converted for the stream, so the client does not receive it: %.200r",
                message,
            )
        else:
            await self._write.send(item)
        self._size -= len(message)
        if self._size <= _FULL:
            self._has_room.set()

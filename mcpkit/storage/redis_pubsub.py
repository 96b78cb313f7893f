"""Message bus in a Redis stream, which each process reads in order."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .redis_link import REPLY, Client, Link, Reply, Text
from .redis_scripts import PUBLISH

logger = logging.getLogger(__name__)

MOST_MESSAGES = 10_000
"""Number of messages that the stream keeps for processes that have not read them."""

LONG = 4096
"""Size in bytes from which a message is stored outside the stream, and fetched by its subscribers only."""

_WAIT = 3.0
"""Seconds for which a read blocks; then the stream is checked."""

_PAUSE = 0.5
"""Seconds between two attempts to read after a failure."""

_AT_A_TIME = 16
_READ_AT_A_TIME = 256

Position = tuple[int, int]
"""Time at which a stream began, and the number of messages it has had."""

_START: Position = (0, 0)


class _Listener(NamedTuple):
    topic: str
    listener: Callable[[str], None]
    after: Position  # the last message that is not for it
    missed: Callable[[], None] | None


class _Leaving(NamedTuple):
    topic: bytes
    message: bytes
    done: asyncio.Future[None]


class Log:
    """Message bus in a Redis stream.

    One connection reads for all subscriptions, from the start. Listeners are notified, and it is logged, when messages
    were missed: the stream was trimmed before it was read, was emptied, or is that of another Redis, such as a promoted
    replica.

    Args:
        link: Connections to Redis.
        prefix: Beginning of the keys.

    Attributes:
        key: Key of the stream.
    """

    def __init__(self, link: Link, prefix: bytes) -> None:
        self._link = link
        self._prefix = prefix
        self.key = prefix + b"log"
        self._listeners: dict[object, _Listener] = {}
        self._latest = _START  # the last message that is known in this process, told or published
        self._position: Position | None = None  # the last message that has been told
        self._run = ""  # what tells this start of Redis from others
        self._reader: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # whether a message that is published now will be read
        self._failure: OSError | None = None  # why there is no position yet
        self._leaving: list[_Leaving] = []
        self._sender: asyncio.Task[None] | None = None
        link.loop.call_soon_threadsafe(self._start)

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic` from now on; return a function that ends it."""
        key = object()
        self._listeners[key] = _Listener(topic, listener, self._latest, missed)

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    @property
    def is_up(self) -> bool:
        """True if messages published from now on are delivered, or reported as missed."""
        return self._position is not None

    async def listening(self) -> None:
        """Wait until `is_up`. Call it in the thread's loop.

        Raises:
            OSError: Redis does not answer.
        """
        await self._settled.wait()
        if self._position is None and self._failure is not None:
            raise type(self._failure)(*self._failure.args)

    async def publish(self, topic: str, message: str) -> None:
        """Add a message to the stream, after earlier ones. Call it in the thread's loop."""
        done: asyncio.Future[None] = self._link.loop.create_future()
        self._leaving.append(_Leaving(encoded(topic), encoded(message), done))
        if self._sender is None:
            self._sender = self._link.loop.create_task(self._send())
        await done

    async def _send(self) -> None:
        try:
            await self._settled.wait()
            while self._leaving:
                batch = [each for each in self._leaving[:_AT_A_TIME] if not each.done.done()]
                del self._leaving[:_AT_A_TIME]
                if not batch:
                    continue
                try:
                    await self._link.bounded(self._add(batch))
                except OSError as error:
                    for each in batch:
                        if not each.done.done():
                            each.done.set_exception(type(error)(*error.args))
                else:
                    for each in batch:
                        if not each.done.done():
                            each.done.set_result(None)
        finally:
            self._sender = None

    async def _add(self, batch: list[_Leaving]) -> None:
        operation = self._prefix + b"o:" + os.urandom(16).hex().encode()
        beside = [self._prefix + b"m:" + os.urandom(16).hex().encode() for _ in batch]
        args: list[Text] = [text for each in batch for text in (each.topic, each.message)]
        self.note(
            await self._link.script(PUBLISH, [operation, self.key, *beside], MOST_MESSAGES, LONG, *args)
        )

    def note(self, position: Reply) -> None:
        """Note the position of a message that this process published: later subscriptions do not receive it."""
        self._latest = max(self._latest, _position(position) or _START)

    # Reading, in the thread's loop

    def _start(self) -> None:
        if self._reader is None:
            self._reader = self._link.loop.create_task(self._read())

    async def _read(self) -> None:
        is_failing = False
        while True:
            client = self._link.client(_WAIT + REPLY)
            try:
                await self._resume(client)
                if is_failing:
                    logger.info(
                        "%s answers again; messages of other processes are received", self._link.shown
                    )
                is_failing = False
                self._settled.set()
                while True:
                    await self._look(client)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                failure = self._failure = self._link.failure(error)
                if not is_failing:
                    logger.error(  # noqa: TRY400 - where it happened says nothing
                        "the shared store does not answer; this process receives no messages of other "
                        "processes until it does: %s",
                        failure,
                    )
                is_failing = True
                self._settled.set()
            finally:
                await client.aclose()
            await asyncio.sleep(_PAUSE)

    async def _resume(self, client: Client) -> None:
        """Find the position to read from."""
        run = await self._link.look(client)
        if self._position is not None and run != self._run:
            self._say_missed("Redis was restarted or replaced")
        self._run = run
        await self._check(client)

    async def _check(self, client: Client) -> None:
        last = await self._last(client)
        before = self._position
        if before is None:
            self._position = self._latest = last or _START
        elif before != _START and (last is None or last[0] != before[0]):
            self._begin_again(_START)
        elif last is not None and last < before:
            self._begin_again(last)

    async def _last(self, client: Client) -> Position | None:
        """Return the last position of the stream; None if it does not exist."""
        try:
            said = await client.execute_command("XINFO", "STREAM", self.key)
        except self._link.errors.ResponseError as error:
            if "no such key" not in str(error):
                raise
            return None
        assert isinstance(said, list), "XINFO must return names and values"
        return _position(said[said.index(b"last-generated-id") + 1])

    def _begin_again(self, position: Position) -> None:
        self._say_missed("the Redis stream was emptied or restored from an earlier state")
        self._position = self._latest = position
        for key, each in tuple(self._listeners.items()):
            if self._listeners.get(key) is each:
                self._listeners[key] = _Listener(each.topic, each.listener, position, each.missed)

    async def _look(self, client: Client) -> None:
        began, number = self._position or _START
        found = await client.execute_command(
            *("XREAD", "COUNT", _READ_AT_A_TIME, "BLOCK", round(_WAIT * 1000)),
            *("STREAMS", self.key, f"{began}-{number}"),
        )
        match found:
            case [[_, list(messages)]]:
                for each in messages:
                    match each:
                        case [bytes(position), [_, bytes(topic), form, bytes(content)]]:
                            await self._take(
                                _position(position) or _START, topic, content, is_beside=form == b"k"
                            )
                        case _:
                            raise ValueError(
                                f"Redis stream {self.key!r} contains an entry that mcpkit did not write. "
                                "Delete the stream or use another Redis database"
                            )
            case _:
                await self._check(client)

    async def _take(self, position: Position, topic: bytes, content: bytes, *, is_beside: bool) -> None:
        before = self._position or _START
        expected = (position[0], 1) if before == _START else (before[0], before[1] + 1)
        if position != expected:
            self._say_missed(
                "the Redis stream was trimmed before this process read all of it"
                if position[0] == before[0]
                else "the Redis stream was emptied"
            )
        listeners = [each for each in tuple(self._listeners.values()) if each.topic == decoded(topic)]
        message: object = content
        if listeners and is_beside:
            message = await self._link.bounded(self._link.command("GET", content))
        self._position, self._latest = position, max(self._latest, position)
        if not isinstance(message, bytes):
            self._say_missed("the text of a long message expired before it was read", listeners)
            return
        for each in listeners:
            if each.after < position and each in self._listeners.values():
                try:
                    each.listener(decoded(message))
                except Exception:  # one listener's fault is neither the publisher's nor the others'
                    logger.exception(
                        "a listener of the topic %s raised an exception. Other listeners still "
                        "receive the message",
                        each.topic,
                    )

    def _say_missed(self, why: str, listeners: Iterable[_Listener] | None = None) -> None:
        logger.warning(
            "this process may have missed messages of other processes at %s: %s. Some clients may not "
            "have been notified of changes",
            self._link.shown,
            why,
        )
        for each in tuple(self._listeners.values()) if listeners is None else listeners:
            if each.missed is not None:
                try:
                    each.missed()
                except Exception:  # one listener's fault is not the others'
                    logger.exception(
                        "the listener of the topic %s for missed messages raised an exception. Other "
                        "listeners are still called",
                        each.topic,
                    )


def _position(text: object) -> Position | None:
    if not isinstance(text, bytes) or not text:
        return None
    began, number = text.split(b"-")
    return int(began), int(number)


def encoded(text: str) -> bytes:
    """Return a text as bytes, including lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """Return the text of bytes that `encoded` returned."""
    return data.decode("utf-8", "surrogatepass")

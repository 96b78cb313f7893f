"""Changes told to the other processes that share a broker, and heard from them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..access.principal import Principal
from ..errors import ProtocolError
from ..protocol import jsonrpc
from .audience import Audience, either
from .changes import LISTS, Changes

if TYPE_CHECKING:
    from ..broker import Broker
    from ..server import Server
    from .changes import Change

logger = logging.getLogger("mcpkit")

MOST_WAITING: Final = 10_000
"""Updates that may wait for a broker that does not answer; beyond it, others are not told of more."""

MOST_ASKED: Final = 1_000
"""Updates for which other processes may still say who listens; beyond it, the oldest ones are told there no more."""

_WHO: Final = "who"
"""What a message asks that is no change: who listens for a URI."""

_AT_A_TIME: Final = 50
"""Principals in one message."""


class Publisher:
    """Publishes the changes of a server to its broker, from construction until `close`.

    Nothing here blocks or raises: what cannot be published is logged, and lost to the others.

    Args:
        server: Whose changes.
        broker: Its broker.
    """

    def __init__(self, server: Server, broker: Broker) -> None:
        self._broker = broker
        self._topic = _topic(server)
        self._origin = Changes.of(server).origin
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: dict[Change, Audience | None] = {}
        self._asked: dict[int, tuple[str, Audience]] = {}
        self._count = 0
        self._is_publishing = False
        self._is_failing = False
        self._task: asyncio.Task[None] | None = None
        self._ends = [
            server._watch(self._changed),
            broker.subscribe(_replies(self._topic, self._origin), self._told),
        ]

    def close(self) -> None:
        """Stop publishing; what waits is dropped."""
        for end in self._ends:
            end()
        if self._task is not None:
            self._task.cancel()

    def _changed(self, what: str, uri: str | None, audience: Audience | None) -> None:
        change = (what, uri)
        with self._lock:
            if uri is None or change in self._waiting or len(self._waiting) < MOST_WAITING:
                self._waiting[change] = either(self._waiting.get(change, audience), audience)
            if self._is_publishing:
                return
            self._is_publishing = True
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:  # the loop is closed
            logger.debug("a change came after the end of the event loop that published them")

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._publish())

    async def _publish(self) -> None:
        while True:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
                self._is_publishing = bool(waiting)
            if not waiting:
                return
            for change, audience in waiting.items():
                for message in self._messages(change, audience):
                    await self._publish_one(message)
            await asyncio.sleep(0)  # a broker in memory never suspends, and changes may come without end

    def _messages(self, change: Change, audience: Audience | None) -> Iterator[dict[str, Any]]:
        """Say what is published of a change; who is meant by a function, others are asked for."""
        what, uri = change
        message: dict[str, Any] = {"origin": self._origin, "what": what, "uri": uri}
        if audience is None or uri is None:
            yield message
            return
        if audience.ids or audience.principals:
            yield {**message, "to": {"ids": list(audience.ids), "principals": _written(audience.principals)}}
        if audience.predicates:
            self._count += 1
            self._asked[self._count] = (uri, audience)
            if len(self._asked) > MOST_ASKED:
                del self._asked[next(iter(self._asked))]
            yield {**message, "what": _WHO, "number": self._count}

    def _told(self, message: str) -> None:
        """Take note of who listens elsewhere, and have those told who are meant."""
        try:
            told = jsonrpc.decode(message.encode())
            asked = self._asked.get(told["number"])
            principals = _read(told["principals"])
        except _MALFORMED:
            logger.warning("the broker brought something else than principals: %.200r", message)
            return
        if asked is not None:
            uri, audience = asked
            meant = frozenset(filter(audience.holds, principals))
            if meant:
                self._changed("resource", uri, Audience(principals=meant))

    async def _publish_one(self, message: dict[str, Any]) -> None:
        try:
            await self._broker.publish(self._topic, jsonrpc.encode(message).decode())
        except Exception:
            if not self._is_failing:
                logger.exception("the broker fails: other processes do not hear of changes made here")
            self._is_failing = True
        else:
            self._is_failing = False


def hear(changes: Changes, server: Server, broker: Broker) -> Callable[[], None]:
    """Let `changes` tell of what other processes publish.

    Returns:
        A function that ends it.
    """
    return broker.subscribe(_topic(server), _Hearing(changes, broker, _topic(server)).heard)


class _Hearing:
    """What one event loop hears of the changes in other processes.

    Args:
        changes: Tells of them.
        broker: Where they are published.
        topic: Under which topic.
    """

    def __init__(self, changes: Changes, broker: Broker, topic: str) -> None:
        self._changes = changes
        self._broker = broker
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._answering: set[asyncio.Task[None]] = set()

    def heard(self, message: str) -> None:
        """Take a message, in any thread."""
        try:
            published = jsonrpc.decode(message.encode())
            origin, what, uri = published["origin"], published["what"], published["uri"]
            to = published.get("to")
            audience = (
                None if to is None else Audience(frozenset(to["ids"]), frozenset(_read(to["principals"])))
            )
            number: int = published["number"] if what == _WHO else 0
        except _MALFORMED:
            logger.warning("the broker brought something else than a change: %.200r", message)
            return
        if origin == self._changes.origin:
            return
        if what == _WHO and isinstance(uri, str):
            with suppress(RuntimeError):  # the loop is closed, so nobody listens in it
                self._loop.call_soon_threadsafe(self._say_who, origin, number, uri)
        elif (what == "resource" and isinstance(uri, str)) or (uri is None and what in LISTS.values()):
            self._changes.tell((what, uri), audience)

    def _say_who(self, origin: str, number: int, uri: str) -> None:
        principals = self._changes.principals(uri)
        if principals:
            task = self._loop.create_task(self._publish(origin, number, list(principals)))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _publish(self, origin: str, number: int, principals: list[Principal]) -> None:
        for start in range(0, len(principals), _AT_A_TIME):
            said = {"number": number, "principals": _written(principals[start : start + _AT_A_TIME])}
            try:
                await self._broker.publish(_replies(self._topic, origin), jsonrpc.encode(said).decode())
            except Exception:
                logger.exception("the broker fails: clients here do not hear of an update made elsewhere")
                return


_MALFORMED: Final = (ProtocolError, TypeError, KeyError, ValueError, AttributeError)
"""What reading a message raises that is none."""


def _written(principals: Iterable[Principal]) -> list[list[Any]]:
    return [[each.id, sorted(each.scopes)] for each in principals]


def _read(written: Any) -> list[Principal]:
    return [Principal(id_, scopes) for id_, scopes in written]


def _replies(topic: str, origin: str) -> str:
    return f"{topic}/{origin}"


def _topic(server: Server) -> str:
    return f"{server.name}/changes"

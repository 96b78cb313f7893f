"""Changes told to the other processes that share a broker, and heard from them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .changes import LISTS, Changes
from .errors import ProtocolError
from .protocol import jsonrpc

if TYPE_CHECKING:
    from .broker import Broker
    from .changes import Change
    from .server import Server

logger = logging.getLogger("mcpkit")

MOST_WAITING: Final = 10_000
"""Updates that may wait for a broker that does not answer; beyond it, others are not told of more."""


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
        self._waiting: dict[Change, None] = {}
        self._is_publishing = False
        self._is_failing = False
        self._task: asyncio.Task[None] | None = None
        self._unwatch = server._watch(self._changed)

    def close(self) -> None:
        """Stop publishing; what waits is dropped."""
        self._unwatch()
        if self._task is not None:
            self._task.cancel()

    def _changed(self, what: str, uri: str | None) -> None:
        with self._lock:
            if uri is None or len(self._waiting) < MOST_WAITING:
                self._waiting[what, uri] = None
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
            for what, uri in waiting:
                await self._publish_one({"origin": self._origin, "what": what, "uri": uri})
            await asyncio.sleep(0)  # a broker in memory never suspends, and changes may come without end

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
    return broker.subscribe(_topic(server), partial(_heard, changes))


def _heard(changes: Changes, message: str) -> None:
    try:
        published = jsonrpc.decode(message.encode())
        origin, what, uri = published["origin"], published["what"], published["uri"]
    except (ProtocolError, TypeError, KeyError):
        logger.warning("the broker brought something else than a change: %.200r", message)
        return
    is_list_changed = uri is None and what in LISTS.values()
    if origin != changes.origin and (is_list_changed or (what == "resource" and isinstance(uri, str))):
        changes.tell((what, uri))


def _topic(server: Server) -> str:
    return f"{server.name}/changes"

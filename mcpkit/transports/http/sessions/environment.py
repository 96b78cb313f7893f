"""Shared objects of an app in one event loop."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from ....engine.engine import Engine
from ....requests.limits import Shares
from ..options import Settings
from ..workers import CURE
from .events import Shelf
from .remote import Remote

if TYPE_CHECKING:
    from ....storage.base import PubSub
    from ....storage.process_heartbeats import Membership
    from ..exchange import Exchange
    from ..protection.leases import Leases
    from .journal import Journal

logger = logging.getLogger(__name__)

_LEAVE = 1.0
"""Seconds to notify the other processes that this one stops serving."""


class Environment:
    """A server in one event loop, and the objects that its sessions and streams share there.

    Args:
        engine: Engine of the server.
        settings: Options of the app.

    Attributes:
        engine: Engine of the server.
        settings: Options of the app.
        loop: The event loop.
        changes: Notifies listeners of changes.
        streams: Counts of listening streams by client.
        shelf: Stored events for clients that reconnect.
        broker: Storage of session state that does not fit into session IDs.
        process: Unique ID of this process and event loop.
        is_shared: Whether other processes may use the same storage.
        remote: Messages about sessions to and from other processes.
        presence: Processes that serve the same server; None if nothing is shared.
        journal: Events of streams, stored for other processes; None if nothing is shared.
        tasks: Background tasks.
        retries: Background tasks that retry until they succeed or the server ends.
        leases: Ends streams with an expired access token; None if no tokens are needed.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.changes = engine.hubs.here()
        self.streams = Shares()
        self.shelf = Shelf(settings.limits.replay_buffer_bytes)
        self.broker: PubSub = engine.runtime.storage
        self.process = os.urandom(4).hex()
        self.is_shared = not engine.runtime.is_alone
        self.remote = Remote(self.broker, engine.runtime.name, self.process)
        self.presence: Membership | None = None
        if self.is_shared:
            from ....storage.process_heartbeats import Membership

            self.presence = Membership(self.broker, engine.runtime.name, self.process)
        self.journal: Journal | None = None
        if self.is_shared and not settings.stateless:
            from .journal import Journal

            self.journal = Journal(
                engine.runtime.storage, engine.runtime.keys, settings.timeouts.session_idle
            )
        self.tasks: set[asyncio.Task[None]] = set()
        self.retries: set[asyncio.Task[None]] = set()
        self.leases: Leases | None = None
        if engine.auth is not None:
            from ..protection.leases import Leases

            self.leases = Leases()
        self._has_met_strange_answer = False

    @asynccontextmanager
    async def noted(self) -> AsyncGenerator[None]:
        """Announce this process to the others while it serves, if storage is shared."""
        presence = self.presence
        if presence is None:
            yield
            return
        presences = self.engine.runtime.presences
        presences.add(presence)
        noting = self.loop.create_task(presence.run())
        try:
            yield
        finally:
            presences.discard(presence)
            noting.cancel()
            await asyncio.wait([noting])
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(presence.leave(), _LEAVE)

    def check_room(self, caller: str | None) -> None:
        """Check that one more listening stream is allowed, in total and for one client.

        Raises:
            BusyError: Too many streams are open.
        """
        self.streams.check(self.settings.limits.max_streams, caller, "event streams are open", retry_after=10)

    def hold(self, exchange: Exchange, end: Callable[[], None]) -> Callable[[], None]:
        """End a listening stream when its access token expires or is revoked.

        Args:
            exchange: The request that opened the stream.
            end: Ends the stream.

        Returns:
            A function to call after the stream has ended.
        """
        if self.leases is None or exchange.principal.id is None:
            return _nothing
        return self.leases.hold(exchange, end)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background."""
        self._hold(self.loop.create_task(work), self.tasks)

    def insist(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine that retries until it succeeds. The end of the server does not wait for it."""
        self._hold(self.loop.create_task(work), self.retries)

    @staticmethod
    def _hold(task: asyncio.Task[None], tasks: set[asyncio.Task[None]]) -> None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def note_strange_answer(self) -> None:
        """Log once that a client sent a response to a request of another process without shared storage."""
        if not (self.is_shared or self._has_met_strange_answer):
            self._has_met_strange_answer = True
            logger.warning(
                "received the answer to a request that another process sent, or this one before it "
                "restarted; the answer is lost. If several processes serve clients, %s",
                CURE,
            )


def _nothing() -> None:
    """Release nothing."""

"""What everything lives in that an app serves in one event loop."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from ...calls.shares import Shares
from ...engine.engine import Engine
from .options import Settings
from .sessions.events import Shelf
from .sessions.remote import Remote
from .workers import CURE

if TYPE_CHECKING:
    from ...state.broker import PubSub
    from ...state.presence import Presence
    from .exchange import Exchange
    from .protection.leases import Leases
    from .sessions.journal import Journal

logger = logging.getLogger(__name__)

_LEAVE = 1.0
"""Seconds to notify the other processes that this one stops serving."""


class Environment:
    """A server in one event loop, and what its sessions and streams share there.

    Args:
        engine: Who answers.
        settings: The app's options.

    Attributes:
        engine: Who answers.
        settings: The app's options.
        loop: The event loop.
        changes: Tells what changes.
        streams: Who has an event stream that belongs to no call.
        shelf: What sessions keep for clients that come back.
        broker: Where sessions have what their ids cannot hold.
        process: A text that no other process has, nor any other event loop of this one.
        is_shared: Whether other processes may share that.
        remote: Tells other processes of sessions, and hears from them.
        presence: Knows which other processes serve the same; None where nothing is shared.
        journal: Where other processes find what streams here say; None where nothing is shared.
        tasks: What runs though nobody waits for it.
        retries: What is tried again and again, until it succeeds or the server ends.
        leases: Ends the streams whose access tokens do; None where nobody needs one.
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
        self.presence: Presence | None = None
        if self.is_shared:
            from ...state.presence import Presence

            self.presence = Presence(self.broker, engine.runtime.name, self.process)
        self.journal: Journal | None = None
        if self.is_shared and not settings.stateless:
            from .sessions.journal import Journal

            self.journal = Journal(
                engine.runtime.storage, engine.runtime.keys, settings.timeouts.session_idle
            )
        self.tasks: set[asyncio.Task[None]] = set()
        self.retries: set[asyncio.Task[None]] = set()
        self.leases: Leases | None = None
        if engine.auth is not None:
            from .protection.leases import Leases

            self.leases = Leases()
        self._has_met_strange_answer = False

    @asynccontextmanager
    async def noted(self) -> AsyncGenerator[None]:
        """Have the other processes know that this one serves, where something is shared."""
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
        """Refuse one more listening stream where there are too many, of all or of one client.

        Raises:
            BusyError: There are.
        """
        self.streams.check(self.settings.limits.max_streams, caller, "event streams are open", retry_after=10)

    def hold(self, exchange: Exchange, end: Callable[[], None]) -> Callable[[], None]:
        """Have a stream that listens end when the access token does by which it was opened, if there is one.

        Args:
            exchange: The request that has opened it.
            end: Ends it.

        Returns:
            A function to be called when it has ended.
        """
        if self.leases is None or exchange.principal.id is None:
            return _nothing
        return self.leases.hold(exchange, end)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for."""
        self._hold(self.loop.create_task(work), self.tasks)

    def insist(self, work: Coroutine[object, object, None]) -> None:
        """Do something that goes on until it succeeds; the end of the server does not wait for it."""
        self._hold(self.loop.create_task(work), self.retries)

    @staticmethod
    def _hold(task: asyncio.Task[None], tasks: set[asyncio.Task[None]]) -> None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def note_strange_answer(self) -> None:
        """Log once that a client has answered here what another process has asked, which shares nothing with us."""
        if not (self.is_shared or self._has_met_strange_answer):
            self._has_met_strange_answer = True
            logger.warning(
                "received the answer to a request that another process sent, or this one before it "
                "restarted; the answer is lost. If several processes serve clients, %s",
                CURE,
            )


def _nothing() -> None:
    """Let go of what nobody holds."""

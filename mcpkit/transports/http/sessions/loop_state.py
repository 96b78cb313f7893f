"""Objects that the sessions and streams of an app share in one event loop."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

from ...._utils.exceptions import BusyError
from ....engine.engine import Engine
from ....requests.timeouts_and_concurrency import Shares
from ..app_options import SHARING_ADVICE, Settings
from .event_store import EventStore
from .session_store import SessionBus

if TYPE_CHECKING:
    from ....storage.jobs_and_heartbeats import Membership
    from ..protected_resource import StreamExpiry
    from ..response import Exchange

logger = logging.getLogger(__name__)


class LoopState:
    """State of an app in one event loop.

    Args:
        engine: Engine of the server.
        settings: Options of the app.

    Attributes:
        engine: Engine of the server.
        settings: Options of the app.
        loop: The event loop.
        hub: Delivers changes to listeners.
        stream_shares: Number of open standalone and `subscriptions/listen` streams, by client.
        storage: Storage of the server.
        process: Unique id of this process and event loop.
        is_shared: Whether other processes may use the same storage.
        bus: Messages about sessions to and from other processes.
        membership: Processes that serve the same server; None if nothing is shared.
        event_store: Events of streams, stored for other processes; None if nothing is shared.
        tasks: Background tasks.
        stream_expiry: Ends streams with an expired access token; None if no tokens are needed.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        runtime = engine.runtime
        self.engine, self.settings = engine, settings
        self.loop = asyncio.get_running_loop()
        self.hub = engine.hub()
        self.stream_shares = Shares()
        self.storage = runtime.storage
        self.process = os.urandom(4).hex()
        self.is_shared = not runtime.is_alone
        self.bus = SessionBus(self.storage, runtime.name, self.process)
        self.membership: Membership | None = None
        self.event_store: EventStore | None = None
        if self.is_shared:
            from ....storage.jobs_and_heartbeats import Membership

            self.membership = Membership(self.storage, runtime.name, self.process)
            if not settings.stateless:
                timeouts = settings.timeouts
                self.event_store = EventStore(
                    self.storage, runtime.keys, self.bus, timeouts.session_idle, timeouts.session_max_age
                )
        self.tasks: set[asyncio.Task[None]] = set()
        self.stream_expiry: StreamExpiry | None = None
        if engine.auth is not None:
            from ..protected_resource import StreamExpiry

            self.stream_expiry = StreamExpiry()
        self._has_logged_response = False

    def is_gone(self, process: str) -> bool:
        """Return True if another process has ended, as far as this one knows."""
        return self.membership is not None and self.membership.is_gone(process)

    def check_stream_room(self, caller: str | None) -> None:
        """Check that one more standalone or `subscriptions/listen` stream is allowed, in total and for one client.

        Raises:
            BusyError: Too many streams are open.
        """
        limit = self.settings.limits.max_streams
        self.stream_shares.check(limit, caller, "event streams are open", retry_after=10)

    def end_with_token(self, exchange: Exchange, end: Callable[[], None]) -> Callable[[], None]:
        """End a stream when its access token expires or is revoked.

        Args:
            exchange: The request that opened the stream.
            end: Ends the stream.

        Returns:
            A function to call after the stream has ended.
        """
        if self.stream_expiry is None or exchange.principal.id is None:
            return lambda: None
        return self.stream_expiry.add(exchange, end)

    def start_task(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine in the background. The end of the server waits for it. A BusyError has been logged."""

        async def run() -> None:
            with suppress(BusyError):
                await work

        task = self.loop.create_task(run())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def log_unexpected_response(self) -> None:
        """Log once that a client sent a response to a request of another process without shared storage."""
        if not (self.is_shared or self._has_logged_response):
            self._has_logged_response = True
            logger.warning(
                "received the answer to a request that another process sent, or this one before it "
                "restarted; the answer is lost. If several processes serve clients, %s",
                SHARING_ADVICE,
            )

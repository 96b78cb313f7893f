"""The gate where the requests of a server wait while its lifespans are being entered."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ..execution.lifespan import Lifespan
from ..protocol.jsonrpc import Outcome, Ready
from ..protocol.revisions import SERVER_CAPABILITIES
from ..requests.request_record import Call
from .request_handlers_and_capabilities import Capabilities, Handler

logger = logging.getLogger(__name__)


class StartupGate:
    """Delays the requests of one server while its lifespans are being entered.

    In such an event loop, all requests except `ping` wait (basic/utilities/ping). After `seconds`, lists are served
    with the components that exist, all capabilities are declared, and later components are announced by notifications.
    Requests that name an existing component continue to wait, as its handler needs the state of the lifespan. Once all
    lifespans have been entered, requests do not pass through this class.

    Args:
        name: The server's name, for the log.
        seconds: Maximum time that requests wait, from the start; None for no limit.
        capabilities: Identity and capabilities of the server.
        on_change: Called, in any thread, when `handler_for` may return another function than before.
    """

    def __init__(
        self, name: str, seconds: float | None, capabilities: Capabilities, on_change: Callable[[], None]
    ) -> None:
        self._name = name
        self._seconds = seconds
        self._capabilities = capabilities
        self._on_change = on_change
        self._lock = threading.Lock()
        self._starts: WeakKeyDictionary[asyncio.AbstractEventLoop, _Start] = WeakKeyDictionary()

    def handler_for(self, handler: Handler, is_registered: Callable[[Call], bool]) -> Handler:
        """Return the function that serves requests now.

        Args:
            handler: Serves them when they need not wait.
            is_registered: Returns True if the component that a request names exists.
        """

        async def wait(start: _Start, call: Call) -> Outcome:
            await start.is_open.wait()
            if not start.is_over.is_set() and is_registered(call):
                await start.is_over.wait()
            outcome = handler(call)
            return outcome if isinstance(outcome, (dict, bytes)) else await outcome

        def serve(call: Call) -> Ready | Coroutine[Any, Any, Outcome]:
            start = self._starts.get(asyncio.get_running_loop())
            return handler(call) if start is None or call.method == "ping" else wait(start, call)

        with self._lock:
            return serve if self._starts else handler

    def guard(self, lifespans: Sequence[Lifespan]) -> None:
        """Delay requests in the running event loop until these lifespans have been entered."""
        entering = [each.started for each in lifespans if not each.started.done()]
        if not entering:
            return
        loop = asyncio.get_running_loop()
        start = self._starts.get(loop)
        if start is None:
            start = _Start()
            if self._seconds is not None:
                start.timer = loop.call_later(self._seconds, self._time_out, start)
            with self._lock:
                self._starts[loop] = start
            self._on_change()
        start.count += len(entering)
        for each in entering:
            each.add_done_callback(partial(self._on_started, loop, start))

    @property
    def is_closed(self) -> bool:
        """True while lifespans are being entered in the running event loop."""
        return asyncio.get_running_loop() in self._starts

    async def wait_open(self) -> None:
        """Wait until requests are served in the running event loop."""
        start = self._starts.get(asyncio.get_running_loop())
        if start is not None:
            await start.is_open.wait()

    def _time_out(self, start: _Start) -> None:
        logger.warning(
            "the lifespan function of %r did not yield within %g s: clients get the components registered so far, "
            "and a notification for later ones (Timeouts(startup=...))",
            self._name,
            self._seconds,
        )
        for capability in SERVER_CAPABILITIES:
            self._capabilities.add(capability)
        start.is_open.set()

    def _on_started(self, loop: asyncio.AbstractEventLoop, start: _Start, _: asyncio.Future[Any]) -> None:
        start.count -= 1
        if start.count > 0:
            return
        if start.timer is not None:
            start.timer.cancel()
        with self._lock:
            self._starts.pop(loop, None)
        self._on_change()
        start.is_over.set()
        start.is_open.set()


class _Start:
    """The state of one event loop while lifespans are being entered in it.

    Attributes:
        is_open: Set when lists and the like are served: at the end, or after the maximum time.
        is_over: Set when all lifespans have been entered or have failed.
        count: Number of lifespans that are still being entered.
        timer: Timer of the maximum time.
    """

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_over = asyncio.Event()
        self.count = 0
        self.timer: asyncio.TimerHandle | None = None

"""A gate where requests wait while lifespans are being entered, as a lifespan may register components."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ..execution.lifespan import Lifespan
from ..protocol.capabilities import SERVER_CAPABILITIES
from ..protocol.jsonrpc import Outcome, Ready
from ..requests.call import Call
from .identity import Declared
from .methods import Handler

logger = logging.getLogger(__name__)


class Entrance:
    """Delays the requests of one server while its lifespans are being entered.

    In such an event loop, all requests except `ping` wait (basic/utilities/ping). After `seconds`, lists are served
    with the components that exist, all capabilities are declared, and later components are announced by notifications.
    Requests that name an existing component continue to wait, as its handler needs the state of the lifespan. Once all
    lifespans have been entered, requests do not pass through this class.

    Args:
        name: The server's name, for the log.
        seconds: Maximum time that requests wait, from the start; None for no limit.
        declared: Identity and capabilities of the server.
        on_change: Called, in any thread, when `way_to` may return another function than before.
    """

    def __init__(
        self, name: str, seconds: float | None, declared: Declared, on_change: Callable[[], None]
    ) -> None:
        self._name = name
        self._seconds = seconds
        self._declared = declared
        self._on_change = on_change
        self._lock = threading.Lock()
        self._entering: WeakKeyDictionary[asyncio.AbstractEventLoop, _Entering] = WeakKeyDictionary()

    def way_to(self, handler: Handler, is_there: Callable[[Call], bool]) -> Handler:
        """Return the function that serves requests now.

        Args:
            handler: Serves them when they need not wait.
            is_there: Returns True if the component that a request names exists.
        """
        with self._lock:
            return partial(self._answer, handler, is_there) if self._entering else handler

    def guard(self, lifespans: Sequence[Lifespan]) -> None:
        """Delay requests in the running event loop until these lifespans have been entered."""
        entering = [each.started for each in lifespans if not each.started.done()]
        if not entering:
            return
        loop = asyncio.get_running_loop()
        here = self._entering.get(loop)
        if here is None:
            here = _Entering()
            if self._seconds is not None:
                here.timer = loop.call_later(self._seconds, self._give_up, here)
            with self._lock:
                self._entering[loop] = here
            self._on_change()
        here.left += len(entering)
        for each in entering:
            each.add_done_callback(partial(self._settled, loop, here))

    @property
    def is_waiting(self) -> bool:
        """True while lifespans are being entered in the running event loop."""
        return asyncio.get_running_loop() in self._entering

    async def passed(self) -> None:
        """Wait until requests are served in the running event loop."""
        here = self._entering.get(asyncio.get_running_loop())
        if here is not None:
            await here.is_passable.wait()

    def _answer(
        self, handler: Handler, is_there: Callable[[Call], bool], call: Call
    ) -> Ready | Coroutine[Any, Any, Outcome]:
        here = self._entering.get(asyncio.get_running_loop())
        if here is None or call.method == "ping":
            return handler(call)
        return self._answer_later(here, handler, is_there, call)

    async def _answer_later(
        self, here: _Entering, handler: Handler, is_there: Callable[[Call], bool], call: Call
    ) -> Outcome:
        await here.is_passable.wait()
        if not here.is_over.is_set() and is_there(call):
            await here.is_over.wait()
        outcome = handler(call)
        return outcome if isinstance(outcome, (dict, bytes)) else await outcome

    def _give_up(self, here: _Entering) -> None:
        logger.warning(
            "the lifespan function of %r did not yield within %g s: clients get the components registered so far, "
            "and a notification for later ones (Timeouts(startup=...))",
            self._name,
            self._seconds,
        )
        for capability in SERVER_CAPABILITIES:
            self._declared.add(capability)
        here.is_passable.set()

    def _settled(self, loop: asyncio.AbstractEventLoop, here: _Entering, _: asyncio.Future[Any]) -> None:
        here.left -= 1
        if here.left > 0:
            return
        if here.timer is not None:
            here.timer.cancel()
        with self._lock:
            self._entering.pop(loop, None)
        self._on_change()
        here.is_over.set()
        here.is_passable.set()


class _Entering:
    """The state of one event loop while lifespans are being entered in it.

    Attributes:
        is_passable: Set when lists and the like are served: at the end, or after the maximum time.
        is_over: Set when all lifespans have been entered or have failed.
        left: Number of lifespans that are still being entered.
        timer: Timer of the maximum time.
    """

    def __init__(self) -> None:
        self.is_passable = asyncio.Event()
        self.is_over = asyncio.Event()
        self.left = 0
        self.timer: asyncio.TimerHandle | None = None

"""Startup and shutdown of an ASGI app in this process, as an ASGI server does them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from ..._utils.exceptions import TransportError
from ...execution.coroutines import within
from ...execution.lifespan import Lifespan, Lifespans
from ...protocol.jsonrpc import Json

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

logger = logging.getLogger(__name__)

_TIMEOUT: Final = 30.0
"""Seconds for an app to shut down before it is cancelled."""
_ERROR_TIME: Final = 1.0
"""Seconds for an app to raise its error after it has sent a failure."""

_shared: WeakValueDictionary[int, Lifespans] = WeakValueDictionary()
"""The lifespans of the apps that clients use, by the `id()` of the app, which they keep alive."""


class AppLifespan:
    """The use of an app by one client. All clients in an event loop share the lifespan of an app.

    Args:
        app: The app.
    """

    def __init__(self, app: ASGIApp) -> None:
        lifespans = _shared.get(id(app))
        if lifespans is None:
            lifespans = _shared[id(app)] = Lifespans(lambda: _running(app))
        self._lifespans = lifespans
        self._lifespan: Lifespan | None = None

    async def __aenter__(self) -> Json:
        """Start the app, unless it is running, and return its lifespan state.

        Raises:
            TransportError: The app failed to start.
        """
        if self._lifespan is None:
            self._lifespan = self._lifespans.enter(asyncio.get_running_loop())
            assert self._lifespan is not None, "each app must have a lifespan"
        state: Json = await self._lifespan.ready()
        return state

    async def __aexit__(self, *_: object) -> None:
        """Shut the app down if it has no other user. It may be entered again. Calling it again does nothing.

        Raises:
            TransportError: The app failed to shut down.
        """
        lifespan, self._lifespan = self._lifespan, None
        if lifespan is not None:
            await self._lifespans.leave(asyncio.get_running_loop())


@asynccontextmanager
async def _running(app: ASGIApp) -> AsyncGenerator[Json]:
    """Start an app, yield its lifespan state, and shut it down.

    One call of the app, in a task of its own, does both.

    Raises:
        TransportError: The app failed to start or to shut down.
    """
    state: Json = {}
    has_received = False
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    answers: asyncio.Queue[Message | None] = asyncio.Queue()  # None after the end of the call

    async def receive() -> Message:
        nonlocal has_received
        has_received = True
        return await incoming.get()

    async def call() -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}
        await app(scope, receive, answers.put)

    async def send(step: str) -> bool:
        """Send a lifespan event, and return whether the app responded. One without lifespan support ends at once."""
        incoming.put_nowait({"type": f"lifespan.{step}"})
        answer = await answers.get()
        has_failed = answer is not None and answer["type"] == f"lifespan.{step}.failed"
        if has_failed or step == "shutdown":
            await asyncio.wait((task,), timeout=_ERROR_TIME)
        error = task.exception() if task.done() and not task.cancelled() else None
        has_raised = answer is None and error is not None
        if has_failed or (has_raised and step == "shutdown"):
            message = "" if answer is None else answer.get("message", "").strip().rpartition("\n")[2]
            reason = message if error is None else f"{type(error).__name__}: {error}"
            action = "start" if step == "startup" else "shut down"
            text = f"the app could not {action}: {reason or 'it sent no reason'}"
            raise TransportError(text, may_have_begun=False) from error
        if has_raised and has_received:
            # ASGI servers continue without a lifespan if the app raises on startup.
            logger.warning(
                "the lifespan of the app raised an exception, so the app is used without it. Correct "
                "the lifespan if the app needs it",
                exc_info=error,
            )
        return answer is not None

    task = asyncio.get_running_loop().create_task(call(), name="mcpkit-app-lifespan")
    task.add_done_callback(lambda _: answers.put_nowait(None))
    try:
        has_lifespan = await send("startup")
        yield state
        if has_lifespan:
            try:
                await within(_TIMEOUT, send("shutdown"))
            except TimeoutError:
                raise TransportError(
                    f"the shutdown of the app took longer than {_TIMEOUT:g} s and was cancelled. Make the "
                    "shutdown of its lifespan faster",
                    may_have_begun=False,
                    may_pass=False,
                ) from None
    finally:
        task.cancel()
        await asyncio.wait((task,), timeout=_ERROR_TIME)

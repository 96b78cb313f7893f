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
        return await self.enter()

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def enter(self) -> Json:
        """Start the app, unless it is running, and return its lifespan state.

        Raises:
            TransportError: The app failed to start.
        """
        if self._lifespan is None:
            self._lifespan = self._lifespans.enter(asyncio.get_running_loop())
            assert self._lifespan is not None, "each app must have a lifespan"
        state: Json = await self._lifespan.ready()
        return state

    async def leave(self) -> None:
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

    Raises:
        TransportError: The app failed to start or to shut down.
    """
    call = _LifespanCall(app)
    try:
        await call.send("startup")
        yield call.state
        try:
            await within(_TIMEOUT, call.send("shutdown"))
        except TimeoutError:
            raise TransportError(
                f"the shutdown of the app took longer than {_TIMEOUT:g} s and was cancelled. Make the "
                "shutdown of its lifespan faster",
                may_have_begun=False,
                may_pass=False,
            ) from None
    finally:
        await call.end()


class _LifespanCall:
    """One call of an app with the scope of a lifespan, in a task of its own.

    Args:
        app: The app.

    Attributes:
        state: The lifespan state that the app sets on startup.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.state: Json = {}
        self._has_received = False
        self._is_over = False
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: asyncio.Queue[Message | None] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._run(app), name="mcpkit-app-lifespan")
        self._task.add_done_callback(self._ended)

    async def send(self, step: str) -> None:
        """Send the app a lifespan event and wait for its response. An app without lifespan support responds at once.

        Raises:
            TransportError: The app responded with a failure.
        """
        if self._is_over:
            return
        self._incoming.put_nowait({"type": f"lifespan.{step}"})
        answer = await self._answers.get()
        if answer is None:
            self._is_over = True
            self._check_end(step)
        elif answer["type"] == f"lifespan.{step}.failed":
            await self._wait()
            raise _failed(step, answer.get("message", ""), self._error())
        elif step == "shutdown":
            await self._wait()

    async def end(self) -> None:
        """Cancel the call, unless it has ended."""
        self._task.cancel()
        await self._wait()

    async def _wait(self) -> None:
        await asyncio.wait((self._task,), timeout=_ERROR_TIME)

    async def _run(self, app: ASGIApp) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        await app(scope, self._receive, self._send)

    def _check_end(self, step: str) -> None:
        """Check why the app has returned without a response.

        ASGI servers continue without a lifespan if the app raises on startup.
        """
        error = self._error()
        if error is None:
            return
        if step == "shutdown":
            raise _failed(step, "", error)
        if self._has_received:
            logger.warning(
                "the lifespan of the app raised an exception, so the app is used without it. Correct "
                "the lifespan if the app needs it",
                exc_info=error,
            )

    def _error(self) -> BaseException | None:
        return self._task.exception() if self._task.done() and not self._task.cancelled() else None

    async def _receive(self) -> Message:
        self._has_received = True
        return await self._incoming.get()

    async def _send(self, message: Message) -> None:
        self._answers.put_nowait(message)

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._answers.put_nowait(None)


def _failed(step: str, message: str, error: BaseException | None) -> TransportError:
    """Return the error for a failed step."""
    reason = f"{type(error).__name__}: {error}" if error is not None else message.strip().rpartition("\n")[2]
    action = "start" if step == "startup" else "shut down"
    failure = TransportError(
        f"the app could not {action}: {reason or 'it sent no reason'}", may_have_begun=False
    )
    failure.__cause__ = error
    return failure

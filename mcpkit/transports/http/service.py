"""State of an app in one event loop: its sessions, its open streams, and the lifespan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ..._utils.exceptions import ChallengeError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Outcome, Ready
from ...protocol.jsonrpc_validation import Request
from ...requests.error_responses import error_response
from ...requests.request_record import Call
from ...requests.running_requests import OVER, Calls, Reply, server_ended
from ...storage.encryption_keys import Keys
from .exchange import ANSWERED, Exchange, Source
from .intake.body import Bodies
from .listener import Listener
from .readiness import Readiness
from .sessions.legacy_sse import Pipe
from .sessions.loop_state import LoopState
from .sessions.manager import SessionManager
from .shutdown import Ending

if TYPE_CHECKING:
    from ...auth.verifier import TokenVerifier
    from ...identity.revocation import Revocation

Finish = Callable[[Ready | Coroutine[Any, Any, Outcome]], Coroutine[Any, Any, Outcome]]
"""Processes the result of a request before it is sent."""

logger = logging.getLogger(__name__)

_SHARE_OF_CALLS = 0.8
"""Share of the grace period in which calls may finish. The rest is for closing streams."""
_LAST_WORDS = 0.05
"""Seconds to send queued messages after the shutdown timeout."""


# How far the life of a service has come: each of these follows the one above it, and none comes again.
_STARTING = 0
"""Nothing can be served yet."""
OPEN = 1
"""Requests are accepted, and the lifespan is being entered."""
READY = 2
"""The lifespan has been entered."""
_CLOSING = 3
"""No requests are accepted, and running calls may finish."""
_OVER = 4
"""Nothing is sent any more."""


class Service(Source):
    """One server in one event loop, behind one app.

    Args:
        state: State of the app in the event loop.
        keys: Keys that sign session IDs.
        on_end: Called when the service has ended.

    Attributes:
        engine: Engine of the server.
        settings: Options of the app.
        loop_state: State of the app in the event loop.
        calls: Calls without a session, by their exchange.
        bodies: Reader of request bodies.
        sessions: Sessions of handshake clients.
        listeners: Open `subscriptions/listen` streams.
        pipes: HTTP+SSE sessions by ID.
        batches: Calls of handshake clients without a session, for each running batch.
        stage: Stage of the service.
        is_open: Whether requests are accepted.
        ending: Shutdown on signals.
    """

    def __init__(self, state: LoopState, keys: Keys, on_end: Callable[[], None]) -> None:
        self.loop_state = state
        self.engine = state.engine
        self.settings = settings = state.settings
        self._loop = loop = state.loop
        self.calls = Calls()
        self.sessions = SessionManager(state, keys)
        self.listeners: set[Listener] = set()
        self.pipes: dict[str, Pipe] = {}
        self.batches: set[Calls] = set()
        self.bodies = Bodies(settings)
        self._readiness: Readiness | None = None
        if state.is_shared:
            self._readiness = Readiness(state.storage, self.engine.runtime.name)
        self.stage: int = _STARTING
        self.is_open = False
        self.ending = Ending(loop, settings.timeouts.shutdown, self.close)
        self._on_end = on_end
        self._waiting: set[asyncio.Task[object]] = set()
        self._started: asyncio.Future[None] = loop.create_future()
        self._closing = asyncio.Event()
        self._haste: asyncio.Future[None] = loop.create_future()
        self._keeper = loop.create_task(self._keep(), name="mcpkit-http")

    async def start(self) -> None:
        """Wait until requests can be served. The lifespan may still be in progress then.

        Raises:
            RegistrationError: Type hints of a component cannot be resolved.
        """
        await asyncio.shield(self._started)

    async def ready(self) -> None:
        """Wait until the lifespan has been entered.

        Raises:
            BaseException: The exception of the lifespan or of `start`.
        """
        await self.start()
        await self.engine.ready()

    async def hindrance(self, *, is_shared_needed: bool) -> str | None:
        """Return the reason why the service is not ready; None if it is.

        Args:
            is_shared_needed: Include a shared storage that does not respond.
        """
        if self.stage != READY:
            return "starting" if self.stage < READY else "shutting down"
        if is_shared_needed and self._readiness is not None and not await self._readiness.answers():
            return "the shared store does not answer"
        return None

    async def serve(self, exchange: Exchange, stream_after: float | None = None) -> None:
        """Send the response of an exchange, at most until the service ends; see `Exchange.run`."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            await exchange.run(stream_after)
        except asyncio.CancelledError:
            if self.stage != _OVER:
                raise
        finally:
            self._waiting.discard(task)

    async def call(
        self,
        exchange: Exchange,
        request: Request,
        reply: Reply,
        stream_after: float,
        finish: Finish | None = None,
    ) -> None:
        """Serve a request that ends with its connection.

        Args:
            exchange: The connection.
            request: The request.
            reply: Receives the response, for the exchange.
            stream_after: See `Exchange.run`.
            finish: Processes the result before it is sent. Its owner is attached to the exchange, and cancels the call
                when the client disconnects.
        """
        call = Call(self.engine.runtime, request, exchange)
        sender: asyncio.Task[None] | None = None
        try:
            try:
                outcome = self.engine.dispatch(call)
                if not isinstance(outcome, (dict, bytes)):
                    self.calls.check_room(call, outcome)
                    running = outcome if finish is None else finish(outcome)
                elif finish is not None:
                    running = finish(outcome)
                else:
                    running = None
                    reply(jsonrpc.result(call.request_id, outcome), None)
                if running is not None and (awaited := self.calls.begin(call, running, reply)) is not OVER:
                    if finish is None:
                        exchange.attach(self)
                    sender = self._loop.create_task(self.serve(exchange, stream_after))
                    await self.calls.resume(exchange, call, running, awaited, reply)
            except Exception as error:  # noqa: BLE001 - every request is answered
                reply(error_response(call, error), error)
            await (sender or self.send(exchange))
        finally:
            if sender is not None:
                sender.cancel()

    def lost(self, exchange: Exchange) -> None:
        """Cancel the call that ends with a connection."""
        self.calls.cancel(exchange)

    def send(self, exchange: Exchange, stream_after: float | None = None) -> Awaitable[None]:
        """Send the response of an exchange: immediately if it is complete, else as `serve` does."""
        if exchange.state == ANSWERED:
            return exchange.respond()
        return self.serve(exchange, stream_after)

    def revoke(self, revocation: Revocation, problem: ChallengeError) -> None:
        """End the calls, sessions and listening streams of a principal after a revocation.

        Args:
            revocation: The revocation.
            problem: Error for requests that wait for a response.
        """
        alone = self.engine.runtime.detached.get(self._loop, ())
        for each in (self.calls, *self.batches, *alone):
            each.cancel_of(revocation.means, problem)
        self.sessions.revoke(revocation, problem)
        for pipe in tuple(self.pipes.values()):
            pipe.revoke(revocation, problem)
        if self.loop_state.leases is not None:
            self.loop_state.leases.revoke(revocation)

    def close(self, in_haste: bool = False) -> None:
        """Start to end: accept no more requests, and end the streams.

        Args:
            in_haste: Cancel running calls now and send errors, instead of waiting for a while.
        """
        self._enter(_CLOSING)
        self._closing.set()
        if in_haste and not self._haste.done():
            self._haste.set_result(None)

    async def aclose(self) -> None:
        """End the service, and leave the lifespan.

        Raises:
            BaseException: The exception of the lifespan.
        """
        self.close()
        await self._keeper

    async def ended(self) -> None:
        """Wait until the service has ended."""
        await asyncio.wait([self._keeper])

    def end_streams(self) -> None:
        """End the streams without a call. Their clients can open others."""
        for listener in tuple(self.listeners):
            listener.end()
        self.sessions.end_streams()

    def _enter(self, stage: int) -> None:
        """Enter a stage, unless a later one has been entered."""
        self.stage = max(self.stage, stage)
        self.is_open = self.stage in {OPEN, READY}

    async def _keep(self) -> None:
        try:
            async with self.engine.running(), self.loop_state.announced():
                self._enter(OPEN)
                self._started.set_result(None)
                readying = self._loop.create_task(self._note_ready())
                try:
                    await self._closing.wait()
                    await self._wind_down()
                finally:
                    readying.cancel()
                    self._end()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)
            self._started.exception()  # whoever waits for `start` hears of it
        finally:
            self._enter(_CLOSING)
            self._on_end()

    async def _note_ready(self) -> None:
        try:
            await self.engine.ready()
        except Exception:
            logger.exception("the server is not ready: its lifespan raised an exception")
        else:
            self._enter(READY)

    async def _wind_down(self) -> None:
        grace = self.settings.timeouts.shutdown
        self.end_streams()
        time_for_calls = None if grace is None else grace * _SHARE_OF_CALLS
        self.engine.drain(time_for_calls)
        await self._within(time_for_calls, self._drain())
        await self.calls.aclose(server_ended())
        await self.sessions.aclose()
        for calls in tuple(self.batches):
            await calls.aclose(server_ended())
        for pipe in tuple(self.pipes.values()):
            await pipe.aclose()
        time_for_rest = None if grace is None else grace * (1 - _SHARE_OF_CALLS) / 2
        if self._waiting:
            sent = asyncio.wait(tuple(self._waiting))
            await self._within(time_for_rest, sent, in_haste=_LAST_WORDS)
        if self.engine.auth is not None:
            await self._within(time_for_rest, self._close(self.engine.auth), in_haste=_LAST_WORDS)

    async def _close(self, verifier: TokenVerifier) -> None:
        try:
            await verifier.aclose()
        except Exception:
            logger.exception("closing the token verifier failed. The server shuts down nevertheless")

    async def _within(
        self, seconds: float | None, work: Coroutine[Any, Any, object], *, in_haste: float = 0
    ) -> None:
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        await asyncio.wait({task, self._haste}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._haste.done():
            await asyncio.wait({task}, timeout=in_haste)
        task.cancel()

    async def _drain(self) -> None:
        await self.calls.drain()
        await self.sessions.drain()
        for calls in tuple(self.batches):
            await calls.drain()
        for pipe in tuple(self.pipes.values()):
            await pipe.connection.drain()

    def _end(self) -> None:
        self._enter(_OVER)
        if self.loop_state.leases is not None:
            self.loop_state.leases.close()
        self.sessions.close()
        self.bodies.close()
        for task in tuple(self._waiting):
            task.cancel()

"""Service of one app in one event loop: its calls, sessions and streams, from the start to the shutdown.

A server such as uvicorn waits for open connections before it sends the shutdown event to an app, and never sends it to
a mounted one. So the app handles signals first, ends its streams, and then calls the handler of the server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext, suppress
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..._utils.exceptions import ChallengeError, MalformedError, ProtocolError
from ...engine.changes_between_processes import ChangeQueue
from ...engine.subscription_filters_and_delivery import LOST, Listen
from ...execution.coroutines import within
from ...execution.worker_processes import kill_workers
from ...identity.principals_and_scopes import Change, Principal
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Outcome, Ready
from ...protocol.jsonrpc_validation import Request
from ...requests.error_responses import error_response
from ...requests.request_record import Call
from ...requests.running_requests import OVER, Calls, Reply, server_ended
from ...storage.encryption_keys import Keys
from .request import Bodies
from .response import ANSWERED, Exchange, Source, event
from .sessions.loop_state import LoopState
from .sessions.manager import SessionManager

if TYPE_CHECKING:
    from ...identity.revocation import Revocation
    from ...storage.base import PubSub
    from .http_with_sse import Pipe

Finish = Callable[[Ready | Coroutine[Any, Any, Outcome]], Coroutine[Any, Any, Outcome]]
"""Processes the result of a request before it is sent."""

logger = logging.getLogger(__name__)

_CALLS_SHARE = 0.8
"""Share of the grace period in which calls may finish. The rest is for closing streams."""

_URGENT_SEND_TIME = 0.05
"""Seconds to send queued messages in an urgent shutdown."""

# Stages of a service: each of these follows the one above it, and none comes again
_STARTING = 0
"""Nothing can be served yet."""
OPEN = 1
"""Requests are accepted, and the lifespan is being entered."""
READY = 2
"""The lifespan has been entered."""
_CLOSING = 3
"""No requests are accepted, and running calls may finish."""
_CLOSED = 4
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
        shutdown_begun: Whether a signal has been received, so that nothing is served any more.
    """

    def __init__(self, state: LoopState, keys: Keys, on_end: Callable[[], None]) -> None:
        self.loop_state = state
        self.engine = state.engine
        self.settings = state.settings
        self.loop = loop = state.loop
        self.calls = Calls()
        self.sessions = SessionManager(state, keys)
        self.listeners: set[Listener] = set()
        self.pipes: dict[str, Pipe] = {}
        self.batches: set[Calls] = set()
        self.bodies = Bodies(self.settings.limits, self.settings.timeouts)
        self._storage_check = (
            StorageCheck(state.storage, self.engine.runtime.name) if state.is_shared else None
        )
        self.stage: int = _STARTING
        self.is_open = False
        self.shutdown_begun = False
        self._on_end = on_end
        self._sending: set[asyncio.Task[object]] = set()
        self._started: asyncio.Future[None] = loop.create_future()
        self._closing = asyncio.Event()
        self._urgent: asyncio.Future[None] = loop.create_future()
        self._life = loop.create_task(self._live(), name="mcpkit-http")
        shut_down_on_signals(self)

    # Requests

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
                    sender = self.loop.create_task(self.serve(exchange, stream_after))
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

    async def serve(self, exchange: Exchange | Pipe, stream_after: float | None = None) -> None:
        """Send the response of an exchange, at most until the service ends; see `Exchange.run`."""
        task = asyncio.current_task()
        assert task is not None
        self._sending.add(task)
        try:
            await exchange.run(stream_after)
        except asyncio.CancelledError:
            if self.stage != _CLOSED:
                raise
        finally:
            self._sending.discard(task)

    def revoke(self, revocation: Revocation, problem: ChallengeError) -> None:
        """End the calls, sessions and listening streams of a principal after a revocation.

        Args:
            revocation: The revocation.
            problem: Error for requests that wait for a response.
        """
        detached = self.engine.runtime.detached.get(self.loop, ())
        for each in (self.calls, *self.batches, *detached):
            each.cancel_of(revocation.means, problem)
        self.sessions.revoke(revocation, problem)
        for pipe in tuple(self.pipes.values()):
            pipe.revoke(revocation, problem)
        if self.loop_state.stream_expiry is not None:
            self.loop_state.stream_expiry.revoke(revocation)

    # Start

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

    async def unready_reason(self, *, is_shared_needed: bool) -> str | None:
        """Return the reason why the service is not ready; None if it is.

        Args:
            is_shared_needed: Include a shared storage that does not respond.
        """
        if self.stage != READY:
            return "starting" if self.stage < READY else "shutting down"
        if is_shared_needed and self._storage_check is not None and not await self._storage_check.responds():
            return "the shared store does not answer"
        return None

    def _enter(self, stage: int) -> None:
        """Enter a stage, unless a later one has been entered."""
        self.stage = max(self.stage, stage)
        self.is_open = self.stage in {OPEN, READY}

    async def _live(self) -> None:
        membership, presences = self.loop_state.membership, self.engine.runtime.presences
        try:
            async with self.engine.running(), membership or nullcontext():
                if membership is not None:
                    presences.add(membership)
                self._enter(OPEN)
                self._started.set_result(None)
                becoming_ready = self.loop.create_task(self._become_ready())
                try:
                    await self._closing.wait()
                    await self._shut_down()
                finally:
                    becoming_ready.cancel()
                    self._enter(_CLOSED)
                    if self.loop_state.stream_expiry is not None:
                        self.loop_state.stream_expiry.close()
                    self.sessions.close()
                    self.bodies.close()
                    for task in tuple(self._sending):
                        task.cancel()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)
            self._started.exception()  # callers of `start` get it
        finally:
            if membership is not None:
                presences.discard(membership)
            self._enter(_CLOSING)
            self._on_end()

    async def _become_ready(self) -> None:
        try:
            await self.engine.ready()
        except Exception:
            logger.exception("the server is not ready: its lifespan raised an exception")
        else:
            self._enter(READY)

    # Shutdown

    def begin_shutdown(self, number: int) -> None:
        """Start the shutdown on a signal, in its handler. A second SIGINT makes it urgent."""
        # uvicorn forced to exit waits for every open connection from Python 3.12 on, and leaves no lifespan.
        is_urgent = self.shutdown_begun and number == signal.SIGINT
        self.shutdown_begun = True
        with suppress(RuntimeError):  # its loop has been closed just now, so there is nothing to end
            self.loop.call_soon_threadsafe(self.close, is_urgent)

    def close(self, is_urgent: bool = False) -> None:
        """Start to end: accept no more requests, and end the streams.

        Args:
            is_urgent: Cancel running calls now and send errors, instead of waiting for a while.
        """
        self._enter(_CLOSING)
        self._closing.set()
        if is_urgent and not self._urgent.done():
            self._urgent.set_result(None)

    async def aclose(self) -> None:
        """End the service, and leave the lifespan.

        Raises:
            BaseException: The exception of the lifespan.
        """
        self.close()
        await self._life

    async def ended(self) -> None:
        """Wait until the service has ended."""
        await asyncio.wait([self._life])

    def end_streams(self) -> None:
        """End the streams without a call. Their clients can open others."""
        for listener in tuple(self.listeners):
            listener.end()
        self.sessions.end_streams()

    async def _shut_down(self) -> None:
        grace = self.settings.timeouts.shutdown
        call_time = None if grace is None else grace * _CALLS_SHARE
        stream_time = None if grace is None else grace * (1 - _CALLS_SHARE) / 2
        self.end_streams()
        self.engine.drain(call_time)
        await self._run_within(call_time, self._drain())
        await self.calls.aclose(server_ended())
        await self.sessions.aclose()
        for calls in tuple(self.batches):
            await calls.aclose(server_ended())
        for pipe in tuple(self.pipes.values()):
            await pipe.aclose()
        if self._sending:
            await self._run_within(stream_time, asyncio.wait(tuple(self._sending)), _URGENT_SEND_TIME)
        if self.engine.auth is not None:
            await self._run_within(stream_time, self._close_verifier(), _URGENT_SEND_TIME)

    async def _drain(self) -> None:
        await self.calls.drain()
        await self.sessions.drain()
        for calls in tuple(self.batches):
            await calls.drain()
        for pipe in tuple(self.pipes.values()):
            await pipe.connection.drain()

    async def _close_verifier(self) -> None:
        assert self.engine.auth is not None
        try:
            await self.engine.auth.aclose()
        except Exception:
            logger.exception("closing the token verifier failed. The server shuts down nevertheless")

    async def _run_within(
        self, seconds: float | None, work: Coroutine[Any, Any, object], urgent_seconds: float = 0
    ) -> None:
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        await asyncio.wait({task, self._urgent}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._urgent.done():
            await asyncio.wait({task}, timeout=urgent_seconds)
        task.cancel()


class Listener(Source):
    """One `subscriptions/listen` stream (basic/patterns/subscriptions, 2026-07-28).

    Args:
        service: The service.
        listen: The request.
        exchange: The exchange of the request.

    Attributes:
        is_local: Always False; see `Channel`.

    Raises:
        BusyError: Too many streams are open.
        ProtocolError: -32602, if the client does not accept an event stream.
    """

    is_local = False

    def __init__(self, service: Service, listen: Listen, exchange: Exchange) -> None:
        if not exchange.may_stream:
            raise MalformedError(
                "the response to subscriptions/listen is an event stream. Send the header Accept: "
                "text/event-stream"
            )
        self._state = state = service.loop_state
        state.check_stream_room(exchange.caller)
        self._listeners = service.listeners
        self._listen = listen
        self._exchange = exchange
        self._changes = ChangeQueue()
        self._is_acknowledged = False
        exchange.attach(self)
        self._listeners.add(self)
        state.stream_shares.take(exchange.caller)
        for change in listen.changes:
            state.hub.subscribe(self, change)
        self._forget_token = state.end_with_token(exchange, self.end)
        state.hub.when_listening(self._acknowledge, self._refuse)

    def _acknowledge(self) -> None:
        if self in self._listeners:
            self._is_acknowledged = True
            self._exchange.push(event(self._listen.acknowledged()))

    def _refuse(self, problem: ProtocolError) -> None:
        if self in self._listeners:
            self._exchange.reply(jsonrpc.error(self._listen.request_id, problem), problem)
            self.lost(self._exchange)

    @property
    def principal(self) -> Principal:
        """Principal of the client."""
        return self._exchange.principal

    def changed(self, change: Change) -> None:
        """Queue a change. A stream that falls too far behind is ended, so that it blocks no other."""
        if not change.is_lost and self._changes.add(change):
            self._exchange.wake()
            return
        reason = LOST if change.is_lost else "the client does not read its stream fast enough"
        self._exchange.push(event(self._listen.cancelled(reason)))
        self._finish()

    def end(self) -> None:
        """End the stream gracefully, with its result."""
        for chunk in self.refill():
            self._exchange.push(chunk)
        self._exchange.push(event(self._listen.result()))
        self._finish()

    def _finish(self) -> None:
        self._exchange.finish()
        self.lost(self._exchange)

    def lost(self, exchange: Exchange) -> None:
        """Stop listening."""
        if self in self._listeners:
            self._listeners.remove(self)
            self._forget_token()
            self._state.stream_shares.release(exchange.caller)
            self._state.hub.unsubscribe_all(self)

    def refill(self) -> list[bytes]:
        """Return the events of queued changes."""
        if not self._is_acknowledged:
            return []
        return [event(self._listen.notification(change)) for change in self._changes.take()]


# Readiness of the shared storage

_CHECK_TIMEOUT = 0.8
"""Timeout in seconds of the check: probes often wait for one second at most."""

_CHECK_INTERVAL = 1.0
"""Seconds for which the result is reused for further probes."""


class StorageCheck:
    """Checks in one event loop whether the shared storage responds.

    Args:
        storage: The storage.
        name: Name of the server.
    """

    def __init__(self, storage: PubSub, name: str) -> None:
        self._storage = storage
        self._key = f"{name}/ready"
        self._responds = True
        self._checked_at: float | None = None
        self._running: asyncio.Future[None] | None = None

    async def responds(self) -> bool:
        """Return True if the storage responds, or did within the last second."""
        if self._running is not None:
            await asyncio.shield(self._running)
        elif self._checked_at is None or monotonic() - self._checked_at >= _CHECK_INTERVAL:
            self._running = asyncio.get_running_loop().create_future()
            try:
                await self._check()
            finally:
                self._running.set_result(None)
                self._running = None
        return self._responds

    async def _check(self) -> None:
        # If the event loop itself is late, a response that has arrived is read before the check times out.
        is_early = iter((True, False))
        try:
            await within(_CHECK_TIMEOUT / 2, self._storage.read(self._key), lambda: next(is_early))
        except OSError as error:
            if self._responds:
                logger.warning("not ready: the shared store does not answer (%s)", error)
            self._responds = False
        else:
            if not self._responds:
                logger.warning("ready again: the shared store answers")
            self._responds = True
        self._checked_at = monotonic()


# Signals

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_EXIT_TIME = 0.3
"""Seconds after the grace period in which the process may still end by itself."""

_URGENT_EXIT_TIME = 1.0
"""Seconds after a second Ctrl+C in which the lifespan can be left and the process can end by itself."""

_services: tuple[ref[Service], ...] = ()
"""Replaced rather than changed, since a signal may arrive while a thread adds to it."""
_adding = threading.Lock()
_deadline: float | None = None
"""When the process ends, by `time.monotonic`, if its event loops have not ended before."""


def shut_down_on_signals(service: Service) -> None:
    """End a service on a signal, and the process when the grace period is over.

    Only the main thread can handle signals; in other threads nothing happens. The same holds if a signal is ignored,
    ends the process by default, or raises KeyboardInterrupt, which the program can catch itself.
    """
    global _services  # noqa: PLW0603 - signals belong to the process, and so does this
    with _adding:
        _services = (*(known for known in _services if known() is not None), ref(service))
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        is_ours = isinstance(handler, _SignalHandler)
        if callable(handler) and not is_ours and handler is not signal.default_int_handler:
            signal.signal(number, _SignalHandler(handler))


class _SignalHandler:
    """Signal handler that also calls the previous one.

    The previous handler can call an older instance of this class. Only the outermost instance acts.
    """

    is_running = False

    def __init__(self, previous: Callable[[int, FrameType | None], Any]) -> None:
        self._previous = previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _SignalHandler.is_running:
            self._previous(number, frame)
            return
        _SignalHandler.is_running = True
        try:
            _shut_down_all(number)
            self._previous(number, frame)
        finally:
            _SignalHandler.is_running = False


def _shut_down_all(number: int) -> None:
    global _deadline  # noqa: PLW0603
    services = [service for known in _services if (service := known()) and not service.loop.is_closed()]
    for service in services:
        service.begin_shutdown(number)
    now = time.monotonic()
    if _deadline is not None:
        if number == signal.SIGINT:
            _deadline = min(_deadline, now + _URGENT_EXIT_TIME)
        return
    graces = [service.settings.timeouts.shutdown for service in services]
    limits = [grace for grace in graces if grace is not None]
    if limits and len(limits) == len(graces):
        _deadline = now + max(limits) + _EXIT_TIME
        loops = [service.loop for service in services]
        threading.Thread(
            target=_end_process_in_time, args=(loops, 128 + number), name="mcpkit-watchdog", daemon=True
        ).start()


def _end_process_in_time(loops: list[asyncio.AbstractEventLoop], status: int) -> None:
    """End the process at the deadline, unless its event loops end before."""
    global _deadline  # noqa: PLW0603
    while not all(loop.is_closed() for loop in loops):
        if _deadline is not None and time.monotonic() >= _deadline:
            kill_workers()
            os._exit(status)
        time.sleep(0.02)
    _deadline = None

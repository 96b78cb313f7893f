"""Service of one app in one event loop: its calls, sessions and streams, from the start to the shutdown.

A server such as uvicorn waits for open connections before it sends the shutdown event to an app, and never sends it to
a mounted one. So the app handles signals first, ends its streams, and then calls the handler of the server.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from time import monotonic, sleep
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..._utils.concurrency import call_in_loop
from ..._utils.exceptions import ChallengeError
from ...execution.coroutines import within
from ...execution.worker_processes import kill_workers
from ...requests.running_requests import Calls, server_ended
from ...storage.encryption_keys import Keys
from .request import Bodies
from .response import ANSWERED, Exchange, Source
from .sessions.loop_state import LoopState
from .sessions.manager import SessionManager

if TYPE_CHECKING:
    from ...identity.audit_and_revocation import Revocation
    from ...storage.base import PubSub
    from .http_with_sse import Pipe

logger = logging.getLogger(__name__)

_CALLS_SHARE = 0.8  # share of the grace period in which calls may finish. The rest is for closing streams.

_URGENT_SEND_TIME = 0.05  # seconds to send queued messages in an urgent shutdown

# Stages of a service: each of these follows the one above it, and none comes again
_STARTING = 0  # nothing can be served yet
OPEN = 1  # requests are accepted, and the lifespan is being entered
READY = 2  # the lifespan has been entered
_CLOSING = 3  # no requests are accepted, and running calls may finish
_CLOSED = 4  # nothing is sent any more


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
        listeners: For each open `subscriptions/listen` stream, the function that ends it.
        pipes: HTTP+SSE sessions by ID.
        batches: Calls of handshake clients without a session, for each running batch.
        stage: Stage of the service.
        is_open: Whether requests are accepted.
        shutdown_begun: Whether a signal has been received, so that nothing is served any more.
    """

    def __init__(self, state: LoopState, keys: Keys, on_end: Callable[[], None]) -> None:
        self.loop_state = state
        self.engine, self.settings = state.engine, state.settings
        self.loop = loop = state.loop
        self.calls = Calls()
        self.sessions = SessionManager(state, keys)
        self.listeners: set[Callable[[], None]] = set()
        self.pipes: dict[str, Pipe] = {}
        self.batches: set[Calls] = set()
        self.bodies = Bodies(self.settings.limits, self.settings.timeouts)
        name = self.engine.runtime.name
        self._storage_check = StorageCheck(state.storage, name) if state.is_shared else None
        self.stage: int = _STARTING
        self.is_open = self.shutdown_begun = False
        self._on_end = on_end
        self._sending: set[asyncio.Task[object]] = set()
        self._started: asyncio.Future[None] = loop.create_future()
        self._closing = asyncio.Event()
        self._urgent: asyncio.Future[None] = loop.create_future()
        self._life = loop.create_task(self._live(), name="mcpkit-http")
        shut_down_on_signals(self)

    # Requests

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
        call_in_loop(self.loop, self.close, is_urgent)

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
        for end in tuple(self.listeners):
            end()
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


# Readiness of the shared storage

_CHECK_TIMEOUT = 0.8  # timeout in seconds of the check: probes often wait for one second at most

_CHECK_INTERVAL = 1.0  # seconds for which the result is reused for further probes


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
        self._checked_at = -math.inf
        self._checking = asyncio.Lock()

    async def responds(self) -> bool:
        """Return True if the storage responds, or did within the last second."""
        async with self._checking:  # once for all probes
            if monotonic() - self._checked_at < _CHECK_INTERVAL:
                return self._responds
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
            return self._responds


# Signals

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_EXIT_TIME = 0.3  # seconds after the grace period in which the process may still end by itself

# Seconds after a second Ctrl+C in which the lifespan can be left and the process can end by itself.
_URGENT_EXIT_TIME = 1.0

# Replaced rather than changed, since a signal may arrive while a thread adds to it.
_services: tuple[ref[Service], ...] = ()
_adding = threading.Lock()

# When the process ends, by `time.monotonic`, if its event loops have not ended before.
_deadline: float | None = None


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
    now = monotonic()
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
        if _deadline is not None and monotonic() >= _deadline:
            kill_workers()
            os._exit(status)
        sleep(0.02)
    _deadline = None

"""The stdio transport: a host starts the server as a child process and talks over its standard streams.

Follows "stdio" of the specification (revision 2026-07-28; the same in all earlier ones).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from contextlib import suppress

from .._utils.concurrency import refuse_loop, require_loop
from .._utils.exceptions import ProtocolError
from ..engine.engine import Engine, Served
from ..engine.message_dispatch import Connection
from ..identity.principal import ANYONE, Principal, checked_principal
from .framing import Framing
from .pipe_input import CHUNK, read_pipe
from .pipe_output import PipeOutput
from .standard_streams import StandardStreams, hold_standard_descriptors, take_over_standard_streams
from .watchdog import Watchdog

_CLEANUP_SHARE = 0.2
"""The part of the grace period that is kept for cancelling what still runs and leaving the lifespan."""


def run_stdio(server: Served, *, principal: Principal = ANYONE) -> None:
    """Serve the host that started this process, until it closes standard input or stops reading.

    If standard input is a terminal, the server is described on standard error, and once the lifespan has started, its
    components and how to try it. While the server runs, output printed to standard output goes to standard error, and
    standard input is empty. Both are restored at the end. In the main thread, SIGINT and SIGTERM end the server as
    well.

    Args:
        server: The server.
        principal: Principal of the host.

    Raises:
        TypeError: `principal` is not a Principal.
        SystemExit: A signal was received. The status is 128 + its number.
        BaseException: The exception of the lifespan of the server.
        RuntimeError: An event loop is running in this thread, or standard input or output is closed.
    """
    checked_principal(principal)
    refuse_loop(
        "run() starts an event loop",
        "call run() from code that is not async, or write `await serve_stdio(server)` (from "
        "mcpkit.transports.stdio) instead",
    )
    if principal == ANYONE and (scopes := server.engine.runtime.scopes.table):
        import logging

        logging.getLogger(__name__).warning(
            "The client of %s sends no access token over stdio, and has no scopes. Grant them with "
            'server.run(http=HttpOptions(principal=Principal("me", %r)))',
            server.engine.runtime.name,
            [*scopes],
        )
    is_a_person = os.isatty(0) and sys.stderr is not None
    grace = _grace(server)
    with hold_standard_descriptors(), Watchdog(grace) as watchdog, take_over_standard_streams() as streams:
        if is_a_person:
            from .terminal import heading

            print(heading(server.engine), file=sys.stderr, flush=True)
        asyncio.run(_serve(server, streams, grace, principal, watchdog, is_a_person=is_a_person))
    if watchdog.signal is not None:
        raise SystemExit(128 + watchdog.signal)


async def serve_stdio(server: Served, *, principal: Principal = ANYONE) -> None:
    """Serve the host as `run_stdio` does, in a running event loop.

    Signals are left to the caller, who can cancel this call. Functions that block the loop are not interrupted.

    Args:
        server: The server.
        principal: Principal of the host.

    Raises:
        TypeError: `principal` is not a Principal.
        RuntimeError: Standard input or output is closed, or the running event loop is not one of asyncio.
    """
    checked_principal(principal)
    require_loop("serve_stdio")
    with hold_standard_descriptors(), take_over_standard_streams() as streams:
        await _serve(server, streams, _grace(server), principal, None)


async def _serve(
    server: Served,
    streams: StandardStreams,
    grace: float,
    principal: Principal,
    watchdog: Watchdog | None,
    *,
    is_a_person: bool = False,
) -> None:
    async with server.engine.running():
        host = _Host(server.engine, streams, principal)
        if watchdog is not None:
            host.guard_with(watchdog)
        entered = asyncio.create_task(host.enter(is_a_person=is_a_person))
        served = asyncio.create_task(host.serve(grace * (1 - _CLEANUP_SHARE)))
        stopped = asyncio.create_task(host.stop.wait())
        try:
            done, _ = await asyncio.wait((served, stopped), return_when=asyncio.FIRST_COMPLETED)
            if served in done:
                served.result()
        finally:
            for task in (entered, served, stopped):
                task.cancel()
            host.drain(grace * (1 - _CLEANUP_SHARE))
            await host.aclose(grace * _CLEANUP_SHARE)
        if entered.done() and not entered.cancelled():
            entered.result()


def _grace(server: Served) -> float:
    """Return the seconds from the end of input, or a signal, to the end of the process."""
    shutdown = server.engine.runtime.timeouts.shutdown
    return 10.0 if shutdown is None else shutdown


class _Host:
    """Connection to the host of this process, over two descriptors."""

    def __init__(self, engine: Engine, streams: StandardStreams, principal: Principal) -> None:
        self.stop = asyncio.Event()
        """Set when nothing more is to be done for the host: it is gone, or time is."""
        self._has_ended = asyncio.Event()
        self._is_at_end = False
        self._is_draining = False
        self._watchdog: Watchdog | None = None
        self.engine = engine
        self._framing = Framing(engine.runtime.limits.max_message_size)
        self._lines: deque[bytes | ProtocolError] = deque()
        self._output = PipeOutput(streams.output, on_room=self._go_on, on_broken=self.stop.set)
        self._connection = Connection(self, self._output.send, ready=self._output.ready, principal=principal)
        self._input = read_pipe(streams.input, self._take)
        self._printing = streams.printing

    def guard_with(self, watchdog: Watchdog) -> None:
        """Let the watchdog monitor the input, and stop when it receives a signal."""
        self._watchdog = watchdog
        loop = asyncio.get_running_loop()

        def stop() -> None:
            with suppress(RuntimeError):  # the loop has been closed, so there is nothing to stop
                loop.call_soon_threadsafe(self.stop.set)

        watchdog.watch(self._input, on_signal=stop)

    async def enter(self, *, is_a_person: bool) -> None:
        """Wait for the lifespan, without which nothing can be served. Then describe the components on a terminal."""
        try:
            await self.engine.ready()
        except BaseException:
            self.stop.set()
            raise
        if is_a_person:
            from .terminal import offer

            print(offer(self.engine), file=sys.stderr, flush=True)

    async def serve(self, time_limit: float) -> None:
        """Wait until all requests are answered, or until `time_limit` seconds after the end of input."""
        await self._has_ended.wait()
        if self._watchdog is not None:
            self._watchdog.begin()
        self.drain(time_limit)
        asyncio.get_running_loop().call_later(time_limit, self.stop.set)
        await self._connection.drain()
        await self._output.flush()

    def drain(self, time_limit: float) -> None:
        """Make tasks end or be handed back within `time_limit` seconds, unless that has started."""
        if not self._is_draining:
            self._is_draining = True
            self.engine.drain(time_limit)

    async def aclose(self, time_limit: float) -> None:
        """Cancel running requests, and send the last messages within `time_limit` seconds."""
        self._input.close()
        if self._watchdog is not None:
            self._watchdog.unwatch()
        await self._connection.aclose(graceful=True)
        with suppress(asyncio.TimeoutError):  # the host does not read; it has been given its time
            await asyncio.wait_for(self._output.flush(), time_limit)
        self._output.close()

    def _take(self, chunk: bytes) -> None:
        printing = self._printing
        if (
            sys.stdout is not printing.stdout or sys.stderr is not printing.stderr
        ):  # seldom; a call costs more
            printing.refresh()
        if chunk:
            lines = self._framing.feed(chunk)
            if lines:
                self._lines.extend(lines)
            elif len(chunk) >= CHUNK:
                self._input.expect_more()
        else:
            self._is_at_end = True
            self._lines.extend(self._framing.finish())
        self._deliver()

    def _deliver(self) -> None:
        lines = self._lines
        while lines:
            if self._output.is_full:
                self._input.pause()
                return
            self._connection.receive(lines.popleft())
        if self._is_at_end:
            self._has_ended.set()

    def _go_on(self) -> None:
        self._deliver()
        if not self._output.is_full:
            self._input.resume()

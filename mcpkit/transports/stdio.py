"""The stdio transport: a host starts the server as a child process and uses its standard streams.

Follows "stdio" of the specification (revision 2026-07-28; the same in all earlier ones).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from .._utils.concurrency import call_in_loop, refuse_loop, require_loop
from .._utils.exceptions import ProtocolError
from ..engine.engine import Engine, Served
from ..engine.message_dispatch import Connection
from ..identity.principals_and_scopes import ANYONE, Principal, checked_principal
from .pipes import Framing, PipeInput, PipeOutput
from .standard_streams import StandardStreams, keep_standard_descriptors, take_over_standard_streams
from .watchdog import Watchdog

logger = logging.getLogger(__name__)

# The part of the grace period that is kept for cancelling what still runs and leaving the lifespan.
_CLEANUP_SHARE = 0.2


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
        logger.warning(
            "The client of %s sends no access token over stdio, and has no scopes. Grant them with "
            'server.run(http=HttpOptions(principal=Principal("me", %r)))',
            server.engine.runtime.name,
            [*scopes],
        )
    is_terminal = os.isatty(0) and sys.stderr is not None
    grace = _grace(server.engine)
    with keep_standard_descriptors(), Watchdog(grace) as watchdog, take_over_standard_streams() as streams:
        if is_terminal:
            from .._utils.package import __version__

            name, version = server.engine.runtime.name, server.engine.version
            title = f"{name} {version}, an MCP server (mcpkit {__version__}), is waiting for an MCP host"
            print(f"{title} on standard input.\n", file=sys.stderr, flush=True)
        asyncio.run(_serve(server, streams, principal, watchdog, is_terminal=is_terminal))
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
    with keep_standard_descriptors(), take_over_standard_streams() as streams:
        await _serve(server, streams, principal, None, is_terminal=False)


def _grace(engine: Engine) -> float:
    """Return the seconds from the end of input, or a signal, to the end of the process."""
    return 10.0 if (shutdown := engine.runtime.timeouts.shutdown) is None else shutdown


async def _serve(
    server: Served,
    streams: StandardStreams,
    principal: Principal,
    watchdog: Watchdog | None,
    is_terminal: bool,
) -> None:
    """Serve until the end of input and the answers to all requests, or until a signal or the loss of the host."""
    engine, loop = server.engine, asyncio.get_running_loop()
    answer_time = _grace(engine) * (1 - _CLEANUP_SHARE)
    stop = asyncio.Event()

    async def become_ready() -> None:
        try:
            await engine.ready()
        except BaseException:  # without its lifespan the server cannot serve
            stop.set()
            raise
        if is_terminal:
            print(_description(engine), file=sys.stderr, flush=True)

    async with engine.running():
        host = _Host(engine, streams, principal, on_broken=stop.set)
        if watchdog is not None:
            watchdog.watch(host.input, on_signal=partial(call_in_loop, loop, stop.set))
        ready = asyncio.create_task(become_ready())
        answered = asyncio.create_task(host.answer(watchdog, answer_time, stop))
        stopped = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait((answered, stopped), return_when=asyncio.FIRST_COMPLETED)
            if answered in done:
                answered.result()
        finally:
            for task in (ready, answered, stopped):
                task.cancel()
            host.drain(answer_time)
            host.input.close()
            if watchdog is not None:
                watchdog.unwatch()
            await host.connection.aclose(graceful=True)
            with suppress(asyncio.TimeoutError):  # the host does not read; it has had time
                await asyncio.wait_for(host.output.flush(), _grace(engine) * _CLEANUP_SHARE)
            host.output.close()
        if ready.done() and not ready.cancelled():
            ready.result()


class _Host:
    """Connection to the host of this process, over two descriptors.

    Args:
        engine: Engine of the server.
        streams: The descriptors.
        principal: Principal of the host.
        on_broken: Called when the host has stopped reading.

    Attributes:
        engine: Engine of the server.
        at_end: Set when all input has been passed to the connection.
    """

    def __init__(
        self, engine: Engine, streams: StandardStreams, principal: Principal, *, on_broken: Callable[[], None]
    ) -> None:
        self.engine = engine
        self.at_end = asyncio.Event()
        self._has_ended = self._is_draining = False
        self._printing = streams.printing
        self._framing = Framing(engine.runtime.limits.max_message_size)
        self._lines: deque[bytes | ProtocolError] = deque()
        self.output = PipeOutput(streams.output, on_room=self._on_room, on_broken=on_broken)
        self.connection = Connection(self, self.output.send, ready=self.output.ready, principal=principal)
        self.input = PipeInput(streams.input, self._take)

    async def answer(self, watchdog: Watchdog | None, time_limit: float, stop: asyncio.Event) -> None:
        """Wait until all requests are answered after the end of input, and set `stop` when the time is over."""
        await self.at_end.wait()
        if watchdog is not None:
            watchdog.begin()
        self.drain(time_limit)
        asyncio.get_running_loop().call_later(time_limit, stop.set)
        await self.connection.drain()
        await self.output.flush()

    def drain(self, time_limit: float) -> None:
        """Make tasks end or release them within `time_limit` seconds, unless that has started."""
        if not self._is_draining:
            self._is_draining = True
            self.engine.drain(time_limit)

    def _take(self, chunk: bytes) -> None:
        # They seldom differ, and a call of `refresh` would cost more.
        if sys.stdout is not self._printing.stdout or sys.stderr is not self._printing.stderr:
            self._printing.refresh()
        if chunk:
            self._lines.extend(self._framing.feed(chunk))
        else:
            self._has_ended = True
            self._lines.extend(self._framing.finish())
        self._deliver()

    def _deliver(self) -> None:
        lines = self._lines
        while lines:
            if self.output.is_full:
                self.input.pause()
                return
            self.connection.receive(lines.popleft())
        if self._has_ended:
            self.at_end.set()

    def _on_room(self) -> None:
        self._deliver()
        if not self.output.is_full:
            self.input.resume()


# Description of the server, for a user that started it in a terminal

_MAX_NAMES = 8  # maximum names of one kind that are listed


def _description(engine: Engine) -> str:
    """Return the components of a server and how to try it, as lines for a terminal."""
    import json
    import shlex
    import textwrap

    from .._utils.python_safe_path import started_command

    wrapper = textwrap.TextWrapper(78, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    catalog, lines = engine.catalog, list[str]()
    resources = [*catalog.resources, *catalog.resource_templates]
    by_kind = {"tool": [*catalog.tools], "resource": resources, "prompt": [*catalog.prompts]}
    for kind, components in by_kind.items():
        names = [each.key for each in components if each.is_enabled]
        if names:
            more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
            plural = "s" if len(names) > 1 else ""
            lines += [wrapper.fill(f"{len(names)} {kind}{plural}: {', '.join(names[:_MAX_NAMES])}{more}")]
    if not lines and not catalog.providers:
        lines.append("The server has no tools, resources or prompts yet.")
    lines.append("")
    if command := started_command():
        entry = {"mcpServers": {engine.runtime.name: {"command": command[0], "args": command[1:]}}}
        lines += [
            "An MCP host starts this server if its configuration contains:",
            "",
            textwrap.indent(json.dumps(entry, indent=2, ensure_ascii=False), "  "),
            "",
            "To try the server in a browser:",
            "",
            f"  npx @modelcontextprotocol/inspector {shlex.join(command)}",
            "",
        ]
    return "\n".join([*lines, "Press Ctrl+C to stop.", ""])

"""The stdio transport: a server as a child process, its messages, and its standard error.

Follows "stdio" of the specification (revision 2026-07-28; the same in all earlier ones).
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Final, Protocol

from ..._utils.exceptions import TooLongError, TransportError
from ..._utils.option_checks import check_count, check_seconds
from ...protocol.jsonrpc_validation import id_of_answer, is_call, looks_like_message
from ...transports.pipes import MAX_LINE, Framing, PipeInput, PipeOutput
from ..client_messages import OutgoingMessage
from ..transport_interface_and_memory import TransportListener
from .child_process import ChildProcess, child_environment

GRACE: Final = 2.0
"""Seconds for the server to exit by itself, and again after SIGTERM."""

_EXIT_TIME: Final = 1.0
"""Seconds for a process to exit after closing its output, and to flush standard error after its exit."""

_FLUSH_TIME: Final = 0.5
"""Seconds at the end for the server to read its remaining input, and for the target to accept standard error."""

_SHOWN: Final = 200
"""The most bytes of an invalid line that are logged."""

_STDERR_LINES: Final = 20
"""The most lines of standard error in the error of a lost connection."""
_STDERR_BYTES: Final = 4096
"""The most bytes of standard error in the error of a lost connection."""
_STDERR_LINE: Final = 64 * 1024
"""Bytes of standard error without a newline that are passed on as a line."""

_LAUNCHERS: Final = frozenset({"bun", "bunx", "deno", "node", "npx", "pipx", "python", "uv", "uvx"})
_LAUNCHER_OPTIONS: Final = frozenset({"-m", "-u", "-y", "--yes", "run"})
"""Arguments that may precede the program of a launcher."""

logger = logging.getLogger(__name__)


class TextSink(Protocol):
    """A target of text, such as an open file."""

    def write(self, text: str, /) -> object:
        """Write a text."""


Stderr = TextSink | Callable[[str], object] | int | None
"""The target of each line: None for the standard error of this process, `subprocess.DEVNULL`, a function or a file."""


class StdioTransport:
    """Runs a server as a child process and communicates over its standard streams.

    Each `open` starts a process. `close` ends it as the specification requires (stdio, "Shutdown"): its input is
    closed, then it and its descendants get SIGTERM and SIGKILL. The same happens when the event loop or the interpreter
    ends without `close`.

    Args:
        command: The program and its arguments.
        env: Environment variables in addition to the few that are inherited.
        cwd: The working directory. None takes that of this process.
        stderr: The target of each line of standard error: a function, an object with `write` such as an open file,
            `subprocess.DEVNULL`, or None for the standard error of this process.
        max_answer: The most bytes of a message from the server.
        grace: Seconds for the server to exit by itself, and again after SIGTERM.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The command is empty, or a number is out of range.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Stderr = None,
        max_answer: int = MAX_LINE,
        grace: float = GRACE,
    ) -> None:
        _check(command, env or {}, stderr)
        check_count("max_answer", max_answer, example=" of bytes, such as 64 * 1024 * 1024")
        check_seconds("grace", grace, may_be_zero=True)
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self._stderr = stderr
        self._max_answer = max_answer
        self._grace = grace
        self._server: _RunningServer | None = None

    async def open(self, receiver: TransportListener) -> None:
        """Start the process, and return as soon as it runs.

        Raises:
            TransportError: The process cannot be started.
        """
        await self.close()  # the process of a lost connection may not have exited yet
        process = ChildProcess(
            self._command, environment=child_environment(self._env), cwd=self._cwd, grace=self._grace
        )
        try:
            self._server = _RunningServer(
                process, _name(self._command), receiver, self._stderr, self._max_answer
            )
        except BaseException as error:
            process.kill()
            if isinstance(error, OSError):
                raise TransportError(
                    f"the server process cannot be used, as the system lacks resources: {error}",
                    may_have_begun=False,
                ) from error
            raise

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Send one message. The returned awaitable is done when the server has read enough to accept more.

        Raises:
            TransportError: The server has exited and did not receive the message.
        """
        if self._server is None:
            raise TransportError(
                "the server process has not been started. Open the client first: `async with Client(...)`",
                may_have_begun=False,
            )
        return self._server.send(message.line)

    async def close(self) -> None:
        """End the process and wait for its exit. Cancelling this ends it sooner."""
        if self._server is not None:
            await self._server.aclose()


class _RunningServer:
    """One process of the server, from its start to its exit."""

    def __init__(
        self, process: ChildProcess, name: str, receiver: TransportListener, stderr: Stderr, max_answer: int
    ) -> None:
        loop = asyncio.get_running_loop()
        self._process = process
        self._name = name
        self._receiver: TransportListener | None = receiver  # None once the connection is closed or lost
        self._max_answer = max_answer
        self._framing = Framing(max_answer, waits_for_end=True)
        self._has_warned = False
        self._disconnected: asyncio.Future[str] = loop.create_future()
        """Done, with the reason, when a pipe is closed although the process may still run."""
        self._output = PipeOutput(
            process.stdin,
            on_room=lambda: None,  # senders wait for `ready`
            on_broken=lambda: self._set_disconnected("no longer reads its standard input"),
            is_own=True,
        )
        self._stderr = _StderrReader(process.stderr, stderr)
        self._input = PipeInput(process.stdout, self._process_output)
        self._task = loop.create_task(self._run(), name="mcpkit-child")

    def send(self, line: bytes) -> Awaitable[None] | None:
        """Send one line, or return a coroutine that sends it once there is room.

        Raises:
            TransportError: The process has exited.
        """
        if self._output.is_full:
            return self._send_later(line)
        if self._receiver is None or self._output.is_broken:
            raise TransportError(f"The server ({self._name}) has ended", may_have_begun=False)
        self._output.send(line)
        return None

    async def _send_later(self, line: bytes) -> None:
        while self._output.is_full:
            await self._output.ready()
        self.send(line)

    async def aclose(self) -> None:
        """End the process and wait for its exit. Cancelling this ends it sooner."""
        if self._receiver is not None:
            self._receiver = None
            if self._disconnected.done():
                self._task.cancel()  # it waits for the exit status, which is no longer reported
            else:
                self._disconnected.set_result("")
        cancelled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait((self._task,))
            except asyncio.CancelledError as error:
                cancelled = error
                self._process.hurry()
        if cancelled is not None:
            raise cancelled

    async def _run(self) -> None:
        """Wait for the exit of the server, report it, and end the remaining processes."""
        process = self._process
        process.guard()
        with suppress(asyncio.CancelledError):  # the loop ends and cancels its tasks
            await asyncio.wait((process.exited, self._disconnected), return_when=asyncio.FIRST_COMPLETED)
            if self._receiver is not None:
                # The end of each comes in any order; a descendant that still runs may keep the pipes open.
                ends = (process.exited, self._disconnected, self._stderr.at_end)
                await asyncio.wait(ends, timeout=_EXIT_TIME)
                self._report_loss(self._describe_end())
        self._receiver = None
        if not process.exited.done():
            with suppress(asyncio.TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._output.flush(), min(_FLUSH_TIME, process.grace))
        self._output.close()
        if sys.platform == "win32" and self._output.is_writing:
            process.signal(signal.SIGTERM)  # on Windows a pipe cannot be closed while a thread writes to it
        try:
            await process.stop()
            await self._stderr.aclose()
        finally:
            self._input.close()
            process.close()

    def _set_disconnected(self, reason: str) -> None:
        if not self._disconnected.done():
            self._disconnected.set_result(reason)

    def _describe_end(self) -> str:
        status = self._process.status
        if status is None:
            end = self._disconnected.result()
        elif status >= 0:
            end = f"ended with exit code {status}"
        else:
            try:
                name = signal.Signals(-status).name
            except ValueError:  # a real-time signal
                name = f"signal {-status}"
            end = f"was ended by {name}"
        lines = self._stderr.last_lines()
        printed = (
            f"the last lines on standard error:\n{lines}" if lines else "it printed nothing to standard error"
        )
        return f"The server ({self._name}) {end}; {printed}"

    def _report_loss(self, message: str) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.connection_lost(TransportError(message, may_have_begun=True))

    # Messages of the server

    def _process_output(self, chunk: bytes) -> None:
        lines = self._framing.feed(chunk) if chunk else self._framing.finish()
        for line in lines:
            if self._receiver is None:
                return
            if isinstance(line, TooLongError):
                self._reject_too_long(self._receiver, line)
            elif isinstance(line, bytes) and looks_like_message(line):
                self._receiver.receive(line)
            elif isinstance(line, bytes) and not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "the server (%s) printed a line to standard output that is not JSON-RPC; it is ignored. "
                    "Print to standard error instead: %s",
                    self._name,
                    line[:_SHOWN].decode(errors="replace"),
                )
        if not chunk:
            self._set_disconnected("closed its standard output")

    def _reject_too_long(self, receiver: TransportListener, error: TooLongError) -> None:
        """Fail the request of a response that is too long; if its id is unknown, end the connection."""
        if is_call(error.beginning):
            logger.warning(
                "ignored a message of the server (%s) with more than %d bytes, the limit. Raise "
                "max_answer= to receive it",
                self._name,
                self._max_answer,
            )
            return
        size = f"{self._max_answer:,} bytes"
        reason = f"The server ({self._name}) sent a message of more than {size}, the limit (max_answer=)"
        id_ = id_of_answer(error.beginning, error.ending)
        if id_ is None:
            self._report_loss(f"{reason}. The message has no readable id, so the connection is closed")
            self._set_disconnected("")
        else:
            receiver.fail(id_, TransportError(reason, may_have_begun=True, may_pass=False))


class _StderrReader:
    """Passes on the standard error of a child process line by line, and keeps the last lines.

    Args:
        descriptor: The descriptor to read from.
        target: The target of each line.

    Attributes:
        at_end: Done when the child process has closed its standard error.
    """

    def __init__(self, descriptor: int, target: Stderr) -> None:
        self.at_end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last = b""
        self._partial = b""
        self._output: PipeOutput | None = None  # a copy of the target's descriptor, if it has one
        self._write = self._writer(target)
        self._input = PipeInput(descriptor, self._process)

    def last_lines(self) -> str:
        """Return the last lines; empty if there are none."""
        lines = self._last.decode(errors="replace").splitlines()
        return "\n".join(lines[-_STDERR_LINES:]).strip()

    async def aclose(self) -> None:
        """Stop reading, and pass on the rest, within a time limit."""
        self._input.close()
        if self._partial:
            self._pass_on(self._partial)
            self._partial = b""
        output, self._output = self._output, None
        if output is not None:
            try:
                await asyncio.wait_for(output.flush(), _FLUSH_TIME)
            except asyncio.TimeoutError:
                logger.debug("the rest of the server's standard error was not read in time and is lost")
            finally:
                output.close(with_descriptor=True)

    def _process(self, chunk: bytes) -> None:
        if not chunk:
            if not self.at_end.done():
                self.at_end.set_result(None)
            return
        self._last = (self._last + chunk)[-_STDERR_BYTES:]
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self._pass_on(line)
        if len(self._partial) > _STDERR_LINE:
            self._pass_on(self._partial)
            self._partial = b""
        if self._output is not None and self._output.is_full:
            self._input.pause()

    def _pass_on(self, line: bytes) -> None:
        try:
            self._write(line.removesuffix(b"\r"))
        except Exception:
            logger.exception(
                "the function or file given as stderr= failed; a line of the server's standard error is lost"
            )

    def _writer(self, target: Stderr) -> Callable[[bytes], object]:
        """Return the function that writes a line to the target.

        An open file is written to by its descriptor, so that a slow reader of it never blocks the event loop.
        """
        target = sys.stderr if target is None else target
        if target is None or isinstance(target, int):  # a program without a console has no standard error
            return lambda line: None
        if callable(target):
            return lambda line: target(line.decode(errors="replace"))
        descriptor = _descriptor_of(target)
        if descriptor is None:
            return lambda line: target.write(line.decode(errors="replace") + "\n")

        def read_on() -> None:
            self._input.resume()

        # A copy of the descriptor, as the file may be closed meanwhile.
        self._output = PipeOutput(os.dup(descriptor), on_room=read_on, on_broken=read_on)
        return self._output.send


def _descriptor_of(target: TextSink) -> int | None:
    """Return the descriptor of an open file; None for others, such as `io.StringIO` or the output of a notebook."""
    fileno, flush = getattr(target, "fileno", None), getattr(target, "flush", None)
    if fileno is None or (isinstance(target, io.TextIOBase) and not isinstance(target, io.TextIOWrapper)):
        return None
    try:
        descriptor: int = fileno()
    except (io.UnsupportedOperation, ValueError):
        return None
    if flush is not None:
        flush()  # earlier text comes first
    return descriptor


def _check(command: Sequence[object], env: Mapping[str, object], stderr: object) -> None:
    """Check the arguments of a transport."""
    words = [*command]
    if isinstance(command, str) or not all(isinstance(word, str) for word in words):
        raise TypeError(
            f'command must be a sequence of strings, such as ["python", "server.py"], got {command!r}'
        )
    if not words:
        raise ValueError("command is empty. Name the program to start")
    for name, value in env.items():
        if not isinstance(value, str):
            raise TypeError(f"the value of {name} in env must be a string, got {type(value).__name__}")
        if not name or "=" in name:
            raise ValueError(f"env has an invalid variable name: {name!r}")
    if any("\0" in str(text) for text in (*words, *env, *env.values())):
        raise ValueError("command and env must not contain null characters")
    expected = "a function that takes a line, an open file, subprocess.DEVNULL or None"
    if isinstance(stderr, int):
        if stderr != subprocess.DEVNULL:
            raise ValueError(f"stderr must be {expected}, got {stderr!r}")
    elif stderr is not None and not callable(stderr) and not hasattr(stderr, "write"):
        raise TypeError(f"stderr must be {expected}, got {stderr!r}")


def _name(command: Sequence[str]) -> str:
    """Return the name of a server: its program, or the program of a launcher. Other arguments may be secret."""
    program, *arguments = command
    name = PurePath(program).name
    if PurePath(program).stem.rstrip("0123456789.") in _LAUNCHERS:
        launched = next((each for each in arguments if each not in _LAUNCHER_OPTIONS), "-")
        if not launched.startswith("-"):
            return f"{name} {PurePath(launched).name}"
    return name

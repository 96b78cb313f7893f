"""The stdio transport: a server as a child process.

Follows "stdio" of the specification (revision 2026-07-28; the same in all earlier ones).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Final

from ..._utils.exceptions import TooLongError, TransportError
from ..._utils.option_checks import check_count, check_seconds
from ...protocol.jsonrpc_validation import id_of_answer, is_call, looks_like_message
from ...transports.pipes import MAX_LINE, Framing, PipeInput, PipeOutput
from ..client_messages import OutgoingMessage
from ..link.transport import TransportListener
from .environment import environment
from .process import Process
from .standard_error import StandardError, Stderr, check_stderr

GRACE: Final = 2.0
"""Seconds for the server to exit by itself, and again after SIGTERM."""

_EXIT_TIME: Final = 1.0
"""Seconds for a process to exit after closing its output, and to flush standard error after its exit."""

_FLUSH_TIME: Final = 0.5
"""Seconds at the end for input that the server has not read yet."""

_SHOWN: Final = 200
"""The most bytes of an invalid line that are logged."""

_LAUNCHERS: Final = frozenset({"bun", "bunx", "deno", "node", "npx", "pipx", "python", "uv", "uvx"})
_BEFORE: Final = frozenset({"-m", "-u", "-y", "--yes", "run"})
"""Arguments that may precede the program of a launcher."""

logger = logging.getLogger(__name__)


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
        _check(command, env or {})
        check_stderr(stderr)
        check_count("max_answer", max_answer, example=" of bytes, such as 64 * 1024 * 1024")
        check_seconds("grace", grace, may_be_zero=True)
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self._stderr = stderr
        self._max_answer = max_answer
        self._grace = grace
        self._server: _Server | None = None

    async def open(self, receiver: TransportListener) -> None:
        """Start the process, and return as soon as it runs.

        Raises:
            TransportError: The process cannot be started.
        """
        await self.close()  # one that was lost may still be on its way out
        process = Process(self._command, environment=environment(self._env), cwd=self._cwd, grace=self._grace)
        try:
            self._server = _Server(process, _name(self._command), receiver, self._stderr, self._max_answer)
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


class _Server:
    """One process of the server, from its start to its exit."""

    def __init__(
        self, process: Process, name: str, receiver: TransportListener, stderr: Stderr, max_answer: int
    ) -> None:
        loop = asyncio.get_running_loop()
        self._process = process
        self._name = name
        self._receiver: TransportListener | None = receiver
        self._max_answer = max_answer
        self._framing = Framing(max_answer, waits_for_end=True)
        self._has_warned = False
        self._silence: asyncio.Future[str] = loop.create_future()
        """Done, with the reason, when nothing more comes although the process may live."""
        self._output = PipeOutput(
            process.stdin, on_room=_nothing, on_broken=self._hear_of_deafness, is_own=True
        )
        self._errors = StandardError(process.stderr, stderr)
        self._input = PipeInput(process.stdout, self._take)
        self._life = loop.create_task(self._live(), name="mcpkit-child")

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
            if self._silence.done():
                self._life.cancel()  # nobody hears of the exit that is being waited for
            else:
                self._silence.set_result("")
        cancelled: asyncio.CancelledError | None = None
        while not self._life.done():
            try:
                await asyncio.wait((self._life,))
            except asyncio.CancelledError as error:
                cancelled = error
                self._process.hurry()
        if cancelled is not None:
            raise cancelled

    async def _live(self) -> None:
        """Wait for the exit of the server, report it, and end the remaining processes."""
        process = self._process
        process.guard()
        with suppress(asyncio.CancelledError):  # the loop is ending, and lets its tasks end
            await asyncio.wait((process.exited, self._silence), return_when=asyncio.FIRST_COMPLETED)
            if self._receiver is not None:
                # All belong to one end, in any order; a process that was left behind may keep the pipes open.
                await asyncio.wait((process.exited, self._silence, self._errors.at_end), timeout=_EXIT_TIME)
                self._lose(self._why_lost())
        self._receiver = None
        if not process.exited.done():
            with suppress(asyncio.TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._output.flush(), min(_FLUSH_TIME, process.grace))
        self._output.close()
        if sys.platform == "win32" and self._output.is_writing:
            process.signal(signal.SIGTERM)  # there, what a thread is writing to cannot be closed
        try:
            await process.stop()
            await self._errors.aclose()
        finally:
            self._input.close()
            process.close()

    def _take(self, chunk: bytes) -> None:
        lines = self._framing.feed(chunk) if chunk else self._framing.finish()
        for line in lines:
            if self._receiver is None:
                return
            if isinstance(line, bytes):
                if looks_like_message(line):
                    self._receiver.receive(line)
                else:
                    self._pass_over(line)
            elif isinstance(line, TooLongError):
                self._refuse(line)
        if not chunk:
            self._fall_silent("closed its standard output")

    def _pass_over(self, line: bytes) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "the server (%s) printed a line to standard output that is not JSON-RPC; it is ignored. "
                "Print to standard error instead: %s",
                self._name,
                line[:_SHOWN].decode(errors="replace"),
            )

    def _refuse(self, error: TooLongError) -> None:
        """Fail the request whose response is too long; if its id is unknown, end the connection."""
        if is_call(error.beginning):
            logger.warning(
                "ignored a message of the server (%s) with more than %d bytes, the limit. Raise "
                "max_answer= to receive it",
                self._name,
                self._max_answer,
            )
            return
        assert self._receiver is not None
        why = (
            f"The server ({self._name}) sent a message of more than {self._max_answer:,} bytes, the limit "
            "(max_answer=)"
        )
        id_ = id_of_answer(error.beginning, error.ending)
        if id_ is None:
            self._lose(f"{why}. The message has no readable id, so the connection is closed")
            self._fall_silent("")
        else:
            self._receiver.fail(id_, TransportError(why, may_have_begun=True, may_pass=False))

    def _hear_of_deafness(self) -> None:
        self._fall_silent("no longer reads its standard input")

    def _fall_silent(self, reason: str) -> None:
        if not self._silence.done():
            self._silence.set_result(reason)

    def _why_lost(self) -> str:
        status = self._process.status
        if status is None:
            why = self._silence.result()
        elif status < 0:
            why = f"was ended by {_signal_name(-status)}"
        else:
            why = f"ended with exit code {status}"
        words = self._errors.last_words()
        said = (
            f"the last lines on standard error:\n{words}" if words else "it printed nothing to standard error"
        )
        return f"The server ({self._name}) {why}; {said}"

    def _lose(self, message: str) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.connection_lost(TransportError(message, may_have_begun=True))


def _check(command: Sequence[object], env: Mapping[str, object]) -> None:
    """Check the arguments for the operating system."""
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


def _name(command: Sequence[str]) -> str:
    """Return the name of a server: its program, or the program of a launcher. Other arguments may be secret."""
    program, *arguments = command
    name = PurePath(program).name
    if PurePath(program).stem.rstrip("0123456789.") in _LAUNCHERS:
        launched = next((each for each in arguments if each not in _BEFORE), "-")
        if not launched.startswith("-"):
            return f"{name} {PurePath(launched).name}"
    return name


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _nothing() -> None:
    """Do nothing. Waiting senders are woken by the output."""

"""A process under test: raw access to its standard streams, so that checks see every byte."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from ...client.stdio.child_process import ChildProcess, child_environment
from ...protocol.jsonrpc import Json, is_array, is_object
from .probe import ACKNOWLEDGED, Answer, Probe, answer_from_message

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NOT_HERE: Final = {"code": -32601, "message": "method not found"}
_LAST_LINES: Final = 8
_CLOSING: Final = 1.0

T = TypeVar("T")


class Command(NamedTuple):
    """Command that starts a process.

    Attributes:
        argv: The program and its arguments.
        env: Variables of its environment, besides the few that are inherited.
        cwd: Its working directory; None for that of this process.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None


class Noise(NamedTuple):
    """A line of standard output that is not a message, with its number."""

    line: int
    text: str


class StdioConnection:
    """Connection to a process over its standard streams.

    Args:
        command: The command that starts it.
        response_timeout: Seconds for each response.
        env: More variables of its environment.

    Attributes:
        noise: Output on stdout that is not a message.
        lines: The number of lines on stdout.
        has_byte_order_mark: Whether the first line began with one.
        has_returns: Whether messages ended with a carriage return.
        unmatched_ids: String ids of responses without a request.
        stderr_lines: The last lines of its stderr.
        ended: Done at the end of its stdout.

    Raises:
        TransportError: It cannot be started.
    """

    def __init__(
        self, command: Command, response_timeout: float, env: Mapping[str, str] | None = None
    ) -> None:
        self.noise: list[Noise] = []
        self.lines = 0
        self.has_byte_order_mark = False
        self.has_returns = False
        self.unmatched_ids: list[str] = []
        self.stderr_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._response_timeout = response_timeout
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._stderr_ended: asyncio.Future[None] = self._loop.create_future()
        self._pending: dict[int | str, asyncio.Future[Json]] = {}
        self._last = 0
        self._messages = 0
        self._acknowledged: asyncio.Future[Json] = self._loop.create_future()
        variables = child_environment({**command.env, **(env or {})})
        self._process = ChildProcess(command.argv, environment=variables, cwd=command.cwd, grace=_CLOSING)
        self._readers = [
            self._read(self._process.stdout, self._process_line, self.ended),
            self._read(self._process.stderr, self._process_stderr_line, self._stderr_ended),
        ]

    @property
    def exit_reason(self) -> str:
        """The signal or exit status of the process in words; empty while it runs."""
        status = self._process.status
        if status is None:
            return ""
        if status < 0:
            with suppress(ValueError):
                return f"by signal {signal.Signals(-status).name}"
        return f"with exit status {status}"

    @property
    def stderr_tail(self) -> str:
        """The last lines of its stderr after a colon; empty if there are none."""
        return ": " + " | ".join(self.stderr_lines) if self.stderr_lines else ""

    async def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        request_id: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its response."""
        self._last += 1
        key = self._last if request_id is None else request_id
        message: Json = {"jsonrpc": "2.0", "id": key, "method": method}
        if params is not None:
            message["params"] = params
        answered: asyncio.Future[Json] = self._loop.create_future()
        self._pending[key] = answered
        started_at = self._loop.time()
        try:
            if not self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n"):
                await self._wait_for_end()
                return Answer(problem="no response: the process closed its standard input")
            return await self.wait_for_response(
                key, started_at, self._response_timeout if seconds is None else seconds
            )
        finally:
            self._pending.pop(key, None)

    async def wait_for_response(self, key: int | str, started_at: float, seconds: float) -> Answer:
        """Wait for the response to a pending request."""
        answered = self._pending[key]
        await asyncio.wait((answered, self.ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        passed = self._loop.time() - started_at
        if answered.done():
            return answer_from_message(answered.result(), passed)
        if self.ended.done():
            await self._wait_for_end()
            return Answer(
                problem=f"no response: the process ended {self.exit_reason}".rstrip(), seconds=passed
            )
        return Answer(problem=f"no response within {seconds:g} s", seconds=passed)

    async def _wait_for_end(self) -> None:
        """Wait for the exit and for all output; briefly, since a child process may keep a stream open."""
        await asyncio.wait((self._process.exited, self.ended, self._stderr_ended), timeout=_CLOSING)

    async def notify(self, method: str) -> None:
        """Send a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method}).encode() + b"\n")

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Send `subscriptions/listen`, and wait for the acknowledgement."""
        self._acknowledged = self._loop.create_future()
        sending = asyncio.ensure_future(self.request("subscriptions/listen", params, seconds=seconds))
        await asyncio.wait((self._acknowledged, sending), return_when=asyncio.FIRST_COMPLETED)
        if self._acknowledged.done():
            sending.cancel()
            return Answer(self._acknowledged.result())
        return await sending

    def write(self, data: bytes) -> bool:
        """Write to its stdin, and return whether that is open."""
        try:
            os.write(self._process.stdin, data)
        except (OSError, ValueError):
            return False
        return True

    async def has_flushed(self, seconds: float) -> bool:
        """Wait for the end of its stdout, and return whether it has sent a message."""
        await asyncio.wait((self.ended,), timeout=seconds)
        return self._messages > 0

    def close_input(self) -> None:
        """Close its stdin."""
        self._process.close_input()

    async def exit_within(self, seconds: float) -> bool:
        """Return whether it exits within some seconds."""
        await asyncio.wait((self._process.exited,), timeout=seconds)
        return self._process.exited.done()

    def terminate(self) -> None:
        """Send SIGTERM to it and its child processes."""
        self._process.signal(signal.SIGTERM)

    async def has_orphans(self, seconds: float) -> bool:
        """Return whether its child processes still run some seconds after its exit."""
        for _ in range(int(seconds / 0.05)):
            if not self._process.signal(0):
                return False
            await asyncio.sleep(0.05)  # no event reports their exit
        return True

    async def close(self) -> None:
        """Stop it and its child processes."""
        await self._process.stop()
        for reader in self._readers:  # at the end of its streams
            await asyncio.to_thread(reader.join, _CLOSING)
        self._process.close()

    # Output of the process

    def _read(
        self, stream: int, on_line: Callable[[bytes], None], ended: asyncio.Future[None]
    ) -> threading.Thread:
        """Read lines in a thread, since the event loop of Windows cannot read these pipes."""
        if sys.platform != "win32":
            os.set_blocking(stream, True)

        def read() -> None:
            rest = b""
            while data := _read(stream):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._call(on_line, line)
            if rest:
                self._call(on_line, rest)
            self._call(ended.set_result, None)

        thread = threading.Thread(target=read, name="mcpkit-doctor", daemon=True)
        thread.start()
        return thread

    def _call(self, function: Callable[[T], object], argument: T) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(function, argument)

    def _process_stderr_line(self, line: bytes) -> None:
        if text := line.decode("utf-8", "replace").strip():
            self.stderr_lines.append(text[:200])

    def _process_line(self, line: bytes) -> None:
        self.lines += 1
        if self.lines == 1 and line.startswith(_BYTE_ORDER_MARK):
            self.has_byte_order_mark = True
            line = line[len(_BYTE_ORDER_MARK) :]
        noise, message = _split_noise(line)
        if noise is not None:
            self.noise.append(Noise(self.lines, noise))
        if message is None:
            return
        self.has_returns |= line.endswith(b"\r")
        for each in message if is_array(message) else [message]:
            if is_object(each):
                self._dispatch(each)

    def _dispatch(self, message: Json) -> None:
        key = message.get("id")
        self._messages += 1
        if "method" in message:
            params = message.get("params")
            if message["method"] == ACKNOWLEDGED and not self._acknowledged.done():
                self._acknowledged.set_result(params if is_object(params) else {})
            if key is not None:  # a request: this client declares no capabilities, so only ping has a result
                answer: Json = {"result": {}} if message["method"] == "ping" else {"error": _NOT_HERE}
                self.write(json.dumps({"jsonrpc": "2.0", "id": key, **answer}).encode() + b"\n")
            return
        waiting = self._pending.get(key) if isinstance(key, int | str) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        elif isinstance(key, str):
            self.unmatched_ids.append(key)


def _read(stream: int) -> bytes:
    try:
        return os.read(stream, 65536)
    except OSError:
        return b""


def _split_noise(line: bytes) -> tuple[str | None, object]:
    """Split a line into noise and a message; None for a part that is missing."""
    text = line.decode("utf-8", "replace").rstrip("\r")
    for start in dict.fromkeys((0, text.find('{"jsonrpc"'), text.find('{"id"'))):
        if start < 0:
            continue
        try:
            message: object = json.loads(text[start:])
        except (ValueError, RecursionError):
            continue
        if is_array(message) or (is_object(message) and message.get("jsonrpc") == "2.0"):
            return text[:start] or None, message
    return text, None


@dataclass
class ProcessProbe(Probe):
    """Server under test that is started as a process.

    Attributes:
        command: The command that starts it.
        main: The process that checks use; None before it has started.
        reported_noise: The number of noise lines that have been reported.
        is_output_checked: Whether stdout has been checked.
        has_main_failed: Whether the main process no longer responds.
        other: A process with the encoding of Windows; None before it has started.
        started: All processes.
    """

    command: Command = field(kw_only=True)
    main: StdioConnection | None = None
    reported_noise: int = 0
    is_output_checked: bool = False
    has_main_failed: bool = False
    other: StdioConnection | None = None
    started: list[StdioConnection] = field(default_factory=list[StdioConnection])

    def start(self, env: Mapping[str, str] | None = None) -> StdioConnection:
        """Start another process.

        Args:
            env: More variables of its environment.

        Raises:
            TransportError: It cannot be started.
        """
        process = StdioConnection(self.command, self.response_timeout, env)
        self.started.append(process)
        return process

    async def close(self) -> None:
        """Stop all processes."""
        await asyncio.gather(*(process.close() for process in self.started))

"""A process under test: raw access to its standard streams, and checks of its start, output, encoding and end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ..._utils.concurrency import call_in_loop
from ..._utils.exceptions import TransportError
from ...client.stdio.child_process import ChildProcess, child_environment
from ...client.targets.infer_target import StdioServerConfig
from ...protocol.jsonrpc import Json, is_array, is_object
from ...protocol.revisions import HANDSHAKE, LATEST_HANDSHAKE
from ..exit_status import Status
from .protocol_checks import (
    ACKNOWLEDGED,
    FUTURE,
    Answer,
    CheckResult,
    Probe,
    answer_from_message,
    compare_revisions,
    initialize_params,
    quoted,
    required,
    server_of,
    stateless_params,
)

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NOT_HERE: Final = {"code": -32601, "message": "method not found"}
_LAST_LINES: Final = 8
_CLOSING: Final = 1.0


class StdioConnection:
    """Connection to a process over its standard streams, which sees every byte.

    Args:
        config: The command that starts it.
        response_timeout: Seconds for each response.
        env: More variables of its environment.

    Attributes:
        process: The process.
        noise: Output on stdout that is not a message, with the number of its line.
        lines: The number of lines on stdout.
        messages: The number of messages on stdout.
        has_byte_order_mark: Whether the first line began with one.
        has_returns: Whether messages ended with a carriage return.
        unmatched_ids: String ids of responses without a request.
        stderr_lines: The last lines of its stderr.
        ended: Done at the end of its stdout.

    Raises:
        TransportError: It cannot be started.
    """

    def __init__(self, config: StdioServerConfig, response_timeout: float, env: Mapping[str, str]) -> None:
        self.noise: list[tuple[int, str]] = []
        self.lines = 0
        self.messages = 0
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
        self._acknowledged: asyncio.Future[Json] = self._loop.create_future()
        variables = child_environment({**config.env, **env})
        cwd = None if config.cwd is None else os.fspath(config.cwd)
        self.process = ChildProcess(config.command, environment=variables, cwd=cwd, grace=_CLOSING)
        self._readers = [
            self._read(self.process.stdout, self._process_line, self.ended),
            self._read(self.process.stderr, self._process_stderr_line, self._stderr_ended),
        ]

    @property
    def exit_reason(self) -> str:
        """The signal or exit status of the process in words; empty while it runs."""
        status = self.process.status
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
        request_id: str | None = None,
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
        seconds = self._response_timeout if seconds is None else seconds
        try:
            if not self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n"):
                await self._wait_for_end()
                return Answer(problem="no response: the process closed its standard input")
            await asyncio.wait((answered, self.ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pending.pop(key, None)
        passed = self._loop.time() - started_at
        if answered.done():
            return answer_from_message(answered.result(), passed)
        problem = f"no response within {seconds:g} s"
        if self.ended.done():
            await self._wait_for_end()
            problem = f"no response: the process ended {self.exit_reason}".rstrip()
        return Answer(problem=problem, seconds=passed)

    async def _wait_for_end(self) -> None:
        """Wait for the exit and for all output; briefly, since a child process may keep a stream open."""
        await asyncio.wait((self.process.exited, self.ended, self._stderr_ended), timeout=_CLOSING)

    async def notify(self, method: str) -> None:
        """Send a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method}).encode() + b"\n")

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Send `subscriptions/listen`, and wait for the acknowledgement."""
        self._acknowledged = self._loop.create_future()
        request = self.request("subscriptions/listen", stateless_params(params), seconds=seconds)
        sending = asyncio.ensure_future(request)
        await asyncio.wait((self._acknowledged, sending), return_when=asyncio.FIRST_COMPLETED)
        if self._acknowledged.done():
            sending.cancel()
            return Answer(self._acknowledged.result())
        return await sending

    def write(self, data: bytes) -> bool:
        """Write to its stdin, and return whether that is open."""
        try:
            os.write(self.process.stdin, data)
        except (OSError, ValueError):
            return False
        return True

    async def exit_within(self, seconds: float) -> bool:
        """Return whether it exits within some seconds."""
        await asyncio.wait((self.process.exited,), timeout=seconds)
        return self.process.exited.done()

    async def has_orphans(self, seconds: float) -> bool:
        """Return whether its child processes still run some seconds after its exit."""
        for _ in range(int(seconds / 0.05)):
            if not self.process.signal(0):
                return False
            await asyncio.sleep(0.05)  # no event reports their exit
        return True

    async def close(self) -> None:
        """Stop it and its child processes."""
        await self.process.stop()
        for reader in self._readers:  # at the end of its streams
            await asyncio.to_thread(reader.join, _CLOSING)
        self.process.close()

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
                    call_in_loop(self._loop, on_line, line)
            if rest:
                call_in_loop(self._loop, on_line, rest)
            call_in_loop(self._loop, ended.set_result, None)

        thread = threading.Thread(target=read, name="mcpkit-doctor", daemon=True)
        thread.start()
        return thread

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
            self.noise.append((self.lines, noise))
        if message is None:
            return
        self.has_returns |= line.endswith(b"\r")
        for each in message if is_array(message) else [message]:
            if is_object(each):
                self._dispatch(each)

    def _dispatch(self, message: Json) -> None:
        key = message.get("id")
        self.messages += 1
        if "method" in message:
            params = message.get("params")
            if message["method"] == ACKNOWLEDGED and not self._acknowledged.done():
                self._acknowledged.set_result(params if is_object(params) else {})
            if key is not None:  # a request: this client declares no capabilities, so only ping has a result
                answer: Json = {"result": {}} if message["method"] == "ping" else {"error": _NOT_HERE}
                self.write(json.dumps({"jsonrpc": "2.0", "id": key, **answer}).encode() + b"\n")
            return
        answered = self._pending.get(key) if isinstance(key, int | str) else None
        if answered is not None and not answered.done():
            answered.set_result(message)
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
        config: The command that starts it.
        main: The process that checks use; None before it has started.
        reported_noise: The number of noise lines that have been reported.
        is_output_checked: Whether stdout has been checked.
        has_main_failed: Whether the main process no longer responds.
        other: A process with the encoding of Windows; None before it has started.
        started: All processes.
    """

    config: StdioServerConfig = field(kw_only=True)
    main: StdioConnection | None = None
    reported_noise: int = 0
    is_output_checked: bool = False
    has_main_failed: bool = False
    other: StdioConnection | None = None
    started: list[StdioConnection] = field(default_factory=list[StdioConnection])

    def start(self, **env: str) -> StdioConnection:
        """Start another process.

        Args:
            env: More variables of its environment.

        Raises:
            TransportError: It cannot be started.
        """
        process = StdioConnection(self.config, self.response_timeout, env)
        self.started.append(process)
        return process

    async def initialize(self, process: StdioConnection, revision: str = LATEST_HANDSHAKE) -> Answer:
        """Send `initialize` as the first request of a process."""
        return await process.request("initialize", initialize_params(revision), seconds=self.first_timeout)

    async def close(self) -> None:
        """Stop all processes."""
        await asyncio.gather(*(process.close() for process in self.started))


# Checks

_SLOW: Final = 15.0
_FLUSH_TIMEOUT: Final = 3.0
"""Seconds that a process gets to flush its output after its input is closed."""
_MAX_NOISE: Final = 3
_NON_ASCII_ID: Final = "naïve Á 日本 😀"
"""A request id that servers must return unchanged; some of its UTF-8 bytes are undefined in Windows-1252."""
_ID_TIMEOUT: Final = 3.0
_EXIT_TIMEOUT: Final = 5.0
_ORPHAN_TIMEOUT: Final = 1.0


async def check_start(probe: ProcessProbe, check: CheckResult) -> None:
    """Start the process, and wait for its first response."""
    try:
        main = probe.main = probe.start()
    except TransportError as error:
        probe.status = Status.NOT_REACHED
        check.add_finding("not-started", problem=str(error))
        return
    started_at = time.monotonic()
    answer = await probe.initialize(main)
    passed = time.monotonic() - started_at
    if answer.result is None and answer.error is None:
        probe.status = Status.NOT_REACHED
        if main.ended.done():
            check.add_finding("ended-at-start", how=main.exit_reason, last=main.stderr_tail)
            return
        main.process.close_input()
        await asyncio.wait((main.ended,), timeout=_FLUSH_TIMEOUT)
        if main.messages:
            probe.status = Status.FINDINGS
            check.add_finding("buffered-output")
            return
        check.add_finding("no-answer", seconds=passed, last=main.stderr_tail)
        return
    if passed > _SLOW:
        check.add_finding("slow-start", seconds=passed)
    if answer.result is not None:
        probe.initialize_result = answer.result
        await main.notify("notifications/initialized")
    check.summary = f"first response after {passed:.1f} s{server_of(answer.result)}"


async def check_stdout(probe: ProcessProbe, check: CheckResult) -> None:
    """Find output on stdout that is not a message."""
    main = required(probe.main)
    if main.has_byte_order_mark and not probe.is_output_checked:
        check.add_finding("byte-order-mark")
    if main.has_returns and not probe.is_output_checked:
        check.add_finding("crlf")
    for line, text in main.noise[probe.reported_noise :][:_MAX_NOISE]:
        check.add_finding("noise", line=line, text=quoted(text))
    if not check.findings and not probe.is_output_checked:
        check.summary = "messages alone"
    probe.reported_noise = len(main.noise)
    probe.is_output_checked = True


async def check_process_revisions(probe: ProcessProbe, check: CheckResult) -> None:
    """Request each revision from a second process, `server/discover` first, as clients of 2026-07-28 do."""
    process = probe.start()
    discovered = await process.request("server/discover", stateless_params(), seconds=probe.first_timeout)
    answers: dict[str, Answer] = {}
    for revision in (LATEST_HANDSHAKE, *HANDSHAKE[:-1], FUTURE):
        answer = await process.request("initialize", initialize_params(revision))
        if answer.result is None and answers:  # some servers accept one initialize per process
            process = probe.start()
            answer = await probe.initialize(process, revision)
        if not answers and discovered.result is None and discovered.error is None:
            check.add_finding("discover-silent" if answer.result is not None else "discover-ends")
            if answer.result is None:
                process = probe.start()
        answers[revision] = answer
    compare_revisions(probe, check, answers, discovered)
    if probe.discover_result is not None:
        probe.listen = probe.start().listen
    if probe.revisions:
        probe.send_request = required(probe.main).request


async def check_malformed(probe: ProcessProbe, check: CheckResult) -> None:
    """Send a line that is not JSON, and check that the process continues."""
    main = required(probe.main)
    main.write(b'{"jsonrpc": "2.0", "id": \n')
    answer = await probe.request("tools/list", {})
    if not answer.result and not answer.error:
        check.add_finding("malformed-ends")
        probe.has_main_failed = True
        return
    check.summary = "the server continues after one"


async def check_encoding(probe: ProcessProbe, check: CheckResult) -> None:
    """Send a non-ASCII id, with this system's encoding and with that of Windows."""
    if not probe.has_main_failed and (problem := await _changed_id(probe, required(probe.main))):
        check.add_finding("encoding", problem=problem)
        return
    other = probe.other = probe.start(PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
    answer = await probe.initialize(other)
    if answer.result is not None or probe.is_stateless:
        await other.notify("notifications/initialized")
        if problem := await _changed_id(probe, other):
            check.add_finding("encoding-windows", problem=problem)
            return
    check.summary = "UTF-8, whatever the system's encoding"


async def _changed_id(probe: ProcessProbe, process: StdioConnection) -> str:
    """Return the wrong id or problem of a response to a non-ASCII id; empty if the id is right."""
    before = len(process.unmatched_ids)
    params = stateless_params() if probe.is_stateless else {}
    seconds = min(_ID_TIMEOUT, probe.response_timeout)
    answer = await process.request("tools/list", params, request_id=_NON_ASCII_ID, seconds=seconds)
    if answer.result is not None or answer.error is not None:
        return ""
    others = process.unmatched_ids[before:]
    return f"{_NON_ASCII_ID!r} as {quoted(others[0])}" if others else str(answer)


async def check_input_end(probe: ProcessProbe, check: CheckResult) -> None:
    """Close stdin, and check that the process and its child processes exit."""
    main = probe.start() if probe.has_main_failed else required(probe.main)
    if probe.has_main_failed:
        await probe.initialize(main)
    started_at = time.monotonic()
    main.process.close_input()
    if not await main.exit_within(_EXIT_TIMEOUT):
        check.add_finding("input-end-ignored", seconds=_EXIT_TIMEOUT)
        return
    passed = time.monotonic() - started_at
    if await main.has_orphans(_ORPHAN_TIMEOUT):
        check.add_finding("orphans")
    check.summary = f"the process ended after {passed:.1f} s"


async def check_sigterm(probe: ProcessProbe, check: CheckResult) -> None:
    """Send SIGTERM to another process, and check that it exits."""
    other = probe.other
    if os.name == "nt" or other is None or other.ended.done():
        return
    started_at = time.monotonic()
    other.process.signal(signal.SIGTERM)  # its child processes get it, too
    if not await other.exit_within(_EXIT_TIMEOUT):
        check.add_finding("sigterm-ignored", seconds=_EXIT_TIMEOUT)
        return
    check.summary = f"the process ended after {time.monotonic() - started_at:.1f} s"

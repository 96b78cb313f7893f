"""A conversation with a process, of which every byte is seen."""

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
from typing import Final, NamedTuple, TypeVar

from ....client.transports.processes.environment import environment
from ....client.transports.processes.process import Process
from ....protocol.jsonrpc import Json, is_array, is_object
from .conversation import ACKNOWLEDGED, Answer, answer_of

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NOT_HERE: Final = {"code": -32601, "message": "method not found"}
_LAST_LINES: Final = 8
_CLOSING: Final = 1.0

T = TypeVar("T")


class Command(NamedTuple):
    """How a process is started.

    Attributes:
        words: The program, and its arguments.
        env: Variables of its environment, beside the few that are inherited.
        cwd: The folder in which it starts; None for that of this process.
    """

    words: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None


class Noise(NamedTuple):
    """A line of standard output that is no message, by its number."""

    line: int
    text: str


class ProcessConversation:
    """Asks a process over its standard streams.

    Args:
        command: How it is started.
        patience: Seconds that it has for each answer.
        env: More variables of its environment.

    Attributes:
        noise: What is no message on its standard output.
        lines: How many lines it has written there.
        has_byte_order_mark: Whether the first of them began with one.
        has_returns: Whether messages ended with a carriage return, too.
        unknown_names: The ids of answers that nobody has waited for, where they are texts.
        last_errors: The last lines of its standard error.
        ended: Done when its standard output has ended.

    Raises:
        TransportError: It cannot be started.
    """

    def __init__(self, command: Command, patience: float, env: Mapping[str, str] | None = None) -> None:
        self.noise: list[Noise] = []
        self.lines = 0
        self.has_byte_order_mark = False
        self.has_returns = False
        self.unknown_names: list[str] = []
        self.last_errors: deque[str] = deque(maxlen=_LAST_LINES)
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._pending: dict[int | str, asyncio.Future[Json]] = {}
        self._last = 0
        self._messages = 0
        self._acknowledged: asyncio.Future[Json] = self._loop.create_future()
        variables = environment({**command.env, **(env or {})})
        self._process = Process(command.words, environment=variables, cwd=command.cwd, grace=_CLOSING)
        self._readers = [
            self._read(self._process.stdout, self._heard, self.ended),
            self._read(self._process.stderr, self._complained, None),
        ]

    @property
    def how_it_ended(self) -> str:
        """How the process has ended, in words; empty while it lives."""
        status = self._process.status
        if status is None:
            return ""
        if status < 0:
            with suppress(ValueError):
                return f"by signal {signal.Signals(-status).name}"
        return f"with exit status {status}"

    @property
    def last_words(self) -> str:
        """The last lines of its standard error, after a colon; empty where there are none."""
        return ": " + " | ".join(self.last_errors) if self.last_errors else ""

    async def ask(
        self,
        method: str,
        params: Json | None = None,
        *,
        name: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its answer."""
        self._last += 1
        key = self._last if name is None else name
        message: Json = {"jsonrpc": "2.0", "id": key, "method": method}
        if params is not None:
            message["params"] = params
        answered: asyncio.Future[Json] = self._loop.create_future()
        self._pending[key] = answered
        begun = self._loop.time()
        try:
            if not self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n"):
                return Answer(problem="no response: the process closed its standard input")
            return await self.awaited(key, begun, self._patience if seconds is None else seconds)
        finally:
            self._pending.pop(key, None)

    async def awaited(self, key: int | str, begun: float, seconds: float) -> Answer:
        """Wait for an answer that may come yet."""
        answered = self._pending[key]
        await asyncio.wait((answered, self.ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        passed = self._loop.time() - begun
        if answered.done():
            return answer_of(answered.result(), passed)
        if self.ended.done():
            await self.exit_within(_CLOSING)
            return Answer(
                problem=f"no response: the process ended {self.how_it_ended}".rstrip(), seconds=passed
            )
        return Answer(problem=f"no response within {seconds:g} s", seconds=passed)

    async def tell(self, method: str) -> None:
        """Send a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method}).encode() + b"\n")

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Listen to changes, and wait until that is acknowledged."""
        self._acknowledged = self._loop.create_future()
        asking = asyncio.ensure_future(self.ask("subscriptions/listen", params, seconds=seconds))
        await asyncio.wait((self._acknowledged, asking), return_when=asyncio.FIRST_COMPLETED)
        if self._acknowledged.done():
            asking.cancel()
            return Answer(self._acknowledged.result())
        return await asking

    def write(self, data: bytes) -> bool:
        """Write to its standard input, and say whether it is open."""
        try:
            os.write(self._process.stdin, data)
        except (OSError, ValueError):
            return False
        return True

    async def was_flushed(self, seconds: float) -> bool:
        """Wait for the end of its output, and say whether there was a message."""
        await asyncio.wait((self.ended,), timeout=seconds)
        return self._messages > 0

    def close_input(self) -> None:
        """Let it find the end of its standard input."""
        self._process.close_input()

    async def exit_within(self, seconds: float) -> bool:
        """Wait for its end, and say whether it has come."""
        await asyncio.wait((self._process.exited,), timeout=seconds)
        return self._process.exited.done()

    def terminate(self) -> None:
        """Send SIGTERM to it and all that it has started."""
        self._process.signal(signal.SIGTERM)

    async def has_left_others(self, seconds: float) -> bool:
        """Say whether what it has started still runs so long after its end."""
        for _ in range(int(seconds / 0.05)):
            if not self._process.signal(0):
                return False
            await asyncio.sleep(0.05)  # nothing tells when they end
        return True

    async def close(self) -> None:
        """End it, with all that it has started."""
        await self._process.stop()
        for reader in self._readers:  # at the end of its streams
            await asyncio.to_thread(reader.join, _CLOSING)
        self._process.close()

    # What it says

    def _read(
        self, stream: int, heard: Callable[[bytes], None], ended: asyncio.Future[None] | None
    ) -> threading.Thread:
        """Read lines by a thread, as the loop of Windows cannot read pipes like these."""
        if sys.platform != "win32":
            os.set_blocking(stream, True)

        def read() -> None:
            rest = b""
            while data := _read(stream):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._call(heard, line)
            if rest:
                self._call(heard, rest)
            if ended is not None:
                self._call(ended.set_result, None)

        thread = threading.Thread(target=read, name="mcpkit-doctor", daemon=True)
        thread.start()
        return thread

    def _call(self, function: Callable[[T], object], argument: T) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(function, argument)

    def _complained(self, line: bytes) -> None:
        if text := line.decode("utf-8", "replace").strip():
            self.last_errors.append(text[:200])

    def _heard(self, line: bytes) -> None:
        self.lines += 1
        if self.lines == 1 and line.startswith(_BYTE_ORDER_MARK):
            self.has_byte_order_mark = True
            line = line[len(_BYTE_ORDER_MARK) :]
        noise, message = _read_line(line)
        if noise is not None:
            self.noise.append(Noise(self.lines, noise))
        if message is None:
            return
        self.has_returns |= line.endswith(b"\r")
        for each in message if is_array(message) else [message]:
            if is_object(each):
                self._take(each)

    def _take(self, message: Json) -> None:
        key = message.get("id")
        self._messages += 1
        if "method" in message:
            params = message.get("params")
            if message["method"] == ACKNOWLEDGED and not self._acknowledged.done():
                self._acknowledged.set_result(params if is_object(params) else {})
            if key is not None:  # a question: nothing of it is declared, but ping
                answer: Json = {"result": {}} if message["method"] == "ping" else {"error": _NOT_HERE}
                self.write(json.dumps({"jsonrpc": "2.0", "id": key, **answer}).encode() + b"\n")
            return
        waiting = self._pending.get(key) if isinstance(key, int | str) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        elif isinstance(key, str):
            self.unknown_names.append(key)


def _read(stream: int) -> bytes:
    try:
        return os.read(stream, 65536)
    except OSError:
        return b""


def _read_line(line: bytes) -> tuple[str | None, object]:
    """Return what of a line is no message, and what is one; None each where there is nothing of it."""
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

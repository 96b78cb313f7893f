"""One server process under `--reload`: start and stop it, and exchange messages with it."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Final
from uuid import uuid4

from ..._utils.exceptions import INTERNAL_ERROR, ProtocolError, TransportError
from ...client.client_messages import OutgoingMessage
from ...client.stdio.stdio_transport import StdioTransport
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Json, RequestId, decode, encode, is_array, is_object, object_at
from ...protocol.jsonrpc_validation import id_of_answer, is_call
from ...transports.pipes import Framing, PipeInput, PipeOutput
from ...transports.standard_streams import StandardStreams

GRACE: Final = 1.0
"""Seconds to wait for a process to exit, and again after SIGTERM; its requests have ended before."""

_ERROR_LINE: Final = re.compile(r"^mcpkit: (.+)", re.MULTILINE)
"""The last line of `mcpkit run` for code that raises: file, line and error."""

_COMMAND_PREFIX: Final = re.compile(r"^The server \([^)]*\) ")

_ID_PREFIX: Final = f"mcpkit-{uuid4().hex}-"
"""Start of the ids of the supervisor's own requests; the client's ids are forwarded unchanged."""


class ChildEndedError(Exception):
    """The process has ended, or cannot be started; the message gives the reason."""


class Child:
    """One server process.

    Args:
        command: The command that starts it.
        environment: Its complete environment.
        on_message: Called with the child and each message for the client.
        on_exit: Called with the child if it exits before `stop`.

    Attributes:
        has_answered: Whether it has sent a response, which shows that its code can be imported.
        is_initialized: Whether it has received `notifications/initialized`.
        is_retired: Whether its messages are discarded.
        problem: The reason for its end; None while it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        on_message: Callable[[Child, Json], None],
        on_exit: Callable[[Child], None],
    ) -> None:
        self.has_answered = False
        self.is_initialized = False
        self.is_retired = False
        self.problem: str | None = None
        self._on_message = on_message
        self._on_exit = on_exit
        self._ids = map(f"{_ID_PREFIX}{{}}".format, count())
        self._pending: dict[RequestId, asyncio.Future[Json]] = {}
        self._transport = StdioTransport(command, env=environment, grace=GRACE)
        self._unsent: deque[bytes] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process, and return as soon as it runs.

        Raises:
            ChildEndedError: It cannot be started.
        """
        try:
            await self._transport.open(self)
        except TransportError as error:
            self.problem = str(error)
            raise ChildEndedError(self.problem) from None

    def send(self, message: Json) -> None:
        """Queue a message; messages to a process that has ended are discarded."""
        self._unsent.append(encode(message))
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send_queued())

    async def request(self, method: str, params: Json) -> Json:
        """Send a request of the supervisor's own, and return its result.

        Raises:
            ProtocolError: The response is an error.
            ChildEndedError: The process ends before it responds.
        """
        if self.problem is not None:
            raise ChildEndedError(self.problem)
        id_ = next(self._ids)
        response: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[id_] = response
        try:
            self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
            message = await response
        finally:
            del self._pending[id_]
        error = message.get("error")
        if is_object(error):
            code = error.get("code")
            raise ProtocolError(code if type(code) is int else INTERNAL_ERROR, str(error.get("message")))
        return object_at(message, "result")

    async def stop(self) -> None:
        """Stop the process, and return when it has exited."""
        self.is_retired = True
        self._end("the process is being stopped")
        await self._transport.close()

    # Called by the transport

    def receive(self, line: bytes, request_id: RequestId | None = None) -> None:
        """Process a message or a batch; a response that is not JSON fails its request."""
        try:
            message: object = decode(line)
        except ProtocolError as error:
            if not is_call(line) and (id_ := id_of_answer(line, line)) is not None:
                self.fail(id_, error)
            return
        for each in message if is_array(message) else [message]:
            if is_object(each):
                self._dispatch(each)

    def is_pending(self, id_: RequestId) -> bool:
        """Return whether a response to a request is still accepted."""
        return not self.is_retired

    def fail(self, id_: RequestId, error: Exception) -> None:
        """Complete a request with an error because its response is unreadable."""
        self._dispatch(
            {"jsonrpc": "2.0", "id": id_, "error": {"code": INTERNAL_ERROR, "message": str(error)}}
        )

    def connection_lost(self, error: Exception) -> None:
        """Fail pending requests after the process has exited."""
        lines = _ERROR_LINE.findall(str(error))
        self._end(lines[-1] if lines else _COMMAND_PREFIX.sub("it ", str(error)))
        if not self.is_retired:
            self._on_exit(self)

    def _dispatch(self, message: Json) -> None:
        id_: object = message.get("id")
        if "method" not in message:
            self.has_answered = True
            response = self._pending.get(id_) if isinstance(id_, str) else None
            if response is not None:
                if not response.done():
                    response.set_result(message)
                return
            if isinstance(id_, str) and id_.startswith(_ID_PREFIX):
                return  # the request was cancelled
        if not self.is_retired:
            self._on_message(self, message)

    def _end(self, problem: str) -> None:
        self.problem = self.problem or problem
        for response in self._pending.values():
            if not response.done():
                response.set_exception(ChildEndedError(self.problem))

    async def _send_queued(self) -> None:
        try:
            while self._unsent:
                outgoing = OutgoingMessage()
                outgoing.line = self._unsent.popleft()
                waiting = self._transport.send(outgoing)
                if waiting is not None:
                    await waiting
        except TransportError:
            self._unsent.clear()  # `connection_lost` fails the pending requests
        finally:
            self._sender = None


# The client

_FLUSH_TIME = 1.0
"""Seconds at shutdown for the client to read remaining messages."""


class ClientPipe:
    """Messages to and from the client over standard streams.

    Args:
        streams: The standard streams that are connected to the client.
        on_message: Called with each JSON value that it sends; messages of a batch are passed one by one.

    Attributes:
        closed: Set when the client has closed one of the streams.
        is_output_closed: Whether the client has closed the stream that it reads.
    """

    def __init__(self, streams: StandardStreams, on_message: Callable[[object], None]) -> None:
        self.closed = asyncio.Event()
        self.is_output_closed = False
        self._on_message = on_message
        self._framing = Framing()
        self._lines: deque[bytes | ProtocolError] = deque()
        self._is_at_end = False
        self._output = PipeOutput(streams.output, on_room=self._resume, on_broken=self._on_output_closed)
        self._input = PipeInput(streams.input, self._read)

    def send(self, message: Json) -> None:
        """Queue a message for the client."""
        self._output.send(encode(message))

    async def aclose(self) -> None:
        """Stop reading, and flush the output for at most one second."""
        self._input.close()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._output.flush(), _FLUSH_TIME)
        self._output.close()

    def _read(self, chunk: bytes) -> None:
        if chunk:
            self._lines.extend(self._framing.feed(chunk))
        else:
            self._is_at_end = True
            self._lines.extend(self._framing.finish())
        self._process_lines()

    def _process_lines(self) -> None:
        while self._lines:
            if self._output.is_full:
                self._input.pause()
                return
            line = self._lines.popleft()
            try:
                if isinstance(line, ProtocolError):
                    raise line
                message: object = decode(line)
            except ProtocolError as problem:
                self._output.send(jsonrpc.error(None, problem))
                continue
            for each in message if is_array(message) else [message]:
                self._on_message(each)
        if self._is_at_end:
            self.closed.set()

    def _resume(self) -> None:
        self._process_lines()
        if not self._output.is_full:
            self._input.resume()

    def _on_output_closed(self) -> None:
        self.is_output_closed = True
        self.closed.set()

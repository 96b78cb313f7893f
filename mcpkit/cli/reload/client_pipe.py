"""The client's side of `--reload` over stdio: one pipe to the client while server processes are replaced."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from ..._utils.exceptions import ProtocolError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Json, RequestId, decode, encode, is_array, is_id
from ...transports.pipes import Framing, PipeInput, PipeOutput
from ...transports.standard_streams import StandardStreams
from .child import Child

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


class ForwardedRequests:
    """Requests of server processes to the client, which has not responded yet.

    Each is sent under a new id, since two processes may use the same one.

    Args:
        send: Sends a message to the client.
    """

    def __init__(self, send: Callable[[Json], None]) -> None:
        self._send = send
        self._ids = count()
        self._pending: dict[RequestId, tuple[Child, object]] = {}

    def forward(self, child: Child, request: Json) -> None:
        """Send a request of a process to the client."""
        id_ = next(self._ids)
        self._pending[id_] = child, request["id"]
        self._send({**request, "id": id_})

    def respond(self, message: Json) -> None:
        """Send a response of the client to the process that sent the request; an unknown one is ignored."""
        id_: object = message.get("id")
        if is_id(id_) and id_ in self._pending:
            child, original_id = self._pending.pop(id_)
            child.send({**message, "id": original_id})

    def remove(self, child: Child, original_id: RequestId) -> RequestId | None:
        """Remove a request that a process cancels, and return its id for the client; None if it is unknown."""
        for id_, each in self._pending.items():
            if each == (child, original_id):
                del self._pending[id_]
                return id_
        return None

    def cancel_all(self, child: Child) -> None:
        """Cancel all requests of a process at the client."""
        for id_ in [id_ for id_, (sender, _) in self._pending.items() if sender is child]:
            del self._pending[id_]
            params = {"requestId": id_, "reason": "the server process that sent the request was stopped"}
            self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

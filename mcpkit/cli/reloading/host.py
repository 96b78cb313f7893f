"""The host at the other end of this process's standard streams, which stays while processes behind it change."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from ..._utils.exceptions import ProtocolError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Json, decode, encode, is_array
from ...transports.pipes import Framing, PipeInput, PipeOutput
from ...transports.standard_streams import StandardStreams

_FLUSH_TIME = 1.0
"""Seconds at shutdown for the host to read remaining messages."""


class Host:
    """The host.

    Args:
        streams: Where it is read from, and written to.
        take: Called with each JSON value that it sends; those of a batch come one by one.

    Attributes:
        is_gone: Set when nothing more comes from it, or it reads no more.
        is_deaf: Whether it reads no more.
    """

    def __init__(self, streams: StandardStreams, take: Callable[[object], None]) -> None:
        self.is_gone = asyncio.Event()
        self.is_deaf = False
        self._take = take
        self._framing = Framing()
        self._lines: deque[bytes | ProtocolError] = deque()
        self._is_at_end = False
        self._output = PipeOutput(streams.output, on_room=self._go_on, on_broken=self._hear_of_deafness)
        self._input = PipeInput(streams.input, self._read)

    def send(self, message: Json) -> None:
        """Send a message."""
        self._output.send(encode(message))

    async def aclose(self) -> None:
        """Stop reading, and write what waits, as far as it is read in time."""
        self._input.close()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._output.flush(), _FLUSH_TIME)
        self._output.close()

    def _read(self, chunk: bytes) -> None:
        if chunk:
            lines = self._framing.feed(chunk)
        else:
            self._is_at_end = True
            lines = self._framing.finish()
        self._lines.extend(lines)
        self._deliver()

    def _deliver(self) -> None:
        while self._lines:
            if self._output.is_full:
                self._input.pause()
                return
            self._receive(self._lines.popleft())
        if self._is_at_end:
            self.is_gone.set()

    def _receive(self, line: bytes | ProtocolError) -> None:
        try:
            if isinstance(line, ProtocolError):
                raise line
            message: object = decode(line)
        except ProtocolError as problem:
            self._output.send(jsonrpc.error(None, problem))
            return
        for each in message if is_array(message) else [message]:
            self._take(each)

    def _go_on(self) -> None:
        self._deliver()
        if not self._output.is_full:
            self._input.resume()

    def _hear_of_deafness(self) -> None:
        self.is_deaf = True
        self.is_gone.set()

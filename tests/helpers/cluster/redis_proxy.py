"""What stands between the servers and their Redis, and makes the way long, cuts it, or loses replies on it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

_CHUNK = 65536


class RedisProxy:
    """Passes connections on to a Redis, in the running event loop.

    Args:
        upstream: The port of the Redis; it may be another one later.

    Attributes:
        port: Where it listens itself.
        delay: Seconds that each way takes.
        is_open: Whether new connections are taken.
        swallows: How many replies are lost from now on, each with its connection: what was asked has been done.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.port = 0
        self.delay = 0.0
        self.is_open = True
        self.swallows = 0
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """What the servers are told."""
        return f"redis://127.0.0.1:{self.port}/0"

    async def __aenter__(self) -> RedisProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.is_open = False
        self.cut()
        for each in self._serving:
            each.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    def cut(self, draw: Random | None = None) -> None:
        """Break all connections that there are, or about half of them."""
        for each in self._connections:
            if draw is None or draw.random() < 0.5:
                each.transport.abort()

    def pause(self) -> None:
        """Let nothing through, either way, until `resume`."""
        self._flows.clear()

    def resume(self) -> None:
        """Let through what waits, and what comes."""
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._connect(reader, writer)
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_open:
            return
        upstream, to_upstream = await asyncio.open_connection("127.0.0.1", self.upstream)
        ends = {writer, to_upstream}
        self._connections |= ends
        ways = [
            asyncio.ensure_future(self._pass_on(reader, to_upstream, is_reply=False)),
            asyncio.ensure_future(self._pass_on(upstream, writer, is_reply=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ways:
                each.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._connections -= ends
            to_upstream.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_reply: bool
    ) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(_CHUNK):
            await self._flows.wait()
            if is_reply and self.swallows:
                self.swallows -= 1
                return
            if self.delay:
                loop.call_later(self.delay, self._write, writer, data)
            else:
                writer.write(data)
                await writer.drain()

    @staticmethod
    def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
        if not writer.is_closing():
            writer.write(data)

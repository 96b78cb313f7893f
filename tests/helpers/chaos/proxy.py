"""A proxy on the way to a real server, which does what proxies do on bad days; which of it, chance says."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

FAULTS = (
    "404", "429", "502", "503", "503 and when", "504", "cut", "nothing",
    "502 though done", "503 though done", "504 though done", "cut though done", "half", "late", "nothing though done",
    "twice",
)  # fmt: skip
_CHUNK = 65536


class FaultyProxy:
    """Passes requests on, each by a connection of its own to the server.

    Args:
        port: Where the server is.

    Attributes:
        port: Where the proxy is.
        faults: Those that it has had since it was told to `break_down`.
    """

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._draw = Random(0)
        self._left = 0
        self.port = 0
        self.faults: list[str] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Take connections."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Take no more, and end those that there are."""
        assert self._server is not None
        self._server.close()
        await asyncio.sleep(0.01)
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    def break_down(self, draw: Random, most: int) -> None:
        """Have so many faults at most from now on."""
        self._draw, self._left, self.faults = draw, most, []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._pass_on(reader, writer)
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one request on, and its answer back; then the connection ends."""
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head[:-4].split(b"\r\n")
        kept = [line for line in lines if not line.lower().startswith(b"connection:")]
        lengths = [
            int(line.partition(b":")[2]) for line in lines if line.lower().startswith(b"content-length:")
        ]
        body = await reader.readexactly(sum(lengths))
        fault = self._fault() if head.startswith(b"POST") else ""
        if fault[:3].isdigit() and "done" not in fault:
            await self._say(writer, fault)
        elif fault == "nothing":
            await reader.read()
        elif fault != "cut":
            upstream, to_upstream = await asyncio.open_connection("127.0.0.1", self._upstream)
            try:
                to_upstream.write(b"\r\n".join([*kept, b"Connection: close", b"", b""]) + body)
                await self._give_back(fault, upstream, reader, writer)
            finally:
                to_upstream.transport.abort()

    async def _give_back(
        self,
        fault: str,
        upstream: asyncio.StreamReader,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if not fault:
            gone = asyncio.ensure_future(reader.read())
            coming = asyncio.ensure_future(self._copy(upstream, writer))
            try:
                await asyncio.wait((gone, coming), return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                coming.cancel()
                await asyncio.wait((gone, coming))
                for task in (gone, coming):
                    task.cancelled() or task.exception()
            return
        answer = await upstream.read()
        if fault == "half":
            writer.write(answer[: max(1, len(answer) * 2 // 3)])
            await writer.drain()
        elif fault == "twice":
            writer.write(answer.replace(b"connection: close\r\n", b"") * 2)
            await writer.drain()
            await reader.read()
        elif fault == "late":
            await asyncio.sleep(self._draw.choice([0.2, 4]))
            writer.write(answer)
            await writer.drain()
        elif fault == "nothing though done":
            await reader.read()
        elif fault != "cut though done":
            await self._say(writer, fault)

    @staticmethod
    async def _copy(upstream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await upstream.read(_CHUNK):
            writer.write(data)
            await writer.drain()

    @staticmethod
    async def _say(writer: asyncio.StreamWriter, fault: str) -> None:
        wait = "Retry-After: 1\r\n" if "when" in fault else ""
        head = f"HTTP/1.1 {fault[:3]} Said\r\nContent-Length: 0\r\n{wait}Connection: close\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()

    def _fault(self) -> str:
        if not self._left or self._draw.random() < 0.6:
            return ""
        self._left -= 1
        self.faults.append(self._draw.choice(FAULTS))
        return self.faults[-1]

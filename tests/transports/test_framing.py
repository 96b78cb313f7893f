"""Framing of messages in a stream, writing to a pipe, and messages that are Python objects in memory streams."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Context, Server
from mcpkit.common.errors import ProtocolError
from mcpkit.transports.framing import MAX_LINE, Framing
from mcpkit.transports.object_streams import serve_objects
from mcpkit.transports.pipe_output import PipeOutput
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

MARK = b"\xef\xbb\xbf"


def cut(stream: bytes, *, max_line: int = MAX_LINE, size: int | None = None) -> list[bytes | str]:
    """Frame a whole stream given in chunks of `size` bytes; "error" stands in for an error."""
    framing = Framing(max_line)
    lines: list[bytes | ProtocolError] = []
    for start in range(0, len(stream), size or len(stream) or 1):
        lines += framing.feed(stream[start : start + (size or len(stream))])
    lines += framing.finish()
    return ["error" if isinstance(line, ProtocolError) else line for line in lines]


@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(1, 12))
def test_framing_chunks_make_no_difference(chunks: list[bytes], max_line: int) -> None:
    framing = Framing(max_line)
    lines = [line for chunk in chunks for line in framing.feed(chunk)] + framing.finish()
    together = cut(b"".join(chunks), max_line=max_line)
    assert ["error" if isinstance(line, ProtocolError) else line for line in lines] == together


SIZES = (None, 1, 2, 3, 7)
STREAMS: list[tuple[bytes, list[bytes]]] = [
    (b"", []),
    (b"{}\n", [b"{}"]),
    (b'{"a": 1}\n{"b": 2}\n', [b'{"a": 1}', b'{"b": 2}']),
    (b"{}\r\n[]\r\n", [b"{}", b"[]"]),
    (b"\n\r\n \t\n{}\n\n", [b"{}"]),
    (b"{}", [b"{}"]),
    (b"\r\n", []),
    (b"a\rb\n", [b"a\rb"]),
    (b"\0\n\xff\xfe\n", [b"\0", b"\xff\xfe"]),
    ('"\u2028 \u2029 \x85 \x0b \x0c \x1c"\n'.encode(), ['"\u2028 \u2029 \x85 \x0b \x0c \x1c"'.encode()]),
    (MARK + b"\n" + MARK + b"\r\n" + b"{}\n", [b"{}"]),
]


def test_framing_splits_only_on_newline() -> None:
    for stream, lines in STREAMS:
        for size in SIZES:
            assert cut(stream, size=size) == lines, (stream, size)


class Pipe:
    """An output, and the end that reads it."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        os.set_blocking(self.writing, False)
        self.rooms = 0
        self.is_broken = False
        self.output = PipeOutput(self.writing, on_room=self._note_room, on_broken=self._note_end, is_own=True)

    def read(self) -> bytes:
        try:
            return os.read(self.reading, 1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.output.close()
        os.close(self.writing)

    def _note_room(self) -> None:
        self.rooms += 1

    def _note_end(self) -> None:
        self.is_broken = True


@pytest.mark.skipif(sys.platform == "win32", reason="there, a thread writes")
async def test_pipe_output_writes_when_there_is_room_without_a_thread() -> None:
    pipe = Pipe()
    threads = threading.active_count()
    messages = [str(n).encode() * 50_000 for n in range(100)]
    for message in messages:
        pipe.output.send(message)
    assert pipe.output.is_full
    assert pipe.output.is_writing
    flushing = asyncio.ensure_future(pipe.output.flush())
    read = b""
    while not flushing.done():
        read += pipe.read()
        await asyncio.sleep(0)
    read += pipe.read()
    assert read == b"".join(message + b"\n" for message in messages)
    assert pipe.rooms == 1
    assert not pipe.output.is_full
    assert not pipe.output.is_writing
    assert threading.active_count() <= threads, "threads of other tests may end meanwhile"
    pipe.close()
    os.close(pipe.reading)


@pytest.mark.skipif(sys.platform == "win32", reason="there, a thread writes")
async def test_pipe_output_wait_ends_with_the_reader() -> None:
    pipe = Pipe()
    pipe.output.send(b"x" * 5_000_000)
    waiting = asyncio.ensure_future(pipe.output.ready())
    await asyncio.sleep(0)
    os.close(pipe.reading)
    await waiting
    assert pipe.is_broken
    assert pipe.output.is_broken
    pipe.close()


@dataclass
class Item:
    """A message, in the wrapper class of a transport."""

    message: dict[str, Any]


class Peer:
    """The other ends of the streams of one client."""

    def __init__(self, server: Server) -> None:
        self.to_server, self.read = anyio.create_memory_object_stream[Item | Exception]()
        self.write, self.from_server = anyio.create_memory_object_stream[Item]()
        self.serving = asyncio.create_task(
            serve_objects(server, self.read, self.write, dump=lambda item: item.message, make=Item)
        )

    async def send(self, **message: Any) -> None:
        await self.to_server.send(Item({"jsonrpc": "2.0", **message}))

    async def next(self) -> dict[str, Any]:
        return (await self.from_server.receive()).message

    async def ask(self, method: str, id_: int = 1, **params: Any) -> dict[str, Any]:
        await self.send(id=id_, method=method, params=params)
        return await self.next()

    async def begin(self, **capabilities: Any) -> dict[str, Any]:
        answer = await self.ask(
            "initialize",
            0,
            protocolVersion="2025-11-25",
            capabilities=capabilities,
            clientInfo={"name": "objects", "version": "1"},
        )
        await self.send(method="notifications/initialized")
        return answer

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", name=name, arguments=arguments)


@asynccontextmanager
async def served(server: Server) -> AsyncIterator[Peer]:
    peer = Peer(server)
    try:
        yield peer
    finally:
        await peer.to_server.aclose()
        await peer.from_server.aclose()
        await asyncio.wait((peer.serving,))


class Lab:
    """A server, and what has happened to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_waiting = asyncio.Event()
        self.server = Server("lab", lifespan=self.lifespan)
        self.server.tool(self.add)
        self.server.tool(self.wait)
        self.server.tool(self.ask_name)
        self.server.tool(self.log)

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[None]:
        self.events.append("entered")
        yield
        await asyncio.sleep(0)
        self.events.append("left")

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def wait(self) -> None:
        self.is_waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.events.append("stopped")

    async def ask_name(self, ctx: Context) -> str:
        answer = await ctx.elicit("Which?", str)
        return str(answer)

    async def log(self, ctx: Context, times: int) -> None:
        for index in range(times):
            await ctx.log("info", f"{index}: " + "x" * 1000)
            self.events.append("logged")


@pytest.fixture
async def lab() -> Lab:
    return Lab()


async def test_session_is_served(lab: Lab) -> None:
    async with served(lab.server) as peer:
        assert (await peer.begin())["result"]["serverInfo"]["name"] == "lab"
        assert (await peer.call("add", a=1, b=2))["result"]["structuredContent"] == {"result": 3}
    assert lab.events == ["entered", "left"]


async def test_end_of_input_ends_running_calls(lab: Lab) -> None:
    async with served(lab.server) as peer:
        await peer.begin()
        await peer.send(id=7, method="tools/call", params={"name": "wait"})
        await lab.is_waiting.wait()
        await peer.to_server.aclose()
        answer = await peer.next()
        assert answer["id"] == 7
        assert "stopped" in answer["error"]["message"]
        with pytest.raises(anyio.EndOfStream):
            await peer.next()
    assert lab.events == ["entered", "stopped", "left"]
    with pytest.raises(anyio.ClosedResourceError):
        peer.read.receive_nowait()
    with pytest.raises(anyio.ClosedResourceError):
        peer.write.send_nowait(Item({}))


def test_other_event_loop_is_rejected() -> None:
    serving = serve_objects(Server("elsewhere"), None, None, dump=dict, make=dict)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="asyncio event loop"):
        serving.send(None)


@pytest.mark.slow
async def test_input_is_not_read_while_output_is_not(lab: Lab) -> None:
    async with served(lab.server) as peer:
        await peer.begin()
        await peer.send(id=1, method="tools/call", params={"name": "log", "arguments": {"times": 5000}})
        ping = asyncio.create_task(peer.send(id=2, method="ping"))  # read at once, or when there is room
        await until(lambda: len(lab.events) > 800)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert 800 < len(lab.events) < 1100
        with pytest.raises(anyio.WouldBlock):
            peer.to_server.send_nowait(Item({}))
        ids = {1, 2}
        while ids:
            ids.discard((await peer.next()).get("id", 0))
        await ping
        assert lab.events.count("logged") == 5000


async def test_unreadable_items_are_logged_and_skipped(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    async with served(lab.server) as peer:
        await peer.to_server.send(ValueError("no JSON"))
        await peer.to_server.send(Item([]))  # type: ignore[arg-type]
        await peer.to_server.send("no item")  # type: ignore[arg-type]
        assert "error" in await peer.next()
        assert (await peer.begin())["id"] == 0
    logged = [record.getMessage() for record in caplog.records]
    assert logged[0] == "ignored a message from the client that could not be read: no JSON"
    assert "no item" in logged[-1]

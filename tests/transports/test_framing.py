"""Framing of messages in a stream, writing to a pipe, and messages that are Python objects in memory streams."""

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

from mcpkit import Context, Server
from mcpkit._utils.exceptions import ProtocolError
from mcpkit.transports.in_process import serve_objects
from mcpkit.transports.pipes import MAX_LINE, Framing, PipeOutput
from tests.helpers.raw_client import initialize
from tests.helpers.waiting import until

MARK = b"\xef\xbb\xbf"


def cut(stream: bytes, *, max_line: int = MAX_LINE, size: int | None = None) -> list[bytes | str]:
    """Frame a whole stream given in chunks of `size` bytes; "error" stands in for an error."""
    framing = Framing(max_line)
    lines: list[bytes | ProtocolError] = []
    for start in range(0, len(stream), size or len(stream) or 1):
        lines += framing.feed(stream[start : start + (size or len(stream))])
    lines += framing.finish()
    return ["error" if isinstance(line, ProtocolError) else line for line in lines]


SIZES = (None, 1, 2, 3, 7)
STREAMS: list[tuple[bytes, list[bytes]]] = [
    (b"", []), (b"{}\n", [b"{}"]), (b'{"a": 1}\n{"b": 2}\n', [b'{"a": 1}', b'{"b": 2}']),
    (b"{}\r\n[]\r\n", [b"{}", b"[]"]), (b"\n\r\n \t\n{}\n\n", [b"{}"]), (b"{}", [b"{}"]), (b"\r\n", []),
    (b"a\rb\n", [b"a\rb"]), (b"\0\n\xff\xfe\n", [b"\0", b"\xff\xfe"]),
    ('"\u2028 \u2029 \x85 \x0b \x0c \x1c"\n'.encode(), ['"\u2028 \u2029 \x85 \x0b \x0c \x1c"'.encode()]),
    (MARK + b"\n" + MARK + b"\r\n" + b"{}\n", [b"{}"]),
]  # fmt: skip


def test_framing_splits_only_on_newline() -> None:
    for stream, lines in STREAMS:
        for size in SIZES:
            assert cut(stream, size=size) == lines, (stream, size)


class Pipe:
    """An output, and the end that reads it."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        for descriptor in (self.reading, self.writing):
            os.set_blocking(descriptor, False)
        self.events: list[str] = []
        self.output = PipeOutput(
            self.writing,
            on_room=lambda: self.events.append("room"),
            on_broken=lambda: self.events.append("broken"),
            is_own=True,
        )

    def read(self) -> bytes:
        try:
            return os.read(self.reading, 1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.output.close()
        os.close(self.writing)


@pytest.mark.skipif(sys.platform == "win32", reason="there, a thread writes")
async def test_pipe_output_writes_when_there_is_room_without_a_thread() -> None:
    pipe = Pipe()
    threads = threading.active_count()
    messages = [str(n).encode() * 50_000 for n in range(100)]
    for message in messages:
        pipe.output.send(message)
    assert (pipe.output.is_full, pipe.output.is_writing) == (True, True)
    flushing = asyncio.ensure_future(pipe.output.flush())
    read = b""
    while not flushing.done():
        read += pipe.read()
        await asyncio.sleep(0)
    read += pipe.read()
    assert read == b"".join(message + b"\n" for message in messages)
    assert (pipe.output.is_full, pipe.output.is_writing, pipe.events) == (False, False, ["room"])
    assert threading.active_count() <= threads, "threads of other tests may end meanwhile"
    pipe.close()
    os.close(pipe.reading)


async def test_pipe_output_can_write_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PipeOutput, "_uses_thread", True)  # as on Windows
    reading, writing = os.pipe()
    events: list[str] = []
    output = PipeOutput(
        writing, on_room=lambda: events.append("room"), on_broken=lambda: events.append("broken")
    )
    messages = [str(n).encode() * 50_000 for n in range(100)]
    for message in messages:
        output.send(message)
    assert (output.is_full, output.is_writing) == (True, True)
    expected = b"".join(message + b"\n" for message in messages)
    with os.fdopen(reading, "rb") as file:
        assert await asyncio.to_thread(file.read, len(expected)) == expected
        await output.flush()
        assert (output.is_full, output.is_writing, events) == (False, False, ["room"])
        output.close(with_descriptor=True)
        assert await asyncio.to_thread(file.read) == b"", "the thread closes the descriptor"


@pytest.mark.skipif(sys.platform == "win32", reason="there, a thread writes")
async def test_pipe_output_wait_ends_with_the_reader() -> None:
    pipe = Pipe()
    pipe.output.send(b"x" * 5_000_000)
    waiting = asyncio.ensure_future(pipe.output.ready())
    await asyncio.sleep(0)
    os.close(pipe.reading)
    await waiting
    assert (pipe.output.is_broken, pipe.events[-1]) == (True, "broken")
    pipe.close()


@dataclass
class Item:
    """A message, in the wrapper class of a transport."""

    message: dict[str, Any]


class Peer:
    """A server that is served over memory streams, and their other ends.

    Attributes:
        events: What has happened in the server.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_waiting = asyncio.Event()
        self.to_server, self.read = anyio.create_memory_object_stream[Item | Exception]()
        self.write, self.from_server = anyio.create_memory_object_stream[Item]()
        server = Server("lab", lifespan=self.lifespan)
        for tool in (self.wait, self.log):
            server.tool(tool)
        self.serving = asyncio.create_task(
            serve_objects(server, self.read, self.write, dump=lambda item: item.message, make=Item)
        )

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[None]:
        self.events.append("entered")
        yield
        await asyncio.sleep(0)
        self.events.append("left")

    async def wait(self) -> None:
        self.is_waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.events.append("stopped")

    async def log(self, ctx: Context, times: int) -> None:
        for index in range(times):
            await ctx.log("info", f"{index}: " + "x" * 1000)
            self.events.append("logged")

    async def send(self, **message: Any) -> None:
        await self.to_server.send(Item({"jsonrpc": "2.0", **message}))

    async def next(self) -> dict[str, Any]:
        return (await self.from_server.receive()).message

    async def begin(self) -> dict[str, Any]:
        await self.to_server.send(Item(initialize()))
        answer = await self.next()
        await self.send(method="notifications/initialized")
        return answer


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    yield peer
    await peer.to_server.aclose()
    await peer.from_server.aclose()
    await asyncio.wait((peer.serving,))


async def test_end_of_input_ends_running_calls(peer: Peer) -> None:
    assert (await peer.begin())["result"]["serverInfo"]["name"] == "lab"
    await peer.send(id=7, method="tools/call", params={"name": "wait"})
    await peer.is_waiting.wait()
    await peer.to_server.aclose()
    answer = await peer.next()
    assert (answer["id"], "stopped" in answer["error"]["message"]) == (7, True)
    with pytest.raises(anyio.EndOfStream):
        await peer.next()
    await peer.serving
    assert peer.events == ["entered", "stopped", "left"]
    with pytest.raises(anyio.ClosedResourceError):
        peer.read.receive_nowait()
    with pytest.raises(anyio.ClosedResourceError):
        peer.write.send_nowait(Item({}))


async def test_cancellation_ends_running_calls(peer: Peer) -> None:
    await peer.begin()
    await peer.send(id=7, method="tools/call", params={"name": "wait"})
    await peer.is_waiting.wait()
    peer.serving.cancel()
    await asyncio.wait((peer.serving,))
    assert peer.serving.cancelled()
    assert peer.events == ["entered", "stopped", "left"]


def test_other_event_loop_is_rejected() -> None:
    serving = serve_objects(Server("elsewhere"), None, None, dump=dict, make=dict)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="asyncio event loop"):
        serving.send(None)


@pytest.mark.slow
async def test_input_is_not_read_while_output_is_not(peer: Peer) -> None:
    await peer.begin()
    await peer.send(id=1, method="tools/call", params={"name": "log", "arguments": {"times": 5000}})
    ping = asyncio.create_task(peer.send(id=2, method="ping"))  # read at once, or when there is room
    await until(lambda: len(peer.events) > 800)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert 800 < len(peer.events) < 1100
    with pytest.raises(anyio.WouldBlock):
        peer.to_server.send_nowait(Item({}))
    ids = {1, 2}
    while ids:
        ids.discard((await peer.next()).get("id", 0))
    await ping
    assert peer.events.count("logged") == 5000


async def test_unreadable_items_are_logged_and_skipped(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    for item in (ValueError("no JSON"), Item([]), "no item"):  # type: ignore[arg-type]
        await peer.to_server.send(item)  # type: ignore[arg-type]
    assert "error" in await peer.next()
    assert "result" in await peer.begin()
    first, *_, last = [record.getMessage() for record in caplog.records]
    assert first == "ignored a message from the client that could not be read: no JSON"
    assert "no item" in last

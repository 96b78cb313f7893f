"""Servers that send too much, too little or nonsense, and connections that are let go of."""

from __future__ import annotations

import asyncio
import gzip
import random
import sys
import tracemalloc
import zlib
from typing import Any

import pytest

from mcpkit import Client, TransportError
from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.helpers.scripted_http import Asked, Reply, Script, ScriptedServer, greeting, scripted, text
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

EVERY = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
MOST = 100_000


def client(server: ScriptedServer, revision: str = "2026-07-28", **options: Any) -> Client:
    return Client(HttpTransport(server.url, **options), revision=revision, tries=1)


async def failure(script: Script, revision: str = "2026-07-28", **options: Any) -> TransportError:
    async with scripted(greeting(script)) as server:
        async with client(server, revision, **{"max_answer": MOST, **options}) as asked:
            with pytest.raises(TransportError) as caught:
                await asked.call("bake", retry=True)
        await until(lambda: not server.open)
    return caught.value


def sends(body: bytes, **headers: str) -> Script:
    async def script(asked: Asked, reply: Reply) -> None:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        await reply.send(200, body, {"Content-Type": "application/json", **told})

    return script


async def streams_without_end(asked: Asked, reply: Reply) -> None:
    await reply.begin_stream()
    while True:
        await reply.chunk(b"data: " + b"x" * 10_000)


async def sends_without_end(asked: Asked, reply: Reply) -> None:
    await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        await reply.raw(b"[" * 10_000)


@EVERY
@pytest.mark.parametrize("script", [sends(b" " * (MOST + 1)), sends_without_end, streams_without_end])
async def test_an_answer_has_a_bound(script: Script, revision: str) -> None:
    error = await failure(script, revision)
    assert f"more than {MOST:,} bytes" in str(error)
    assert "max_answer=" in str(error)
    assert (error.may_have_begun, error.may_pass) == (True, False)


async def test_an_answer_of_just_that_size_is_read() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.result(text("x" * (MOST - 500)))

    async with scripted(greeting(script)) as server, client(server, max_answer=MOST) as asked:
        assert len((await asked.call("bake")).text) == MOST - 500


async def test_events_have_the_bound_and_not_their_stream() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.begin_stream()
        for _ in range(20):
            await reply.event(
                {"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": "x" * (MOST // 2)}}
            )
        await reply.event(reply.answer(text("done")))
        await reply.end_stream()

    async with scripted(greeting(script)) as server, client(server, max_answer=MOST) as asked:
        assert (await asked.call("bake")).text == "done"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_what_is_compressed_is_read(coding: str) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        assert asked.headers["accept-encoding"] == "gzip, deflate"
        body = b'{"jsonrpc": "2.0", "id": %d, "result": {"content": []}}' % asked.message["id"]
        packed = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
        await sends(packed, content_encoding=coding)(asked, reply)

    async with scripted(greeting(script)) as server, client(server) as asked:
        assert (await asked.call("bake")).content == []


@pytest.mark.long
@pytest.mark.parametrize("streams", [False, True])
async def test_what_grows_when_it_is_decompressed_has_the_bound_too(streams: bool) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    piece = b"data: " + b"x" * 2**20 if streams else b" " * 2**20
    bomb = b"".join(packer.compress(piece) for _ in range(600)) + packer.flush()
    kind = "text/event-stream" if streams else "application/json"
    tracemalloc.start()
    try:
        error = await failure(sends(bomb, content_encoding="gzip", content_type=kind))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "more than" in str(error)
    assert peak < 200 * 2**20  # with httpx2 2.16 a tenth of it


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "x\x01"])
async def test_what_is_compressed_in_another_way_is_refused(coding: str) -> None:
    error = await failure(sends(b"{}", content_encoding=coding.replace("\x01", "")))
    assert "compressed" in str(error)


async def test_what_is_not_compressed_as_it_says_is_an_error() -> None:
    assert "decompressed" in str(await failure(sends(b"{}", content_encoding="gzip")))


@EVERY
async def test_half_an_answer_is_an_error(revision: str) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.send(200, b'{"jsonrpc": "2.0"', {"Content-Type": "application/json"}, length=100)
        reply.cut()

    error = await failure(script, revision)
    assert "broke before the answer was there" in str(error)
    assert error.may_have_begun


@EVERY
async def test_no_answer_at_all_is_an_error(revision: str) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        reply.cut()

    error = await failure(script, revision)
    assert "broke before the answer was there" in str(error)
    assert error.may_have_begun


@pytest.mark.parametrize(
    "answer",
    [
        b"hello\r\n\r\n",
        b"HTTP/1.1 999999 x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 200_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x00\xa5",
    ],
)
async def test_what_is_no_http_is_an_error(answer: bytes) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.raw(answer)
        reply.cut()

    assert (await failure(script)).may_have_begun


async def test_events_that_are_no_messages_are_passed_over() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.chunk(b"event: ping\ndata: x\n\ndata: \xff\xfe\n\ndata: [1]\n\n: hello\n\ndata: {}\n\n")
        await reply.event({"jsonrpc": "2.0", "id": 1, "result": {}})
        await reply.event(reply.answer(text("done")))
        await reply.event(reply.answer(text("again")))
        await reply.end_stream()

    async with scripted(greeting(script)) as server, client(server) as asked:
        assert (await asked.call("bake")).text == "done"


@EVERY
@pytest.mark.parametrize("streams", [True, False])
async def test_a_call_that_is_cancelled_lets_go_of_its_connection_at_once(
    revision: str, streams: bool
) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def script(asked: Asked, reply: Reply) -> None:
        if streams:
            await reply.begin_stream()
            await reply.event({"jsonrpc": "2.0", "method": "notifications/x"})
        begun.set()
        await reply.hang_up()
        left.set()

    async with scripted(greeting(script)) as server, client(server, revision) as asked:
        call = asyncio.ensure_future(asked.call("bake"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(left.wait(), 10)
        cancelled = server.of("POST", "notifications/cancelled")
        if revision == "2026-07-28":
            assert cancelled == []  # closing the response says so
        else:
            await until(lambda: server.of("POST", "notifications/cancelled"))


async def test_a_stream_that_ends_after_its_answer_leaves_the_connection_for_the_next_call() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(reply.answer(text("done")))
        await asyncio.sleep(0)
        await reply.end_stream()

    async with scripted(greeting(script)) as server, client(server) as asked:
        for _ in range(5):
            assert (await asked.call("bake")).text == "done"
        assert server.connections == 1


async def test_a_stream_that_does_not_end_after_its_answer_is_left() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(reply.answer(text("done")))
        await reply.hang_up()

    async with scripted(greeting(script)) as server, client(server) as asked:
        assert (await asked.call("bake")).text == "done"
        await until(lambda: not server.open)
        assert (await asked.call("bake")).text == "done"


@pytest.mark.parametrize("times", [1, 3])
async def test_refusals_and_notifications_leave_the_connection_for_the_next_call(times: int) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.error(400, -32602, "no")

    async with scripted(greeting(script)) as server, client(server, "2025-11-25") as asked:
        for _ in range(times):
            with pytest.raises(Exception, match="no"):
                await asked.call("bake")
            await asked.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        assert server.connections <= 2  # one of them has asked for the stream of what the server says unasked


@pytest.mark.slow
@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="on Python 3.10 httpx2 may leave connections open, as the page says"
)
@EVERY
@pytest.mark.parametrize("seed", range(8))
async def test_calls_that_are_cancelled_anywhere_leave_nothing(revision: str, seed: int) -> None:
    chance = random.Random(seed)

    async def script(asked: Asked, reply: Reply) -> None:
        if chance.random() < 0.5:
            await reply.result(text("done"))
            return
        await reply.begin_stream()
        await reply.event(id_="a", retry=0)
        await asyncio.sleep(0)
        await reply.event(reply.answer(text("done")))
        if chance.random() < 0.5:
            await reply.hang_up()
        else:
            await reply.end_stream()

    async def call(asked: Client) -> None:
        assert (await asked.call("bake")).text == "done"

    async def cancel(asked: Client) -> None:
        calling = asyncio.ensure_future(call(asked))
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        calling.cancel()
        await asyncio.wait((calling,))
        if not calling.cancelled():
            calling.result()

    before = asyncio.all_tasks()
    async with scripted(greeting(script)) as server:
        async with client(server, revision) as asked:
            for _ in range(5):
                await asyncio.gather(*(cancel(asked) for _ in range(10)), call(asked))
        await until(lambda: not server.open)
        await until(lambda: asyncio.all_tasks() - before <= server.tasks)


@EVERY
async def test_it_is_closed_while_answers_are_waited_for(revision: str) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        if asked.message["params"]["name"] == "stream":
            await reply.begin_stream()
            await reply.event({"jsonrpc": "2.0", "method": "notifications/x"})
        await reply.hang_up()

    before = asyncio.all_tasks()
    async with scripted(greeting(script)) as server:
        asked = await client(server, revision).__aenter__()
        calls = [asyncio.ensure_future(asked.call(name)) for name in ("stream", "json")]
        await until(lambda: len(server.of("POST", "tools/call")) == 2)
        await asked.close()
        for call in calls:
            with pytest.raises(ConnectionError, match="closed"):
                await call
        await until(lambda: not server.open)
        await until(lambda: asyncio.all_tasks() == before)

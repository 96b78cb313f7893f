"""A server of ours over real HTTP, asked in every revision."""

from __future__ import annotations

import asyncio
import builtins
import socket
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from mcpkit import Context, Server
from mcpkit.client.client import Client
from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.protocol.revisions import HANDSHAKE, LATEST, STATELESS
from tests.helpers.serving import in_thread
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

REVISIONS = [*HANDSHAKE, *STATELESS]
EVERY = pytest.mark.parametrize("revision", REVISIONS)


class Work:
    """What goes on at the server, in another thread, counted."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def server(work: Work) -> Server:
    server = Server("asked")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def report(ctx: Context, times: int) -> str:
        for done in range(times):
            await ctx.progress(done + 1, times)
        return "reported"

    @server.tool
    async def wait(ctx: Context, *, streams: bool = False) -> None:
        if streams:
            await ctx.progress(1)
        work.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            work.cancelled += 1

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.list_roots())[0].uri

    @server.resource("asked://{name}")
    async def resource(name: str) -> str:
        return name

    @server.prompt
    async def plan(city: str) -> str:
        return f"Plan for {city}"

    return server


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with in_thread(server.asgi()) as origin:
        yield f"{origin}/mcp"


def client(url: str, revision: str | None = None, **options: Any) -> Client:
    return Client(HttpTransport(url, **options), revision=revision)


@EVERY
async def test_calls_are_answered(url: str, revision: str) -> None:
    async with client(url, revision) as asked:
        assert asked.revision == revision
        assert (await asked.call("echo", {"text": "å\n😀"})).text == "å\n😀"
        assert (await asked.read("asked://fixed"))[0]["text"] == "fixed"
        assert (await asked.get_prompt("plan", {"city": "Oslo"}))[0]["content"]["text"] == "Plan for Oslo"


async def test_the_newest_revision_is_found(url: str) -> None:
    async with client(url) as asked:
        assert asked.revision == LATEST


@EVERY
async def test_progress_comes_before_the_result(url: str, revision: str) -> None:
    async with client(url, revision) as asked:
        heard: list[float] = []
        result = await asked.call("report", {"times": 3}, progress=lambda done, *_: heard.append(done))
        assert (heard, result.text) == ([1, 2, 3], "reported")


@EVERY
async def test_what_the_server_asks_is_answered(url: str, revision: str) -> None:
    async with Client(HttpTransport(url), revision=revision, roots=["file:///there"]) as asked:
        assert (await asked.call("ask")).text == "file:///there"


@pytest.mark.slow
@EVERY
async def test_a_hundred_calls_at_once_find_their_own_answers(url: str, revision: str) -> None:
    async with client(url, revision) as asked:
        texts = [str(number) for number in range(100)]
        results = await asyncio.gather(*(asked.call("echo", {"text": text}) for text in texts))
        assert [result.text for result in results] == texts


@EVERY
async def test_streams_that_stay_open_keep_no_call_waiting(url: str, revision: str, work: Work) -> None:
    async with client(url, revision) as asked:
        waiting = [
            asyncio.ensure_future(asked.call("wait", {"streams": True}, progress=print)) for _ in range(20)
        ]
        await until(lambda: work.begun == 20)
        assert (await asked.call("echo", {"text": "at once"})).text == "at once"
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


@EVERY
async def test_a_call_that_is_given_up_is_given_up_at_the_server(url: str, revision: str, work: Work) -> None:
    async with client(url, revision) as asked:
        with pytest.raises(TimeoutError):
            await asked.call("wait", timeout=0.2)
        await until(lambda: work.cancelled)


@EVERY
async def test_it_is_closed_in_another_task_while_calls_wait(url: str, revision: str, work: Work) -> None:
    before = asyncio.all_tasks()
    asked = await client(url, revision).__aenter__()
    waiting = asyncio.ensure_future(asked.call("wait"))
    await until(lambda: work.begun)
    await asyncio.create_task(asked.close())
    await asyncio.create_task(asked.close())
    with pytest.raises(ConnectionError, match="closed"):
        await waiting
    assert asyncio.all_tasks() == before


@EVERY
async def test_it_can_be_opened_again(url: str, revision: str) -> None:
    asked = client(url, revision)
    for _ in range(2):
        async with asked:
            assert (await asked.call("echo", {"text": "here"})).text == "here"


async def test_an_own_client_is_used_and_stays_open(url: str) -> None:
    seen: list[httpx2.Request] = []

    async def see(request: httpx2.Request) -> None:
        seen.append(request)

    async with httpx2.AsyncClient(headers={"X-Mine": "1"}, timeout=1, event_hooks={"request": [see]}) as own:
        async with client(url, http_client=own) as asked:
            assert (await asked.call("echo", {"text": "here"})).text == "here"
        assert not own.is_closed
    assert {request.headers["x-mine"] for request in seen} == {"1"}
    assert {request.headers["mcp-protocol-version"] for request in seen} == {LATEST}


async def test_an_own_client_that_is_closed_is_an_error(url: str) -> None:
    own = httpx2.AsyncClient()
    await own.aclose()
    with pytest.raises(TransportError, match="has been closed"):
        await client(url, http_client=own).__aenter__()


async def test_nobody_there_is_an_error_that_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(
        TransportError, match=f"cannot connect to http://127.0.0.1:{port}: Connection refused"
    ) as caught:
        await client(f"http://127.0.0.1:{port}/mcp").__aenter__()
    assert not caught.value.may_have_begun


async def test_without_httpx2_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "httpx2":
            raise ModuleNotFoundError("No module named 'httpx2'", name="httpx2")
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install .*\[client\]"):
        await client("http://127.0.0.1:9/mcp").__aenter__()
    assert "httpx2" in sys.modules

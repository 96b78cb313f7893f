"""Clients over HTTP of servers of ours and of the official SDK: at a port and as apps, mounted in other frameworks."""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from mcpkit import Client, Context, Server
from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.protocol.revisions import LATEST
from tests.helpers.serving import in_thread
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

EVERY = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


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
async def test_http_calls_are_answered(url: str, revision: str) -> None:
    async with client(url, revision) as asked:
        assert asked.revision == revision
        assert (await asked.call("echo", {"text": "å\n😀"})).text == "å\n😀"
        assert (await asked.read("asked://fixed"))[0]["text"] == "fixed"
        assert (await asked.get_prompt("plan", {"city": "Oslo"}))[0]["content"]["text"] == "Plan for Oslo"


@EVERY
async def test_http_progress_precedes_result(url: str, revision: str) -> None:
    async with client(url, revision) as asked:
        received: list[float] = []
        result = await asked.call("report", {"times": 3}, progress=lambda done, *_: received.append(done))
        assert (received, result.text) == ([1, 2, 3], "reported")


@EVERY
async def test_http_server_requests_are_answered(url: str, revision: str) -> None:
    async with Client(HttpTransport(url), revision=revision, roots=["file:///there"]) as asked:
        assert (await asked.call("ask")).text == "file:///there"


@EVERY
async def test_http_timeout_cancels_call_at_server(url: str, revision: str, work: Work) -> None:
    async with client(url, revision) as asked:
        with pytest.raises(TimeoutError):
            await asked.call("wait", timeout=0.2)
        await until(lambda: work.cancelled)


async def test_http_own_httpx_client_is_used_and_stays_open(url: str) -> None:
    seen: list[httpx2.Request] = []

    async def see(request: httpx2.Request) -> None:
        seen.append(request)

    async with httpx2.AsyncClient(headers={"X-Mine": "1"}, timeout=1, event_hooks={"request": [see]}) as own:
        async with client(url, http_client=own) as asked:
            assert (await asked.call("echo", {"text": "here"})).text == "here"
        assert not own.is_closed
    assert {request.headers["x-mine"] for request in seen} == {"1"}
    assert {request.headers["mcp-protocol-version"] for request in seen} == {LATEST}


async def test_http_missing_httpx2_names_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "httpx2":
            raise ModuleNotFoundError("No module named 'httpx2'", name="httpx2")
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install .*\[client\]"):
        await client("http://127.0.0.1:9/mcp").__aenter__()
    assert "httpx2" in sys.modules


ORIGIN = "http://127.0.0.1:8000"


async def test_app_failure_is_transport_error() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raise ValueError("no such table")

    with pytest.raises(TransportError, match="the app has raised ValueError: no such table"):
        async with Client(HttpTransport(f"{ORIGIN}/mcp", app=app)):
            pass

"""Clients that ask for more than their share, and connections that break in odd places."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from mcpkit import Context, Server
from mcpkit.transports.http import exchange as exchanges
from tests.helpers.asgi_client import Serve, initialize
from tests.helpers.pipe import META
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio

Message = MutableMapping[str, Any]


@pytest.fixture
def guarded() -> Server:
    server = Server("s")

    @server.route("/own")
    async def own(request: Request) -> PlainTextResponse:
        return PlainTextResponse("own")

    @server.route("/health", methods=["POST"])
    async def mine(request: Request) -> PlainTextResponse:
        return PlainTextResponse("mine")

    return server


@pytest.mark.parametrize(
    ("name", "values", "status"),
    [
        (b"host", [b"evil.example", b"localhost"], 421),
        (b"host", [b"localhost", b"evil.example"], 421),
        (b"origin", [b"http://evil.example", b"http://localhost"], 403),
        (b"origin", [b"http://localhost", b"http://evil.example"], 403),
    ],
)
@pytest.mark.parametrize("path", ["/own", "/mcp"])
async def test_a_header_that_comes_twice_does_not_pass_the_guard(
    path: str, name: bytes, values: list[bytes], status: int, guarded: Server, serve: Serve
) -> None:
    async with serve(guarded) as client:
        app = client.app

        async def twice(scope: Message, *channel: Any) -> None:
            kept = [pair for pair in scope["headers"] if pair[0] != name]
            await app({**scope, "headers": kept + [(name, value) for value in values]}, *channel)

        client.app = twice
        answer = await client.open("GET" if path == "/own" else "POST", path).whole()
        assert answer.status == (status if path == "/own" else 400)


async def test_only_readiness_itself_is_open_to_every_host(guarded: Server, serve: Serve) -> None:
    async with serve(guarded, health="/health") as client:
        for path in ("/health", "/health/", "/health//"):
            answer = await client.open("POST", path, headers={"host": "evil.example"}).whole()
            assert answer.status == 421
        assert (await client.open("GET", "/health", headers={"host": "evil.example"}).whole()).status == 200


@pytest.mark.parametrize("tool", ["wait", "speak"])
@pytest.mark.parametrize("error", [OSError("gone"), RuntimeError("odd")])
async def test_a_connection_that_cannot_be_heard_is_a_client_that_has_gone(
    tool: str, error: Exception, server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=0) as client:
        app, broken = client.app, asyncio.Event()

        async def deaf(scope: Message, receive: Any, send: Any) -> None:
            has_body = False

            async def hear() -> Message:
                nonlocal has_body
                if not has_body:
                    has_body = True
                    message: Message = await receive()
                    return message
                await broken.wait()
                raise error

            await app(scope, hear, send)

        client.app = deaf
        answer = client.call(tool, meta={META + "logLevel": "debug"})
        await work.started.wait()
        broken.set()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        client.opened.remove(answer)
        await asyncio.wait({answer.task}, timeout=10)
        assert server.engine.runtime.running.taken == 0


async def test_a_client_that_does_not_read_is_given_up(
    server: Server, serve: Serve, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "_PATIENCE", 0.01)
    async with serve(server, stream_after=0) as client:
        answer = client.call("speak", meta={META + "logLevel": "debug"})
        answer.stop_reading()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await asyncio.wait({answer.task}, timeout=10)
        assert answer.task.done()
        client.opened.remove(answer)


async def test_a_long_event_comes_whole_and_in_pieces(serve: Serve) -> None:
    server = Server("s")
    text = "x" * 300_000

    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.log("info", "first")
        return text

    async with serve(server) as client:
        answer = client.call("tell", meta={META + "logLevel": "debug"})
        assert (await answer.message())["method"] == "notifications/message"
        assert (await answer.message())["result"]["content"][0]["text"] == text


async def test_a_notification_of_an_unknown_revision_is_refused(server: Server, serve: Serve) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/whatever"}
    async with serve(server) as client:
        answer = await client.post(message, {"mcp-protocol-version": "2099-01-01"}).whole()
        assert (answer.status, answer.json()["error"]["code"]) == (400, -32022)
        assert (await client.post(message, {"mcp-protocol-version": "2026-07-28"}).whole()).status == 202


@pytest.mark.parametrize("length", [256, 257])
async def test_an_id_is_no_longer_than_what_one_keeps(length: int, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.ask("tools/list", id="i" * length).whole()
        assert answer.status == (200 if length == 256 else 400)
        answer = await client.ask("tools/list", meta={"progressToken": "p" * length}).whole()
        assert answer.status == (200 if length == 256 else 400)


async def test_a_client_says_only_so_much_about_itself(server: Server, serve: Serve) -> None:
    capabilities = {"experimental": {"x": {"text": "x" * 300_000}}}
    async with serve(server) as client:
        answer = await client.post(initialize(capabilities=capabilities)).whole()
        assert "expected at most 262,144 bytes" in answer.json()["error"]["message"]

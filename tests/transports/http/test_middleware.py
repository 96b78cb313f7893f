"""Middleware over HTTP: sessions that are opened and kept through it, and requests that end with their connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Context, Memory, ProtocolError, Server, current_context
from mcpkit.common.errors import BusyError
from mcpkit.middleware import CallNext, Request, Result
from tests.helpers.asgi_client import Serve, initialize

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen bytes and more"
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25"]


def make_server(broker: Memory | None = None) -> Server:
    server = Server("wrapped", secret=SECRET, shared=broker)

    @server.tool
    async def talk(ctx: Context) -> str:
        await ctx.info("quietly")
        await ctx.error("loudly")
        return "done"

    @server.resource("wrapped://{name}")
    async def named(name: str) -> str:
        return name

    return server


@pytest.mark.parametrize("stateless", [False, True])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_session_is_opened_through_it(revision: str, stateless: bool, serve: Serve) -> None:
    server = make_server()
    seen: list[str] = []

    @server.middleware
    async def note(request: Request, call_next: CallNext) -> Result:
        assert current_context() == request.ctx
        result = await call_next(request)
        assert dict(result)
        seen.append(request.method)
        return result

    async with serve(server, stateless=stateless) as client:
        session = await client.initialize(revision)
        assert await session.text("talk") == "done"
        assert (session.id is None) is stateless
    assert seen == ["initialize", "tools/call"]


@pytest.mark.parametrize(
    ("problem", "status", "code", "message"),
    [
        (ProtocolError(-1, "not you"), 200, -1, "not you"),
        (BusyError("full"), 503, -32603, "full"),
        (KeyError("secret"), 200, -32603, "Internal error (ref "),
    ],
)
async def test_a_client_that_is_refused_gets_no_session(
    problem: Exception, status: int, code: int, message: str, serve: Serve
) -> None:
    server = make_server()

    @server.middleware("initialize")
    async def refuse(request: Request, call_next: CallNext) -> Result:
        raise problem

    async with serve(server) as client:
        answer = await client.post(initialize("2025-11-25")).whole()
        error = answer.json()["error"]
        assert (answer.status, error["code"]) == (status, code)
        assert error["message"].startswith(message)
        assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("turns", [0, 3])
async def test_what_changes_a_session_is_known_elsewhere(turns: int, serve: Serve) -> None:
    """Also where a middleware waits first, so that it changes after the POST has been taken."""
    broker = Memory()
    server = make_server(broker)

    @server.middleware
    async def wait(request: Request, call_next: CallNext) -> Result:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await call_next(request)

    async with serve(server) as here, serve(make_server(broker)) as there:
        session = await here.initialize()
        await session.ask("logging/setLevel", {"level": "error"}).whole()
        messages = await session.at(there).call("talk").messages()
    assert [message["params"]["data"] for message in messages if "method" in message] == ["loudly"]


async def test_a_stateless_request_that_is_dropped_ends_in_it(serve: Serve) -> None:
    server = make_server()
    begun, ended = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    @server.middleware("tools/call")
    async def note(request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except asyncio.CancelledError:
            ended.set()
            raise

    async with serve(server) as client:
        answer = client.call("wait")
        await asyncio.wait_for(begun.wait(), 10)
        answer.disconnect()
        await asyncio.wait_for(ended.wait(), 10)
        await answer.whole()


async def test_a_stateless_request_is_answered_through_it(serve: Serve) -> None:
    server = make_server()

    @server.middleware("tools/call")
    async def mark(request: Any, call_next: Any) -> Any:
        result = await call_next(request)
        result["_meta"]["marked"] = True
        return result

    async with serve(server) as client:
        answer = await client.call("talk").whole()
        assert answer.json()["result"]["_meta"]["marked"] is True

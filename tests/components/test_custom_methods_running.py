"""How methods outside the core protocol run: with all that every function of the author's has."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

import pytest

from mcpkit import Context, Depends, ProtocolError, Server
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


def where() -> dict[str, int]:
    return {"process": os.getpid()}


def its_name() -> str:
    return "its own"


async def test_it_has_what_every_function_has() -> None:
    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> Any:
        yield "state"

    server = Server("s", lifespan=lifespan)
    closed: list[str] = []

    async def database() -> Any:
        yield "database"
        closed.append("database")

    @server.method("thing/do", concurrency=1)
    async def do(ctx: Context[str], db: str = Depends(database)) -> dict[str, str]:
        assert closed == []
        return {"state": ctx.state, "db": db}

    async with connect(server) as client:
        result = await client.request("thing/do")
    assert (result["state"], result["db"]) == ("state", "database")
    assert closed == ["database"]


@pytest.mark.slow
async def test_it_may_run_in_another_process() -> None:
    server = Server("s")
    server.method("thing/where", process=True)(where)
    async with connect(server) as client:
        assert (await client.request("thing/where"))["process"] != os.getpid()


async def test_what_it_depends_on_can_be_replaced_in_tests() -> None:
    server = Server("s")

    @server.method("thing/who")
    async def who(name: str = Depends(its_name)) -> dict[str, str]:
        return {"name": name}

    with server.override(its_name, lambda: "a test's"):
        async with connect(server) as client:
            assert (await client.request("thing/who"))["name"] == "a test's"


async def test_a_middleware_may_change_what_it_is_asked() -> None:
    server = Server("s")

    @server.method("thing/echo")
    async def echo(word: str) -> dict[str, str]:
        return {"word": word}

    @server.middleware("thing/echo")
    async def shout(request: Request, call_next: CallNext) -> Result:
        return await call_next(request.with_params({**request.params, "word": "changed"}))

    async with connect(server) as client:
        assert (await client.request("thing/echo", {"word": 7}))["word"] == "changed"


async def test_its_time_can_be_over() -> None:
    server = Server("s")

    @server.method("thing/wait", timeout=0.01)
    async def wait() -> dict[str, int]:
        await asyncio.Event().wait()
        return {}

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match=r"timed out after 0\.01 s") as raised:
            await client.request("thing/wait")
    assert raised.value.code == -32603


async def test_it_can_be_cancelled() -> None:
    server = Server("s")
    begun, ended = asyncio.Event(), asyncio.Event()

    @server.method("thing/wait")
    async def wait() -> dict[str, int]:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    async with connect(server) as client:
        call = asyncio.ensure_future(client.request("thing/wait"))
        await begun.wait()
        call.cancel()
        await asyncio.wait_for(ended.wait(), 30)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_it_may_ask_where_the_era_has_a_place_for_it(revision: str) -> None:
    server = Server("s")

    @server.method("thing/ask")
    async def ask(ctx: Context) -> dict[str, str]:
        return {"city": (await ctx.elicit("Which city?", str)).value}

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"value": "Rome"}}

    async with connect(server, revision=revision, answers=answer) as client:
        if revision == "2025-11-25":
            assert (await client.request("thing/ask"))["city"] == "Rome"
        else:
            with pytest.raises(ProtocolError, match="Internal error"):
                await client.request("thing/ask")

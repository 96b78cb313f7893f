"""The lifespan: entered once, left once, its state in every handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server, current_context
from mcpkit.testing import connect
from tests.helpers.pipe import ImpatientClient

pytestmark = pytest.mark.anyio


@dataclass
class Database:
    name: str


class Story:
    """Writes down what happens to a lifespan."""

    def __init__(self, name: str = "db") -> None:
        self.name = name
        self.events: list[str] = []
        self.tasks: list[Any] = []

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[Database]:
        self.events.append(f"entered for {server.name}")
        self.tasks.append(asyncio.current_task())
        try:
            yield Database(self.name)
        finally:
            self.tasks.append(asyncio.current_task())
            self.events.append("left")


def database() -> str:
    """Name the database of the current request."""
    state = current_context().state
    return state.name if state is not None else "none"


async def test_lifespan_state_is_available_in_all_components() -> None:
    story = Story()
    server = Server("s", lifespan=story.lifespan)

    @server.tool
    async def tool(ctx: Context[Database]) -> str:
        return ctx.state.name

    @server.tool
    def tool_in_thread(ctx: Context[Database]) -> str:
        return ctx.state.name

    server.resource("data://x")(database)
    server.resource("data://{x}")(lambda_x)
    server.prompt(prompt, complete={"x": lambda value: [database()]})

    async with connect(server) as client:
        assert story.events == ["entered for s"]
        assert (await client.call_tool("tool")).text == "db"
        assert (await client.call_tool("tool_in_thread")).text == "db"
        assert (await client.read_resource("data://x"))[0]["text"] == "db"
        assert (await client.read_resource("data://y"))[0]["text"] == "db"
        assert (await client.get_prompt("prompt", {"x": ""}))[0]["content"]["text"] == "db"
        assert await client.complete("prompt", "x", "") == ["db"]
    assert story.events == ["entered for s", "left"]


def lambda_x(x: str) -> str:
    return database()


def prompt(x: str) -> str:
    return database()


async def test_lifespan_is_entered_once_for_all_connections() -> None:
    story = Story()
    server = Server("s", lifespan=story.lifespan)
    server.tool(database)
    async with connect(server) as first:
        async with connect(server, protocol_version="2024-11-05") as second:
            assert (
                (await first.call_tool("database")).text == (await second.call_tool("database")).text == "db"
            )
        assert story.events == ["entered for s"]
        assert (await first.call_tool("database")).text == "db"
    assert story.events == ["entered for s", "left"]


async def test_failing_to_enter_is_raised_where_the_server_is_connected() -> None:
    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    with pytest.raises(RuntimeError, match="no database"):
        async with connect(Server("s", lifespan=broken)):
            pytest.fail("it must not come to this")


async def test_failing_to_enter_fails_what_needs_the_state_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    server = Server("s", lifespan=broken)
    server.prompt(database)
    async with server.running():
        client = ImpatientClient(server, "2026-07-28")
        assert await client.list_prompts()
        for _ in range(2):
            with pytest.raises(
                ProtocolError, match=r"^The server failed to start. Its log contains the error$"
            ):
                await client.get_prompt("database")
        await client.close()
    assert [record.getMessage() for record in caplog.records] == [
        "the lifespan function failed at startup, so requests that need it fail. Fix it, and restart"
    ]
    assert "RuntimeError: no database" in caplog.text


async def test_failing_to_leave_is_raised_at_the_end() -> None:
    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        yield
        raise RuntimeError("cannot close")

    with pytest.raises(RuntimeError, match="cannot close"):
        async with connect(Server("s", lifespan=broken)):
            pass


async def test_each_included_server_has_its_own_state() -> None:
    inner_story, outer_story = Story("inner"), Story("outer")
    inner = Server("inner", lifespan=inner_story.lifespan)
    outer = Server("outer", lifespan=outer_story.lifespan)
    inner.tool(database)
    outer.tool(database)
    outer.include(inner, prefix="in")
    async with connect(outer) as client:
        assert (await client.call_tool("database")).text == "outer"
        assert (await client.call_tool("in_database")).text == "inner"
    assert inner_story.events == ["entered for inner", "left"]
    assert outer_story.events == ["entered for outer", "left"]


async def test_lifespan_generator_without_its_decorator_is_refused() -> None:
    async def undecorated(server: Server) -> AsyncIterator[None]:
        yield

    with pytest.raises(TypeError, match="asynccontextmanager"):
        async with connect(Server("s", lifespan=undecorated)):  # type: ignore[arg-type]  # on purpose
            pass

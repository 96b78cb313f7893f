"""The lifespan: entered once, left once, its state in every handler."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mcpkit import Context, Server, current_context
from mcpkit.testing import connect
from tests.helpers.pipe import Pipe


class RecordedServer(Server):
    """A server with a lifespan that records its events; its state is the server's name."""

    def __init__(self, name: str) -> None:
        super().__init__(name, lifespan=self.record)
        self.events: list[str] = []
        self.tool(database)

    @asynccontextmanager
    async def record(self, server: Server) -> AsyncIterator[str]:
        self.events.append(f"entered for {server.name}")
        try:
            yield server.name
        finally:
            self.events.append("left")


def database() -> str:
    """Return the state of the current request."""
    return str(current_context().state)


async def test_lifespan_state_is_available_in_all_components() -> None:
    server = RecordedServer("s")

    @server.tool
    async def tool(ctx: Context[str]) -> str:
        return ctx.state

    server.resource("data://x", name="resource")(database)
    server.resource("data://{x}", name="template")(lambda x: database())
    server.prompt(lambda x: database(), name="prompt", complete={"x": lambda value: [database()]})
    async with connect(server) as client:
        assert server.events == ["entered for s"]
        assert (await client.call_tool("tool")).text == "s"
        assert (await client.call_tool("database")).text == "s"
        for uri in ("data://x", "data://y"):
            assert (await client.read_resource(uri))[0]["text"] == "s"
        assert (await client.get_prompt("prompt", {"x": ""}))[0]["content"]["text"] == "s"
        assert await client.complete("prompt", "x", "") == ["s"]
    assert server.events == ["entered for s", "left"]


async def test_lifespan_starts_once_for_all_connections() -> None:
    server = RecordedServer("s")
    async with connect(server) as first:
        async with connect(server, protocol_version="2024-11-05") as second:
            for client in (first, second):
                assert (await client.call_tool("database")).text == "s"
        assert server.events == ["entered for s"]
        assert (await first.call_tool("database")).text == "s"
    assert server.events == ["entered for s", "left"]


async def test_lifespan_of_included_server_is_its_own() -> None:
    inner, outer = RecordedServer("inner"), RecordedServer("outer")
    outer.include(inner, prefix="in")
    async with connect(outer) as client:
        assert (await client.call_tool("database")).text == "outer"
        assert (await client.call_tool("in_database")).text == "inner"
    assert inner.events == ["entered for inner", "left"]
    assert outer.events == ["entered for outer", "left"]


@asynccontextmanager
async def fails_to_enter(server: Server) -> AsyncIterator[None]:
    raise RuntimeError("no database")
    yield


@asynccontextmanager
async def fails_to_leave(server: Server) -> AsyncIterator[None]:
    yield
    raise RuntimeError("cannot close")


async def undecorated(server: Server) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(("lifespan", "error", "message"), [
    (fails_to_enter, RuntimeError, "no database"), (fails_to_leave, RuntimeError, "cannot close"),
    (undecorated, TypeError, "asynccontextmanager"),
])  # fmt: skip
async def test_lifespan_failure_is_raised_where_the_server_is_connected(lifespan, error, message) -> None:
    entered = []
    with pytest.raises(error, match=message):
        async with connect(Server("s", lifespan=lifespan)):
            entered.append(lifespan)
    assert entered == [lifespan] * (lifespan is fails_to_leave)


async def test_lifespan_failure_to_enter_fails_requests_with_state(caplog, schema_dir) -> None:
    server = Server("s", lifespan=fails_to_enter)
    server.prompt(database)
    async with server.running():
        pipe = Pipe(server, "2026-07-28", schema_dir)
        assert (await pipe.result("prompts/list"))["prompts"]
        for _ in range(2):
            error = await pipe.error("prompts/get", {"name": "database"})
            assert "The server failed to start" in error["message"]
        await pipe.connection.aclose()
    assert [record.getMessage() for record in caplog.records] == [
        "the lifespan function failed at startup, so requests that need it fail. Fix it, and restart"
    ]
    assert "RuntimeError: no database" in caplog.text

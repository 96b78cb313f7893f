"""What comes while the lifespan is being entered waits for the components that are registered there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import (
    Context,
    ProtocolError,
    Server,
    ServerOptions,
    Timeouts,
)
from mcpkit.middleware import CallNext, Request
from tests.helpers.pipe import ImpatientClient
from tests.helpers.waiting import LoopClock, until

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


class Tables:
    """A server whose lifespan registers what it finds in its database, once the gate is open."""

    def __init__(self, **options: Any) -> None:
        self.gate = asyncio.Event()
        self.has_failed = False
        self.server = Server("tables", lifespan=self.lifespan, **options)

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[str]:
        await self.gate.wait()
        if self.has_failed:
            raise OSError("no database")

        @server.tool(name="orders")
        def orders(ctx: Context[str]) -> str:
            return f"orders of {ctx.state}"

        @server.resource("table://orders")
        def rows() -> str:
            return "1,2"

        @server.prompt(complete={"column": lambda value: ["id"]})
        def report(column: str) -> str:
            return column

        @server.method("table/count")
        def count() -> dict[str, int]:
            return {"count": 2}

        yield "shop"


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


async def turns() -> None:
    """Let what is due in the event loop happen."""
    for _ in range(10):
        await asyncio.sleep(0)


async def opened(client: ImpatientClient) -> ImpatientClient:
    await client.open()
    return client


@pytest.mark.parametrize("revision", REVISIONS)
async def test_early_requests_find_components_of_the_lifespan(revision: str) -> None:
    tables = Tables()
    async with tables.server.running():
        client = ImpatientClient(tables.server, revision)
        opening = asyncio.ensure_future(opened(client))
        await asyncio.sleep(0)
        asked = asyncio.gather(
            client.list_tools(),
            client.list_resources(),
            client.call_tool("orders"),
            client.read_resource("table://orders"),
            client.get_prompt("report", {"column": "id"}),
            client.complete("report", "column", ""),
            client.request("table/count"),
        )
        if revision != "2026-07-28":
            assert await client.request("ping") == {}
        assert not opening.done()
        tables.gate.set()
        tools, resources, called, read, got, completed, counted = await asked
        await opening
        assert (names(tools), names(resources)) == (["orders"], ["rows"])
        assert (called.text, read[0]["text"]) == ("orders of shop", "1,2")
        assert (got[0]["content"]["text"], completed) == ("id", ["id"])
        assert counted["count"] == 2
        assert {"tools", "resources", "prompts", "completions"} <= client.server_capabilities.keys()
        await client.close()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_components_after_the_lifespan_wait_are_announced(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = LoopClock()
    tables = Tables(timeouts=Timeouts(startup=60))

    @tables.server.tool
    def at_once(ctx: Context[str]) -> str:
        return ctx.state

    async with tables.server.running():
        client = ImpatientClient(tables.server, revision)
        opening = asyncio.ensure_future(opened(client))
        await until(lambda: client.waiting)
        clock.ahead += 59
        await turns()
        assert not opening.done()
        clock.ahead += 2
        await opening
        assert "'tables' did not yield within 60 s" in caplog.text
        lists = [
            client.server_capabilities[name]["listChanged"] for name in ("tools", "resources", "prompts")
        ]
        assert lists == [True] * 3
        if revision == "2026-07-28":
            wanted = {f"{name}ListChanged": True for name in ("tools", "resources", "prompts")}
            listening = asyncio.ensure_future(
                client.request("subscriptions/listen", {"notifications": wanted})
            )
            acknowledged = await client.notification("notifications/subscriptions/acknowledged")
            assert acknowledged["notifications"] == wanted
        assert names(await client.list_tools()) == ["at_once"]
        assert await client.list_prompts() == []
        with pytest.raises(ProtocolError, match="Unknown tool: orders"):
            await client.call_tool("orders")
        waits = asyncio.ensure_future(client.call_tool("at_once"))
        tables.gate.set()
        assert (await waits).text == "shop"
        for name in ("tools", "resources", "prompts"):
            await client.notification(f"notifications/{name}/list_changed")
        assert names(await client.list_tools()) == ["at_once", "orders"]
        await client.close()
        if revision == "2026-07-28":
            listening.cancel()


async def test_failing_lifespan_is_logged_once_and_lists_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tables = Tables()
    tables.has_failed = True
    tables.server.tool(lambda: "x", name="at_once")
    async with tables.server.running():
        client = ImpatientClient(tables.server, "2026-07-28")
        listing = asyncio.ensure_future(client.list_tools())
        await asyncio.sleep(0)
        tables.gate.set()
        assert names(await listing) == ["at_once"]
        for _ in range(2):
            with pytest.raises(
                ProtocolError, match=r"The server failed to start. Its log contains the error"
            ):
                await client.call_tool("at_once")
        await client.close()
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "OSError: no database" in caplog.text


async def test_middleware_state_after_the_lifespan_wait_is_a_retryable_error() -> None:
    tables = Tables(timeouts=Timeouts(startup=0))

    @tables.server.tool
    def at_once() -> str:
        return "x"

    @tables.server.middleware
    async def note(request: Request, call_next: CallNext) -> Any:
        assert request.ctx.state == "shop"
        return await call_next(request)

    async with tables.server.running():
        client = ImpatientClient(tables.server, "2026-07-28")
        with pytest.raises(
            ProtocolError, match=r"still starting, its lifespan function has not finished. Try again later"
        ):
            await client.list_tools()
        call = asyncio.ensure_future(client.call_tool("at_once"))
        await asyncio.sleep(0)
        tables.gate.set()
        assert (await call).text == "x"
        await client.close()


async def test_a_server_included_from_a_thread_begins_its_life() -> None:
    plugin, outer = Tables(), Server("outer", options=ServerOptions(capabilities={"tools"}))
    plugin.gate.set()
    async with outer.running():
        client = await opened(ImpatientClient(outer, "2025-11-25"))
        await asyncio.to_thread(outer.include, plugin.server)
        await client.notification("notifications/tools/list_changed")
        assert names(await client.list_tools()) == ["orders"]
        await client.close()

"""Requests that arrive before the lifespan has yielded: they wait for the components that it registers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server, ServerOptions, Timeouts
from mcpkit.middleware import CallNext, Request
from tests.helpers.pipe import ImpatientClient, settle
from tests.helpers.raw_client import Client, initialize, text_of
from tests.helpers.waiting import LoopClock, until

REVISIONS = ["2025-11-25", "2026-07-28"]
LISTS = ("tools", "resources", "prompts")


class Tables:
    """A server whose lifespan registers the tables of its database once the gate is open."""

    def __init__(self, **options: Any) -> None:
        self.gate = asyncio.Event()
        self.has_failed = self.has_yielded = False
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

        self.has_yielded = True
        yield "shop"


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_early_requests_find_components_of_the_lifespan(revision: str) -> None:
    tables = Tables()
    async with tables.server.running():
        client = ImpatientClient(tables.server, revision)
        opening = asyncio.ensure_future(client.open())
        await asyncio.sleep(0)
        responses = asyncio.gather(
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
        tools, resources, result, contents, messages, values, count = await responses
        await opening
        assert (names(tools), names(resources)) == (["orders"], ["rows"])
        assert (result.text, contents[0]["text"]) == ("orders of shop", "1,2")
        assert (messages[0]["content"]["text"], values, count["count"]) == ("id", ["id"], 2)
        assert {*LISTS, "completions"} <= client.server_capabilities.keys()
        await client.close()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_components_after_the_lifespan_wait_are_announced(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = LoopClock()
    tables = Tables(timeouts=Timeouts(startup=60))

    @tables.server.tool
    def early(ctx: Context[str]) -> str:
        return ctx.state

    async with tables.server.running():
        client = ImpatientClient(tables.server, revision)
        opening = asyncio.ensure_future(client.open())
        await until(lambda: client.waiting)
        clock.ahead += 59
        await settle()
        assert not opening.done()
        clock.ahead += 2
        await opening
        assert "'tables' did not yield within 60 s" in caplog.text
        assert [client.server_capabilities[name]["listChanged"] for name in LISTS] == [True] * 3
        if revision == "2026-07-28":
            wanted = {f"{name}ListChanged": True for name in LISTS}
            stream = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
            acknowledged = await client.notification("notifications/subscriptions/acknowledged")
            assert acknowledged["notifications"] == wanted
        assert names(await client.list_tools()) == ["early"]
        assert await client.list_prompts() == []
        with pytest.raises(ProtocolError, match="Unknown tool: orders"):
            await client.call_tool("orders")
        result = asyncio.ensure_future(client.call_tool("early"))
        tables.gate.set()
        assert (await result).text == "shop"
        for name in LISTS:
            await client.notification(f"notifications/{name}/list_changed")
        assert names(await client.list_tools()) == ["early", "orders"]
        await client.close()
        if revision == "2026-07-28":
            stream.cancel()


async def test_failing_lifespan_is_logged_once_and_lists_are_served(caplog: pytest.LogCaptureFixture) -> None:
    tables = Tables()
    tables.has_failed = True
    tables.server.tool(lambda: "x", name="early")
    async with tables.server.running():
        client = ImpatientClient(tables.server, "2026-07-28")
        tools = asyncio.ensure_future(client.list_tools())
        await asyncio.sleep(0)
        tables.gate.set()
        assert names(await tools) == ["early"]
        for _ in range(2):
            with pytest.raises(
                ProtocolError, match=r"The server failed to start. Its log contains the error"
            ):
                await client.call_tool("early")
        await client.close()
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "OSError: no database" in caplog.text


async def test_server_stopped_before_its_lifespan_yields_cancels_it() -> None:
    async with Tables().server.running():
        await settle()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("mcpkit-lifespan")]


async def test_server_included_from_a_thread_runs_its_lifespan() -> None:
    plugin, outer = Tables(), Server("outer", options=ServerOptions(capabilities={"tools"}))
    plugin.gate.set()
    async with outer.running():
        client = ImpatientClient(outer, "2025-11-25")
        await client.open()
        await asyncio.to_thread(outer.include, plugin.server)
        await client.notification("notifications/tools/list_changed")
        assert names(await client.list_tools()) == ["orders"]
        await client.close()


async def test_http_middleware_state_after_the_lifespan_wait_is_503(schema_dir: Path) -> None:
    tables = Tables(timeouts=Timeouts(startup=0))
    tables.server.tool(name="early")(lambda: "x")

    @tables.server.middleware
    async def check_state(request: Request, call_next: CallNext) -> Any:
        assert request.ctx.state == "shop"
        return await call_next(request)

    client = Client(tables.server.asgi(), schema_dir)  # mounted by an app that runs no lifespan
    for answer in (client.ask("tools/list"), client.post(initialize())):
        await answer.whole()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "its lifespan function has not finished. Try again later" in answer.error()["message"]
    tables.gate.set()
    await until(lambda: tables.has_yielded)
    assert text_of(await client.call_tool("early").response()) == "x"
    await client.aclose()

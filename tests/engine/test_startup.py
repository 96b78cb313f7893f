"""Requests that arrive before the lifespan has yielded: they wait for the components that it registers."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcpkit import Context, Server, ServerOptions, Timeouts
from mcpkit.middleware import CallNext, Request
from tests.helpers.pipe import Pipe, initialize, open_pipe, settle
from tests.helpers.raw_client import Client, text_of
from tests.helpers.waiting import LoopClock, until

LISTS = ("tools", "resources", "prompts")


class Tables:
    """A server with a lifespan that registers the tables of its database once the gate is open."""

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


def begin(server: Server, revision: str, folder: Path) -> Pipe:
    """Connect a client that has sent its first request."""
    pipe = Pipe(server, revision, folder)
    is_stateless = revision == "2026-07-28"
    pipe.send(pipe.message("initialize", "server/discover") if is_stateless else initialize(revision))
    return pipe


COLUMN = {"ref": {"type": "ref/prompt", "name": "report"}, "argument": {"name": "column", "value": ""}}
EARLY: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}), ("resources/list", {}), ("tools/call", {"name": "orders", "arguments": {}}),
    ("resources/read", {"uri": "table://orders"}),
    ("prompts/get", {"name": "report", "arguments": {"column": "id"}}), ("completion/complete", COLUMN),
    ("table/count", {}),
]  # fmt: skip


async def test_early_requests_find_components_of_the_lifespan(revision: str, schema_dir: Path) -> None:
    tables = Tables()
    async with tables.server.running():
        pipe = begin(tables.server, revision, schema_dir)
        ids = [pipe.start(*each) for each in EARLY]
        if revision != "2026-07-28":
            assert await pipe.result("ping") == {}
        await settle()
        assert pipe.out.empty()
        tables.gate.set()
        by_id = {each["id"]: each["result"] for each in await pipe.answered() if "id" in each}
        tools, resources, result, read, prompt, completion, count = (by_id[each] for each in ids)
        assert (names(tools["tools"]), names(resources["resources"])) == (["orders"], ["rows"])
        assert (result["content"][0]["text"], read["contents"][0]["text"]) == ("orders of shop", "1,2")
        assert (prompt["messages"][0]["content"]["text"], count["count"]) == ("id", 2)
        assert completion["completion"]["values"] == ["id"]
        assert {*LISTS, "completions"} <= by_id["initialize"]["capabilities"].keys()
        await pipe.connection.aclose()


async def test_components_after_the_lifespan_wait_are_announced(revision, caplog, schema_dir) -> None:
    clock = LoopClock()
    tables = Tables(timeouts=Timeouts(startup=60))

    @tables.server.tool
    def early(ctx: Context[str]) -> str:
        return ctx.state

    async with tables.server.running():
        pipe = begin(tables.server, revision, schema_dir)
        await settle()
        clock.ahead += 59
        await settle()
        assert pipe.out.empty()
        clock.ahead += 2
        capabilities = (await pipe.receive())["result"]["capabilities"]
        assert "'tables' did not yield within 60 s" in caplog.text
        assert [capabilities[name]["listChanged"] for name in LISTS] == [True] * 3
        if revision == "2026-07-28":
            wanted = {f"{name}ListChanged": True for name in LISTS}
            pipe.start("subscriptions/listen", {"notifications": wanted})
            assert (await pipe.receive())["params"]["notifications"] == wanted
        else:
            pipe.notify("notifications/initialized")
        assert names((await pipe.result("tools/list"))["tools"]) == ["early"]
        assert (await pipe.result("prompts/list"))["prompts"] == []
        assert "Unknown tool: orders" in (await pipe.error("tools/call", {"name": "orders"}))["message"]
        pipe.start("tools/call", {"name": "early"})
        tables.gate.set()
        expected: set[str | None] = {None, *(f"notifications/{name}/list_changed" for name in LISTS)}
        while expected:
            message = await pipe.receive()
            expected.discard(message.get("method"))
            assert "method" in message or message["result"]["content"][0]["text"] == "shop"
        assert names((await pipe.result("tools/list"))["tools"]) == ["early", "orders"]
        await pipe.connection.aclose()


async def test_failing_lifespan_is_logged_once_and_lists_are_served(caplog, schema_dir) -> None:
    tables = Tables()
    tables.has_failed = True
    tables.server.tool(lambda: "x", name="early")
    async with tables.server.running():
        pipe = Pipe(tables.server, "2026-07-28", schema_dir)
        pipe.start("tools/list")
        await asyncio.sleep(0)
        tables.gate.set()
        assert names((await pipe.receive())["result"]["tools"]) == ["early"]
        for _ in range(2):
            error = await pipe.error("tools/call", {"name": "early"})
            assert "The server failed to start. Its log contains the error" in error["message"]
        await pipe.connection.aclose()
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "OSError: no database" in caplog.text


async def test_server_stopped_before_its_lifespan_yields_cancels_it() -> None:
    async with Tables().server.running():
        await settle()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("mcpkit-lifespan")]


async def test_server_included_from_a_thread_runs_its_lifespan(schema_dir: Path) -> None:
    plugin, outer = Tables(), Server("outer", options=ServerOptions(capabilities={"tools"}))
    plugin.gate.set()
    async with open_pipe(outer, "2025-11-25", schema_dir) as pipe:
        await asyncio.to_thread(outer.include, plugin.server)
        while (await pipe.receive())["method"] != "notifications/tools/list_changed":
            pass
        assert names((await pipe.result("tools/list"))["tools"]) == ["orders"]


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


async def test_http_request_waits_for_the_components_of_the_lifespan(schema_dir: Path) -> None:
    tables = Tables()
    client = Client(tables.server.asgi(), schema_dir)
    wanted = {"notifications": {"toolsListChanged": True}}
    call, stream = client.call_tool("orders"), client.ask("subscriptions/listen", wanted)
    await settle()
    assert (call.status, stream.status) == (None, None)
    tables.gate.set()
    assert text_of(await call.response()) == "orders of shop"
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    await client.aclose()

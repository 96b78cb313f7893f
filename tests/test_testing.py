"""The in-memory client that authors test their servers with."""

import asyncio
from typing import Any

import pytest

from mcpkit import Context, Depends, ProtocolError, RegistrationError, Server
from mcpkit.protocol.revisions import ALL
from mcpkit.testing import TestClient, connect, override


@pytest.mark.parametrize("revision", ALL)
async def test_client_of_each_revision_calls_reads_prompts_and_receives_progress(revision: str) -> None:
    server = Server("weather")

    @server.tool
    async def forecast(city: str, ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        await ctx.warning("careful")
        return f"sunny in {city}"

    server.resource("data://x", name="x")(lambda: "x")
    server.prompt(name="plan:trip")(lambda city: city)
    reports: list[Any] = []
    level = "debug" if revision == "2026-07-28" else None
    async with connect(server, protocol_version=revision) as client:
        result = await client.call_tool(
            "forecast", {"city": "Rome"}, progress=lambda *report: reports.append(report[:2]), log_level=level
        )
        assert (result.text, result.is_error, reports) == ("sunny in Rome", False, [(1, 2)])
        assert (await client.notification("notifications/message"))["data"] == "careful"
        assert client.notifications == []
        assert (await client.read_resource("data://x"))[0]["text"] == "x"
        assert (await client.get_prompt("plan:trip", {"city": "Rome"}))[0]["content"]["text"] == "Rome"


async def test_pending_call_of_a_closed_client_fails() -> None:
    server = Server("s")
    started = asyncio.Event()

    @server.tool
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    async with connect(server) as client:
        assert isinstance(client, TestClient)
        task = asyncio.ensure_future(client.call_tool("wait"))
        await started.wait()
    with pytest.raises(ConnectionError, match="closed"):
        await asyncio.wait_for(task, 10)


def interviewing_server() -> Server:
    server = Server("curious")

    @server.tool
    async def interview(count: int, ctx: Context) -> int:
        return sum([(await ctx.elicit(f"Number {number}?", int)).value for number in range(count)])

    return server


async def test_exception_of_the_answers_function_is_raised_by_the_call(revision: str) -> None:
    def answers(method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(f"{method} was not expected")

    async with connect(interviewing_server(), protocol_version=revision, request_handler=answers) as client:
        with pytest.raises(AssertionError, match="elicitation/create was not expected"):
            await client.call_tool("interview", {"count": 1})


async def test_eleventh_round_is_an_error_with_advice() -> None:
    answer = {"action": "accept", "content": {"value": 1}}
    async with connect(interviewing_server(), request_handler=lambda method, params: answer) as client:
        assert (await client.call_tool("interview", {"count": 10})).structured_content == 10
        with pytest.raises(ProtocolError, match=r"in 10 rounds, and asks again: clients give up .* ctx\.ask"):
            await client.call_tool("interview", {"count": 11})


async def test_override_replaces_a_dependency_within_its_block() -> None:
    def tenant() -> str:
        return "production"

    server = Server("shop")

    @server.tool
    def show(name: str = Depends(tenant)) -> str:
        return name

    async with connect(server) as client:
        with override(server, tenant, lambda: "test"):
            assert (await client.call_tool("show")).text == "test"
        assert (await client.call_tool("show")).text == "production"


def test_override_of_what_nothing_depends_on_is_refused() -> None:
    with pytest.raises(RegistrationError, match="depends on"), override(Server("shop"), lambda: 1, lambda: 2):
        pass

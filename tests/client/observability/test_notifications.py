"""Whatever a server says unasked can be heard, and what belongs to a call can be sent along with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Client, Context, Server
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio
Heard = list[tuple[str, dict[str, Any]]]


def speaking(*methods: str) -> ScriptedTransport:
    """Be a server that says something before it answers."""

    def answer(_: ScriptedTransport, message: Message) -> list[Message]:
        if message.get("method") == "server/discover":
            return [discovered(message)]
        said: list[Message] = [{"method": method, "params": {"number": 1}} for method in methods]
        return [*said, {"method": "notifications/bare"}, {"id": message["id"], "result": {"content": []}}]

    return ScriptedTransport(answer)


async def test_all_notifications_are_heard() -> None:
    heard: Heard = []
    async with Client(
        speaking("notifications/tools/list_changed", "example.com/rang"),
        notification=lambda *told: heard.append(told),
    ) as client:
        await client.call("ring")
    assert heard == [
        ("notifications/tools/list_changed", {"number": 1}),
        ("example.com/rang", {"number": 1}),
        ("notifications/bare", {}),
    ]


async def test_what_fails_at_hearing_them_keeps_nobody_else_from_it(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("bakery")

    @server.tool
    def bake() -> None:
        server.tool(bake, name="bake_again")

    def fail(*told: object) -> None:
        raise RuntimeError("no ears")

    async with (
        Client(server, revision="2025-11-25", notification=fail) as client,
        client.watch(tools=True) as changes,
    ):
        await client.call("bake")
        assert (await asyncio.wait_for(anext(changes), 10)).kind == "tools"
    await until(lambda: "no ears" in caplog.text)
    assert "What is told of notifications has failed" in caplog.text


def test_who_hears_them_is_a_function() -> None:
    with pytest.raises(TypeError, match="notification must be a function of method and params, got 3"):
        Client(Server("bakery"), notification=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_members_of_meta_are_sent_along_with_a_call(revision: str) -> None:
    server = Server("bakery")

    @server.tool
    def bake(ctx: Context) -> str:
        return str(ctx.meta.get("example.com/priority"))

    async with Client(server, revision=revision) as client:
        result = await client.call("bake", meta={"example.com/priority": "high"}, progress=print)
        assert result.text == "high"
        assert (await client.call("bake")).text == "None"
    async with Client({"mcpServers": {"a": server, "b": Server("empty")}}) as client:
        assert (await client.call("a_bake", meta={"example.com/priority": "low"})).text == "low"

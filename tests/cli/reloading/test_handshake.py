"""A host of the handshake era stays connected while the code of its server is edited."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcpkit.cli.reloading import supervisor
from tests.helpers.reloaded import edited
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

ONE = """
@shop.tool
def one() -> str:
    return "first"
"""

TALKING = """
@shop.tool
async def talk(ctx: Context) -> str:
    await ctx.debug("heard")
    shop.resource_updated("data://stock")
    return "talked"

@shop.resource("data://stock")
def stock() -> str:
    return "none"
"""

SLOW = """
@shop.tool
async def slow(ctx: Context) -> str:
    await ctx.info("begun")
    await asyncio.sleep(3600)

@shop.resource("data://slow")
async def read(ctx: Context) -> str:
    await ctx.info("begun")
    await asyncio.sleep(3600)

@shop.tool
async def ask(ctx: Context) -> str:
    return str(await ctx.elicit("How many?", int))

@shop.tool
async def held(ctx: Context) -> str:
    await ctx.info("begun")
    while not Path(__file__).with_name("go").exists():
        await asyncio.sleep(0.01)
    return "held"
"""


async def test_ten_edits_reach_a_host_that_has_connected_once(tmp_path: Path) -> None:
    async with edited(tmp_path, ONE + TALKING) as host:
        declared = (await host.initialize())["capabilities"]
        assert declared["prompts"] == {"listChanged": True}
        assert await host.ask("prompts/list") == {"prompts": []}
        await host.ask("logging/setLevel", level="debug")
        await host.ask("resources/subscribe", uri="data://stock")
        assert await host.names() == ["one", "talk"]
        for number in range(1, 6):
            await host.edit(ONE.replace("first", f"edit {number}") + TALKING)
            await host.hear_of("notifications/resources/updated")
            assert await host.call("one") == f"edit {number}"
        assert not [each for each in host.heard if each["method"].endswith("list_changed")]

        assert await host.call("talk") == "talked"  # what has been agreed upon, a new process knows
        assert (await host.hear_of("notifications/message"))["params"]["level"] == "debug"
        assert (await host.hear_of("notifications/resources/updated"))["params"] == {"uri": "data://stock"}

        await host.edit(ONE + "\ndef broken(:\n")
        answer = await host.call("one")
        assert re.search(r"^error: .*server\.py:11: SyntaxError: invalid syntax", answer), answer
        assert await host.names() == ["one", "talk"]
        assert (await host.begin("prompts/get", name="x"))["error"]["code"] == -32603

        await host.edit(ONE + TALKING + "@shop.tool\ndef two() -> int:\n    return 2\n")
        await host.hear_of("notifications/tools/list_changed")
        assert await host.names() == ["one", "talk", "two"]
        await host.edit(ONE + "@shop.prompt\ndef greet() -> str:\n    return 'hello'\n")
        told = {(await host.hear(lambda each: "list_changed" in each["method"]))["method"] for _ in range(3)}
        assert told == {f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")}
        assert [each["name"] for each in (await host.ask("prompts/list"))["prompts"]] == ["greet"]
        await host.edit("1 / 0\n")
        assert "server.py:6: ZeroDivisionError: division by zero" in await host.call("one")
        await host.edit(ONE)
        await host.hear_of("notifications/prompts/list_changed")
        assert await host.call("one") == "first"


async def test_what_runs_may_finish_for_a_while_and_is_then_answered_and_never_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "DRAIN", 60)
    async with edited(tmp_path, SLOW) as host:
        await host.initialize()
        held = host.begin("tools/call", name="held", arguments={})
        await host.hear_of("notifications/message")
        await host.edit(SLOW)
        later = host.begin("tools/list")
        assert await host.ask("ping") == {}
        (tmp_path / "go").touch()
        assert (await held)["result"]["content"][0]["text"] == "held"
        assert len((await later)["result"]["tools"]) == 3

        monkeypatch.setattr(supervisor, "DRAIN", 0.1)
        tool = host.begin("tools/call", name="slow", arguments={})
        read = host.begin("resources/read", uri="data://slow")
        asking = host.begin("tools/call", name="ask", arguments={})
        methods = ["elicitation/create", *["notifications/message"] * 2]  # what has begun, and the question
        await until(lambda: sorted(each["method"] for each in host.heard) == methods)
        question = await host.hear_of("elicitation/create")
        await host.edit(SLOW)
        for answer in (await tool, await asking):
            assert answer["result"]["isError"] is True
            assert "may or may not have happened" in answer["result"]["content"][0]["text"]
        assert (await read)["error"]["code"] == -32603
        cancelled = await host.hear_of("notifications/cancelled")
        assert cancelled["params"]["requestId"] == question["id"]

        again = host.begin("tools/call", name="ask", arguments={})
        another = await host.hear_of("elicitation/create")
        assert another["id"] != question["id"]
        host.send(
            id=question["id"], result={"action": "accept", "content": {"value": 1}}
        )  # nobody waits for it
        host.send(id=another["id"], result={"action": "accept", "content": {"value": 2}})
        assert "2" in (await again)["result"]["content"][0]["text"]


async def test_requests_wait_while_a_process_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with edited(tmp_path, ONE) as host:
        await host.initialize()
        assert await host.names() == ["one"]
        await host.edit(
            "import time\nPath(__file__).with_name('begun').touch()\n"
            "while not Path(__file__).with_name('go').exists():\n    time.sleep(0.01)\n"
            + ONE.replace("first", "second")
        )
        await until((tmp_path / "begun").exists)
        monkeypatch.setattr(supervisor, "WAIT", 0.05)
        assert "has not been ready for 0.05 s" in await host.call("one")
        assert await host.names() == ["one"]
        monkeypatch.undo()
        waiting = host.begin("tools/call", name="one", arguments={})
        given_up = host.begin("tools/call", name="one", arguments={})
        host.send(method="notifications/cancelled", params={"requestId": host.last})
        assert await host.ask("ping") == {}
        (tmp_path / "go").touch()
        assert (await waiting)["result"]["content"][0]["text"] == "second"
        assert await host.call("one") == "second"
        assert not given_up.done()


async def test_a_process_that_ends_is_answered_for_until_the_next_edit(tmp_path: Path) -> None:
    ending = ONE + "@shop.tool\ndef end() -> None:\n    os._exit(3)\n"
    async with edited(tmp_path, ending) as host:
        await host.initialize()
        assert await host.names() == ["one", "end"]
        answer = await host.call("end")
        assert answer.startswith("error: The server is gone, and this may or may not have happened")
        assert "it has ended with exit code 3" in await host.call("one")
        assert await host.names() == ["one", "end"]
        await host.edit(ONE)
        await host.hear_of("notifications/tools/list_changed")
        assert await host.call("one") == "first"


async def test_a_host_may_connect_to_a_server_that_is_broken(tmp_path: Path) -> None:
    async with edited(tmp_path, "def broken(:\n") as host:
        opened = await host.initialize("2025-03-26")
        assert opened["protocolVersion"] == "2025-03-26"
        assert await host.names() == []
        assert "server.py:6: SyntaxError" in await host.call("one")
        await host.ask("logging/setLevel", level="debug")
        await host.edit(ONE + TALKING)
        await host.hear_of("notifications/tools/list_changed")
        await host.call("talk")
        assert (await host.hear_of("notifications/message"))["params"]["level"] == "debug"

"""A host of the stateless era goes on while the code of its server is edited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit.protocol.eras import SUBSCRIPTION_ID
from tests.helpers.reloaded import HEAD, META, Edited, edited

pytestmark = pytest.mark.anyio

CACHED = HEAD.replace(
    "secret=None", "cache={'tools/list': Cache(ttl=300), 'server/discover': Cache(ttl=300)}"
).replace("import Context", "import Cache, Context")

ASKING = """
@shop.tool
async def ask(ctx: Context) -> str:
    return f"EDIT {(await ctx.elicit('How many?', int)).value}"

@shop.tool
def restock() -> str:
    shop.resource_updated("data://stock")
    return "done"

@shop.resource("data://stock")
def stock() -> str:
    return "none"
"""


def begin_listening(host: Edited) -> int:
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["data://stock"]}
    host.begin("subscriptions/listen", notifications=wanted, _meta=META)
    return host.last


def told(kind: str, id_: int, **params: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": f"notifications/{kind}",
        "params": {**params, "_meta": {SUBSCRIPTION_ID: id_}},
    }


async def test_open_listens_live_on_under_their_ids(tmp_path: Path) -> None:
    async with edited(tmp_path, ASKING) as host:
        id_ = begin_listening(host)
        honoured = {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourceSubscriptions": ["data://stock"],
        }
        expected = told("subscriptions/acknowledged", id_, notifications=honoured)
        assert await host.hear(bool) == expected
        assert await host.names(_meta=META) == ["ask", "restock"]
        for body, kinds in (
            (ASKING + "@shop.tool\ndef more() -> int:\n    return 1\n", ["tools"]),
            (ASKING + "@shop.prompt\ndef greet() -> str:\n    return 'hello'\n", ["tools", "prompts"]),
            (ASKING + "# nothing new\n@shop.prompt\ndef greet() -> str:\n    return 'hello'\n", []),
        ):
            await host.edit(body)
            for kind in kinds:
                assert await host.hear(bool) == told(f"{kind}/list_changed", id_)
            assert await host.hear(bool) == told("resources/updated", id_, uri="data://stock")
        assert await host.call("restock", _meta=META) == "done"
        assert await host.hear(bool) == told(
            "resources/updated", id_, uri="data://stock"
        )  # of the new process

        await host.edit("def broken(:\n")
        assert "SyntaxError" in await host.call("restock", _meta=META)
        other = begin_listening(host)
        assert await host.hear(bool) == told("subscriptions/acknowledged", other, notifications=honoured)
        host.send(method="notifications/cancelled", params={"requestId": id_})
        await host.edit(ASKING)
        assert await host.hear(bool) == told("prompts/list_changed", other)
        assert await host.hear(bool) == told("resources/updated", other, uri="data://stock")
        assert await host.call("restock", _meta=META) == "done"
        assert await host.hear(bool) == told("resources/updated", other, uri="data://stock")
        assert host.heard == []


async def test_nothing_may_be_kept_and_states_live_on(tmp_path: Path) -> None:
    async with edited(tmp_path, ASKING.replace("EDIT", "before"), CACHED) as host:
        discovered = await host.ask("server/discover", _meta=META)
        assert discovered["ttlMs"] == 0
        assert discovered["capabilities"]["prompts"] == {"listChanged": True}
        listed = await host.ask("tools/list", _meta=META)
        assert (listed["ttlMs"], listed["cacheScope"]) == (0, "public")
        asked = await host.ask("tools/call", name="ask", arguments={}, _meta=META)
        assert asked["resultType"] == "input_required"
        await host.edit("1 / 0\n")
        assert "ZeroDivisionError" in await host.call("ask", _meta=META)
        assert await host.ask("server/discover", _meta=META) == discovered
        assert await host.ask("tools/list", _meta=META) == listed
        assert (await host.ask("resources/templates/list", _meta=META))["ttlMs"] == 0
        await host.edit(ASKING.replace("EDIT", "after"), CACHED)
        responses = {key: {"action": "accept", "content": {"value": 3}} for key in asked["inputRequests"]}
        again = await host.ask(
            "tools/call",
            name="ask",
            arguments={},
            requestState=asked["requestState"],
            inputResponses=responses,
            _meta=META,
        )
        assert again["content"][0]["text"] == "after 3"

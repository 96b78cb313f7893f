"""Questions that nobody answers hold only so much, and only so long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.calls.asking.pending import MOST_OPEN
from mcpkit.testing import connect
from mcpkit.transports import Connection
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_client_that_answers_nothing_holds_only_so_many_calls() -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("How many?", int)).value)

    said: list[dict[str, Any]] = []
    connection = Connection(server, lambda message: said.append(json.loads(message)))

    def receive(method: str, params: dict[str, Any], **id_: int) -> None:
        connection.receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **id_}).encode())

    def answers() -> dict[int, Any]:
        return {message["id"]: message for message in said if message.keys() & {"result", "error"}}

    client = {"name": "silent", "version": "1"}
    capabilities: dict[str, Any] = {"elicitation": {}}
    opening = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client}
    receive("initialize", opening, id=0)
    for number in range(1, MOST_OPEN + 2):
        receive("tools/call", {"name": "ask"}, id=number)
    await until(lambda: MOST_OPEN + 1 in answers())
    assert answers().keys() == {0, MOST_OPEN + 1}
    error = answers()[MOST_OPEN + 1]["error"]
    assert (error["code"], error["message"].split(";")[0]) == (
        -32603,
        f"Too many questions to this client are open ({MOST_OPEN})",
    )
    receive("notifications/cancelled", {"requestId": 1})
    await until(lambda: len(connection.questions) < MOST_OPEN)
    receive("tools/call", {"name": "ask"}, id=1000)
    await until(lambda: len(connection.questions) == MOST_OPEN)
    assert 1000 not in answers()
    await connection.aclose()


@pytest.mark.parametrize("answers", [{}, {"ok": {"action": "accept", "content": {"value": "perhaps"}}}])
async def test_a_state_cannot_be_kept_alive_by_answering_nothing(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    now = 1000.0
    monkeypatch.setattr("mcpkit.calls.asking.multi_round.time.time", lambda: now)
    server = Server("s", secret="a secret of some length", question_timeout=600)

    @server.tool
    async def buy(ctx: Context) -> str:
        price = await ctx.once("price", lambda: now)
        await ctx.elicit("Of which colour?", str, key="colour")
        await ctx.elicit(f"Buy it for {price}?", bool, key="ok")
        return f"bought for {price}"

    async with connect(server, capabilities={"elicitation": {}}) as client:

        async def go_on(result: dict[str, Any], answers: dict[str, Any]) -> dict[str, Any]:
            state = {"requestState": result["requestState"], "inputResponses": answers}
            return await client.request("tools/call", {"name": "buy", "arguments": {}, **state})

        result = await client.request("tools/call", {"name": "buy", "arguments": {}})
        now += 500
        result = await go_on(result, {"colour": {"action": "accept", "content": {"value": "red"}}})
        now += 500  # what was answered has begun another 600 seconds
        result = await go_on(result, answers)
        now += 99
        result = await go_on(result, answers)
        accepted = {"ok": {"action": "accept", "content": {"value": True}}}
        assert (await go_on(result, accepted))["content"][0]["text"] == "bought for 1000.0"
        now += 2
        with pytest.raises(ProtocolError, match="it has expired"):
            await go_on(result, accepted)

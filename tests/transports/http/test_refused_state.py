"""A `requestState` that is not taken, over HTTP: a bad request, whatever is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Context, Memory, ProtocolError, Server
from mcpkit.testing import connect
from tests.helpers.asgi_answer import Judge
from tests.helpers.asgi_client import Client, Serve, serving
from tests.helpers.official import official

pytestmark = pytest.mark.anyio

CAPABILITIES = {"elicitation": {}}
META = {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}
WHO = {"who": {"action": "accept", "content": {"value": "Ada"}}}


def make_server(secret: str = "a secret of the tests", **options: Any) -> Server:
    server = Server("asking", secret=secret, **options)

    @server.tool(single_use=True)
    async def name(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str, key="who")).value

    @server.tool
    async def other(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str, key="who")).value

    return server


class RoundJudge(Judge):
    """Knows, too, what a server answers when it has to ask."""

    def check(self, message: Any) -> Any:
        if message.get("result", {}).get("resultType") != "input_required":
            return super().check(message)
        official(self._folder, self.revision).check("InputRequiredResult", message["result"])
        return message


async def make_round(client: Client, tool: str = "name", **more: Any) -> tuple[int, dict[str, Any]]:
    """Make one round of a call; return the status and what it is answered with."""
    params = {"name": tool, "arguments": {}, **more}
    answer = client.ask("tools/call", params, meta=META)
    answer.judge = RoundJudge(client.folder, "2026-07-28")
    answer.judge.expect({"id": 1, "method": "tools/call"})
    whole = await answer.whole()
    return whole.status, whole.json()


async def given_state(client: Client, tool: str = "name") -> str:
    status, answer = await make_round(client, tool)
    assert status == 200
    return str(answer["result"]["requestState"])


async def test_every_refusal_is_a_bad_request(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(make_server()) as client:
        state = await given_state(client)
        assert (await make_round(client, inputResponses=WHO, requestState=state))[0] == 200
        of_another_call = await given_state(client, "other")
        late = await given_state(client)
        async with serving(make_server("another secret of the tests"), client.folder) as elsewhere:
            foreign = await given_state(elsewhere)
        async with serving(make_server(), client.folder) as elsewhere:
            other_process = await given_state(elsewhere)
        wrong = {
            "expected the string": 7,
            "none that this server has given": "x",
            "it is none": foreign,
            "another request": of_another_call,
            "used already": state,
            "cannot tell whether": other_process,
            "expired": late,
        }
        for why, given in wrong.items():
            if why == "expired":
                monkeypatch.setattr("time.time", lambda: 4e9)
            status, answer = await make_round(client, inputResponses=WHO, requestState=given)
            assert (status, answer["error"]["code"]) == (400, -32602), why
            assert why in answer["error"]["message"]


async def test_answers_of_another_form_are_a_bad_request(serve: Serve) -> None:
    async with serve(make_server()) as client:
        for responses in (7, {"who": 7}):
            status, answer = await make_round(client, inputResponses=responses)
            assert (status, answer["error"]["code"]) == (400, -32602)


class Broken(Memory):
    """Answers no claim."""

    async def claim(self, key: str, ttl: float) -> bool:
        raise ConnectionError


async def test_a_broker_that_does_not_answer_is_no_fault_of_the_client(serve: Serve) -> None:
    async with serve(make_server(shared=Broken())) as client:
        state = await given_state(client)
        params = {"name": "name", "arguments": {}, "inputResponses": WHO, "requestState": state}
        answer = await client.ask("tools/call", params, meta=META).whole()
        assert (answer.status, answer.error()["code"]) == (503, -32603)
        assert answer.headers["retry-after"] == "1"


async def test_the_apps_and_pipes_of_one_server_agree_on_what_is_used(serve: Serve) -> None:
    server = make_server()
    async with (
        serve(server) as first,
        serve(server) as second,
        connect(server, capabilities=CAPABILITIES) as pipe,
    ):
        params = {"name": "name", "arguments": {}}
        states = [
            await given_state(first),
            await given_state(second),
            (await pipe.request("tools/call", params))["requestState"],
        ]
        for state in states:
            more = {"inputResponses": WHO, "requestState": state}
            outcomes = [(await make_round(client, **more))[0] for client in (first, second)]
            assert outcomes == [200, 400]
            with pytest.raises(ProtocolError, match="used already"):
                await pipe.request("tools/call", {**params, **more})

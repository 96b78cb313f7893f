"""Questions to clients without a session, and calls and questions that end early."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, HttpOptions, Server, ServerOptions
from mcpkit.storage import Memory
from tests.helpers.pipe import META, settle
from tests.helpers.raw_client import (
    BOTH,
    DECLARED,
    LATER,
    Answer,
    Client,
    Judge,
    Serve,
    accept,
    lifespan,
    open_eliciting_session,
    respond,
    serving,
)
from tests.helpers.serving import AT_ONCE, app_of
from tests.helpers.waiting import Work

pytestmark = pytest.mark.anyio


def ask_round(
    client: Client, method: str, params: dict[str, Any], accept_header: str = BOTH, **meta: Any
) -> Answer:
    answer = client.ask(method, params, headers={"accept": accept_header}, meta=DECLARED | meta)
    answer.judge = Judge(client.folder, "2026-07-28")
    answer.judge.expect({"id": 1, "method": method})
    return answer


@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("tools/call", {"name": "ask_name", "arguments": {}}, "Ada"),
        ("prompts/get", {"name": "greet"}, "Greet Ada"),
        ("resources/read", {"uri": "notes://day"}, "day of Ada"),
    ],
)
async def test_input_required_is_json(method: str, params: dict[str, Any], text: str, client: Client) -> None:
    answer = await ask_round(client, method, params).whole()
    assert answer.status == 200
    result = answer.json()["result"]
    assert result["resultType"] == "input_required"
    [(key, request)] = result["inputRequests"].items()
    assert request["method"] == "elicitation/create"
    more = {"inputResponses": {key: accept("Ada")}, "requestState": result["requestState"]}
    result = (await ask_round(client, method, {**params, **more}).whole()).json()["result"]
    assert result["resultType"] == "complete"
    assert text in json.dumps(result)


ELICITATION = {"elicitation": {}}


ELICITATION_META = {"io.modelcontextprotocol/clientCapabilities": ELICITATION}


WHO = {"who": {"action": "accept", "content": {"value": "Ada"}}}


def make_state_server(secret: str = "a secret of the tests", **options: Any) -> Server:
    server = Server("asking", secret_key=secret, options=ServerOptions(single_use_state=True), **options)

    @server.tool
    async def name(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str, key="who")).value

    @server.tool
    async def other(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str, key="who")).value

    return server


async def make_round(client: Client, tool: str = "name", **more: Any) -> tuple[int, dict[str, Any]]:
    params = {"name": tool, "arguments": {}, **more}
    answer = client.ask("tools/call", params, meta=ELICITATION_META)
    answer.judge = Judge(client.folder, "2026-07-28")
    answer.judge.expect({"id": 1, "method": "tools/call"})
    whole = await answer.whole()
    return whole.status, whole.json()


async def given_state(client: Client, tool: str = "name") -> str:
    status, answer = await make_round(client, tool)
    assert status == 200
    return str(answer["result"]["requestState"])


async def test_invalid_request_state_is_bad_request(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(make_state_server()) as client:
        state = await given_state(client)
        assert (await make_round(client, inputResponses=WHO, requestState=state))[0] == 200
        of_another_call = await given_state(client, "other")
        late = await given_state(client)
        async with serving(make_state_server("another secret of the tests"), client.folder) as elsewhere:
            foreign = await given_state(elsewhere)
        async with serving(make_state_server(), client.folder) as elsewhere:
            other_process = await given_state(elsewhere)
        wrong = {
            "expected the string": 7, "this server did not issue it": "x", "server did not issue": foreign,
            "another request": of_another_call, "used before": state,
            "cannot check whether": other_process, "expired": late,
        }  # fmt: skip
        for why, original in wrong.items():
            if why == "expired":
                monkeypatch.setattr("time.time", lambda: 4e9)
            status, answer = await make_round(client, inputResponses=WHO, requestState=original)
            assert (status, answer["error"]["code"]) == (400, -32602), why
            assert why in answer["error"]["message"]


class UnavailableStore(Memory):
    async def claim(self, key: str, ttl: float) -> bool:
        raise ConnectionError


async def test_unavailable_store_is_503(serve: Serve) -> None:
    async with serve(make_state_server(storage=UnavailableStore())) as client:
        state = await given_state(client)
        params = {"name": "name", "arguments": {}, "inputResponses": WHO, "requestState": state}
        answer = await client.ask("tools/call", params, meta=ELICITATION_META).whole()
        assert (answer.status, answer.error()["code"]) == (503, -32603)
        assert answer.headers["retry-after"] == "1"


async def test_cancelled_call_withdraws_question(client: Client, work: Work) -> None:
    session = await open_eliciting_session(client)
    call = session.call_tool("ask_name", id="call")
    question = await call.message()
    await session.notify("notifications/cancelled", {"requestId": "call"})
    [taken_back] = await call.messages()
    assert taken_back["method"] == "notifications/cancelled"
    assert taken_back["params"] == {"requestId": question["id"]}
    await settle()
    assert work.done.is_set()
    assert (await respond(session, question["id"], accept("late"))).status == 202


@pytest.mark.parametrize("tool", ["wait", "log_then_wait"])
@pytest.mark.parametrize("stream_after", [0, LATER])
async def test_closed_stream_cancels_request(
    tool: str, stream_after: float, server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, http=HttpOptions(sse_after=stream_after)) as client:
        answer = client.call_tool(tool, meta={META + "logLevel": "debug"})
        await work.started.wait()
        if tool == "log_then_wait":
            await answer.message()
        answer.disconnect()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await answer.whole()
        assert b"".join(each.get("body", b"") for each in answer.late) == b""


async def test_shutdown_during_call_is_503(server: Server, schema_dir: Path, work: Work) -> None:
    app = app_of(server, timeouts=AT_ONCE)
    async with lifespan(app):
        answer = Client(app, schema_dir).call_tool("wait")
        await asyncio.wait_for(work.started.wait(), 10)
    await answer.whole()
    assert answer.status == 503
    assert (answer.error()["code"], answer.json()["id"]) == (-32603, 1)


async def test_task_cancellation_stops_call(server: Server, client: Client, work: Work) -> None:
    answer = client.call_tool("wait")
    await work.started.wait()
    answer.task.cancel()
    await asyncio.wait({answer.task}, timeout=10)
    assert work.cancelled.is_set()
    if sys.version_info >= (
        3,
        11,
    ):  # before, nothing tells this from a CancelledError of the function's own
        assert answer.task.cancelled()
    assert server.engine.runtime.running.taken == 0
    client.opened.remove(answer)

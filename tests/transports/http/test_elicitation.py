"""Elicitation and sampling over HTTP, and calls that end early."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from mcpkit import Context, HttpOptions, Server, ServerOptions
from mcpkit.storage import Memory
from tests.helpers.pipe import META, settle
from tests.helpers.raw_client import (
    LATER,
    Answer,
    Client,
    Judge,
    Serve,
    accept,
    first_event,
    message_of,
    open_eliciting_session,
    respond,
    serving,
    text_of,
)
from tests.helpers.servers.full import SECRET
from tests.helpers.waiting import Work

pytestmark = pytest.mark.anyio


ELICITATION_META = {META + "clientCapabilities": {"elicitation": {}}}


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


ELICITING = ["2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("revision", ELICITING)
async def test_question_is_sent_on_call_stream(revision: str, client: Client) -> None:
    session = await open_eliciting_session(client, revision)
    call = session.call_tool("ask_names")
    first = await call.message()
    assert (first["method"], first["params"]["message"]) == ("elicitation/create", "First name?")
    assert (await respond(session, first["id"], accept("Ada"))).status == 202
    assert (await call.message())["params"]["data"] == "first name received"
    last = await call.message()
    assert last["params"]["message"] == "Last name?"
    assert last["id"] != first["id"]
    posted = await respond(session, last["id"], accept("Lovelace"))
    assert (posted.status, posted.body) == (202, b"")
    assert text_of(await call.message()) == "Ada Lovelace"
    assert await call.message() is None


SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "blue"}, "model": "m"}


def make_sampling_server(broker: Memory) -> Server:
    server = Server("asking", version="1", secret_key=SECRET, storage=broker)

    @server.tool
    async def colours(ctx: Context) -> str:
        answers = [await ctx.sample(text, max_tokens=5) for text in ("Which?", "Which else?")]
        return " ".join(answer.text for answer in answers)

    return server


async def test_response_reaches_process_of_call(serve: Serve) -> None:
    broker = Memory()
    async with serve(make_sampling_server(broker)) as there, serve(make_sampling_server(broker)) as here:
        session = await here.initialize(capabilities={"sampling": {}})
        other = await there.initialize()
        call = session.call_tool("colours")
        for _ in range(2):
            question = await next_message(call)
            assert question["method"] == "sampling/createMessage"
            for stranger in (other, other.at(here)):
                assert (await respond(stranger, question["id"], SAMPLED)).status == 400
            accepted = await respond(session.at(there), question["id"], SAMPLED)
            assert (accepted.status, accepted.body) == (202, b"")
        response = await next_message(call)
        assert response["result"]["content"][0]["text"] == "blue blue"


async def next_message(stream: Answer) -> Any:
    while not (event := await first_event(stream)).data:
        pass
    return message_of(event)

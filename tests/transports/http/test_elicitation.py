"""Elicitation over HTTP, and calls that end early."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from mcpkit import HttpOptions, Server, ServerOptions
from mcpkit.storage import Memory
from tests.helpers.pipe import META, settle
from tests.helpers.raw_client import (
    DECLARED,
    LATER,
    Client,
    Serve,
    accept,
    open_eliciting_session,
    respond,
    serving,
    text_of,
    within,
)
from tests.helpers.servers.full import make_server
from tests.helpers.waiting import Work

pytestmark = pytest.mark.anyio

ANSWERS = {"#1": accept("Ada")}


def make_state_server(secret: str = "a secret of the tests", **options: Any) -> Server:
    return make_server(secret_key=secret, options=ServerOptions(single_use_state=True), **options)


async def call(client: Client, tool: str = "ask_name", **more: Any) -> tuple[int | None, dict[str, Any]]:
    params = {"name": tool, "arguments": {}, **more}
    answer = await client.ask("tools/call", params, meta=DECLARED).whole()
    return answer.status, answer.json()


async def state_of(client: Client, tool: str = "ask_name") -> str:
    status, answer = await call(client, tool)
    assert status == 200
    return str(answer["result"]["requestState"])


async def test_invalid_request_state_is_bad_request(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(make_state_server()) as client:
        state = await state_of(client)
        assert (await call(client, inputResponses=ANSWERS, requestState=state))[0] == 200
        other_call, late = await state_of(client, "ask_names"), await state_of(client)
        elsewhere = []
        for secret in ("another secret of the tests", "a secret of the tests"):
            async with serving(make_state_server(secret), client.folder) as other:
                elsewhere.append(await state_of(other))
        for reason, wrong in {
            "expected the string": 7,
            "this server did not issue it": "x",
            "server did not issue": elsewhere[0],
            "another request": other_call,
            "used before": state,
            "cannot check whether": elsewhere[1],
            "expired": late,
        }.items():
            if reason == "expired":
                monkeypatch.setattr("time.time", lambda: 4e9)
            status, answer = await call(client, inputResponses=ANSWERS, requestState=wrong)
            assert (status, answer["error"]["code"]) == (400, -32602), reason
            assert reason in answer["error"]["message"]


class UnavailableStore(Memory):
    async def claim(self, key: str, ttl: float) -> bool:
        raise ConnectionError


async def test_unavailable_store_is_503(serve: Serve) -> None:
    async with serve(make_state_server(storage=UnavailableStore())) as client:
        params = {
            "name": "ask_name",
            "arguments": {},
            "inputResponses": ANSWERS,
            "requestState": await state_of(client),
        }
        answer = await client.ask("tools/call", params, meta=DECLARED).whole()
        assert (answer.status, answer.error()["code"], answer.headers["retry-after"]) == (503, -32603, "1")


async def test_cancelled_call_withdraws_question(client: Client, work: Work) -> None:
    session = await open_eliciting_session(client)
    call = session.call_tool("ask_name", id="call")
    question = await call.message()
    await session.notify("notifications/cancelled", {"requestId": "call"})
    [withdrawn] = await call.messages()
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"] == {"requestId": question["id"]}
    await settle()
    assert work.done.is_set()
    assert (await respond(session, question["id"], accept("late"))).status == 202


@pytest.mark.parametrize(("tool", "stream_after"), [("wait", 0), ("wait", LATER), ("log_then_wait", LATER)])
async def test_closed_stream_cancels_request(
    tool: str, stream_after: float, server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, http=HttpOptions(sse_after=stream_after)) as client:
        answer = client.call_tool(tool, meta={META + "logLevel": "debug"})
        await work.started.wait()
        if tool == "log_then_wait":
            await answer.message()
        answer.disconnect()
        await within(work.cancelled.wait())
        await answer.whole()
        assert b"".join(each.get("body", b"") for each in answer.late) == b""


async def test_task_cancellation_stops_call(client: Client, work: Work) -> None:
    answer = client.call_tool("wait")
    await work.started.wait()
    answer.task.cancel()
    await asyncio.wait({answer.task}, timeout=10)
    assert work.cancelled.is_set()
    # Before Python 3.11, nothing tells this from a CancelledError of the function.
    assert answer.task.cancelled() or sys.version_info < (3, 11)
    client.opened.remove(answer)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
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
    [result] = await call.messages()
    assert text_of(result) == "Ada Lovelace"

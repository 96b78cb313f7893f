"""Sessions over HTTP, and HTTP with SSE of 2024-11-05: opening, messages, questions, cancellation and end."""

import asyncio
import re
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit import HttpOptions, Limits, Server, ServerOptions
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.storage import Memory
from mcpkit.transports.http.sessions.session_store import MAX_LENGTH
from tests.helpers import raw_client
from tests.helpers.pipe import HANDSHAKE, META, settle
from tests.helpers.servers.full import make_server
from tests.helpers.servers.protected import old_of
from tests.helpers.tables import each_row
from tests.helpers.waiting import Work, until


@pytest.mark.limit("session id")
@each_row(("method", "id_", "status"), [
    *((method, None, 400) for method in ("POST", "GET", "DELETE")),
    *(("POST", id_, 404) for id_ in ("unknown", "A" * MAX_LENGTH, "A" * 100 * MAX_LENGTH, "ü")),
])  # fmt: skip
async def test_request_without_known_session_id_is_refused(method, id_, status, client) -> None:
    headers = {"mcp-session-id": id_, "mcp-protocol-version": HANDSHAKE[-1]}
    pending = (
        client.post(raw_client.PING, headers) if method == "POST" else client.open(method, headers=headers)
    )
    answer = await pending.whole()
    assert (answer.status, answer.error()["code"], "id" in answer.json()) == (status, -32600, False)
    assert len(answer.body) < 10_000


async def test_delete_cancels_calls_and_ends_streams(work: Work, client: raw_client.Client) -> None:
    session, other = await client.initialize(), await client.initialize()
    call, stream = session.call_tool("wait"), await session.listen().head()
    await work.started.wait()
    deleted = await session.delete()
    assert (deleted.status, deleted.body) == (204, b"")
    await raw_client.within(work.cancelled.wait())
    await call.whole()
    assert await stream.messages() == []
    for answer in (session.ask("ping"), session.listen()):
        assert (await answer.whole()).status == 404
    assert (await session.delete()).status == 404
    assert await other.text("envelope") == "2025-11-25 test"


async def test_stateless_option_opens_no_session(server: Server, serve: raw_client.Serve) -> None:
    async with serve(server, stateless=True) as client:
        for revision in ("2025-03-26", "2025-11-25"):
            session = await client.initialize(revision)
            assert (session.id, session.result["capabilities"]["tools"]) == (None, {})
            assert await session.text("envelope") == f"{revision} None"
            assert await raw_client.log_messages(session) == ["quiet", "loud"]
        for method in ("GET", "DELETE"):
            answer = await client.open(method, headers={"mcp-protocol-version": HANDSHAKE[-1]}).whole()
            assert (answer.status, answer.headers["allow"]) == (405, "POST")


async def test_stateless_option_log_level_is_per_post(server: Server, serve: raw_client.Serve) -> None:
    async with serve(server, stateless=True) as client:
        session = await client.initialize("2025-03-26")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "log_levels"}}
        level = {"jsonrpc": "2.0", "id": 0, "method": "logging/setLevel", "params": {"level": "error"}}
        messages = await session.post([level, call]).messages()
        assert [message["params"]["data"] for message in messages if "method" in message] == ["loud"]
        assert await raw_client.log_messages(session) == ["quiet", "loud"]


@each_row(("negotiated", "named", "status"), [
    *((revision, revision, 200) for revision in HANDSHAKE), ("2025-11-25", None, 200),
    ("2025-11-25", "2024-11-05", 200), ("2025-03-26", "2025-11-25", 200),
    ("2025-11-25", "1999-01-01", 400), ("2025-11-25", "", 400),
])  # fmt: skip
async def test_session_keeps_negotiated_version(negotiated, named, status, client) -> None:
    session = await client.initialize(negotiated)
    answer = session.call_tool("envelope", headers={"mcp-protocol-version": named})
    assert (await answer.head()).status == status
    if status == 200:
        assert raw_client.text_of(await answer.response()) == f"{negotiated} test"
        assert (await session.listen(headers={"mcp-protocol-version": named}).head()).status == 200


@each_row(("message", "status", "code"), [
    (b"{", 400, -32700),
    (7, 400, -32600),
    ({}, 400, -32600),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
    ({"id": 1, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 77, "result": {}}, 400, -32600),
    ({"jsonrpc": "2.0", "id": "77", "error": {"code": -1, "message": "no"}}, 400, -32600),
    *(
        ({"jsonrpc": "2.0", "id": 1, "method": method}, 200, -32601)
        for method in ("unknown/method", "server/discover", "subscriptions/listen")
    ),
])  # fmt: skip
async def test_invalid_session_message_is_error(
    message: Any, status: int, code: int, client: raw_client.Client
) -> None:
    session = await client.initialize()
    answer = await session.post(message).whole()
    assert (answer.status, answer.error()["code"]) == (status, code)


async def test_request_ids_are_of_one_session(work: Work, client: raw_client.Client) -> None:
    session, other = await client.initialize(), await client.initialize()
    call = session.call_tool("wait", id="same")
    await work.started.wait()
    answer = await session.ask("ping", id="same").whole()
    assert (answer.status, answer.error()["code"], "id" in answer.json()) == (400, -32600, False)
    assert (await other.ask("ping", id="same").whole()).status == 200
    await other.notify("notifications/cancelled", {"requestId": "same"})
    assert not work.cancelled.is_set()
    await session.notify("notifications/cancelled", {"requestId": "same"})
    await raw_client.within(work.cancelled.wait())
    assert await call.messages() == []


@pytest.mark.parametrize("stream_after", [0, 3600])
async def test_dropped_post_does_not_cancel(stream_after, server, work, serve) -> None:
    async with serve(server, http=HttpOptions(sse_after=stream_after)) as client:
        session = await client.initialize()
        call = session.call_tool("wait")
        await work.started.wait()
        call.disconnect()
        await call.whole()
        work.gate.set()
        await raw_client.within(work.done.wait())
        assert not work.cancelled.is_set()


class GatedStore(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.is_written = asyncio.Event()
        self.gate = asyncio.Event()

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        await super().write(key, changes, ttl)
        self.is_written.set()
        await self.gate.wait()


def post_initialize(client: raw_client.Client) -> raw_client.Answer:
    message = raw_client.initialize(_meta={"progressToken": "opening"})
    return client.post(message, judge=raw_client.Judge(client.folder, "2025-11-25"))


@pytest.mark.parametrize("has_reported", [False, True])
async def test_failed_initialize_leaves_no_session(serve: raw_client.Serve, has_reported: bool) -> None:
    store = Memory()
    server = make_server(storage=store)

    @server.middleware("initialize")
    async def fail(request: Request, call_next: CallNext) -> Result:
        if has_reported:
            await request.ctx.report_progress(1, 2)
        await call_next(request)
        raise KeyError("afterwards")

    async with serve(server) as client:
        answer = post_initialize(client)
        response = await answer.response()
        assert response["error"]["message"].startswith("Internal error (ref ")
        assert answer.is_stream is has_reported
        assert "mcp-session-id" not in answer.headers
        assert raw_client.session_keys(store) == []


async def test_disconnect_while_session_is_stored_leaves_none(serve: raw_client.Serve) -> None:
    store = GatedStore()
    async with serve(make_server(storage=store)) as client:
        answer = post_initialize(client)
        await raw_client.within(store.is_written.wait())
        answer.disconnect()
        await answer.whole()
        assert raw_client.session_keys(store) == []


# HTTP with SSE


async def test_sse_responses_are_message_events_of_their_client(client: raw_client.Client) -> None:
    sse, other = await old_of(client, {}), await old_of(client, {})
    assert re.fullmatch(r"/messages\?session_id=[0-9a-f]{32}", sse.endpoint)
    assert (sse.stream.status, sse.stream.headers["x-accel-buffering"]) == (200, "no")
    assert (await sse.post(raw_client.PING, {}).whole()).status == 202
    event = await raw_client.first_event(sse.stream)
    assert (event.type, event.id, event.retry) == ("message", None, None)
    assert raw_client.message_of(event) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    for each in (sse, other):
        assert raw_client.text_of(await each.ask("tools/call", {"name": "envelope"}, {})) == "2024-11-05 test"
    assert sse.stream.waiting() == other.stream.waiting() == []


async def test_sse_post_is_checked(server: Server, serve: raw_client.Serve) -> None:
    async with serve(server, limits=Limits(max_request_body_size=1000)) as client:
        sse = await old_of(client, {})
        for message, headers, status in (
            (raw_client.PING, {"content-type": "text/plain"}, 415),
            (b" " * 1001, {}, 413),
            (raw_client.PING, {"host": "evil.example.com"}, 421),
            (raw_client.PING, {"origin": "https://evil.example.com"}, 403),
        ):
            assert (await sse.post(message, headers).whole()).status == status
        for query in ("", "?session_id=unknown"):
            assert (await client.post(raw_client.PING, path=f"/messages{query}").whole()).status == 404
        assert sse.stream.waiting() == []


async def test_sse_disconnect_ends_session(server: Server, client: raw_client.Client, work: Work) -> None:
    sse = await old_of(client, {})
    await sse.post(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait"}}, {}
    ).whole()
    await work.started.wait()
    sse.stream.disconnect()
    await raw_client.within(work.cancelled.wait())
    await sse.stream.whole()
    assert (await sse.post(raw_client.PING, {}).whole()).status == 404
    await until(lambda: not server.engine.runtime.running.taken)


async def test_sse_option_disables_endpoints(server: Server, serve: raw_client.Serve) -> None:
    async with serve(server, http=HttpOptions(sse=False)) as client:
        assert (await client.open("GET", "/sse").whole()).status == 404
        assert (await client.post(raw_client.PING, path="/messages?session_id=x").whole()).status == 404


ANSWERS = {"#1": raw_client.accept("Ada")}


def make_state_server(secret: str = "a secret of the tests", **options: Any) -> Server:
    return make_server(secret_key=secret, options=ServerOptions(single_use_state=True), **options)


async def call(
    client: raw_client.Client, tool: str = "ask_name", **more: Any
) -> tuple[int | None, dict[str, Any]]:
    params = {"name": tool, "arguments": {}, **more}
    answer = await client.ask("tools/call", params, meta=raw_client.DECLARED).whole()
    return answer.status, answer.json()


async def state_of(client: raw_client.Client, tool: str = "ask_name") -> str:
    status, answer = await call(client, tool)
    assert status == 200
    return str(answer["result"]["requestState"])


async def test_invalid_request_state_is_bad_request(
    serve: raw_client.Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(make_state_server()) as client:
        state = await state_of(client)
        assert (await call(client, inputResponses=ANSWERS, requestState=state))[0] == 200
        other_call, late = await state_of(client, "ask_names"), await state_of(client)
        elsewhere = []
        for secret in ("another secret of the tests", "a secret of the tests"):
            async with raw_client.serving(make_state_server(secret), client.folder) as other:
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


async def test_cancelled_call_withdraws_question(client: raw_client.Client, work: Work) -> None:
    session = await raw_client.open_eliciting_session(client)
    call = session.call_tool("ask_name", id="call")
    question = await call.message()
    await session.notify("notifications/cancelled", {"requestId": "call"})
    [withdrawn] = await call.messages()
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"] == {"requestId": question["id"]}
    await settle()
    assert work.done.is_set()
    assert (await raw_client.respond(session, question["id"], raw_client.accept("late"))).status == 202


@pytest.mark.parametrize(
    ("tool", "stream_after"), [("wait", 0), ("wait", raw_client.LATER), ("log_then_wait", raw_client.LATER)]
)
async def test_closed_stream_cancels_request(tool, stream_after, server, serve, work) -> None:
    async with serve(server, http=HttpOptions(sse_after=stream_after)) as client:
        answer = client.call_tool(tool, meta={META + "logLevel": "debug"})
        await work.started.wait()
        if tool == "log_then_wait":
            await answer.message()
        answer.disconnect()
        await raw_client.within(work.cancelled.wait())
        await answer.whole()
        assert b"".join(each.get("body", b"") for each in answer.late) == b""


async def test_task_cancellation_stops_call(client: raw_client.Client, work: Work) -> None:
    answer = client.call_tool("wait")
    await work.started.wait()
    answer.task.cancel()
    await asyncio.wait({answer.task}, timeout=10)
    assert work.cancelled.is_set()
    # Before Python 3.11, nothing tells this from a CancelledError of the function.
    assert answer.task.cancelled() or sys.version_info < (3, 11)
    client.opened.remove(answer)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_question_is_sent_on_call_stream(revision: str, client: raw_client.Client) -> None:
    session = await raw_client.open_eliciting_session(client, revision)
    call = session.call_tool("ask_names")
    first = await call.message()
    assert (first["method"], first["params"]["message"]) == ("elicitation/create", "First name?")
    assert (await raw_client.respond(session, first["id"], raw_client.accept("Ada"))).status == 202
    assert (await call.message())["params"]["data"] == "first name received"
    last = await call.message()
    assert last["params"]["message"] == "Last name?"
    assert last["id"] != first["id"]
    posted = await raw_client.respond(session, last["id"], raw_client.accept("Lovelace"))
    assert (posted.status, posted.body) == (202, b"")
    [result] = await call.messages()
    assert raw_client.text_of(result) == "Ada Lovelace"

"""What passes through a server's own functions on its way to a handler, alike in every revision."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, RegistrationError, ResourceNotFoundError, Server, ToolError
from mcpkit.connection import Connection
from mcpkit.middleware import CallNext, CallTool, Request, Result, ToolCall, ToolCallResult
from mcpkit.testing import connect
from typed.middleware import server as typed_server

pytestmark = pytest.mark.anyio

EVERY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
ELICITING = EVERY[2:]


@pytest.fixture
def server() -> Server:
    server = Server("wrapped", page_size=1)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def add_in_thread(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail(ctx: Context) -> str:
        raise ToolError("no")

    @server.tool
    async def count(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await ctx.info("half")
        return "done"

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which city?", str)
        return f"{ctx.client.info['name']} said {answer.value}"

    @server.resource("wrapped://known")
    async def known() -> str:
        return "here"

    @server.resource("wrapped://{name}")
    async def unknown(name: str) -> str:
        raise ResourceNotFoundError

    @server.prompt
    async def greet(name: str) -> str:
        return f"Hello {name}"

    return server


class Recorder:
    """Notes what goes in and comes out."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        try:
            result = await call_next(request)
        except BaseException as error:
            self.seen.append((request.method, type(error).__name__))
            raise
        self.seen.append((request.method, dict(result)))
        return result


@pytest.mark.parametrize("revision", EVERY)
async def test_every_request_passes_with_its_result(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())
    async with connect(server, revision=revision) as client:
        answers = [
            ("tools/list", await client.request("tools/list")),
            (
                "tools/call",
                await client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
            ),
            ("resources/list", await client.request("resources/list")),
            ("resources/read", await client.request("resources/read", {"uri": "wrapped://known"})),
            (
                "prompts/get",
                await client.request("prompts/get", {"name": "greet", "arguments": {"name": "A"}}),
            ),
        ]
    assert recorder.seen[0][0] in {"initialize", "server/discover"}
    assert recorder.seen[1:] == answers


@pytest.mark.parametrize("revision", EVERY)
async def test_the_answers_are_those_without_middleware(server: Server, revision: str) -> None:
    async def all_of() -> list[Any]:
        async with connect(server, revision=revision) as client:
            return [
                client.server_info,
                client.server_capabilities,
                await client.list_tools(),
                await client.request("tools/call", {"name": "add_in_thread", "arguments": {"a": 1, "b": 2}}),
                await client.request("tools/call", {"name": "fail"}),
                await client.read("wrapped://known"),
            ]

    bare = await all_of()
    server.middleware(Recorder())
    assert await all_of() == bare


async def test_requests_that_are_refused_pass_too(server: Server) -> None:
    recorder = server.middleware(Recorder())
    async with connect(server, revision="2025-11-25") as client:
        for method, params in [("no/such", {}), ("tools/call", {"name": "none"}), ("tools/call", {})]:
            with pytest.raises(ProtocolError):
                await client.request(method, params)
        with pytest.raises(ProtocolError):
            await client.read("wrapped://lost")
    assert recorder.seen[1:] == [
        ("no/such", "ProtocolError"),
        ("tools/call", "ProtocolError"),
        ("tools/call", "MalformedError"),
        ("resources/read", "ResourceNotFoundError"),
    ]


async def test_a_ping_does_not_pass(server: Server) -> None:
    recorder = server.middleware(Recorder())
    async with connect(server, revision="2025-11-25") as client:
        recorder.seen.clear()
        assert await client.request("ping") == {}
    assert recorder.seen == []


async def test_a_stream_that_listens_does_not_pass(server: Server) -> None:
    recorder = server.middleware(Recorder())
    async with connect(server) as client:
        recorder.seen.clear()
        listening = asyncio.ensure_future(
            client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        )
        await client.notification("notifications/subscriptions/acknowledged")
        listening.cancel()
    assert recorder.seen == []


async def test_the_first_that_is_registered_is_outermost(server: Server) -> None:
    order: list[str] = []

    def make(name: str) -> Any:
        async def middleware(request: Request, call_next: CallNext) -> Result:
            order.append(f"{name} in")
            result = await call_next(request)
            order.append(f"{name} out")
            return result

        return middleware

    server.middleware(make("first"))
    server.middleware("tools/call")(make("second"))
    server.middleware(make("third"))
    async with connect(server) as client:
        order.clear()
        await client.call("add", {"a": 1, "b": 2})
        await client.list_prompts()
    assert order[:6] == ["first in", "second in", "third in", "third out", "second out", "first out"]
    assert order[6:] == ["first in", "third in", "third out", "first out"]


@pytest.mark.parametrize("revision", EVERY)
async def test_it_may_change_the_arguments_and_the_result(server: Server, revision: str) -> None:
    @server.middleware("tools/call")
    async def double(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        before = dict(request.arguments)
        result = await call_next(request.with_arguments({**request.arguments, "a": 20}))
        assert request.arguments == before == {"a": 1, "b": 2}
        result["_meta"] = {**result.get("_meta", {}), "name": request.name}
        return result

    async with connect(server, revision=revision) as client:
        result = await client.call("add", {"a": 1, "b": 2})
    assert result.text == "22"
    assert result.meta["name"] == "add"


@pytest.mark.parametrize("revision", EVERY)
async def test_it_may_answer_itself(server: Server, revision: str, schema_dir: Any) -> None:
    @server.middleware
    async def answer(request: Request, call_next: CallNext) -> Any:
        if request.target != "add":
            return await call_next(request)
        return {"content": [{"type": "text", "text": "kept"}], "structuredContent": {"kept": True}}

    async with connect(server, revision=revision) as client:
        result = await client.request("tools/call", {"name": "add"})
        passed = await client.call("count")
    knows = revision >= "2025-06-18"
    assert result["content"] == [{"type": "text", "text": "kept"}]
    assert result.get("structuredContent") == ({"kept": True} if knows else None)
    assert result.get("resultType") == ("complete" if revision == EVERY[-1] else None)
    assert ("_meta" in result) is (revision == EVERY[-1])
    assert passed.text == "done"


async def test_it_may_try_again(server: Server) -> None:
    tries = 0

    @server.tool
    async def flaky() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ToolError("not yet")
        return "now"

    @server.middleware("tools/call")
    async def again(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        while (result := await call_next(request)).is_error:
            assert result.text == "not yet"
        return result

    async with connect(server) as client:
        assert (await client.call("flaky")).text == "now"


@pytest.mark.parametrize("revision", EVERY)
async def test_what_it_raises_becomes_what_it_would_in_the_handler(
    server: Server, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    problem: list[Exception] = []

    @server.middleware
    async def refuse(request: Request, call_next: CallNext) -> Result:
        if problem:
            raise problem[0]
        return await call_next(request)

    async with connect(server, revision=revision) as client:
        problem[:] = [ToolError("ask the boss")]
        refused = await client.call("add", {"a": 1, "b": 2})
        with pytest.raises(ProtocolError, match="ask the boss") as told:
            await client.read("wrapped://known")
        problem[:] = [ProtocolError(-1, "not today", {"tomorrow": True})]
        with pytest.raises(ProtocolError) as sent:
            await client.call("add", {"a": 1, "b": 2})
        problem[:] = [KeyError("secret")]
        with caplog.at_level(logging.CRITICAL, "mcpkit"):
            masked = await client.call("add", {"a": 1, "b": 2})
            with pytest.raises(ProtocolError, match=r"Internal error \(ref \w+\)$"):
                await client.list_tools()
    assert (refused.is_error, refused.text) == (True, "ask the boss")
    assert told.value.code == -32603
    assert (sent.value.code, sent.value.message, sent.value.data) == (-1, "not today", {"tomorrow": True})
    assert masked.is_error
    assert "secret" not in masked.text


async def test_those_outside_see_the_result_that_an_exception_becomes(server: Server) -> None:
    recorder = server.middleware(Recorder())

    @server.middleware("tools/call")
    async def refuse(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        raise ToolError("never")

    async with connect(server) as client:
        await client.call("add")
    assert recorder.seen[-1][1]["isError"] is True
    assert recorder.seen[-1][1]["content"] == [{"type": "text", "text": "never"}]


async def test_one_that_returns_nothing_is_an_internal_error_that_says_so(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    @server.middleware("prompts/list")
    async def forgetful(request: Request, call_next: CallNext) -> Any:
        await call_next(request)

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.list_prompts()
    assert "forgetful" in caplog.text
    assert "returned NoneType: return what call_next has returned" in caplog.text


@pytest.mark.parametrize("revision", ELICITING)
async def test_questions_pass(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())

    async with connect(
        server, revision=revision, answers=lambda *_: {"action": "accept", "content": {"value": "Rome"}}
    ) as client:
        result = await client.call("ask")
    assert result.text == "mcpkit-testing said Rome"
    ends = [what if isinstance(what, str) else "result" for _, what in recorder.seen[1:]]
    assert ends == (["InputRequired", "result"] if revision == EVERY[-1] else ["result"])


@pytest.mark.parametrize("revision", EVERY)
async def test_progress_and_log_messages_pass(server: Server, revision: str) -> None:
    server.middleware(Recorder())
    progress: list[tuple[float, float | None, str | None]] = []
    level = {"log_level": "info"} if revision == EVERY[-1] else {}
    async with connect(server, revision=revision) as client:
        result = await client.call("count", progress=lambda *what: progress.append(what), **level)
        message = await client.notification("notifications/message")
    assert result.text == "done"
    assert progress == [(1, 2, None)]
    assert message["data"] == "half"


@pytest.mark.parametrize("revision", EVERY)
async def test_a_cancellation_reaches_middleware_and_handler(server: Server, revision: str) -> None:
    events: list[str] = []
    begun = asyncio.Event()

    @server.tool
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("handler")

    recorder = server.middleware(Recorder())
    async with connect(server, revision=revision) as client:
        call = asyncio.ensure_future(client.call("wait"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await client.list_prompts()
    assert events == ["handler"]
    assert ("tools/call", "CancelledError") in recorder.seen


async def test_what_changes_a_session_applies_in_the_order_of_arrival(server: Server) -> None:
    server.middleware(Recorder())
    sent: list[dict[str, Any]] = []
    answered = asyncio.Event()

    def send(line: bytes) -> None:
        sent.append(json.loads(line))
        if sent[-1].get("id") == 3:
            answered.set()

    connection = Connection(server, send)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    for number, (method, params) in enumerate(
        [
            ("initialize", hello),
            ("logging/setLevel", {"level": "error"}),
            ("tools/call", {"name": "count"}),
        ],
        1,
    ):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        connection.receive(json.dumps(message).encode())
    await asyncio.wait_for(answered.wait(), 10)
    await connection.aclose()
    assert [message.get("id") for message in sent] == [1, 2, 3]


async def test_what_it_changes_in_a_result_stays_in_that_result(server: Server) -> None:
    @server.middleware
    async def rename(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        if request.method == "initialize":
            result["serverInfo"]["name"] += "!"
        return result

    for _ in range(2):
        async with connect(server, revision="2025-11-25") as client:
            assert client.server_info["name"] == "wrapped!"


async def test_a_result_that_nobody_looks_at_is_not_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []
    seen: list[Result] = []

    @server.middleware("tools/call")
    async def passing(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        result = await call_next(request)
        assert not result.is_error
        seen.append(result)
        return result

    monkeypatch.setattr("mcpkit.middleware.from_json", read.append)
    async with connect(server) as client:
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
    assert read == []
    assert isinstance(seen[0].outcome, bytes)


async def test_a_result_says_an_error_only_where_it_is_one(server: Server) -> None:
    @server.tool
    async def pretend() -> dict[str, Any]:
        return {"isError": True, "text": '"isError":true'}

    found: list[bool] = []

    @server.middleware("tools/call")
    async def look(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        result = await call_next(request)
        found.append(result.is_error)
        return result

    async with connect(server) as client:
        pretended = await client.call("pretend")
        await client.call("fail")
    assert not pretended.is_error
    assert found == [False, True]


async def test_a_typed_result_shows_what_the_tool_has_answered(server: Server) -> None:
    @server.middleware("tools/call")
    async def look(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        result = await call_next(request)
        assert (result.text, result.structured, len(result.content)) == ("3", 3, 1)
        assert request.arguments == {"a": 1, "b": 2}
        return result

    async with connect(server) as client:
        assert (await client.call("add", {"a": 1, "b": 2})).structured == 3


async def test_a_result_behaves_as_a_dict(server: Server) -> None:
    @server.middleware("resources/read")
    async def change(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        before = dict(result)
        assert result == before
        assert list(result) == list(before)
        assert repr(result) == f"Result({before!r})"
        result["added"] = 1
        del result["ttlMs"]
        assert len(result) == len(before)
        return result

    async with connect(server) as client:
        result = await client.request("resources/read", {"uri": "wrapped://known"})
    assert result["added"] == 1
    assert "ttlMs" not in result


async def test_the_context_is_that_of_the_handler(server: Server) -> None:
    contexts: list[Context] = []

    @server.tool
    async def keep(ctx: Context) -> str:
        contexts.append(ctx)
        return str(ctx.meta.get("added"))

    @server.middleware("tools/call")
    async def add_meta(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        contexts.append(request.ctx)
        meta = {**request.params.get("_meta", {}), "added": "by middleware"}
        return await call_next(request.with_params({**request.params, "_meta": meta}))

    async with connect(server) as client:
        assert (await client.call("keep")).text == "by middleware"
    assert contexts[0] is contexts[1]


async def test_the_middleware_of_an_included_server_is_not_asked(server: Server) -> None:
    inner = server.middleware(Recorder())
    outer_server = Server("outer")
    outer_server.include(server)
    outer = outer_server.middleware(Recorder())
    async with connect(outer_server) as client:
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
    assert inner.seen == []
    assert [method for method, _ in outer.seen] == ["server/discover", "tools/call"]


async def test_a_client_that_is_refused_at_initialize_is_told(server: Server) -> None:
    @server.middleware("initialize")
    async def refuse(request: Request, call_next: CallNext) -> Result:
        raise ProtocolError(-1, f"not for {request.ctx.client.info['name']}")

    with pytest.raises(ProtocolError, match="not for mcpkit-testing"):
        async with connect(server, revision="2025-11-25"):
            pytest.fail("it is refused")


def plain(request: Request, call_next: CallNext) -> None: ...


@pytest.mark.parametrize("hook", [plain, Recorder, 7])
def test_what_is_no_async_function_is_refused(server: Server, hook: Any) -> None:
    with pytest.raises(RegistrationError, match="a middleware is an async function"):
        server.middleware(hook)


@pytest.mark.parametrize("method", ["ping", "subscriptions/listen", "tools"])
def test_a_method_that_cannot_be_wrapped_is_refused(server: Server, method: str) -> None:
    with pytest.raises(RegistrationError, match=f"no middleware can wrap '{method}'; there are initialize"):
        server.middleware(method)


def test_registering_returns_the_function_unchanged(server: Server) -> None:
    async def one(request: Request, call_next: CallNext) -> Result:
        return await call_next(request)

    assert server.middleware(one) is one
    assert server.middleware("prompts/get")(one) is one
    assert server.middleware.hooks == ((None, one), ("prompts/get", one))


def test_what_the_type_checkers_have_read_is_registered() -> None:
    assert len(typed_server.middleware.hooks) == 10

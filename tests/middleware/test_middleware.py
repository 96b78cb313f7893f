"""What passes through a server's own functions on its way to a handler, alike in every revision."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mcpkit import ProtocolError, RegistrationError, Server, ToolError
from mcpkit.middleware import CallNext, CallTool, Request, Result, ToolCall, ToolCallResult
from mcpkit.testing import connect
from tests.helpers.servers.middleware import (
    REVISIONS,
    BrokenError,
    Recorder,
    make_failing_server,
    make_server,
)
from tests.helpers.waiting import Work, over

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return make_server()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_request_passes_with_its_result(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())
    async with connect(server, protocol_version=revision) as client:
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


async def test_requests_that_are_refused_pass_too(server: Server) -> None:
    recorder = server.middleware(Recorder())
    async with connect(server, protocol_version="2025-11-25") as client:
        for method, params in [("no/such", {}), ("tools/call", {"name": "none"}), ("tools/call", {})]:
            with pytest.raises(ProtocolError):
                await client.request(method, params)
        with pytest.raises(ProtocolError):
            await client.read_resource("wrapped://lost")
    assert recorder.seen[1:] == [
        ("no/such", "ProtocolError"),
        ("tools/call", "ProtocolError"),
        ("tools/call", "MalformedError"),
        ("resources/read", "ResourceNotFoundError"),
    ]


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
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.list_prompts()
    assert order[:6] == ["first in", "second in", "third in", "third out", "second out", "first out"]
    assert order[6:] == ["first in", "third in", "third out", "first out"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_questions_pass(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())

    async with connect(
        server,
        protocol_version=revision,
        request_handler=lambda *_: {"action": "accept", "content": {"value": "Rome"}},
    ) as client:
        result = await client.call_tool("ask")
    assert result.text == "mcpkit-testing said Rome"
    ends = [what if isinstance(what, str) else "result" for _, what in recorder.seen[1:]]
    assert ends == (["InputRequired", "result"] if revision == REVISIONS[-1] else ["result"])


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_cancellation_reaches_middleware_and_handler(server: Server, revision: str) -> None:
    work = Work()
    server.tool(work.wait)
    recorder = server.middleware(Recorder())
    async with connect(server, protocol_version=revision) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        await work.started.wait()
        await over(call)
        await client.list_prompts()
    assert work.cancelled.is_set()
    assert ("tools/call", "CancelledError") in recorder.seen


async def test_middleware_of_an_included_server_does_not_run(server: Server) -> None:
    inner = server.middleware(Recorder())
    outer_server = Server("outer")
    outer_server.include(server)
    outer = outer_server.middleware(Recorder())
    async with connect(outer_server) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert inner.seen == []
    assert [method for method, _ in outer.seen] == ["server/discover", "tools/call"]


def plain(request: Request, call_next: CallNext) -> None: ...


async def without_call_next(request: Request) -> Result: ...  # type: ignore[empty-body]  # never called


@pytest.mark.parametrize("hook", [plain, without_call_next, 7])
def test_middleware_wrong_function_is_refused(server: Server, hook: Any) -> None:
    with pytest.raises(
        RegistrationError, match="a middleware must be an async function of a request and call_next"
    ):
        server.middleware(hook)


@pytest.mark.parametrize("method", ["ping", "subscriptions/listen", "tools"])
def test_a_method_that_cannot_be_wrapped_is_refused(server: Server, method: str) -> None:
    with pytest.raises(
        RegistrationError, match=f"unknown method '{method}' for a middleware. Supported are .*initialize"
    ):
        server.middleware(method)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_middleware_may_change_arguments_and_result(server: Server, revision: str) -> None:
    @server.middleware("tools/call")
    async def double(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        before = dict(request.arguments)
        result = await call_next(request.with_arguments({**request.arguments, "a": 20}))
        assert request.arguments == before == {"a": 1, "b": 2}
        result["_meta"] = {**result.get("_meta", {}), "name": request.name}
        return result

    async with connect(server, protocol_version=revision) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.text == "22"
    assert result.meta["name"] == "add"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_middleware_may_respond_itself(server: Server, revision: str) -> None:
    @server.middleware
    async def answer(request: Request, call_next: CallNext) -> Any:
        if request.target != "add":
            return await call_next(request)
        return {"content": [{"type": "text", "text": "kept"}], "structuredContent": {"kept": True}}

    async with connect(server, protocol_version=revision) as client:
        result = await client.request("tools/call", {"name": "add"})
        passed = await client.call_tool("count")
    assert result["content"] == [{"type": "text", "text": "kept"}]
    assert result["structuredContent"] == {"kept": True}
    assert result.get("resultType") == ("complete" if revision == REVISIONS[-1] else None)
    assert ("_meta" in result) is (revision == REVISIONS[-1])
    assert passed.text == "done"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("own", [{}, {"content": "kept"}, {"content": [{"text": "kept"}]}, {"content": None}])
async def test_an_answer_of_its_own_without_content_blocks_is_an_error_that_names_it(
    server: Server, revision: str, own: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    @server.middleware("tools/call")
    async def forgetful(request: Request, call_next: CallNext) -> Any:
        return own

    async with connect(server, protocol_version=revision) as client:
        with pytest.raises(ProtocolError, match=r"^Internal error \(ref [0-9a-f]{8}\)$") as refused:
            await client.call_tool("add", {"a": 1, "b": 2})
    assert refused.value.code == -32603
    assert "the middleware <function" in caplog.text
    assert "forgetful" in caplog.text
    assert "without content blocks" in caplog.text


async def test_middleware_may_retry(server: Server) -> None:
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
        assert (await client.call_tool("flaky")).text == "now"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_middleware_exception_is_handled_like_one_of_the_handler(
    server: Server, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    problem: list[Exception] = []

    @server.middleware
    async def refuse(request: Request, call_next: CallNext) -> Result:
        if problem:
            raise problem[0]
        return await call_next(request)

    async with connect(server, protocol_version=revision) as client:
        problem[:] = [ToolError("ask the boss")]
        refused = await client.call_tool("add", {"a": 1, "b": 2})
        with pytest.raises(ProtocolError, match="ask the boss") as caught:
            await client.read_resource("wrapped://known")
        problem[:] = [ProtocolError(-1, "not today", {"tomorrow": True})]
        with pytest.raises(ProtocolError) as sent:
            await client.call_tool("add", {"a": 1, "b": 2})
        problem[:] = [KeyError("secret")]
        with caplog.at_level(logging.CRITICAL, "mcpkit"):
            masked = await client.call_tool("add", {"a": 1, "b": 2})
            with pytest.raises(ProtocolError, match=r"Internal error \(ref \w+\)$"):
                await client.list_tools()
    assert (refused.is_error, refused.text) == (True, "ask the boss")
    assert caught.value.code == -32603
    assert (sent.value.code, sent.value.message, sent.value.data) == (-1, "not today", {"tomorrow": True})
    assert masked.is_error
    assert "secret" not in masked.text


async def test_middleware_that_returns_none_is_an_internal_error(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    @server.middleware("prompts/list")
    async def forgetful(request: Request, call_next: CallNext) -> Any:
        await call_next(request)

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.list_prompts()
    assert "forgetful" in caplog.text
    assert "returned NoneType. Return the result of call_next" in caplog.text


async def test_middleware_may_refuse_initialize(server: Server) -> None:
    @server.middleware("initialize")
    async def refuse(request: Request, call_next: CallNext) -> Result:
        raise ProtocolError(-1, f"not for {request.ctx.client.info['name']}")

    with pytest.raises(ProtocolError, match="not for mcpkit-testing"):
        async with connect(server, protocol_version="2025-11-25"):
            pytest.fail("it is refused")


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("tool", ["tool", "in_thread"])
@pytest.mark.parametrize("error", [BrokenError("secret"), ToolError("no")], ids=["unmeant", "meant"])
async def test_a_result_has_its_exception(
    revision: str, tool: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_failing_server(error)
    results: list[ToolCallResult] = []

    @server.middleware("tools/call")
    async def look(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        results.append(await call_next(call))
        return results[-1]

    async with connect(server, protocol_version=revision) as client:
        text = (await client.call_tool(tool)).text
    assert results[0].exception is error
    assert text == ("no" if results[0].ref is None else f"Internal error (ref {results[0].ref})")
    assert (results[0].ref is None) == isinstance(error, ToolError)

"""Middleware: which requests pass through it, in which order, and what it may change, answer and raise."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import ProtocolError, RegistrationError, Server, ToolError
from mcpkit.middleware import CallNext, CallTool, Request, Result, ToolCall, ToolCallResult
from mcpkit.middleware.base import is_handle
from mcpkit.testing import connect
from tests.helpers.servers.middleware import REVISIONS, Recorder, make_failing_server, make_server
from tests.helpers.tables import each_row
from tests.helpers.waiting import Work, over

ADD = {"a": 1, "b": 2}


@pytest.fixture
def server() -> Server:
    return make_server()


async def test_middleware_sees_every_request_with_its_result(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())
    requests = [
        ("tools/list", {}), ("tools/call", {"name": "add", "arguments": ADD}), ("resources/list", {}),
        ("resources/read", {"uri": "wrapped://known"}), ("prompts/get", {"name": "greet", "arguments": {"name": "A"}}),
    ]  # fmt: skip
    async with connect(server, protocol_version=revision) as client:
        results = [(method, await client.request(method, params)) for method, params in requests]
    assert recorder.seen[0][0] in {"initialize", "server/discover"}
    assert recorder.seen[1:] == results


async def test_middleware_sees_refused_requests(server: Server) -> None:
    recorder = server.middleware(Recorder())
    refused = [
        ("no/such", {}, "ProtocolError"), ("tools/call", {"name": "none"}, "ProtocolError"),
        ("tools/call", {}, "MalformedError"), ("resources/read", {"uri": "wrapped://lost"}, "ResourceNotFoundError"),
    ]  # fmt: skip
    async with connect(server, protocol_version="2025-11-25") as client:
        for method, params, _ in refused:
            with pytest.raises(ProtocolError):
                await client.request(method, params)
    assert recorder.seen[1:] == [(method, error) for method, _, error in refused]


async def test_middleware_registered_first_is_outermost(server: Server) -> None:
    order: list[str] = []

    def record(name: str, register: Callable[[Any], Any]) -> None:
        async def middleware(request: Request, call_next: CallNext) -> Result:
            order.append(f"{name} in")
            result = await call_next(request)
            order.append(f"{name} out")
            return result

        register(middleware)

    record("first", server.middleware)
    record("second", server.middleware("tools/call"))
    record("third", server.middleware)
    async with connect(server) as client:
        order.clear()
        await client.call_tool("add", ADD)
        await client.list_prompts()
    assert order[:6] == ["first in", "second in", "third in", "third out", "second out", "first out"]
    assert order[6:] == ["first in", "third in", "third out", "first out"]


async def test_middleware_sees_rounds_with_questions(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())
    answer: Any = {"action": "accept", "content": {"value": "Rome"}}
    async with connect(server, protocol_version=revision, request_handler=lambda *_: answer) as client:
        assert (await client.call_tool("ask")).text == "mcpkit-testing said Rome"
    ends = [end if isinstance(end, str) else "result" for _, end in recorder.seen[1:]]
    assert ends == (["InputRequired", "result"] if revision == REVISIONS[-1] else ["result"])


async def test_cancellation_reaches_middleware_and_handler(server: Server) -> None:
    work = Work()
    server.tool(work.wait)
    recorder = server.middleware(Recorder())
    async with connect(server) as client:
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
        assert (await client.call_tool("add", ADD)).text == "3"
    assert inner.seen == []
    assert [method for method, _ in outer.seen] == ["server/discover", "tools/call"]


def plain(request: Request, call_next: CallNext) -> None: ...


async def without_call_next(request: Request) -> Result: ...  # type: ignore[empty-body]  # never called


WRONG_FUNCTION = "a middleware must be an async function of a request and call_next"
UNKNOWN = "unknown method '{}' for a middleware. Supported are .*initialize"


@each_row(("hook", "message"), [
    *[(hook, WRONG_FUNCTION) for hook in (plain, without_call_next, 7)],
    *[(method, UNKNOWN.format(method)) for method in ("ping", "subscriptions/listen", "tools")],
])  # fmt: skip
def test_middleware_wrong_function_or_method_is_refused(hook: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        make_server().middleware(hook)


# What a middleware changes, answers and raises


async def test_middleware_may_change_arguments_and_result(server: Server, revision: str) -> None:
    @server.middleware("tools/call")
    async def double(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        before = dict(request.arguments)
        result = await call_next(request.with_arguments({**request.arguments, "a": 20}))
        assert request.arguments == before == {"a": 1, "b": 2}
        result["_meta"] = {**result.get("_meta", {}), "name": request.name}
        return result

    async with connect(server, protocol_version=revision) as client:
        result = await client.call_tool("add", ADD)
    assert result.text == "22"
    assert result.meta["name"] == "add"


async def test_middleware_may_respond_itself(server: Server, revision: str) -> None:
    @server.middleware
    async def answer(request: Request, call_next: CallNext) -> Any:
        if request.target != "add":
            return await call_next(request)
        return {"content": [{"type": "text", "text": "kept"}], "structuredContent": {"kept": True}}

    async with connect(server, protocol_version=revision) as client:
        result = await client.request("tools/call", {"name": "add"})
        assert (await client.call_tool("count")).text == "done"
    assert result["content"] == [{"type": "text", "text": "kept"}]
    assert result["structuredContent"] == {"kept": True}
    assert result.get("resultType") == ("complete" if revision == REVISIONS[-1] else None)
    assert ("_meta" in result) is (revision == REVISIONS[-1])


@each_row(("method", "own", "problem"), [
    *[("tools/call", own, "without content blocks")
      for own in ({}, {"content": "kept"}, {"content": [{"text": "kept"}]}, {"content": None})],
    ("prompts/list", None, "returned NoneType. Return the result of call_next"),
])  # fmt: skip
async def test_middleware_invalid_answer_is_an_internal_error_that_names_it(method, own, problem, caplog):
    caplog.clear()
    server = make_server()

    @server.middleware(method)
    async def forgetful(request: Request, call_next: CallNext) -> Any:
        return own

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match=r"^Internal error \(ref [0-9a-f]{8}\)$") as refused:
            await client.request(method, {"name": "add", "arguments": ADD} if own is not None else None)
    assert refused.value.code == -32603
    assert "the middleware <function" in caplog.text
    assert "forgetful" in caplog.text
    assert problem in caplog.text


async def test_middleware_may_retry(server: Server) -> None:
    outcomes = iter([ToolError("not yet"), ToolError("not yet"), None])

    @server.tool
    async def flaky() -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "now"

    @server.middleware("tools/call")
    async def again(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        while (result := await call_next(request)).is_error:
            assert result.text == "not yet"
        return result

    async with connect(server) as client:
        assert (await client.call_tool("flaky")).text == "now"


async def test_middleware_exception_is_handled_like_one_of_the_handler(server: Server, revision: str) -> None:
    problem: list[Exception] = []

    @server.middleware
    async def refuse(request: Request, call_next: CallNext) -> Result:
        if problem:
            raise problem[0]
        return await call_next(request)

    async with connect(server, protocol_version=revision) as client:
        problem[:] = [ToolError("ask the boss")]
        refused = await client.call_tool("add", ADD)
        assert (refused.is_error, refused.text) == (True, "ask the boss")
        with pytest.raises(ProtocolError, match="ask the boss") as caught:
            await client.read_resource("wrapped://known")
        assert caught.value.code == -32603
        problem[:] = [ProtocolError(-1, "not today", {"tomorrow": True})]
        with pytest.raises(ProtocolError, match="not today") as sent:
            await client.call_tool("add", ADD)
        assert (sent.value.code, sent.value.data) == (-1, {"tomorrow": True})
        problem[:] = [KeyError("secret")]
        with pytest.raises(ProtocolError, match=r"Internal error \(ref \w+\)$"):
            await client.list_tools()


async def test_middleware_may_refuse_initialize(server: Server) -> None:
    @server.middleware("initialize")
    async def refuse(request: Request, call_next: CallNext) -> Result:
        raise ProtocolError(-1, f"not for {request.ctx.client.info['name']}")

    with pytest.raises(ProtocolError, match="not for mcpkit-testing"):
        async with connect(server, protocol_version="2025-11-25"):
            pytest.fail("it is refused")


@pytest.mark.parametrize("tool", ["tool", "in_thread"])
@pytest.mark.parametrize("error", [KeyError("secret"), ToolError("no")], ids=["unexpected", "expected"])
async def test_middleware_result_has_the_exception_of_the_tool(tool: str, error: Exception) -> None:
    server = make_failing_server(error)
    results: list[ToolCallResult] = []

    @server.middleware("tools/call")
    async def observe(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        results.append(await call_next(call))
        return results[-1]

    async with connect(server) as client:
        text = (await client.call_tool(tool)).text
    assert results[0].exception is error
    assert text == ("no" if results[0].ref is None else f"Internal error (ref {results[0].ref})")
    assert (results[0].ref is None) == isinstance(error, ToolError)


def test_is_handle_reads_members() -> None:
    assert is_handle({"task": {}})
    for other in ({}, {"task": {}, "content": []}, {"task": {}, "resultType": "task"}):
        assert not is_handle(other)

"""What each kind of trouble becomes on the wire: the error table."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import Any

import pytest

from mcpkit import (
    Context,
    PromptError,
    ProtocolError,
    ResourceError,
    ResourceNotFoundError,
    Server,
    ToolError,
    ToolResult,
)
from mcpkit.engine.connection import Connection
from tests.helpers.pipe import stateless_meta
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

INTERNAL = re.compile(r"Internal error \(ref [0-9a-f]{8}\)")
SECRET = "password=hunter2"


class Stop(BaseException):
    """An exception that `except Exception` does not see, as test frameworks and other loops have them."""


def failing(error: BaseException) -> Server:
    """Return a server all of whose handlers raise `error`."""
    server = Server("failing")

    @server.tool(name="sync")
    def in_thread() -> str:
        raise error

    @server.tool(name="async")
    async def in_loop() -> str:
        raise error

    @server.resource("data://x")
    async def static() -> str:
        raise error

    @server.resource("data://items/{name}")
    def template(name: str) -> str:
        raise error

    def completer(value: str) -> list[str]:
        raise error

    @server.prompt(complete={"city": completer})
    def plan(city: str) -> str:
        raise error

    return server


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sync tool": ("tools/call", {"name": "sync"}),
    "async tool": ("tools/call", {"name": "async"}),
    "resource": ("resources/read", {"uri": "data://x"}),
    "template": ("resources/read", {"uri": "data://items/1"}),
    "prompt": ("prompts/get", {"name": "plan", "arguments": {"city": "x"}}),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": ""}},
    ),
}


@pytest.fixture(params=list(REQUESTS))
def what(request: pytest.FixtureRequest) -> str:
    return request.param


# What does not exist


@pytest.mark.parametrize(
    "method",
    [
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    ],
)
async def test_methods_of_an_undeclared_capability_are_not_found(
    wire: Wire, revision: str, method: str
) -> None:
    async with wire(Server("empty"), revision) as pipe:
        assert (await pipe.error(method, {"name": "x", "uri": "x://y"}))["code"] == -32601


async def test_unknown_tools_and_prompts_are_invalid_params(wire: Wire, revision: str) -> None:
    async with wire(failing(ToolError("")), revision) as pipe:
        assert (await pipe.error("tools/call", {"name": "unheard"}))["code"] == -32602
        assert (await pipe.error("prompts/get", {"name": "unheard"}))["code"] == -32602


async def test_an_unknown_resource_names_its_uri(wire: Wire, revision: str) -> None:
    async with wire(failing(ToolError("")), revision) as pipe:
        error = await pipe.error("resources/read", {"uri": "data://unheard"})
        assert error["code"] == (-32602 if revision == "2026-07-28" else -32002)
        assert error["data"] == {"uri": "data://unheard"}


async def test_a_resource_that_an_author_says_does_not_exist_is_the_same(wire: Wire, revision: str) -> None:
    async with wire(failing(ResourceNotFoundError("data://items/1")), revision) as pipe:
        error = await pipe.error("resources/read", {"uri": "data://items/1"})
        assert error["code"] == (-32602 if revision == "2026-07-28" else -32002)
        assert error["data"] == {"uri": "data://items/1"}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 3}),
        ("tools/call", {"name": "sync", "arguments": []}),
        ("resources/read", {}),
        ("resources/read", {"uri": None}),
        ("prompts/get", {"name": []}),
        ("prompts/get", {"name": "plan", "arguments": {"city": 3}}),
        ("prompts/get", {"name": "plan", "arguments": {}}),
        ("prompts/get", {"name": "plan", "arguments": {"city": "x", "town": "y"}}),
        ("tools/list", {"cursor": 3}),
    ],
)
async def test_malformed_params_are_invalid(
    wire: Wire, revision: str, method: str, params: dict[str, Any]
) -> None:
    async with wire(failing(RuntimeError("the handler must not run")), revision) as pipe:
        assert (await pipe.error(method, params))["code"] == -32602


# What handlers raise


async def test_arguments_that_do_not_fit_are_a_result_that_names_the_field(wire: Wire, revision: str) -> None:
    server = Server("s")

    @server.tool
    def forecast(latitude: float) -> str:
        return "sunny"

    async with wire(server, revision) as pipe:
        result = await pipe.call("forecast", {"latitude": "north"})
        assert result["isError"] is True
        assert "latitude" in result["content"][0]["text"]


@pytest.mark.parametrize("name", ["sync", "async"])
async def test_a_tool_error_is_a_result_with_its_text(wire: Wire, revision: str, name: str) -> None:
    async with wire(failing(ToolError("no such city")), revision) as pipe:
        result = await pipe.call(name)
        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": "no such city"}]


@pytest.mark.parametrize(
    "error", [ResourceError("cannot be read"), PromptError("cannot be read"), ToolError("cannot be read")]
)
@pytest.mark.parametrize("what", ["resource", "template", "prompt", "completion"])
async def test_an_authors_error_elsewhere_is_an_internal_error_with_its_text(
    wire: Wire, what: str, error: Exception
) -> None:
    async with wire(failing(error)) as pipe:
        problem = await pipe.error(*REQUESTS[what])
        assert (problem["code"], problem["message"]) == (-32603, "cannot be read")


async def test_a_protocol_error_is_sent_as_it_is(wire: Wire, what: str) -> None:
    async with wire(failing(ProtocolError(1234, "pay first", {"price": 3}))) as pipe:
        assert await pipe.error(*REQUESTS[what]) == {
            "code": 1234,
            "message": "pay first",
            "data": {"price": 3},
        }


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(SECRET),
        SystemExit(SECRET),
        Stop(SECRET),
        StopIteration(SECRET),
        StopAsyncIteration(SECRET),
        asyncio.CancelledError(SECRET),
        asyncio.InvalidStateError(SECRET),
        RecursionError(SECRET),
        MemoryError(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_any_other_exception_is_answered_and_its_text_stays_inside(
    wire: Wire, what: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async with wire(failing(error)) as pipe:
        answer = await pipe.request(*REQUESTS[what])
        if what.endswith("tool"):
            assert answer["result"]["isError"] is True
            text = answer["result"]["content"][0]["text"]
        else:
            assert answer["error"]["code"] == -32603
            text = answer["error"]["message"]
        assert INTERNAL.fullmatch(text)
        assert SECRET not in str(answer)
        assert await pipe.result("ping") == {}


async def test_the_reference_of_an_internal_error_finds_its_traceback_in_the_log(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    async with wire(failing(RuntimeError(SECRET))) as pipe:
        text = await pipe.text("async")
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert text[len("Internal error (") : -1] in record.getMessage()
        assert record.exc_info is not None
        assert str(record.exc_info[1]) == SECRET


def test_a_keyboard_interrupt_is_answered_and_goes_on_to_whoever_runs_the_loop() -> None:
    answers = []

    async def interrupted() -> None:
        server = failing(KeyboardInterrupt())
        connection = Connection(server, lambda line: answers.append(json.loads(line)))
        connection.receive(
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {"name": "async", "_meta": stateless_meta()},
                }
            ).encode()
        )
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interrupted())
    assert [answer["id"] for answer in answers] == [1]


async def test_nothing_stays_running_after_an_exception(wire: Wire) -> None:
    server = failing(Stop())
    async with wire(server) as pipe:
        for request in REQUESTS.values():
            await pipe.request(*request)
        await pipe.quiet()
        assert server.engine.runtime.running.taken == 0


# What cannot be written


@pytest.mark.parametrize(
    "error",
    [
        ProtocolError(1, "half \ud800"),
        ProtocolError(1, "text", {"x": "half \ud800"}),
        ProtocolError(1, "text", object()),
        ResourceNotFoundError("data://\ud800"),
        ResourceError("half \ud800"),
        PromptError("half \ud800"),
    ],
    ids=repr,
)
async def test_an_error_that_has_no_json_form_is_answered_all_the_same(
    wire: Wire, what: str, error: Exception
) -> None:
    async with wire(failing(error)) as pipe:
        answer = await pipe.request(*REQUESTS[what])
        assert "error" in answer or answer["result"]["isError"]


@pytest.mark.parametrize("name", ["sync", "async"])
async def test_a_tool_error_with_a_lone_surrogate_is_a_result(wire: Wire, name: str) -> None:
    async with wire(failing(ToolError("no file \udcff"))) as pipe:
        assert (await pipe.call(name))["isError"] is True


@pytest.mark.parametrize(
    "value",
    [
        "half \ud800",
        {"x": "half \ud800"},
        object(),
        {"x": object()},
        ToolResult("text", meta={"x": object()}),
        ToolResult(structured={"x": "half \ud800"}),
        ToolResult("half \ud800"),
    ],
    ids=["text", "object", "no JSON", "object of no JSON", "meta", "structured", "content"],
)
async def test_a_tools_result_that_has_no_json_form_is_an_error_result(
    wire: Wire, revision: str, value: Any
) -> None:
    server = Server("s")

    @server.tool
    async def t():
        return value

    async with wire(server, revision) as pipe:
        result = await pipe.call("t")
        assert result["isError"] is True
        assert re.match(
            r"the tool ran, but result\S* (has no form in JSON|cannot be sent): ",
            result["content"][0]["text"],
        )


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
async def test_numbers_that_json_does_not_know_are_an_error_where_a_number_was_promised(
    wire: Wire, revision: str, number: float
) -> None:
    server = Server("s")

    @server.tool
    async def t() -> float:
        return number

    async with wire(server, revision) as pipe:
        assert (await pipe.call("t"))["isError"] is True


async def test_numbers_that_json_does_not_know_are_null_where_the_schema_allows_it(wire: Wire) -> None:
    server = Server("s")

    @server.tool
    async def t() -> float | None:
        return float("nan")

    async with wire(server, "2026-07-28") as pipe:
        assert (await pipe.call("t"))["structuredContent"] is None


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
async def test_progress_that_json_does_not_know_is_an_error(wire: Wire, number: float) -> None:
    server = Server("s")

    @server.tool
    async def t(ctx: Context) -> str:
        with pytest.raises(ValueError, match="finite"):
            await ctx.progress(number)
        with pytest.raises(ValueError, match="finite"):
            await ctx.progress(1, total=number)
        return "done"

    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": "t"}, progressToken="p")
        (answer,) = await pipe.answered()
        assert answer["result"]["content"][0]["text"] == "done"

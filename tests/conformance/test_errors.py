"""The error table: each kind of failure as it is sent."""

import asyncio
import json
import logging
import re
from typing import Any

import pytest

from mcpkit import PromptError, ProtocolError, ResourceError, Server, ToolError, ToolResult
from mcpkit.engine.message_dispatch import Connection
from mcpkit.exceptions import ResourceNotFoundError
from tests.conformance.conftest import Wire
from tests.helpers.raw_client import call_params, request
from tests.helpers.servers.middleware import COMPLETION, make_failing_server

INTERNAL = re.compile(r"Internal error \(ref [0-9a-f]{8}\)")
SECRET = "password=hunter2"


class Stop(BaseException):
    """An exception that `except Exception` does not see, as test frameworks and other loops have them."""


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sync tool": ("tools/call", {"name": "in_thread"}),
    "async tool": ("tools/call", {"name": "tool"}),
    "resource": ("resources/read", {"uri": "failing://resource"}),
    "template": ("resources/read", {"uri": "failing://1/template"}),
    "prompt": ("prompts/get", {"name": "prompt"}),
    "completion": ("completion/complete", COMPLETION),
}


# What does not exist


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_unknown_names_and_uris_have_their_code(wire: Wire, revision: str) -> None:
    not_found = -32602 if revision == "2026-07-28" else -32002
    async with wire(make_failing_server(ResourceNotFoundError("failing://1/template")), revision) as pipe:
        assert (await pipe.error("tools/call", {"name": "unknown"}))["code"] == -32602
        assert (await pipe.error("prompts/get", {"name": "unknown"}))["code"] == -32602
        for uri in ("failing://unknown", "failing://1/template"):  # the second by the author's exception
            error = await pipe.error("resources/read", {"uri": uri})
            assert (error["code"], error["data"]) == (not_found, {"uri": uri})


async def test_malformed_params_are_invalid(wire: Wire, revision: str) -> None:
    malformed: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {}), ("tools/call", {"name": 3}), ("tools/call", {"name": "tool", "arguments": []}),
        ("resources/read", {}), ("resources/read", {"uri": None}), ("prompts/get", {"name": []}),
        ("prompts/get", {"name": "prompt", "arguments": {"word": 3}}),
        ("prompts/get", {"name": "prompt", "arguments": {"word": "x", "town": "y"}}),
        ("tools/list", {"cursor": 3}),
    ]  # fmt: skip
    async with wire(make_failing_server(RuntimeError("the handler must not run")), revision) as pipe:
        for method, params in malformed:
            assert (await pipe.error(method, params))["code"] == -32602, (method, params)


# What handlers raise


async def outcomes(wire: Wire, error: BaseException) -> dict[str, tuple[int | None, str, Any]]:
    """Return code, text and data of the answer of each handler that raises; the code is None for a tool's result."""
    found: dict[str, tuple[int | None, str, Any]] = {}
    server = make_failing_server(error)
    async with wire(server) as pipe:
        for name, request in REQUESTS.items():
            answer = await pipe.request(*request)
            if "error" in answer:
                problem = answer["error"]
                found[name] = (problem["code"], problem["message"], problem.get("data"))
            else:
                assert answer["result"]["isError"] is True, name
                found[name] = (None, answer["result"]["content"][0]["text"], None)
        assert await pipe.result("ping") == {}
        await pipe.quiet()
    assert server.engine.runtime.running.taken == 0
    return found


@pytest.mark.parametrize("kind", [ToolError, ResourceError, PromptError])
async def test_authors_error_is_answered_with_its_text(wire: Wire, kind: type[Exception]) -> None:
    for name, outcome in (await outcomes(wire, kind("no such city"))).items():
        if kind is ToolError or not name.endswith("tool"):
            code = None if name.endswith("tool") else -32603
            assert outcome == (code, "no such city", None), name


async def test_protocol_error_is_sent_unchanged(wire: Wire) -> None:
    found = await outcomes(wire, ProtocolError(1234, "pay first", {"price": 3}))
    assert found == dict.fromkeys(REQUESTS, (1234, "pay first", {"price": 3}))


@pytest.mark.parametrize(
    "error",
    [
        *(RuntimeError(SECRET), SystemExit(SECRET), Stop(SECRET), StopIteration(SECRET)),
        *(StopAsyncIteration(SECRET), asyncio.CancelledError(SECRET), asyncio.InvalidStateError(SECRET)),
        *(RecursionError(SECRET), MemoryError(SECRET)),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_other_exception_is_an_internal_error_without_its_text(wire, error) -> None:
    for name, (code, text, data) in (await outcomes(wire, error)).items():
        assert code == (None if name.endswith("tool") else -32603), name
        assert INTERNAL.fullmatch(text), (name, text)
        assert data is None, name


async def test_reference_of_internal_error_is_logged_with_traceback(wire, caplog) -> None:
    async with wire(make_failing_server(RuntimeError(SECRET))) as pipe:
        text = await pipe.text("tool")
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert text[len("Internal error (") : -1] in record.getMessage()
        assert record.exc_info is not None
        assert str(record.exc_info[1]) == SECRET


def test_keyboard_interrupt_is_answered_and_reaches_the_loop() -> None:
    answers = []

    async def interrupt() -> None:
        # The task would log its exception when it is collected; in an import, that breaks `ast.parse` of Python 3.11.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        server = make_failing_server(KeyboardInterrupt())
        connection = Connection(server, lambda line: answers.append(json.loads(line)))
        connection.receive(json.dumps(request("tools/call", call_params("tool"))).encode())
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interrupt())
    assert [answer["id"] for answer in answers] == [1]


# What cannot be converted to JSON


RESULTS: dict[str, Any] = {
    "text": "half \ud800", "object": {"x": "half \ud800"}, "no JSON": object(),
    "object of no JSON": {"x": object()}, "meta": ToolResult("text", meta={"x": object()}),
    "structured": ToolResult(structured={"x": "half \ud800"}), "content": ToolResult("half \ud800"),
}  # fmt: skip


async def test_result_without_json_form_is_an_error_result(wire: Wire, revision: str) -> None:
    server = Server("s")

    @server.tool
    async def give(name: str):
        return RESULTS[name]

    @server.tool
    async def number(value: str) -> float:
        return float(value)

    @server.tool
    async def optional() -> float | None:
        return float("nan")

    async with wire(server, revision) as pipe:
        for name in RESULTS:
            result = await pipe.call_tool("give", {"name": name})
            text = result["content"][0]["text"]
            assert result["isError"] is True, name
            expected = r"the tool ran, but result\S* (cannot be converted to JSON|cannot be sent): "
            assert re.match(expected, text), (name, text)
        for value in ("nan", "inf", "-inf"):
            assert (await pipe.call_tool("number", {"value": value}))["isError"] is True
        if revision == "2026-07-28":
            assert (await pipe.call_tool("optional"))["structuredContent"] is None

"""The error table: each kind of failure as it is sent."""

import asyncio
import json
import logging
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import PromptError, ProtocolError, ResourceError, Server, ServerOptions, ToolError, ToolResult
from mcpkit.engine.message_dispatch import Connection
from mcpkit.exceptions import ResourceNotFoundError
from mcpkit.protocol.jsonrpc_validation import id_of_unreadable
from mcpkit.transports import Framing
from tests.helpers.pipe import HANDSHAKE, Wire, message
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


# Batches, malformed messages and messages that cannot be parsed are rejected, and the connection stays usable


BATCHES = "2025-03-26"
"""The only version with batches (basic/index, "Batching")."""


@pytest.fixture
def gate() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def server(gate: asyncio.Event) -> Server:
    server = Server("s")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def wait() -> str:
        await gate.wait()
        return "waited"

    return server


async def test_batch_is_answered_with_one_array(server: Server, wire: Wire) -> None:
    async with wire(server, BATCHES) as pipe:
        call = message("tools/call", {"name": "echo", "arguments": {"text": "hello"}}, "b")
        pipe.send([message("ping", None, "a"), call, message("notifications/unknown", {}, None)])
        (answer,) = await pipe.answered()
        by_id = {each["id"]: each["result"] for each in answer}
        assert by_id.keys() == {"a", "b"}
        assert by_id["a"] == {}
        assert by_id["b"]["content"][0]["text"] == "hello"
        pipe.send([message("ping", None, 9)])
        assert [each["id"] for each in await pipe.receive()] == [9]


@pytest.mark.parametrize("revision", [*HANDSHAKE, "2026-07-28"])
async def test_error_without_request_has_null_id_before_2025_11_25(wire: Wire, revision: str) -> None:
    async with wire(Server("s"), revision) as pipe:
        for line in (b"{", b"3", b'{"jsonrpc":"2.0","id":null,"method":"ping"}'):
            pipe.send(line)
            answer = await pipe.receive()
            if revision >= "2025-11-25":
                assert "id" not in answer
            else:
                assert answer["id"] is None


@pytest.mark.parametrize("malformed", [{"jsonrpc": "2.0", "method": 3}, {"method": "ping"}])
async def test_malformed_request_gets_error_with_its_id_unless_that_runs(server, wire, gate, malformed):
    async with wire(server) as pipe:
        pipe.send({"id": 70, **malformed})
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == (70, -32600)
        id_ = pipe.start("tools/call", {"name": "wait"})
        pipe.send({"id": id_, **malformed})
        refusal = await pipe.receive()
        assert ("id" in refusal, refusal["error"]["code"]) == (False, -32600)
        gate.set()
        answer = await pipe.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (id_, "waited")


# Messages that cannot be parsed: the client still gets an answer with the id of its request.

READABLE = 201
"""Nested levels that are parsed."""
ID_FIRST = ("jsonrpc", "id", "method", "params")
ID_LAST = ("method", "params", "jsonrpc", "id")


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def request_with_order(id_: Any, value: bytes, order: tuple[str, ...] = ID_FIRST) -> bytes:
    """Return a request with a value two levels deep, and its members in an order."""
    members = {
        "jsonrpc": b'"2.0"',
        "id": json.dumps(id_).encode(),
        "method": b'"tools/call"',
        "params": b'{"name":"x","arguments":{"id":99,"method":"y","value":%s}}' % value,
    }
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), members[name]) for name in order) + b"}"


@pytest.mark.parametrize("order", [ID_FIRST, ID_LAST], ids=["id first", "id last"])
async def test_unparsable_request_gets_parse_error_with_its_id(wire: Wire, order: tuple[str, ...]) -> None:
    values = [nested(READABLE - 2), nested(1_000_000), b'{"a":' * 50_000 + b"1" + b"}" * 50_000]
    values += [b"1e400", b"NaN", b'"half \\ud800"', b'"\xff"']
    faults = []
    async with wire(Server("s", options=ServerOptions(capabilities={"tools"})), "2026-07-28") as pipe:
        for value in values:
            for id_ in (7, "seven"):
                pipe.send(request_with_order(id_, value, order))
                answer = await pipe.receive()
                if (answer.get("id"), answer["error"]["code"]) != (id_, -32700):
                    faults.append(f"{value[:20]!r}: {answer}")
    assert not faults, "\n".join(faults)
    async with wire(Server("s", options=ServerOptions(capabilities={"tools"}))) as pipe:
        pipe.send(request_with_order(7, nested(READABLE - 3), order))
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == (7, -32602), "it is parsed; the tool is unknown"


@pytest.mark.parametrize("chunk", [1, 100, 10_000])
@pytest.mark.parametrize("before", [b"", b" \t"])
async def test_too_long_line_gets_error_with_its_id(wire: Wire, chunk: int, before: bytes) -> None:
    framing = Framing(1000)
    line = before + request_with_order("long", b'"%s"' % (b"x" * 5000)) + b"\n"
    async with wire(Server("s"), "2026-07-28") as pipe:
        for start in range(0, len(line), chunk):
            for each in framing.feed(line[start : start + chunk]):
                pipe.connection.receive(each)
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == ("long", -32600)


texts = st.text(alphabet='ab\\"{}[]:,id é', max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.just("id"), inner, max_size=4),
    max_leaves=20,
)


@given(
    st.permutations(["jsonrpc", "id", "method", "params", "x"]),
    st.integers(-(2**63), 2**63 - 1) | texts,
    values,
    values,
    st.booleans(),
    st.integers(0, 2),
)
def test_id_of_unreadable_is_that_of_the_outermost_object(order, id_, before, after, is_ascii, indent):
    params = {"a": before, "deep": "HERE", "id": 5, "method": "n", "z": after}
    members = {"jsonrpc": "2.0", "id": id_, "method": "m", "params": params, "x": after}
    text = json.dumps(
        {name: members[name] for name in order}, ensure_ascii=is_ascii, indent=indent or None
    ).encode()
    assert id_of_unreadable(text.replace(b'"HERE"', nested(300), 1)) == id_

"""Batches, malformed messages and messages that cannot be parsed are rejected, and the connection stays usable."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Server, ServerOptions
from mcpkit.protocol.jsonrpc_validation import id_of_unreadable
from mcpkit.transports import Framing
from tests.conformance.conftest import Wire
from tests.helpers.pipe import HANDSHAKE, message

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


def request(id_: Any, value: bytes, order: tuple[str, ...] = ID_FIRST) -> bytes:
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
                pipe.send(request(id_, value, order))
                answer = await pipe.receive()
                if (answer.get("id"), answer["error"]["code"]) != (id_, -32700):
                    faults.append(f"{value[:20]!r}: {answer}")
    assert not faults, "\n".join(faults)
    async with wire(Server("s", options=ServerOptions(capabilities={"tools"}))) as pipe:
        pipe.send(request(7, nested(READABLE - 3), order))
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == (7, -32602), "it is parsed; the tool is unknown"


@pytest.mark.parametrize("chunk", [1, 100, 10_000])
@pytest.mark.parametrize("before", [b"", b" \t"])
async def test_too_long_line_gets_error_with_its_id(wire: Wire, chunk: int, before: bytes) -> None:
    framing = Framing(1000)
    line = before + request("long", b'"%s"' % (b"x" * 5000)) + b"\n"
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

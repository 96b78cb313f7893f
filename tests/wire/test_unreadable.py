"""Who has sent a request that cannot be read waits for an answer under its id, and gets it where it can be told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Server
from mcpkit.protocol.unreadable import _BEGINNING, id_of_answer, id_of_unreadable, is_call
from mcpkit.transports import Framing
from tests.helpers.pipe import REVISIONS
from tests.helpers.process_client import Host, call
from tests.helpers.work import Work
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

READABLE = 201
"""Levels of brackets that are read."""


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def request(id_: Any, value: bytes, order: tuple[str, ...] = ("jsonrpc", "id", "method", "params")) -> bytes:
    """Return a request that holds a value, with its members in an order."""
    members = {
        "jsonrpc": b'"2.0"',
        "id": json.dumps(id_).encode(),
        "method": b'"tools/call"',
        "params": b'{"name":"x","arguments":{"id":99,"method":"y","value":%s}}' % value,
    }
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), members[name]) for name in order) + b"}"


OF_PYTHON = ("jsonrpc", "id", "method", "params")
OF_TYPESCRIPT = ("method", "params", "jsonrpc", "id")


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("order", [OF_PYTHON, OF_TYPESCRIPT], ids=["id first", "id last"])
@pytest.mark.parametrize(
    "value",
    [
        nested(READABLE - 2),  # it lies two levels deep
        nested(1000),
        nested(1_000_000),
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b"1e400",
        b"NaN",
        b'"half \\ud800"',
        b'"\xff"',
    ],
    ids=["one level", "levels", "very many levels", "objects", "number", "NaN", "surrogate", "encoding"],
)
async def test_a_request_that_is_not_read_is_refused_under_its_id(
    wire: Wire, revision: str, value: bytes, order: tuple[str, ...]
) -> None:
    async with wire(Server("s"), revision) as pipe:
        for id_ in (7, "seven"):
            pipe.send(request(id_, value, order))
            answer = await pipe.receive()
            assert (answer["id"], answer["error"]["code"]) == (id_, -32700)


async def test_a_level_less_is_read(wire: Wire) -> None:
    async with wire(Server("s", offers={"tools"}), "2025-11-25") as pipe:
        pipe.send(request(7, nested(READABLE - 3)))
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == (7, -32602)  # there is no such tool


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        nested(1000),
        b'{"id":7,"result":%s}' % nested(1000),  # an answer to us
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"id":7,"x":%s}}' % nested(1000),
        b'{"method":"m","params":%s,"id":null}' % nested(1000),
        b'{"method":"m","params":%s,"id":1.5}' % nested(1000),
        b'{"method":"m","params":%s,"id":"%s"}' % (nested(1000), b"x" * 257),
        b'{"method":"m","params":"\\"id\\":7,%s' % nested(1000),
        b'{"method":7,"params":%s,"id":7}' % nested(1000),
    ],
)
async def test_what_is_no_request_is_refused_without_one(wire: Wire, line: bytes) -> None:
    async with wire(Server("s"), "2026-07-28") as pipe:
        pipe.send(line)
        answer = await pipe.receive()
        assert "id" not in answer
        assert answer["error"]["code"] == -32700


async def test_a_request_that_runs_is_not_answered_by_it(wire: Wire) -> None:
    work = Work()
    server = Server("s")
    server.tool(work.wait)
    async with wire(server, "2026-07-28") as pipe:
        id_ = pipe.start("tools/call", {"name": "wait"})
        await work.started.wait()
        pipe.send(request(id_, nested(1000)))
        assert "id" not in await pipe.receive()
        work.gate.set()
        assert (await pipe.receive())["id"] == id_


@pytest.mark.slow
def test_over_real_pipes_the_caller_is_answered() -> None:
    with Host() as host:
        host.send_bytes(request(7, nested(200)) + b"\n")
        answer = host.receive()
        assert (answer["id"], answer["error"]["code"]) == (7, -32700)
        host.send_bytes(request(9, b'"%s"' % (b"x" * 65 * 1024 * 1024)) + b"\n")
        answer = host.receive()
        assert (answer["id"], answer["error"]["code"]) == (9, -32600)  # longer than a line may be
        assert "result" in host.ask(call(8, "peak_memory"))


@pytest.mark.parametrize("chunk", [1, 100, 10_000])
@pytest.mark.parametrize("before", [b"", b" \t"])
async def test_a_line_that_is_too_long_is_refused_under_its_id(wire: Wire, chunk: int, before: bytes) -> None:
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
def test_whatever_is_round_it_the_id_is_that_of_the_outermost_object(
    order: list[str], id_: int | str, before: Any, after: Any, is_ascii: bool, indent: int
) -> None:
    params = {"a": before, "deep": "HERE", "id": 5, "method": "n", "z": after}
    members = {"jsonrpc": "2.0", "id": id_, "method": "m", "params": params, "x": after}
    message = {name: members[name] for name in order}
    text = json.dumps(message, ensure_ascii=is_ascii, indent=indent or None).encode()
    assert id_of_unreadable(text.replace(b'"HERE"', nested(300), 1)) == id_


@pytest.mark.parametrize("size", [_BEGINNING - 100, _BEGINNING, _BEGINNING + 100, 40 * _BEGINNING])
@pytest.mark.parametrize("order", [OF_PYTHON, OF_TYPESCRIPT], ids=["id first", "id last"])
def test_of_a_long_message_the_beginning_and_the_end_are_looked_at(size: int, order: tuple[str, ...]) -> None:
    value = b'["%s",%s]' % (b"x" * size, nested(300))
    assert id_of_unreadable(request("abc", value, order)) == "abc"
    assert id_of_unreadable(request("abc", value, order).replace(b'"method":"tools/call",', b"")) is None


@pytest.mark.parametrize(
    ("beginning", "ending", "id_", "calls"),
    [
        (b'{"jsonrpc": "2.0", "id": 7, "result": {"id": 8', b'"id": 9}}', 7, False),
        (b'{"result": {"id": 8, "text": "', b'..."}, "jsonrpc": "2.0", "id": 7}', 7, False),
        (b'{"result": {"id": 8, "text": "', b'..."}, "id": "a", "jsonrpc": "2.0"}', "a", False),
        (b'{"result": {"id": 8, "text": "', b'..."}, "id": 7, "more": 1}', None, False),
        (b'{"result": {"id": 8, "text": "', b'"id": 9}}', None, False),
        (b'{"method": "notifications/message", "params": {"id": 8', b'"id": 9}}', None, True),
        (b'{"id": 1, "method": "sampling/createMessage", "params": {"id": 8', b'"id": 9}}', 1, True),
        (b'[{"id": 1, "result": {"id": 8', b'"id": 9}]', None, False),
        (b"no JSON at all", b'"id": 9}', None, False),
    ],
)
def test_whom_a_long_message_answers_is_told_by_its_ends(
    beginning: bytes, ending: bytes, id_: object, calls: bool
) -> None:
    assert (id_of_answer(beginning, ending), is_call(beginning)) == (id_, calls)

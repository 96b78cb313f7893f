"""What holds for every message: any bytes leave the server alive, any JSON value gets what the error table says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpkit import Context, Limits, Server
from mcpkit.common.errors import PARSE_ERROR, ProtocolError
from mcpkit.engine.connection import Connection
from mcpkit.protocol.jsonrpc import decode
from mcpkit.protocol.repetition import LONG
from mcpkit.testing import connect
from tests.helpers.pipe import HANDSHAKE, META, Pipe, stateless_meta

MODES = [None, *HANDSHAKE]
"""The revision of the session, or None before there is one."""


def make_server() -> Server:
    server = Server("s", limits=Limits(page_size=1))

    @server.tool
    async def echo(text: str, ctx: Context) -> str:
        return text

    @server.tool
    async def other(x: int = 0) -> int:
        return x

    return server


# Any bytes

VALID = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    json.dumps(
        {"jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": {"_meta": stateless_meta()}}
    ).encode(),
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A valid message with a piece cut out, doubled or replaced."""
    line = draw(st.sampled_from(VALID))
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, min(start + 12, len(line))))
    return line[:start] + draw(st.one_of(st.binary(max_size=4), st.just(line[start:end] * 2))) + line[end:]


async def survives(lines: list[bytes], revision: str | None) -> None:
    server, sent = make_server(), []
    async with server.running():
        connection = Connection(server, lambda line: sent.append(json.loads(line)))
        try:
            if revision is not None:
                connection.receive(json.dumps(initialize(revision)).encode())
            for line in lines:
                connection.receive(line)
            await asyncio.wait_for(connection.drain(), 10)
            sent.clear()
            connection.receive(b'{"jsonrpc":"2.0","id":"are you there","method":"ping"}')
            last = {"jsonrpc": "2.0", "id": "and now", "method": "server/discover"}
            connection.receive(json.dumps(last | {"params": {"_meta": stateless_meta()}}).encode())
            await asyncio.wait_for(connection.drain(), 10)
            assert [message["id"] for message in sent if "result" in message] == ["are you there", "and now"]
            assert server.engine.runtime.running.taken == 0
        finally:
            await connection.aclose()


def initialize(revision: str) -> dict[str, Any]:
    client = {"name": "properties", "version": "1"}
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


@given(
    lines=st.lists(
        st.one_of(st.binary(max_size=60), damaged(), st.sampled_from(VALID)), min_size=1, max_size=6
    ),
    revision=st.sampled_from(MODES),
)
def test_no_bytes_raise_or_silence_the_server(lines: list[bytes], revision: str | None) -> None:
    asyncio.run(survives(lines, revision))


# Any JSON value

METHODS = {
    # method: the eras that have it; the server declares tools and logging
    "initialize": "h",
    "ping": "h",
    "logging/setLevel": "h",
    "server/discover": "s",
    "tools/list": "hs",
    "tools/call": "hs",
    "prompts/list": "",
    "resources/subscribe": "",
    "unknown/method": "",
}
LEVELS = {"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}


def is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= 256
    return type(value) is int and -(2**63) <= value < 2**63


def is_client(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("version"), str)
    )


def problems(message: Any, revision: str | None) -> set[int] | None:
    """Return the codes of all that is wrong with one message; None where no answer is due.

    Where several things are wrong, the table does not say which is sent.
    """
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return {-32600}
    if message.get("method") is None and ("result" in message or "error" in message):
        return {-32600} if revision is None else None
    if not isinstance(message.get("method"), str):
        return {-32600}
    if "id" not in message:
        return None
    if not is_id(message["id"]):
        return {-32600}
    return problems_of_request(message["method"], message.get("params"), revision)


def problems_of_request(method: str, params: Any, revision: str | None) -> set[int]:
    params = {} if params is None else params
    if not isinstance(params, dict):
        return {-32602} if revision is not None else {-32602, -32600}
    meta = {} if params.get("_meta") is None else params["_meta"]
    if not isinstance(meta, dict):
        return {-32602} if revision is not None else {-32602, -32600}
    found: set[int] = set()
    if "progressToken" in meta and not is_id(meta["progressToken"]):
        found.add(-32602)
    if META + "protocolVersion" in meta:
        return found | problems_of_envelope(meta) | problems_of_method(method, params, "s")
    if revision is None and method == "initialize":
        known = isinstance(params.get("protocolVersion"), str) and isinstance(
            params.get("capabilities"), dict
        )
        return found if known and is_client(params.get("clientInfo")) else {-32602}
    if revision is None:
        return found if method == "ping" else found | {-32600}
    if method == "initialize":
        return found | {-32600}
    return found | problems_of_method(method, params, "h")


def problems_of_envelope(meta: dict[str, Any]) -> set[int]:
    found: set[int] = set()
    version = meta[META + "protocolVersion"]
    if not isinstance(version, str):
        found.add(-32602)
    elif version != "2026-07-28":
        found.add(-32022)
    if not isinstance(meta.get(META + "clientCapabilities"), dict):
        found.add(-32602)
    client = meta.get(META + "clientInfo")
    if client is not None and not is_client(client):
        found.add(-32602)
    level = meta.get(META + "logLevel")
    if level is not None and not (isinstance(level, str) and level in LEVELS):
        found.add(-32602)
    return found


def problems_of_method(method: str, params: dict[str, Any], era: str) -> set[int]:
    if era not in METHODS.get(method, ""):
        return {-32601}
    if method == "logging/setLevel":
        level = params.get("level")
        return set() if isinstance(level, str) and level in LEVELS else {-32602}
    if method == "tools/list":  # none of the cursors made here is one of the server's
        return set() if params.get("cursor") is None else {-32602}
    if method == "tools/call":
        is_known = params.get("name") in ("echo", "other")
        arguments = params.get("arguments")
        return set() if is_known and (arguments is None or isinstance(arguments, dict)) else {-32602}
    return set()


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def mostly(*values: Any) -> st.SearchStrategy[Any]:
    """Draw one of the values that make sense three times in four."""
    sensible = st.sampled_from(values)
    return st.one_of(sensible, sensible, sensible, anything)


clients = mostly({"name": "c", "version": "1"}, {"name": "c"}, None)
metas = st.one_of(
    st.fixed_dictionaries({}, optional={"progressToken": mostly("token", 1)}),
    st.fixed_dictionaries(
        {
            META + "protocolVersion": mostly(
                "2026-07-28", "2026-07-28", "2026-07-28", "2025-06-18", "2099-01-01"
            ),
            META + "clientCapabilities": mostly({}, {"roots": {}}),
        },
        optional={
            META + "clientInfo": clients,
            META + "logLevel": mostly("debug", "emergency", "loud"),
            "progressToken": mostly("token", 1),
        },
    ),
    anything,
)
params = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "_meta": metas,
            "name": mostly("echo", "other", "unknown"),
            "arguments": mostly({}, {"text": "x"}, {"x": 1}, {"text": 3}, None),
            "level": mostly("debug", "loud"),
            "cursor": mostly(None, "x"),
            "protocolVersion": mostly("2025-06-18", "2026-07-28"),
            "capabilities": mostly({}),
            "clientInfo": clients,
        },
    ),
    anything,
)
requests = st.fixed_dictionaries(
    {"jsonrpc": mostly("2.0", "2.0", "2.0", "1.0"), "method": mostly(*METHODS)},
    optional={"id": mostly(1, "a", 2**70, -1), "params": params, "result": anything},
)
responses = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": mostly(1, "a"), "result": anything, "error": anything, "method": anything},
)
messages = st.one_of(
    requests, requests, requests, responses, anything.filter(lambda value: not isinstance(value, list))
)


async def answers(message: Any, revision: str | None, schema_dir: Path) -> list[Any]:
    server = make_server()
    async with server.running():
        pipe = Pipe(server, revision or "2025-11-25", schema_dir)
        try:
            if revision is not None:
                await pipe.initialize()
            pipe.methods.clear()
            pipe.send(message)
            return [
                each for each in await pipe.answered() if not isinstance(each, dict) or "method" not in each
            ]
        finally:
            await pipe.connection.aclose()


@given(message=messages, revision=st.sampled_from(MODES))
@example(message={"jsonrpc": "2.0", "id": 1.0, "method": "ping"}, revision="2025-11-25")
def test_any_json_value_gets_error_of_the_table(message: Any, revision: str | None, schema_dir: Path) -> None:
    expected = problems(message, revision)
    found = asyncio.run(answers(message, revision, schema_dir))
    if expected is None:
        assert found == []
        return
    (answer,) = found
    if expected:
        assert answer["error"]["code"] in expected
    else:
        assert "result" in answer
        assert answer["id"] == message["id"]


@given(
    batch=st.lists(messages, max_size=3),
    revision=st.sampled_from(["2024-11-05", "2025-06-18", "2025-11-25", None]),
)
def test_any_array_is_refused_where_there_are_no_batches(
    batch: list[Any], revision: str | None, schema_dir: Path
) -> None:
    (answer,) = asyncio.run(answers(batch, revision, schema_dir))
    assert answer["error"]["code"] == -32600


TEXT = 'a "quote", a\ttab, \\ and 東京\n' * (LONG // 20)
ROWS = [{"name": "Ada", "text": 'a "quote"', "city": "東京", "number": number} for number in range(2000)]


@pytest.fixture
def large_server() -> Server:
    large_server = Server("large")

    @large_server.tool
    def text() -> str:
        return TEXT

    @large_server.tool
    def table() -> dict[str, list[dict[str, Any]]]:
        return {"rows": ROWS}

    return large_server


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("tool", "value"), [("text", TEXT), ("table", {"rows": ROWS})])
async def test_long_result_is_the_same_as_text_and_as_structured_content(
    large_server: Server, revision: str, tool: str, value: Any
) -> None:
    async with connect(large_server, protocol_version=revision) as client:
        result = await client.call_tool(tool)
    assert [block["type"] for block in result.content] == ["text"]
    assert (result.text if tool == "text" else json.loads(result.text)) == value
    is_wrapped = tool == "text" and revision == "2025-11-25"
    assert result.structured_content == ({"result": value} if is_wrapped else value)
    assert not result.is_error


FILLING = "x" * 5000


@pytest.mark.parametrize(
    "text",
    [
        '["%s", 1e400]',
        '["%s", [' + "1, " * 5000 + "1e400]]",
        '["%s", ' + "9" * 400 + ".5]",
    ],
)
def test_number_out_of_range_in_long_message_is_parse_error(text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode((text % FILLING).encode())
    assert caught.value.code == PARSE_ERROR

"""Properties of every message: no bytes stop the server, and any JSON value gets the response of the error table."""

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
from tests.helpers.pipe import HANDSHAKE, META, Pipe
from tests.helpers.raw_client import initialize, request
from tests.helpers.tables import each_row

MODES = st.sampled_from([None, *HANDSHAKE])
"""The version of the session, or None before there is one."""


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
    json.dumps(request("server/discover")).encode(),
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw a valid message with a piece cut out, doubled or replaced."""
    line = draw(st.sampled_from(VALID))
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, min(start + 12, len(line))))
    return line[:start] + draw(st.binary(max_size=4) | st.just(line[start:end] * 2)) + line[end:]


async def check_survival(lines: list[bytes], revision: str | None) -> None:
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
            connection.receive(b'{"jsonrpc":"2.0","id":"ping","method":"ping"}')
            connection.receive(json.dumps(request("server/discover", id="discover")).encode())
            await asyncio.wait_for(connection.drain(), 10)
            assert [message["id"] for message in sent if "result" in message] == ["ping", "discover"]
            assert server.engine.runtime.running.taken == 0
        finally:
            await connection.aclose()


@given(st.lists(st.binary(max_size=60) | damaged() | st.sampled_from(VALID), min_size=1, max_size=6), MODES)
def test_no_bytes_raise_or_silence_the_server(lines: list[bytes], revision: str | None) -> None:
    asyncio.run(check_survival(lines, revision))


# Any JSON value

METHODS = {
    # method: the eras that have it; the server declares tools and logging
    "initialize": "h", "ping": "h", "logging/setLevel": "h", "server/discover": "s", "tools/list": "hs",
    "tools/call": "hs", "prompts/list": "", "resources/subscribe": "", "unknown/method": "",
}  # fmt: skip
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= 256
    return type(value) is int and -(2**63) <= value < 2**63


def is_client(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("name", "version"))


def problems(message: Any, revision: str | None) -> set[int] | None:
    """Return the codes of all that is wrong with one message; None where no response is due.

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
    meta = params.get("_meta") if isinstance(params, dict) else params
    meta = {} if meta is None else meta
    if not isinstance(params, dict) or not isinstance(meta, dict):
        return {-32602} if revision is not None else {-32602, -32600}
    found = {-32602} if "progressToken" in meta and not is_id(meta["progressToken"]) else set()
    if META + "protocolVersion" in meta:
        return found | problems_of_envelope(meta) | problems_of_method(method, params, "s")
    if revision is None and method == "initialize":
        has_version = isinstance(params.get("protocolVersion"), str)
        is_known = has_version and isinstance(params.get("capabilities"), dict)
        return found if is_known and is_client(params.get("clientInfo")) else {-32602}
    if revision is None:
        return found if method == "ping" else found | {-32600}
    return found | ({-32600} if method == "initialize" else problems_of_method(method, params, "h"))


def problems_of_envelope(meta: dict[str, Any]) -> set[int]:
    version, client = meta[META + "protocolVersion"], meta.get(META + "clientInfo")
    level = meta.get(META + "logLevel")
    is_valid = isinstance(version, str) and isinstance(meta.get(META + "clientCapabilities"), dict)
    is_valid = is_valid and (client is None or is_client(client)) and (level is None or level in LEVELS)
    found = set() if is_valid else {-32602}
    return found | {-32022} if isinstance(version, str) and version != "2026-07-28" else found


def problems_of_method(method: str, params: dict[str, Any], era: str) -> set[int]:
    if era not in METHODS.get(method, ""):
        return {-32601}
    if method == "logging/setLevel":
        return set() if params.get("level") in LEVELS else {-32602}
    if method == "tools/list":  # no cursor drawn here is one of the server
        return set() if params.get("cursor") is None else {-32602}
    if method == "tools/call":
        is_known = params.get("name") in ("echo", "other")
        return set() if is_known and isinstance(params.get("arguments"), dict | type(None)) else {-32602}
    return set()


FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def mostly(*values: Any) -> st.SearchStrategy[Any]:
    """Draw one of some values three times in four."""
    sensible = st.sampled_from(values)
    return st.one_of(sensible, sensible, sensible, ANYTHING)


CLIENTS = mostly({"name": "c", "version": "1"}, {"name": "c"}, None)
TOKENS = mostly("token", 1)
ENVELOPES = st.fixed_dictionaries(
    {
        META + "protocolVersion": mostly(*["2026-07-28"] * 3, "2025-06-18", "2099-01-01"),
        META + "clientCapabilities": mostly({}, {"roots": {}}),
    },
    optional={
        META + "clientInfo": CLIENTS,
        META + "logLevel": mostly("debug", "emergency", "loud"),
        "progressToken": TOKENS,
    },
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "_meta": st.fixed_dictionaries({}, optional={"progressToken": TOKENS}) | ENVELOPES | ANYTHING,
        "name": mostly("echo", "other", "unknown"),
        "arguments": mostly({}, {"text": "x"}, {"x": 1}, {"text": 3}, None),
        "level": mostly("debug", "loud"),
        "cursor": mostly(None, "x"),
        "protocolVersion": mostly("2025-06-18", "2026-07-28"),
        "capabilities": mostly({}),
        "clientInfo": CLIENTS,
    },
)
REQUESTS = st.fixed_dictionaries(
    {"jsonrpc": mostly("2.0", "2.0", "2.0", "1.0"), "method": mostly(*METHODS)},
    optional={"id": mostly(1, "a", 2**70, -1), "params": PARAMS | ANYTHING, "result": ANYTHING},
)
RESPONSES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": mostly(1, "a"), "result": ANYTHING, "error": ANYTHING, "method": ANYTHING},
)
OTHERS = ANYTHING.filter(lambda value: not isinstance(value, list))
MESSAGES = st.one_of(REQUESTS, REQUESTS, REQUESTS, RESPONSES, OTHERS)


async def responses(message: Any, revision: str | None, folder: Path) -> list[Any]:
    server = make_server()
    async with server.running():
        pipe = Pipe(server, revision or "2025-11-25", folder)
        try:
            if revision is not None:
                await pipe.initialize()
            pipe.methods.clear()
            pipe.send(message)
            sent = await pipe.answered()
            return [each for each in sent if not isinstance(each, dict) or "method" not in each]
        finally:
            await pipe.connection.aclose()


@given(MESSAGES, MODES)
@example({"jsonrpc": "2.0", "id": 1.0, "method": "ping"}, "2025-11-25")
@example({"jsonrpc": "2.0", "id": 1, "result": {}}, None)
@example({"id": "a", "result": {}}, "2025-11-25")
def test_json_value_gets_error_of_the_table(schema_dir: Path, message: Any, revision: str | None) -> None:
    expected = problems(message, revision)
    found = asyncio.run(responses(message, revision, schema_dir))
    if expected is None:
        assert found == []
        return
    (response,) = found
    if expected:
        assert response["error"]["code"] in expected
    else:
        assert "result" in response
        assert response["id"] == message["id"]


@given(st.lists(MESSAGES, max_size=3), MODES.filter(lambda revision: revision != "2025-03-26"))
def test_json_array_is_refused_where_there_are_no_batches(
    schema_dir: Path, batch: list[Any], revision: str | None
) -> None:
    (response,) = asyncio.run(responses(batch, revision, schema_dir))
    assert response["error"]["code"] == -32600


# Long messages

TEXT = 'a "quote", a\ttab, \\ and 東京\n' * (LONG // 20)
TABLE = {"rows": [{"name": "Ada", "text": 'a "quote"', "city": "東京", "number": n} for n in range(2000)]}


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_long_result_is_the_same_as_text_and_as_structured_content(revision: str) -> None:
    server = Server("large")

    @server.tool
    def text() -> str:
        return TEXT

    @server.tool
    def table() -> dict[str, list[dict[str, Any]]]:
        return TABLE

    async with connect(server, protocol_version=revision) as client:
        long_text, long_table = await client.call_tool("text"), await client.call_tool("table")
    for result in (long_text, long_table):
        assert [block["type"] for block in result.content] == ["text"]
        assert not result.is_error
    assert long_text.text == TEXT
    assert long_text.structured_content == ({"result": TEXT} if revision == "2025-11-25" else TEXT)
    assert json.loads(long_table.text) == long_table.structured_content == TABLE


@each_row("rest", ["1e400]", "[" + "1, " * 5000 + "1e400]]", "9" * 400 + ".5]"])
def test_long_message_with_number_out_of_range_is_parse_error(rest: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(f'["{"x" * 5000}", {rest}'.encode())
    assert caught.value.code == PARSE_ERROR

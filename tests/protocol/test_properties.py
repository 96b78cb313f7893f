"""Messages of any kind: no bytes stop the server, malformed requests get the error of the table, long ones pass."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Context, Server
from mcpkit._utils.exceptions import PARSE_ERROR, ProtocolError
from mcpkit.engine.message_dispatch import Connection
from mcpkit.protocol.jsonrpc import LONG, decode
from mcpkit.testing import connect
from tests.helpers.pipe import HANDSHAKE, META, Pipe, stateless_meta
from tests.helpers.raw_client import initialize, request
from tests.helpers.tables import each_row


def make_server() -> Server:
    server = Server("s")

    @server.tool
    async def echo(text: str, ctx: Context) -> str:
        return text

    return server


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


@given(
    st.lists(st.binary(max_size=60) | damaged() | st.sampled_from(VALID), min_size=1, max_size=6),
    st.sampled_from([None, *HANDSHAKE]),
)
def test_no_bytes_raise_or_silence_the_server(lines: list[bytes], revision: str | None) -> None:
    async def check() -> None:
        server, sent = make_server(), []
        async with server.running():
            connection = Connection(server, lambda line: sent.append(json.loads(line)))
            opening = [] if revision is None else [json.dumps(initialize(revision)).encode()]
            for line in opening + lines:
                connection.receive(line)
            await asyncio.wait_for(connection.drain(), 10)
            sent.clear()
            connection.receive(b'{"jsonrpc":"2.0","id":"ping","method":"ping"}')
            connection.receive(json.dumps(request("server/discover", id="discover")).encode())
            await asyncio.wait_for(connection.drain(), 10)
            assert [message["id"] for message in sent if "result" in message] == ["ping", "discover"]
            assert server.engine.runtime.running.taken == 0
            await connection.aclose()

    asyncio.run(check())


def ping(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "ping", **members}


def stateless(method: str = "tools/list", **meta: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": {**stateless_meta(), **meta}}}


@each_row(("message", "code", "code_before_session"), [
    # None: there is no response; 0: there is a result
    (None, -32600, -32600), ("ping", -32600, -32600), ([], -32600, -32600), ([ping()], -32600, -32600),
    (ping(jsonrpc="1.0"), -32600, -32600), ({"id": "a", "result": {}}, -32600, -32600),
    ({"jsonrpc": "2.0", "id": 1, "result": {}}, None, -32600), ({"jsonrpc": "2.0", "method": "x"}, None, None),
    *((ping(id=id_), -32600, -32600) for id_ in (None, 1.0, 2**63, [], "x" * 257)),
    (ping(id=-(2**63)), 0, 0), (ping(method=5), -32600, -32600),
    (ping(params=[]), -32602, -32602), (ping(params={"_meta": 1}), -32602, -32602),
    (ping(params={"_meta": {"progressToken": 1.5}}), -32602, -32602), (ping(method="unknown"), -32601, -32600),
    (ping(method="tools/call", params={"name": "none"}), -32602, -32600),
    (ping(method="tools/call", params={"name": "echo", "arguments": []}), -32602, -32600),
    (ping(method="tools/list", params={"cursor": "x"}), -32602, -32600),
    (ping(method="prompts/list"), -32601, -32600), (ping(method="initialize"), -32600, -32602),
    (ping(method="logging/setLevel", params={"level": "loud"}), -32602, -32600),
    (stateless(), 0, 0), (stateless("ping"), -32601, -32601),
    (stateless(**{META + "protocolVersion": "2099-01-01"}), -32022, -32022),
    (stateless(**{META + "protocolVersion": 1}), -32602, -32602),
    (stateless(**{META + "clientCapabilities": []}), -32602, -32602),
    (stateless(**{META + "clientInfo": {"name": "c"}}), -32602, -32602),
    (stateless(**{META + "logLevel": "loud"}), -32602, -32602),
])  # fmt: skip
async def test_malformed_message_gets_error_of_the_table(schema_dir, message, code, code_before_session):
    for is_open, expected in ((True, code), (False, code_before_session)):
        server = make_server()
        async with server.running():
            pipe = Pipe(server, "2025-11-25", schema_dir)
            if is_open:
                await pipe.initialize()
            pipe.methods.clear()
            pipe.send(message)
            responses = [each for each in await pipe.answered() if "method" not in each]
            await pipe.connection.aclose()
        codes = [each["error"]["code"] if "error" in each else 0 for each in responses]
        assert codes == ([] if expected is None else [expected]), (is_open, responses)


# Long messages

TEXT = 'a "quote", a\ttab, \\ and 東京\n' * (LONG // 20)
TABLE = {"rows": [{"name": "Ada", "text": 'a "quote"', "city": "東京", "number": n} for n in range(2000)]}


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
    assert long_text.content == [{"type": "text", "text": TEXT}]
    assert long_text.structured_content == ({"result": TEXT} if revision == "2025-11-25" else TEXT)
    assert json.loads(long_table.text) == long_table.structured_content == TABLE


@each_row("rest", ["1e400]", "[" + "1, " * 5000 + "1e400]]", "9" * 400 + ".5]"])
def test_long_message_with_number_out_of_range_is_parse_error(rest: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(f'["{"x" * 5000}", {rest}'.encode())
    assert caught.value.code == PARSE_ERROR

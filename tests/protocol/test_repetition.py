from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.common.errors import PARSE_ERROR, ProtocolError
from mcpkit.middleware import CallTool, Request, ToolCallResult
from mcpkit.protocol.jsonrpc import decode
from mcpkit.protocol.repetition import LONG
from mcpkit.protocol.revisions import ALL
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

TEXT = 'a "quote", a\ttab, \\ and 東京\n' * (LONG // 20)
ROWS = [{"name": "Ada", "said": 'a "quote"', "city": "東京", "number": number} for number in range(2000)]
SINCE = "2025-06-18"
"""The first revision with structured content."""


@pytest.fixture
def server() -> Server:
    server = Server("large")

    @server.tool
    def text() -> str:
        return TEXT

    @server.tool
    def rows() -> list[dict[str, Any]]:
        return ROWS

    @server.tool
    def table() -> dict[str, list[dict[str, Any]]]:
        return {"rows": ROWS}

    @server.tool
    def surrogate() -> str:
        return TEXT + "\ud800"

    return server


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(("tool", "value"), [("text", TEXT), ("rows", ROWS), ("table", {"rows": ROWS})])
async def test_a_long_result_says_the_same_as_text_and_as_structured_content(
    server: Server, revision: str, tool: str, value: Any
) -> None:
    async with connect(server, revision=revision) as client:
        result = await client.call(tool)
    assert [block["type"] for block in result.content] == ["text"]
    assert (result.text if tool == "text" else json.loads(result.text)) == value
    is_object = isinstance(value, dict) or revision == ALL[-1]
    structured = value if is_object else {"result": value}
    assert result.structured == (structured if revision >= SINCE else None)
    others = {"resultType": "complete"} if revision == ALL[-1] else {}
    assert {name: result.data.get(name) for name in others} == others
    assert not result.is_error


async def test_a_long_text_that_cannot_be_sent_is_told_to_the_client(server: Server) -> None:
    async with connect(server) as client:
        result = await client.call("surrogate")
    assert result.is_error


async def test_middleware_reads_and_changes_a_long_result(server: Server) -> None:
    seen: list[Any] = []

    @server.middleware("tools/call")
    async def look(request: Request, call_next: CallTool) -> ToolCallResult:
        result = await call_next(request)
        seen.append((result.is_error, len(result.rendered()) > LONG, result.structured == ROWS))
        result["_meta"] = {"seen": True}
        return result

    async with connect(server) as client:
        result = await client.call("rows")
    assert seen == [(False, True, True)]
    assert result.meta["seen"]
    assert result.structured == json.loads(result.text) == ROWS


FILLING = "x" * 5000


@pytest.mark.parametrize(
    "text",
    [
        '["%s", 1e400]',
        '["%s", -1E+400]',
        '{"a": "%s", "b": [{"c": [0, -1e999]}]}',
        '["%s", [' + "1, " * 5000 + "1e400]]",
        '["%s", ' + "9" * 400 + ".5]",
    ],
)
def test_a_number_out_of_range_is_found_in_a_long_message(text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode((text % FILLING).encode())
    assert caught.value.code == PARSE_ERROR


@pytest.mark.parametrize("text", ['["%s 1e400", 1e300]', '["%s", [' + "1e300, " * 5000 + "1]]", '["%s"]'])
def test_a_long_message_with_nothing_out_of_range_is_taken(text: str) -> None:
    data = (text % FILLING).encode()
    assert decode(data) == json.loads(data)

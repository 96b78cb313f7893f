"""Results with missing, null or mistyped members: read in the only possible way, or an error that names the member."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Client, ProtocolError, ToolError
from mcpkit.common.base64_text import decode_base64_text, is_plain_base64
from mcpkit.exceptions import InvalidResultError
from tests.helpers.scripted_transport import Message, ScriptedTransport, initialized
from tests.helpers.scripted_transport import error as error_result
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


def answering(answers: Message) -> ScriptedTransport:
    """Return a server of the handshake era that sends these results, by method."""

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        method = message["method"]
        if "id" not in message:
            return []
        if method == "initialize":
            return [initialized(message)]
        if method not in answers:
            return [error_result(message, -32601)]
        return [{"id": message["id"], "result": answers[method]}]

    return ScriptedTransport(script)


ONE = {"type": "text", "text": "bread"}
LISTED = {"tools": [{"name": "bake", "inputSchema": {"type": "object"}}]}
READ: list[tuple[Message, Any, Any]] = [  # a result, its text, and what a typed tool returns
    ({"structuredContent": {"loaves": 3}}, '{"loaves": 3}', {"loaves": 3}),
    ({"content": None, "structuredContent": {"loaves": 3}, "isError": None}, '{"loaves": 3}', {"loaves": 3}),
    ({"content": [{"type": "text", "text": ""}], "structuredContent": [3]}, "[3]", [3]),
    ({"content": [ONE], "structuredContent": None, "_meta": None, "isError": "false"}, "bread", "bread"),
    ({"content": "bread"}, "bread", "bread"),
    ({"content": ONE}, "bread", "bread"),
    ({"content": ["bread", None, {"text": "butter"}], "_meta": []}, "bread\nbutter", "bread\nbutter"),
    ({"content": [{"type": "text", "text": ["bread", "butter"]}]}, "bread\nbutter", "bread\nbutter"),
    ({"content": [{"type": "text", "text": None, "annotations": None}]}, "", ""),
    ({"content": [{"type": "text", "text": {"loaves": 3}}]}, '{"loaves": 3}', '{"loaves": 3}'),
    ({"content": None}, "", None),
    ({}, "", None),
]


USER = {"role": "user", "content": ONE}


@pytest.mark.parametrize(("method", "result", "read"), [
    ("prompts/get", {"messages": "bread"}, [USER]),
    ("prompts/get", {"messages": [{"role": ["user"], "content": [ONE, "bread"]}]}, [USER, USER]),
    ("prompts/get", {"messages": [{"role": "user", "content": {"text": "bread"}}]}, [USER]),
    ("resources/read", {"contents": "bread"}, [{"uri": "note://1", "text": "bread"}]),
    ("resources/read", {"contents": [{"text": "bread"}]}, [{"uri": "note://1", "text": "bread"}]),
])  # fmt: skip
async def test_prompt_or_resource_with_one_reading_is_read(method: str, result: Message, read: Any) -> None:
    async with Client(answering({method: result})) as client:
        request = client.get_prompt if method == "prompts/get" else client.read_resource
        assert await request("note://1") == read


@pytest.mark.parametrize(("result", "text", "value"), READ)
async def test_result_with_one_reading_is_read(result: Message, text: str, value: Any) -> None:
    async with Client(answering({"tools/list": LISTED, "tools/call": result})) as client:
        assert (await client.call_tool("bake")).text == text
        assert await (await client.tools())["bake"]() == value
        if value is None:
            with pytest.raises(InvalidResultError, match="neither structured content nor text"):
                await client.call_tool("bake", result_type=Any)


@pytest.mark.parametrize(("result", "output"), [
    ({"structuredContent": {"code": "QUOTA"}}, '{"code": "QUOTA"}'),
    ({"content": "no flour"}, "no flour"),
    ({"content": [{"type": "image", "mimeType": "image/png", "data": "AA=="}]}, '"data": "AA=="'),
    ({}, "the tool failed, and the server sent no error text"),
])  # fmt: skip
async def test_tool_error_text_comes_from_server(result: Message, output: str) -> None:
    async with Client(answering({"tools/list": LISTED, "tools/call": {**result, "isError": True}})) as client:
        for ask in (lambda: client.call_tool("bake", result_type=str), (await client.tools())["bake"]):
            with pytest.raises(ToolError) as caught:
                await ask()
            assert output in str(caught.value)


@pytest.mark.parametrize(("method", "result", "member"), [
    ("tools/call", {"toolResult": "bread"}, "content, got 'toolResult'"),
    ("tools/call", {"content": [ONE, 5]}, r"content\[1\]"),
    ("tools/call", {"content": [{"text": "bread", "uri": "note://1"}]}, r"content\[0\].type"),
    ("tools/call", {"content": [{"type": "text", "content": "bread"}]}, r"content\[0\].text"),
    ("tools/call", {"content": [{"type": "image", "data": "?"}]}, r"base64 as content\[0\].data"),
    ("tools/call", {"content": [ONE], "isError": "perhaps"}, "isError"),
    ("tools/call", {"content": [ONE], "_meta": "x"}, "_meta"),
    ("prompts/get", {"messages": [{"content": ONE}]}, r"messages\[0\].role"),
    ("prompts/get", {"messages": [{"role": "user", "text": "bread"}]}, r"messages\[0\].content"),
    ("resources/read", {"contents": [{"text": "a", "blob": "Yg=="}]}, r"contents\[0\], not both"),
    ("resources/read", {"contents": [{"content": "bread"}]}, r"text or blob in contents\[0\]"),
    ("resources/read", {"content": "bread"}, "contents, got 'content'"),
])  # fmt: skip
async def test_result_ambiguous_is_protocol_error_naming_member(
    method: str, result: Message, member: str
) -> None:
    async with Client(answering({method: result})) as client:
        requests = {"tools/call": client.call_tool, "prompts/get": client.get_prompt}
        with pytest.raises(ProtocolError, match=f"answer to {method} is malformed: expected .*{member}"):
            await requests.get(method, client.read_resource)("bake")


@each_row("text", ["?", "A", "AAAAA", "AA===", "+_==", "=AAA", "AA=A", "data:AAAA", "ÀAAA", "\ud800AAA"])
def test_base64_ambiguous_is_refused(text: str) -> None:
    assert not is_plain_base64(text)
    with pytest.raises(ValueError, match=r"base64|comma|ascii|surrogates"):
        decode_base64_text(text)

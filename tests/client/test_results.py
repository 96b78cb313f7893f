"""Results with missing, null or mistyped members: read in the only possible way, or an error that names the member."""

from __future__ import annotations

import copy
import json
import os
import random
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, ProtocolError, ToolError
from mcpkit.client import CallResult
from mcpkit.common.base64_text import decode_base64_text, is_plain_base64
from mcpkit.exceptions import InvalidResultError
from tests.helpers.official import Official, official
from tests.helpers.scripted_transport import Message, ScriptedTransport, initialized
from tests.helpers.scripted_transport import error as error_result
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50"))
NEWEST = "2025-11-25"
KINDS = {"text", "image", "audio", "resource", "resource_link"}
NAMES = "(content|messages|contents|isError|_meta)"
PICTURE = b"\x89PNG\r\n\x1a\n" + b"\xfb\xff\xfe" * 31
ODD: list[Any] = [
    None, "", [], {}, "mark!", ["mark!"], ["mark?", "mark!"], 5, True, {"mark": "mark!"},
]  # fmt: skip


def answering(answers: Message) -> ScriptedTransport:
    """Return a server of the handshake era that sends these results, by method."""

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        method = message["method"]
        if "id" not in message:
            return []
        if method == "initialize":
            return [initialized(message)]
        return (
            [{"id": message["id"], "result": answers[method]}]
            if method in answers
            else [error_result(message, -32601)]
        )

    return ScriptedTransport(script)


def block(draw: random.Random, mark: str) -> Message:
    """Return a valid content block with a text that is found again."""
    data = b64encode(PICTURE + mark.encode()).decode()
    kinds: list[Message] = [
        {"type": "text", "text": mark},
        {"type": "image", "mimeType": "image/png", "data": data},
        {"type": "audio", "mimeType": "audio/wav", "data": data},
        {"type": "resource_link", "uri": f"note://{mark}", "name": f"name of {mark}"},
        {"type": "resource", "resource": {"uri": "note://1", "text": mark}},
        {"type": "resource", "resource": {"uri": f"note://{mark}", "blob": data, "mimeType": "image/png"}},
    ]
    return {**draw.choice([*kinds, kinds[0], kinds[0]]), **draw.choice([{}, {"_meta": {"key": mark}}])}


def results(draw: random.Random) -> dict[str, Message]:
    """Return valid results of the three methods."""
    blocks = [block(draw, f"mark-{number}") for number in range(draw.randrange(1, 4))]
    tool: Message = {"content": blocks, **draw.choice([{}, {"structuredContent": {"mark": "mark-data"}}])}
    contents: list[Message] = [
        {"uri": "note://1", "text": "mark-text"},
        {"uri": "note://2", "blob": "bWFyaw=="},
    ]
    messages = [{"role": draw.choice(["user", "assistant"]), "content": each} for each in blocks]
    return {
        "tools/call": {**tool, **draw.choice([{}, {"isError": draw.random() < 0.5}])},
        "prompts/get": {"messages": messages, "description": "about"},
        "resources/read": {"contents": contents[: draw.randrange(1, 3)]},
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all members and items of a value, but for what is the server's own."""
    if path and path[-1] in ("_meta", "structuredContent", "description"):
        return [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [
        *([path] if path else []),
        *(found for key, each in inner for found in places(each, (*path, key))),
    ]


def bend(draw: random.Random, result: Message) -> None:
    """Remove a member, or give it another value."""
    if not result:
        return
    *path, last = draw.choice(places(result))
    holder: Any = result
    for key in path:
        holder = holder[key]
    treatment = draw.randrange(4)
    if treatment == 0:
        del holder[last]
    elif treatment == 1:
        holder[last] = [holder[last]]
    elif treatment == 2 and isinstance(holder[last], list) and holder[last]:
        holder[last] = holder[last][0]
    else:
        holder[last] = copy.deepcopy(draw.choice(ODD))


def marks(value: Any) -> set[str]:
    """Return every text of a value that says `mark`, also within base64."""
    if isinstance(value, dict):
        return {mark for each in value.values() for mark in marks(each)}
    if isinstance(value, list):
        return {mark for each in value for mark in marks(each)}
    if isinstance(value, str) and value.startswith("iVBOR"):
        value = b64decode(value)[len(PICTURE) :].decode()
    return {value} if isinstance(value, str) and "mark" in value else set()


async def outcome(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Return what a request came to: the result, or the text of the error."""
    try:
        return await ask()
    except ProtocolError as refusal:
        return str(refusal)


def judged(judge: Official, method: str, found: Any) -> Any:
    """Check what a client returns against the official schema, and return its blocks, messages or contents."""
    if isinstance(found, CallResult):
        assert type(found.is_error) is bool
        assert isinstance(found.meta, dict)
        assert "None" not in found.text
        if found.is_structured_only:
            assert json.loads(found.text) == found.structured_content
        blocks, answer = found.content, [found.content, found.structured_content, found.meta]
    elif method == "prompts/get":
        assert all(isinstance(each["role"], str) for each in found)
        blocks, answer = [each["content"] for each in found], found
    else:
        blocks, answer = [], found
        for each in found:
            judge.check("BlobResourceContents" if "blob" in each else "TextResourceContents", each)
    for each in blocks:
        if each["type"] in KINDS:  # others may be of a later revision
            judge.block(each)
    return answer


async def test_result_bent_at_random_is_read_without_loss_or_error_names_member(schema_dir: Path) -> None:
    answers: dict[str, Message] = {}
    judge = official(schema_dir, NEWEST)
    read = refused = 0
    async with Client(answering(answers), cache=False, validate_results=False) as client:
        asks: dict[str, Callable[[], Awaitable[Any]]] = {
            "tools/call": lambda: client.call_tool("bake"),
            "prompts/get": lambda: client.get_prompt("plan"),
            "resources/read": lambda: client.read_resource("note://asked"),
        }
        for seed in range(EXAMPLES):
            draw = random.Random(seed)
            answers.update(results(draw))
            for method, ask in asks.items():
                for _ in range(draw.randrange(3)):
                    bend(draw, answers[method])
                bent = answers[method]
                found = await outcome(ask)
                if isinstance(found, str):
                    assert re.search(f"malformed: expected .*{NAMES}", found), (seed, method, bent)
                    refused += 1
                    continue
                answer = judged(judge, method, found)
                lost = marks({**bent, "description": ""}) - marks(answer)
                assert not {mark for mark in lost if mark not in json.dumps(answer)}, (seed, bent, answer)
                read += 1
    assert read > EXAMPLES
    assert refused > EXAMPLES // 10


ONE = {"type": "text", "text": "bread"}
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


@pytest.mark.parametrize(("result", "text", "value"), READ)
async def test_result_with_one_reading_is_read(result: Message, text: str, value: Any) -> None:
    listed = {"tools": [{"name": "bake", "inputSchema": {"type": "object"}}]}
    transport = answering({"tools/list": listed, "tools/call": result})
    async with Client(transport) as client:
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
    listed = {"tools": [{"name": "bake", "inputSchema": {"type": "object"}}]}
    transport = answering({"tools/list": listed, "tools/call": {**result, "isError": True}})
    async with Client(transport) as client:
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
        asks = {
            "tools/call": client.call_tool,
            "prompts/get": client.get_prompt,
            "resources/read": client.read_resource,
        }
        with pytest.raises(ProtocolError, match=f"answer to {method} is malformed: expected .*{member}"):
            await asks[method]("bake")


@each_row("text", ["?", "A", "AAAAA", "AA===", "+_==", "=AAA", "AA=A", "data:AAAA", "ÀAAA", "\ud800AAA"])
def test_base64_ambiguous_is_refused(text: str) -> None:
    assert not is_plain_base64(text)
    with pytest.raises(ValueError, match=r"base64|comma|ascii|surrogates"):
        decode_base64_text(text)

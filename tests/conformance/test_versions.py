"""Definitions, content and structured results in each version: everything that the version allows, and nothing else."""

import base64
import json
from typing import Annotated, Any

import pytest
from pydantic import Field
from typing_extensions import TypedDict

from mcpkit import (
    Audio,
    Context,
    EmbeddedResource,
    File,
    Image,
    Limits,
    ResourceLink,
    ResultOptions,
    Server,
    Text,
    ToolResult,
    assistant,
    user,
)
from tests.helpers.pipe import LISTS, META, REVISIONS, Wire

VERSIONS = pytest.mark.parametrize("revision", REVISIONS)

ICONS: Any = [
    {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}
]
HINTS: Any = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
OLD_HINTS = {"audience": ["user"], "priority": 0.5}
TOOL_HINTS: Any = {"title": "Hint title", "readOnlyHint": True, "destructiveHint": False}
NOTE = {"example.com/note": 1}

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")


def everything() -> list[Any]:
    """Return one of each kind of content, with all that it can carry."""
    more: Any = {"annotations": HINTS, "meta": NOTE}
    link: Any = {"name": "x", "title": "The X", "description": "What x is", "size": 3, "icons": ICONS}
    return [
        Text("text", **more),
        Image(data=PNG, **more),
        Audio(data=b"RIFF\0\0\0\0WAVEfmt ", mime_type="audio/wav", **more),
        ResourceLink("data://x", **link, mime_type="text/plain", **more),
        EmbeddedResource("data://y", text="embedded", mime_type="text/plain", **more),
        File(data=b"\0\1", mime_type="application/x-thing", **more),
    ]


@pytest.fixture
def server() -> Server:
    server = Server("everything", limits=Limits(page_size=1))
    common: Any = {"title": "A title", "description": "A description", "icons": ICONS, "meta": NOTE}

    @server.tool(**common, annotations=TOOL_HINTS, tags={"a"})
    async def tool(ctx: Context) -> dict[str, int]:
        return {"n": 1}

    @server.tool
    async def contents() -> ToolResult:
        return ToolResult(everything(), structured={"n": 1}, meta={"example.com/result": 2})

    @server.resource("data://static", **common, mime_type="text/plain", size=3, annotations=HINTS, tags={"a"})
    async def static() -> list[Any]:
        return [EmbeddedResource("data://static/1", text="one", meta=NOTE), Text("two", meta=NOTE)]

    @server.resource("data://items/{kind}", **common, mime_type="text/plain", annotations=HINTS)
    async def item(kind: str) -> bytes:
        return b"\0"

    @server.prompt(**common, complete={"city": ["Rome"]})
    async def prompt(city: Annotated[str, Field(title="City", description="Where")]) -> list[Any]:
        return [user(each) for each in everything()] + [assistant("done")]

    return server


BASE = {"name", "description"}
MEMBERS = {
    "tools/list": BASE | {"inputSchema"},
    "prompts/list": BASE | {"arguments"},
    "resources/list": BASE | {"mimeType", "annotations", "uri"},
    "resources/templates/list": BASE | {"mimeType", "annotations", "uriTemplate"},
}
"""The members of an entry in each version; later ones add the following."""
ADDED: dict[str, dict[str, set[str]]] = {
    "2025-03-26": {"tools/list": {"annotations"}, "resources/list": {"size"}},
    "2025-06-18": {"tools/list": {"outputSchema"}},
}


@VERSIONS
async def test_list_entries_have_members_of_the_version(server: Server, wire: Wire, revision: str) -> None:
    expected = {method: set(members) for method, members in MEMBERS.items()}
    for version, added in ADDED.items():
        for method, members in added.items() if revision >= version else ():
            expected[method] |= members
    for members in expected.values():
        members |= {"title", "_meta"} if revision >= "2025-06-18" else set()
        members |= {"icons"} if revision >= "2025-11-25" else set()
    async with wire(server, revision) as pipe:
        found = {}
        for method, member in LISTS.items():
            entry = (await pipe.result(method))[member][0]
            found[method] = set(entry) - ({"size"} if revision == "2024-11-05" else set())
            assert "tags" not in entry
        assert found == expected
        (argument,) = (await pipe.result("prompts/list"))["prompts"][0]["arguments"]
        title = {"title": "City"} if revision >= "2025-06-18" else {}
        assert argument == {"name": "city", "description": "Where", "required": True, **title}
        (entry,) = (await pipe.result("resources/list"))["resources"]
        assert entry["annotations"] == (HINTS if revision >= "2025-06-18" else OLD_HINTS)


@VERSIONS
async def test_content_is_sent_in_the_nearest_type_of_the_version(server, wire, revision) -> None:
    has_meta = revision >= "2025-06-18"
    async with wire(server, revision) as pipe:
        result = await pipe.call_tool("contents")
        assert [block["type"] for block in result["content"]] == KINDS[revision]
        assert result["_meta"]["example.com/result"] == 2
        if revision == "2026-07-28":
            assert result["_meta"].keys() == {"example.com/result", META + "serverInfo"}
        for block in result["content"]:
            assert ("_meta" in block) <= has_meta
            assert block["annotations"] == (HINTS if has_meta else OLD_HINTS)
        if not has_meta:
            link = result["content"][3]["text"]
            assert [text for text in ("The X", "data://x", "What x is") if text not in link] == []
        if revision == "2024-11-05":
            audio = result["content"][2]["resource"]
            assert (base64.b64decode(audio["blob"])[:4], audio["mimeType"]) == (b"RIFF", "audio/wav")
        result = await pipe.result("prompts/get", {"name": "prompt", "arguments": {"city": "Rome"}})
        assert [message["content"]["type"] for message in result["messages"]] == [*KINDS[revision], "text"]
        assert [message["role"] for message in result["messages"]] == ["user"] * 6 + ["assistant"]
        assert result["description"] == "A description"
        contents = (await pipe.result("resources/read", {"uri": "data://static"}))["contents"]
        assert [each["text"] for each in contents] == ["one", "two"]
        assert [("_meta" in each) for each in contents] == [has_meta] * 2
        argument = {"name": "city", "value": "r"}
        params = {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": argument}
        completion = (await pipe.result("completion/complete", params))["completion"]
        assert completion == {"values": ["Rome"], "total": 1, "hasMore": False}


KINDS = {
    "2024-11-05": ["text", "image", "resource", "text", "resource", "resource"],
    "2025-03-26": ["text", "image", "audio", "text", "resource", "resource"],
    **{each: ["text", "image", "audio", "resource_link", "resource", "resource"] for each in REVISIONS[2:]},
}


NONE = ("2024-11-05", "2025-03-26")
OBJECTS = ("2025-06-18", "2025-11-25")


class Forecast(TypedDict):
    summary: str
    degrees: float


FORECAST = {"summary": "sunny", "degrees": 21.5}


@pytest.fixture
def structured_server() -> Server:
    server = Server("s")

    async def forecast() -> Forecast:
        return {"summary": "sunny", "degrees": 21.5}

    @server.tool(name="list")
    async def a_list() -> list[int]:
        return [1, 2]

    @server.tool(name="number")
    async def a_number() -> int:
        return 3

    @server.tool
    async def wrong() -> Forecast:
        return {"summary": "sunny"}  # type: ignore[typeddict-item]  # on purpose

    server.tool(forecast, name="object")
    server.tool(forecast, name="silent", result=ResultOptions(text="none"))
    server.tool(forecast, name="text", result=ResultOptions(text=lambda value: f"{value['degrees']} degrees"))
    return server


VALUES: dict[str, Any] = {
    "list": [1, 2],
    "number": 3,
    **dict.fromkeys(("object", "silent", "text"), FORECAST),
}


@VERSIONS
async def test_structured_content_is_sent_as_the_version_allows(structured_server, wire, revision) -> None:
    async with wire(structured_server, revision) as pipe:
        for name, value in VALUES.items():
            result = await pipe.call_tool(name)
            if revision in NONE:
                assert "structuredContent" not in result, name
                assert result["content"], name
            else:
                is_wrapped = revision in OBJECTS and not isinstance(value, dict)
                assert result["structuredContent"] == ({"result": value} if is_wrapped else value), name
        for name in ("object", *(["silent"] if revision in NONE else [])):
            assert json.loads(await pipe.text(name)) == FORECAST
        if revision not in NONE:
            assert (await pipe.call_tool("silent"))["content"] == []
        assert await pipe.text("text") == "21.5 degrees"
        wrong = await pipe.call_tool("wrong")
        assert (wrong["isError"], "structuredContent" in wrong) == (True, False)
        expected = "the tool ran, but result.degrees: expected a number, but it is missing"
        assert wrong["content"][0]["text"].startswith(expected)

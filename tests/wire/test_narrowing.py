"""All that the newest revision can carry, listed and read in each revision (the judge knows what may be there)."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from mcpkit import (
    Audio,
    Context,
    EmbeddedResource,
    File,
    Image,
    ResourceLink,
    Server,
    Text,
    ToolResult,
    assistant,
    user,
)
from mcpkit.protocol import content
from tests.helpers.pipe import META
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

ICONS: Any = [
    {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}
]
HINTS: Any = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
OLD_HINTS = {"audience": ["user"], "priority": 0.5}
TOOL_HINTS: Any = {
    "title": "Hint title",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
NOTE = {"example.com/note": 1}

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")


def everything() -> list[Any]:
    """Return one of each kind of content, with all that it can carry."""
    return [
        Text("text", annotations=HINTS, meta=NOTE),
        Image(data=PNG, annotations=HINTS, meta=NOTE),
        Audio(data=b"RIFF\0\0\0\0WAVEfmt ", mime_type="audio/wav", annotations=HINTS, meta=NOTE),
        ResourceLink(
            "data://x",
            name="x",
            title="The X",
            description="What x is",
            mime_type="text/plain",
            size=3,
            icons=ICONS,
            annotations=HINTS,
            meta=NOTE,
        ),
        EmbeddedResource("data://y", text="embedded", mime_type="text/plain", annotations=HINTS, meta=NOTE),
        File(data=b"\0\1", mime_type="application/x-thing", annotations=HINTS, meta=NOTE),
    ]


@pytest.fixture
def server() -> Server:
    server = Server("everything", page_size=1)
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


LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}

BASE = {"name", "description"}
TITLED = {"title", "_meta"}
RESOURCE = {"mimeType", "annotations"}
MEMBERS = {
    ("tools/list", "2024-11-05"): BASE | {"inputSchema"},
    ("tools/list", "2025-03-26"): BASE | {"inputSchema", "annotations"},
    ("tools/list", "2025-06-18"): BASE | TITLED | {"inputSchema", "outputSchema", "annotations"},
    ("tools/list", "2025-11-25"): BASE | TITLED | {"inputSchema", "outputSchema", "annotations", "icons"},
    ("tools/list", "2026-07-28"): BASE | TITLED | {"inputSchema", "outputSchema", "annotations", "icons"},
    ("prompts/list", "2024-11-05"): BASE | {"arguments"},
    ("prompts/list", "2025-03-26"): BASE | {"arguments"},
    ("prompts/list", "2025-06-18"): BASE | TITLED | {"arguments"},
    ("prompts/list", "2025-11-25"): BASE | TITLED | {"arguments", "icons"},
    ("prompts/list", "2026-07-28"): BASE | TITLED | {"arguments", "icons"},
    ("resources/list", "2025-03-26"): BASE | RESOURCE | {"uri", "size"},
    ("resources/list", "2025-06-18"): BASE | RESOURCE | TITLED | {"uri", "size"},
    ("resources/list", "2025-11-25"): BASE | RESOURCE | TITLED | {"uri", "size", "icons"},
    ("resources/list", "2026-07-28"): BASE | RESOURCE | TITLED | {"uri", "size", "icons"},
    ("resources/templates/list", "2024-11-05"): BASE | RESOURCE | {"uriTemplate"},
    ("resources/templates/list", "2025-03-26"): BASE | RESOURCE | {"uriTemplate"},
    ("resources/templates/list", "2025-06-18"): BASE | RESOURCE | TITLED | {"uriTemplate"},
    ("resources/templates/list", "2025-11-25"): BASE | RESOURCE | TITLED | {"uriTemplate", "icons"},
    ("resources/templates/list", "2026-07-28"): BASE | RESOURCE | TITLED | {"uriTemplate", "icons"},
}


@pytest.mark.parametrize(("method", "revision"), MEMBERS)
async def test_an_entry_has_all_members_that_the_revision_knows_and_no_other(
    server: Server, wire: Wire, method: str, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        (entry,) = (await pipe.result(method))[LISTS[method]]
        assert entry.keys() == MEMBERS[method, revision]


async def test_every_list_passes_the_judge(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        for method, member in LISTS.items():
            assert (await pipe.result(method))[member]


async def test_prompt_arguments_have_a_title_since_2025_06_18(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        ((argument,),) = [each["arguments"] for each in (await pipe.result("prompts/list"))["prompts"]]
        expected = {"name": "city", "description": "Where", "required": True}
        assert argument == (expected | {"title": "City"} if revision >= "2025-06-18" else expected)


async def test_a_tools_title_stands_among_its_hints_in_2025_03_26(wire: Wire) -> None:
    server = Server("s")

    @server.tool(title="A title")
    async def t() -> str:
        return ""

    async with wire(server, "2025-03-26") as pipe:
        (tool,) = (await pipe.result("tools/list"))["tools"]
        assert tool["annotations"] == {"title": "A title"}


async def test_when_content_was_changed_is_told_since_2025_06_18(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        expected = HINTS if revision >= "2025-06-18" else OLD_HINTS
        (entry,) = (await pipe.result("resources/list"))["resources"]
        assert entry["annotations"] == expected
        for block in (await pipe.call("contents"))["content"]:
            assert block["annotations"] == expected


KINDS = {
    "2024-11-05": ["text", "image", "resource", "text", "resource", "resource"],
    "2025-03-26": ["text", "image", "audio", "text", "resource", "resource"],
    "2025-06-18": ["text", "image", "audio", "resource_link", "resource", "resource"],
    "2025-11-25": ["text", "image", "audio", "resource_link", "resource", "resource"],
    "2026-07-28": ["text", "image", "audio", "resource_link", "resource", "resource"],
}


@pytest.mark.parametrize("revision", KINDS)
async def test_every_content_of_a_tool_is_there_in_the_nearest_kind(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        result = await pipe.call("contents")
        assert [block["type"] for block in result["content"]] == KINDS[revision]
        assert result["_meta"]["example.com/result"] == 2
        for block in result["content"]:
            assert ("_meta" in block) <= (revision >= "2025-06-18")


@pytest.mark.parametrize("revision", KINDS)
async def test_every_content_of_a_prompt_is_there_in_the_nearest_kind(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        result = await pipe.result("prompts/get", {"name": "prompt", "arguments": {"city": "Rome"}})
        assert [message["content"]["type"] for message in result["messages"]] == [*KINDS[revision], "text"]
        assert [message["role"] for message in result["messages"]] == ["user"] * 6 + ["assistant"]
        assert result["description"] == "A description"


async def test_audio_becomes_an_embedded_blob_in_2024_11_05(server: Server, wire: Wire) -> None:
    async with wire(server, "2025-03-26") as pipe:
        audio = (await pipe.call("contents"))["content"][2]
    async with wire(server, "2024-11-05") as pipe:
        embedded = (await pipe.call("contents"))["content"][2]
    assert embedded["resource"]["blob"] == audio["data"]
    assert embedded["resource"]["mimeType"] == "audio/wav"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
async def test_a_link_becomes_text_that_says_where_it_leads(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        text = (await pipe.call("contents"))["content"][3]["text"]
        assert "The X" in text
        assert "data://x" in text
        assert "What x is" in text


async def test_contents_of_resources_have_meta_since_2025_06_18(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision) as pipe:
        contents = (await pipe.result("resources/read", {"uri": "data://static"}))["contents"]
        assert [each["text"] for each in contents] == ["one", "two"]
        for each in contents:
            assert ("_meta" in each) == (revision >= "2025-06-18")


async def test_narrowing_leaves_the_authors_objects_alone(server: Server, wire: Wire) -> None:
    for revision in ("2024-11-05", "2026-07-28"):
        async with wire(server, revision) as pipe:
            await pipe.call("contents")
            listed = await pipe.result("resources/list")
    assert listed["resources"][0]["annotations"] == HINTS
    assert listed["resources"][0]["icons"] == ICONS


@pytest.mark.parametrize(
    ("revision", "capabilities"),
    [
        ("2024-11-05", {"tools", "resources", "prompts", "logging"}),
        ("2025-03-26", {"tools", "resources", "prompts", "logging", "completions"}),
        ("2025-11-25", {"tools", "resources", "prompts", "logging", "completions"}),
    ],
)
async def test_capabilities_are_those_that_the_revision_knows(
    server: Server, wire: Wire, revision: str, capabilities: set[str]
) -> None:
    async with wire(server, revision, initialize=False) as pipe:
        declared = (await pipe.initialize())["capabilities"]
        assert declared.keys() == capabilities
        assert declared["tools"] == {"listChanged": True}
        assert declared["resources"] == {"subscribe": True, "listChanged": True}
        assert declared["prompts"] == {"listChanged": True}


async def test_completion_works_in_each_revision(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        result = await pipe.result(
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "city", "value": "r"}},
        )
        assert result["completion"] == {"values": ["Rome"], "total": 1, "hasMore": False}


async def test_tags_are_never_sent(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        assert "tags" not in (await pipe.result("tools/list"))["tools"][0]


async def test_the_servers_identity_does_not_replace_a_results_own_meta(server: Server, wire: Wire) -> None:
    async with wire(server, "2026-07-28") as pipe:
        assert (await pipe.call("contents"))["_meta"].keys() == {"example.com/result", META + "serverInfo"}


async def test_the_meta_of_embedded_contents_is_left_out_where_it_is_unknown() -> None:
    contents = {"uri": "data://x", "text": "x"}
    block = {"type": "resource", "resource": {**contents, "_meta": NOTE}}
    assert content.block(block, "2025-03-26") == {"type": "resource", "resource": contents}
    assert content.block(block, "2025-06-18") is block

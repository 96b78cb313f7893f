"""Content blocks and contents of resources are as the official schema has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcpkit import Audio, EmbeddedResource, File, Image, ResourceLink, Text
from mcpkit.content.values import to_content, to_contents
from tests.helpers.contents import MAGIC, PNG, shows

REVISION = "2026-07-28"


@pytest.fixture(scope="module")
def definitions(schema_dir: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((schema_dir / REVISION / "schema.json").read_text(encoding="utf-8"))
    return schema


EVERYTHING = [
    Text("a", annotations={"audience": ["assistant"], "priority": 1, "lastModified": "2026-07-28T00:00:00Z"}),
    "b",
    {"c": 1},
    PNG,
    MAGIC["audio/wav"],
    b"\xff\xff",
    Image(data=PNG, annotations={"priority": 0}, meta={"k": 1}),
    Audio(data=MAGIC["audio/ogg"], meta={"k": 1}),
    File(data="d", name="é ü.txt", annotations={"audience": ["user"]}, meta={"k": 1}),
    File(data=PNG),
    EmbeddedResource("e://f", text="", mime_type="text/html", meta={"k": 1}),
    EmbeddedResource("e://f", blob=b""),
    shows(svg="<svg/>"),
]
LINK = ResourceLink(
    "a:b", "n", title="t", size=3, icons=[{"src": "https://e.com", "theme": "dark"}], meta={"k": 1}
)


def test_blocks_fit_the_official_schema(definitions: dict[str, Any]) -> None:
    blocks = to_content([*EVERYTHING, LINK])
    assert {block["type"] for block in blocks} == {"text", "image", "audio", "resource", "resource_link"}
    schema = {**definitions, "type": "array", "items": {"$ref": "#/$defs/ContentBlock"}}
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(blocks)
    for block in blocks:
        names = {"text": "Text", "image": "Image", "audio": "Audio"}
        name = f"{names[block['type']]}Content" if block["type"] in names else None
        name = name or ("ResourceLink" if block["type"] == "resource_link" else "EmbeddedResource")
        assert block.keys() <= definitions["$defs"][name]["properties"].keys()


def test_contents_fit_the_official_schema(definitions: dict[str, Any]) -> None:
    contents = to_contents(EVERYTHING, "data://x", None)
    assert len(contents) == len(EVERYTHING)
    items = definitions["$defs"]["ReadResourceResult"]["properties"]["contents"]
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator({**definitions, **items}, format_checker=checker).validate(contents)
    for item in contents:
        name = "TextResourceContents" if "text" in item else "BlobResourceContents"
        assert item.keys() <= definitions["$defs"][name]["properties"].keys()

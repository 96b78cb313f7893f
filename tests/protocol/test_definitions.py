"""The types of objects that a client receives have the members of the official schemas of all protocol versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpkit import types
from mcpkit.protocol.revisions import ALL

NAMES = {
    "Tool": types.ToolDefinition,
    "Resource": types.ResourceDefinition,
    "ResourceTemplate": types.ResourceTemplateDefinition,
    "PromptArgument": types.PromptArgument,
    "Prompt": types.PromptDefinition,
    "PromptMessage": types.PromptMessage,
    "TextContent": types.TextBlock,
    "ImageContent": types.ImageBlock,
    "AudioContent": types.AudioBlock,
    "ResourceLink": types.ResourceLinkBlock,
    "EmbeddedResource": types.EmbeddedResourceBlock,
    "Implementation": types.Implementation,
    "ServerCapabilities": types.ServerCapabilities,
}


@pytest.fixture(scope="module")
def schemas(schema_dir: Path) -> list[dict[str, Any]]:
    documents = [json.loads((schema_dir / revision / "schema.json").read_text()) for revision in ALL]
    return [document.get("$defs") or document["definitions"] for document in documents]


@pytest.mark.parametrize("name", NAMES)
def test_types_have_members_of_all_schemas(name: str, schemas: list[dict[str, Any]]) -> None:
    found: Any = NAMES[name]
    described = [schema[name] for schema in schemas if name in schema]
    members = {member for each in described for member in each["properties"]}
    assert members == set(found.__required_keys__ | found.__optional_keys__)
    for each in described:
        assert set(each.get("required", ())) == found.__required_keys__


def test_resource_contents_have_members_of_text_and_blob(schemas: list[dict[str, Any]]) -> None:
    found: Any = types.ResourceContents
    kinds = [schema[name] for schema in schemas for name in ("TextResourceContents", "BlobResourceContents")]
    assert {member for kind in kinds for member in kind["properties"]} == set(found.__annotations__)
    assert found.__required_keys__ == {"uri"}

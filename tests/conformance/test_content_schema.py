"""Content blocks, contents of resources and forms, as the official schemas have them."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import datetime as dt
import enum
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import annotated_types as at
import jsonschema
import pytest
from pydantic import Field
from typing_extensions import TypedDict

from mcpkit import Audio, EmbeddedResource, File, Image, ResourceLink, Text
from mcpkit.content.values import to_content, to_contents
from mcpkit.schema.form import Form
from mcpkit.schema.form_fields import FORMATS, FORMS
from mcpkit.schema.texts import Email, Uri
from tests.helpers.official import official
from tests.helpers.tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


MAGIC = {
    "image/png": PNG, "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF", "image/gif": b"GIF89a\1\0",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8 ", "image/bmp": b"BM\x46\0\0\0\0\0\0\0\x36",
    "image/svg+xml": b'<?xml version="1.0"?>\n<!-- a circle -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "audio/wav": b"RIFF\x24\0\0\0WAVEfmt ", "audio/mpeg": b"\xff\xfb\x90\x64\0\0", "audio/ogg": b"OggS\0\2\0\0",
    "audio/flac": b"fLaC\0\0\0\x22", "audio/mp4": b"\0\0\0\x20ftypM4A \0\0",
}  # fmt: skip


def make_displayable(**methods: Any) -> Any:
    """Make an object with the representations that are given, as IPython knows them."""
    return type(
        "Shows", (), {f"_repr_{name}_": lambda self, value=value: value for name, value in methods.items()}
    )()


REVISION = "2026-07-28"


@pytest.fixture(scope="module")
def definitions(schema_dir: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((schema_dir / REVISION / "schema.json").read_text(encoding="utf-8"))
    return schema


CONTENT = [
    Text("a", annotations={"audience": ["assistant"], "priority": 1, "lastModified": "2026-07-28T00:00:00Z"}),
    "b", {"c": 1}, PNG, MAGIC["audio/wav"], b"\xff\xff",
    Image(data=PNG, annotations={"priority": 0}, meta={"k": 1}), Audio(data=MAGIC["audio/ogg"], meta={"k": 1}),
    File(data="d", name="é ü.txt", annotations={"audience": ["user"]}, meta={"k": 1}), File(data=PNG),
    EmbeddedResource("e://f", text="", mime_type="text/html", meta={"k": 1}),
    EmbeddedResource("e://f", blob=b""), make_displayable(svg="<svg/>"),
]  # fmt: skip


LINK = ResourceLink(
    "a:b", "n", title="t", size=3, icons=[{"src": "https://e.com", "theme": "dark"}], meta={"k": 1}
)


def test_content_blocks_fit_official_schema(definitions: dict[str, Any]) -> None:
    blocks = to_content([*CONTENT, LINK])
    assert {block["type"] for block in blocks} == {"text", "image", "audio", "resource", "resource_link"}
    schema = {**definitions, "type": "array", "items": {"$ref": "#/$defs/ContentBlock"}}
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(blocks)
    for block in blocks:
        names = {"text": "Text", "image": "Image", "audio": "Audio"}
        name = f"{names[block['type']]}Content" if block["type"] in names else None
        name = name or ("ResourceLink" if block["type"] == "resource_link" else "EmbeddedResource")
        assert block.keys() <= definitions["$defs"][name]["properties"].keys()


def test_resource_contents_fit_official_schema(definitions: dict[str, Any]) -> None:
    contents = to_contents(CONTENT, "data://x", None)
    assert len(contents) == len(CONTENT)
    items = definitions["$defs"]["ReadResourceResult"]["properties"]["contents"]
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator({**definitions, **items}, format_checker=checker).validate(contents)
    for item in contents:
        name = "TextResourceContents" if "text" in item else "BlobResourceContents"
        assert item.keys() <= definitions["$defs"][name]["properties"].keys()


REVISIONS = sorted(FORMS)


OLDEST, NEWEST = REVISIONS[0], REVISIONS[-1]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.Enum):
    """How large."""

    SMALL = "s"
    LARGE = "l"

    @property
    def label(self) -> str:
        return self.name.capitalize()


Plan = Union[Annotated[Literal["free"], "Free for ever"], Annotated[Literal["pro"], "9 € a month"]]


class Nothing(TypedDict):
    pass


PLAIN: list[Any] = [
    *(str, int, float, bool, dt.date, dt.datetime, Color, Size, Email, Uri, Plan, Literal["a", "b"]),
    *(Optional[str], Optional[Plan], Literal["a", None], Nothing),
    Annotated[str, Field(title="Name", description="Yours", max_length=9)],
]


NEWER: list[Any] = [
    *(list[Color], list[Size], list[Plan], set[Size], tuple[Literal["a"], ...]),
    Annotated[list[Literal["a", "b"]], at.Len(1, 2)],
    Annotated[Optional[Plan], Field(title="Plan", default="pro")],
]
"""Types that the oldest version cannot ask for."""


def request(schema: Any) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": "Well?", "requestedSchema": schema}}


@each_row(
    ("annotation", "revision"),
    [(each, revision) for each in PLAIN for revision in REVISIONS]
    + [(each, revision) for each in NEWER for revision in REVISIONS[1:]],
)
def test_form_request_fits_official_schema(annotation, revision, schema_dir):
    message = request(Form.of(annotation).schema(revision))
    judge = official(schema_dir, revision)
    if "jsonrpc" in judge.definitions["ElicitRequest"]["properties"]:
        message |= {"jsonrpc": "2.0", "id": 1}
    judge.check("ElicitRequest", message)


DEFINITIONS = {
    "string": ["StringSchema"], "integer": ["NumberSchema"], "number": ["NumberSchema"],
    "boolean": ["BooleanSchema"],
    "choice": ["EnumSchema", "UntitledSingleSelectEnumSchema", "TitledSingleSelectEnumSchema",
     "LegacyTitledEnumSchema"],
    "choices": ["UntitledMultiSelectEnumSchema", "TitledMultiSelectEnumSchema"],
}  # fmt: skip


@each_row("revision", REVISIONS)
def test_form_keyword_table_is_of_official_schema(revision, schema_dir):
    definitions = official(schema_dir, revision).definitions
    table: dict[str, set[str]] = {}
    for kind, names in DEFINITIONS.items():
        for name in names:
            table.setdefault(kind, set()).update(definitions.get(name, {}).get("properties", {}))
    known = {kind: keywords - {"type", "title", "description", "items"} for kind, keywords in table.items()}
    ours = {kind: set(keywords) - {"pattern"} for kind, keywords in FORMS[revision].items()}
    assert ours == {kind: keywords for kind, keywords in known.items() if table[kind]}
    assert set(definitions["StringSchema"]["properties"]["format"]["enum"]) == set(FORMATS)

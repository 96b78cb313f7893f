"""What authors return, as content blocks and as the contents of resources."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pydantic
import pytest

from contents import PNG, encoded, shows, text
from mcpkit.content import (
    Audio,
    EmbeddedResource,
    File,
    Image,
    ResourceLink,
    Text,
    ToolResult,
    is_data,
    to_content,
    to_contents,
)

REVISION = "2026-07-28"

MAGIC = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "image/gif": b"GIF89a\1\0",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8 ",
    "image/bmp": b"BM\x46\0\0\0\0\0\0\0\x36",
    "image/svg+xml": b'<?xml version="1.0"?>\n<!-- a circle -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "audio/wav": b"RIFF\x24\0\0\0WAVEfmt ",
    "audio/mpeg": b"\xff\xfb\x90\x64\0\0",
    "audio/ogg": b"OggS\0\2\0\0",
    "audio/flac": b"fLaC\0\0\0\x22",
    "audio/mp4": b"\0\0\0\x20ftypM4A \0\0",
}


class Point(pydantic.BaseModel):
    x: float
    name: str = pydantic.Field(default="p", alias="label")


@dataclasses.dataclass
class Station:
    id: str
    position: tuple[float, float]


class Color(enum.Enum):
    RED = "red"


class Shape(str, enum.Enum):
    ROUND = "round"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("sunny", "sunny"),
        ("", ""),
        (5, "5"),
        (2.5, "2.5"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        ([1, "a"], '[1,"a"]'),
        (("a", "b"), '["a","b"]'),
        (["a", "b"], '["a","b"]'),
        # A dict that looks like a block is data all the same.
        ({"type": "text", "text": "x"}, '{"type":"text","text":"x"}'),
        (Point(x=1, label="q"), '{"x":1.0,"label":"q"}'),
        (Station("KSEA", (47.4, -122.3)), '{"id":"KSEA","position":[47.4,-122.3]}'),
        ({"café": "été"}, '{"café":"été"}'),
        # JSON strings are text without quotes.
        (Color.RED, "red"),
        (Shape.ROUND, "round"),
        (dt.date(2026, 7, 28), "2026-07-28"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (Path("a"), "a"),
        ({"text": "NaN and Infinity"}, '{"text":"NaN and Infinity"}'),
        ("NaN", "NaN"),
    ],
)
def test_values_are_text(value: Any, expected: str) -> None:
    assert to_content(value) == text(expected)


def test_none_is_no_content() -> None:
    assert to_content(None) == []


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), {"a": [float("inf")]}, [1.0, float("nan"), "NaN"]]
)
def test_numbers_that_json_does_not_know_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="NaN and Infinity have no form in JSON"):
        to_content(value)


@pytest.mark.parametrize(
    "value",
    [
        "a\ud800",
        {"a": "\udfff"},
        ["\ud800"],
        Text("\ud800"),
        File(data="\ud800"),
        EmbeddedResource("a:b", text="\ud800"),
    ],
)
def test_lone_surrogates_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"lone surrogate.*UTF-8 cannot carry"):
        to_content(value)
    with pytest.raises(ValueError, match=r"lone surrogate.*UTF-8 cannot carry"):
        to_contents(value, "a:b", None)


@pytest.mark.parametrize(
    "value", [object(), {"a": object()}, {"plot": Image(data=PNG)}, ToolResult("x"), [ToolResult("x")]]
)
def test_what_has_no_json_form_says_what_to_return_instead(value: Any) -> None:
    with pytest.raises(TypeError, match=r"into JSON: .*content classes by themselves or in a list"):
        to_content(value)


@pytest.mark.parametrize("mime_type", MAGIC)
def test_bytes_of_an_image_or_a_sound_are_that(mime_type: str) -> None:
    data = MAGIC[mime_type]
    block = {"type": mime_type.partition("/")[0], "data": encoded(data), "mimeType": mime_type}
    for value in (data, bytearray(data), memoryview(data)):
        assert to_content(value) == [block]
    assert to_contents(data, "a:b", None) == [{"uri": "a:b", "mimeType": mime_type, "blob": encoded(data)}]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"BM" + b"x" * 20,
        b"\0" * 20,
        b"8 bytes.WEBP",
        b"8 bytes.WAVE",
        b"RIFF....AVI ",
        b"\xff\xfeU\0T\0F",
        b"<html><svg>",
        b"<!---->" * 200,
        b"%PDF-1.7",
    ],
)
def test_bytes_that_only_look_like_media_are_not(data: bytes) -> None:
    assert to_content(data)[0]["type"] == "resource"


def test_other_bytes_are_a_blob_whose_uri_follows_from_them() -> None:
    [block] = to_content(b"\xff\xfe\0")
    assert block["type"] == "resource"
    assert block["resource"]["mimeType"] == "application/octet-stream"
    assert block["resource"]["blob"] == encoded(b"\xff\xfe\0")
    assert to_content(b"\xff\xfe\0") == [block]
    assert to_content(b"plain")[0]["resource"]["uri"] != block["resource"]["uri"]


def test_a_list_with_content_becomes_blocks_in_order() -> None:
    blocks = to_content(["Seattle", Image(data=PNG), {"t": 3}, None, [Text("a"), "b"], ("x", "y"), 7])
    assert [block.get("text", block["type"]) for block in blocks] == [
        "Seattle",
        "image",
        '{"t":3}',
        "a",
        "b",
        '["x","y"]',
        "7",
    ]
    assert to_content([b"\xff", "x"])[1:] == text("x")


def test_text_carries_annotations_and_meta() -> None:
    block = Text("hi", annotations={"audience": ["user"], "priority": 0.5}, meta={"a/b": 1})
    assert to_content(block) == [
        {
            "type": "text",
            "text": "hi",
            "annotations": {"audience": ["user"], "priority": 0.5},
            "_meta": {"a/b": 1},
        }
    ]
    assert to_contents(block, "a:b", None) == [
        {"uri": "a:b", "mimeType": "text/plain", "text": "hi", "_meta": {"a/b": 1}}
    ]


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"audience": "user"}, "audience"),
        ({"audience": ["model"]}, "audience"),
        ({"priority": 2}, "priority"),
    ],
)
def test_wrong_annotations_are_refused(annotations: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Text("hi", annotations=annotations)


# Images, sounds, files


def test_an_image_is_read_when_it_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "plot.png"
    image = Image(path)
    with pytest.raises(FileNotFoundError, match=r"plot\.png"):
        to_content(image)
    path.write_bytes(PNG)
    assert to_content(image) == [{"type": "image", "data": encoded(PNG), "mimeType": "image/png"}]


@pytest.mark.parametrize(
    ("name", "content", "mime_type"),
    [
        ("a.jpg", b"?", "image/jpeg"),
        ("a.webp", b"?", "image/webp"),
        ("A.SVG", b"?", "image/svg+xml"),
        ("no-suffix", PNG, "image/png"),
        ("wrong.txt", PNG, "image/png"),
    ],
)
def test_the_media_type_comes_from_the_name_then_from_the_bytes(
    tmp_path: Path, name: str, content: bytes, mime_type: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert to_content(Image(tmp_path / name))[0]["mimeType"] == mime_type
    assert to_content(Image(str(tmp_path / name), mime_type="image/x-own"))[0]["mimeType"] == "image/x-own"


@pytest.mark.parametrize("kind", [Image, Audio])
def test_an_unknown_kind_of_media_asks_for_its_type(kind: Any) -> None:
    name = kind.__name__.lower()
    with pytest.raises(ValueError, match=f'no known kind of {name}: give mime_type="{name}/'):
        to_content(kind(data=b"?"))
    assert to_contents(kind(data=b"?"), "a:b", f"{name}/x-own")[0]["mimeType"] == f"{name}/x-own"
    other = MAGIC["audio/flac"] if kind is Image else PNG
    with pytest.raises(ValueError, match="no known kind"):
        to_content(kind(data=other))


def test_audio_is_guessed_and_carries_annotations(tmp_path: Path) -> None:
    path = tmp_path / "a.m4a"
    path.write_bytes(b"?")
    assert to_content(Audio(path, annotations={"priority": 1}, meta={"k": "v"})) == [
        {
            "type": "audio",
            "data": encoded(b"?"),
            "mimeType": "audio/mp4",
            "annotations": {"priority": 1},
            "_meta": {"k": "v"},
        }
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Image(), "either path= or data="),
        (lambda: Image("a.png", data=PNG), "either path= or data="),
        (lambda: Image(PNG), "give bytes as data="),  # type: ignore[arg-type]  # the mistake under test
        (lambda: Image(data="aGk="), "decode base64 first"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: Audio(data=3), "data must be bytes, got int"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: File(), "either path= or data="),
        (lambda: Text(3), "takes a str"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: EmbeddedResource("a:b"), "either text= or blob="),
        (lambda: EmbeddedResource("a:b", blob="aGk="), "decode base64 first"),  # type: ignore[arg-type]  # as above
    ],
)
def test_wrong_arguments_say_what_to_write(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Image(data=PNG, mime_type="png"), 'begin with "image/"'),
        (lambda: File(data=PNG, mime_type="png"), "must look like"),
        (lambda: File(data="", uri="no scheme"), "is no URI"),
        (lambda: ResourceLink("a://b c", "n"), "is no URI"),
        (lambda: ResourceLink("a://é", "n"), "is no URI"),
        (lambda: EmbeddedResource("/a", text=""), "is no URI"),
    ],
)
def test_wrong_values_say_what_is_expected(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("file", "resource"),
    [
        (
            File(data="a,b", name="x y.csv"),
            {"uri": "attachment:///x%20y.csv", "mimeType": "text/csv", "text": "a,b"},
        ),
        (
            File(data=b"# Hi", name="a.md"),
            {"uri": "attachment:///a.md", "mimeType": "text/markdown", "text": "# Hi"},
        ),
        (File(data=b"hi", uri="a:b"), {"uri": "a:b", "mimeType": "text/plain", "text": "hi"}),
        (
            File(data=b"hi", uri="a:b", mime_type="application/octet-stream"),
            {"uri": "a:b", "mimeType": "application/octet-stream", "blob": "aGk="},
        ),
        (
            File(data=b"a\0", uri="a:b"),
            {"uri": "a:b", "mimeType": "application/octet-stream", "blob": "YQA="},
        ),
        (
            File(data=b"\xe9", uri="a:b", name="a.txt"),
            {"uri": "a:b", "mimeType": "text/plain", "blob": "6Q=="},
        ),
        (
            File(data=b"hi", uri="a:b", name="a.pdf"),
            {"uri": "a:b", "mimeType": "application/pdf", "blob": "aGk="},
        ),
        (File(data=b"hi", uri="a:b", name="a.png"), {"uri": "a:b", "mimeType": "image/png", "blob": "aGk="}),
        (File(data=PNG, uri="a:b"), {"uri": "a:b", "mimeType": "image/png", "blob": encoded(PNG)}),
        (
            File(data=b"hi", uri="a:b", name="a.tar.gz"),
            {"uri": "a:b", "mimeType": "application/gzip", "text": "hi"},
        ),
        (
            File(data=b"<svg/>", uri="a:b", name="a.svg"),
            {"uri": "a:b", "mimeType": "image/svg+xml", "text": "<svg/>"},
        ),
    ],
)
def test_a_file_is_embedded_as_text_where_it_is_text(file: File, resource: dict[str, str]) -> None:
    assert to_content(file) == [{"type": "resource", "resource": resource}]


def test_a_file_from_a_path_shows_its_name_and_not_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Notes", encoding="utf-8")
    [block] = to_content(File(path, meta={"k": 1}))
    assert block == {
        "type": "resource",
        "resource": {"uri": "attachment:///notes.md", "mimeType": "text/markdown", "text": "# Notes"},
        "_meta": {"k": 1},
    }
    assert to_contents(File(path), "docs://notes", None) == [
        {"uri": "docs://notes", "mimeType": "text/markdown", "text": "# Notes"}
    ]


def test_a_link_has_every_field_of_the_specification() -> None:
    link = ResourceLink(
        "weather://states",
        "states",
        title="States",
        description="All of them",
        mime_type="application/json",
        size=12,
        icons=[{"src": "https://example.com/i.png"}],
        annotations={"lastModified": "2026-07-28T00:00:00Z"},
        meta={"k": 1},
    )
    assert to_content(link) == [
        {
            "type": "resource_link",
            "uri": "weather://states",
            "name": "states",
            "title": "States",
            "description": "All of them",
            "mimeType": "application/json",
            "size": 12,
            "icons": [{"src": "https://example.com/i.png"}],
            "annotations": {"lastModified": "2026-07-28T00:00:00Z"},
            "_meta": {"k": 1},
        }
    ]
    assert to_content(ResourceLink("a:b", "n")) == [{"type": "resource_link", "uri": "a:b", "name": "n"}]


def test_an_embedded_resource_is_text_or_blob() -> None:
    assert to_content(EmbeddedResource("a:b", text="x", mime_type="text/html")) == [
        {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/html", "text": "x"}}
    ]
    assert to_content(EmbeddedResource("a:b", blob=b"x")) == [
        {"type": "resource", "resource": {"uri": "a:b", "blob": "eA=="}}
    ]


# Contents of resources


@pytest.mark.parametrize(
    ("value", "declared", "contents"),
    [
        ("hi", None, {"mimeType": "text/plain", "text": "hi"}),
        ("# hi", "text/markdown", {"mimeType": "text/markdown", "text": "# hi"}),
        (b"hi", None, {"mimeType": "application/octet-stream", "blob": "aGk="}),
        (b"hi", "text/plain", {"mimeType": "text/plain", "blob": "aGk="}),
        ({"a": 1}, None, {"mimeType": "application/json", "text": '{"a":1}'}),
        ([1], "application/x-own", {"mimeType": "application/x-own", "text": "[1]"}),
        (Point(x=1), None, {"mimeType": "application/json", "text": '{"x":1.0,"label":"p"}'}),
        (3, None, {"mimeType": "application/json", "text": "3"}),
        (Shape.ROUND, None, {"mimeType": "text/plain", "text": "round"}),
        (Image(data=PNG), "image/jpeg", {"mimeType": "image/png", "blob": encoded(PNG)}),
        (File(data="x", name="a.csv"), None, {"mimeType": "text/csv", "text": "x"}),
        (File(data="x", name="a.csv"), "text/x-own", {"mimeType": "text/x-own", "text": "x"}),
    ],
)
def test_contents_of_a_resource(value: Any, declared: str | None, contents: dict[str, str]) -> None:
    assert to_contents(value, "data://x", declared) == [{"uri": "data://x", **contents}]


def test_several_contents_keep_their_own_uris() -> None:
    value = [
        File(data="a", uri="d://a"),
        EmbeddedResource("d://b", blob=b"b", meta={"k": 1}),
        File(data="c"),
        "d",
        {"e": 1},
    ]
    assert to_contents(value, "d://all", None) == [
        {"uri": "d://a", "mimeType": "text/plain", "text": "a"},
        {"uri": "d://b", "blob": "Yg==", "_meta": {"k": 1}},
        {"uri": "d://all", "mimeType": "text/plain", "text": "c"},
        {"uri": "d://all", "mimeType": "text/plain", "text": "d"},
        {"uri": "d://all", "mimeType": "application/json", "text": '{"e":1}'},
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "data://x returned None; return its contents or raise ResourceNotFoundError"),
        (ResourceLink("a:b", "n"), "data://x returned a ResourceLink.*return a File"),
        (ToolResult("x"), "cannot turn ToolResult into JSON"),
    ],
)
def test_what_is_no_contents_is_refused(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        to_contents(value, "data://x", None)


# Structured data and results


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"a": 1}, True),
        ([1], True),
        ([], True),
        ((1, 2), True),
        ({1, 2}, True),
        (Point(x=1), True),
        (Station("a", (1, 2)), True),
        ("a", False),
        (3, False),
        (None, False),
        (b"a", False),
        (dt.date(2026, 1, 1), False),
        (Text("a"), False),
        (["a", Text("b")], False),
        (ToolResult("a"), False),
        (shows(png=PNG), False),
    ],
)
def test_is_data(value: Any, answer: bool) -> None:
    assert is_data(value) is answer


def test_a_tool_result_keeps_what_it_is_given() -> None:
    result = ToolResult(["a"], structured=None, is_error=True, meta={"k": 1})
    assert (result.content, result.structured, result.is_error, result.meta) == (["a"], None, True, {"k": 1})
    assert ToolResult().structured is ToolResult.ABSENT
    assert repr(result) == "ToolResult(['a'], structured=None, is_error=True)"
    assert repr(ToolResult("a")) == "ToolResult('a', is_error=False)"


@pytest.mark.parametrize("kind", [Text, Image, Audio, File, ResourceLink, EmbeddedResource, ToolResult])
def test_content_classes_are_marked_and_slotted(kind: Any) -> None:
    assert kind.__mcp_content__ is True
    assert not hasattr(kind, "__dict__") or "__dict__" not in kind.__dict__


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Text("a"), "Text('a')"),
        (Image("a.png"), "Image(path='a.png', mime_type=None)"),
        (File(data=b"abc"), "File(data=<3>, mime_type=None)"),
        (ResourceLink("a:b", "n"), "ResourceLink('a:b', 'n')"),
        (EmbeddedResource("a:b", text=""), "EmbeddedResource('a:b', mime_type=None)"),
    ],
)
def test_repr_is_short(value: Any, shown: str) -> None:
    assert repr(value) == shown


# The official schema


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

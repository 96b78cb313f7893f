"""Content blocks: values, bytes, media, files, links and contents of resources."""

import base64
import dataclasses
import datetime as dt
import enum
import re
from collections import OrderedDict
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from mcpkit import Audio, EmbeddedResource, File, Image, ResourceLink, Text, ToolResult
from mcpkit._utils.exceptions import OutputError
from mcpkit.content.json_encoding import is_json, json_value
from mcpkit.content.results_to_blocks import to_content, to_contents
from tests.helpers.tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


MAGIC = {
    "image/png": PNG, "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF", "image/gif": b"GIF89a\1\0",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8 ", "image/bmp": b"BM\x46\0\0\0\0\0\0\0\x36",
    "image/svg+xml": b'<?xml version="1.0"?>\n<!-- a circle -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "audio/wav": b"RIFF\x24\0\0\0WAVEfmt ", "audio/mpeg": b"\xff\xfb\x90\x64\0\0", "audio/ogg": b"OggS\0\2\0\0",
    "audio/flac": b"fLaC\0\0\0\x22", "audio/mp4": b"\0\0\0\x20ftypM4A \0\0",
}  # fmt: skip


class Point(pydantic.BaseModel):
    x: float
    name: str = pydantic.Field(default="p", alias="label")


@dataclasses.dataclass
class Station:
    id: str
    position: tuple[float, float]


class Shape(str, enum.Enum):
    ROUND = "round"


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@each_row(("value", "expected"), [
    ("sunny", "sunny"), ("", ""), (5, "5"), (True, "true"), ([], "[]"), (("a", "b"), '["a","b"]'),
    ({"a": [1, None]}, '{"a":[1,null]}'), ({"caf\u00e9": "\u00e9t\u00e9"}, '{"caf\u00e9":"\u00e9t\u00e9"}'),
    # A dict that looks like a block is data all the same.
    ({"type": "text", "text": "x"}, '{"type":"text","text":"x"}'),
    (Point(x=1, label="q"), '{"x":1.0,"label":"q"}'),
    (Station("KSEA", (47.4, -122.3)), '{"id":"KSEA","position":[47.4,-122.3]}'),
    # JSON strings are text without quotes.
    (Shape.ROUND, "round"), (dt.date(2026, 7, 28), "2026-07-28"), (Decimal("1.10"), "1.10"), (Path("a"), "a"),
    ({"text": "NaN and Infinity"}, '{"text":"NaN and Infinity"}'), ("NaN", "NaN"),
])  # fmt: skip
def test_content_of_values_is_text(value: Any, expected: str) -> None:
    assert to_content(value) == [{"type": "text", "text": expected}]


TEXTS = [
    "a\ud800", {"a": "\udfff"}, Text("\ud800"), File(data="\ud800"), EmbeddedResource("a:b", text="\ud800"),
]  # fmt: skip


@each_row("convert", [to_content, lambda value: to_contents(value, "a:b", None)])
@each_row("value", TEXTS)
def test_content_lone_surrogate_is_refused(value: Any, convert: Any) -> None:
    with pytest.raises(OutputError, match=r"^result.*surrogate.*decode the source with errors"):
        convert(value)


@each_row("mime_type", MAGIC)
def test_content_media_type_of_bytes_is_detected(mime_type: str) -> None:
    data = MAGIC[mime_type]
    block = {"type": mime_type.partition("/")[0], "data": base64_text(data), "mimeType": mime_type}
    for value in (data, bytearray(data), memoryview(data)):
        assert to_content(value) == [block]
    contents = {"uri": "a:b", "mimeType": mime_type, "blob": base64_text(data)}
    assert to_contents(data, "a:b", None) == [contents]


@each_row(("annotations", "message"), [
    ({"audience": "user"}, "audience"), ({"audience": ["model"]}, "audience"),
    ({"priority": 2}, "priority"),
])  # fmt: skip
def test_content_wrong_annotations_are_refused(annotations: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Text("hi", annotations=annotations)


def test_image_is_read_on_conversion(tmp_path: Path) -> None:
    path = tmp_path / "plot.png"
    path.write_bytes(b"")
    image = Image(path)
    path.unlink()
    with pytest.raises(OutputError, match=r"result could not be read: FileNotFoundError was") as raised:
        to_content(image)
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    path.write_bytes(PNG)
    assert to_content(image) == [{"type": "image", "data": base64_text(PNG), "mimeType": "image/png"}]


@each_row("kind", [File, Image, Audio])
@each_row(("path", "error"), [
    ("missing", FileNotFoundError), ("", IsADirectoryError), ("file/below", NotADirectoryError),
    ("circle", OSError), ("n" * 300, OSError),
])  # fmt: skip
def test_file_unreadable_path_is_refused(path: str, error: Any, kind: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").is_symlink() or (tmp_path / "circle").symlink_to("circle")
    for each in (tmp_path / path, str(tmp_path / path)):
        with pytest.raises(error, match=re.escape(repr(str(tmp_path / path)))):
            kind(each)


@each_row("kind", [Image, Audio])
def test_media_unknown_type_is_refused(kind: Any) -> None:
    name = kind.__name__.lower()
    with pytest.raises(OutputError, match=f'not a known type of {name}. Pass mime_type="{name}/'):
        to_content(kind(data=b"?"))
    assert to_contents(kind(data=b"?"), "a:b", f"{name}/x-own")[0]["mimeType"] == f"{name}/x-own"
    other = MAGIC["audio/flac"] if kind is Image else PNG
    with pytest.raises(OutputError, match="not a known type"):
        to_content(kind(data=other))


@each_row(("file", "resource"), [
    (File(data="a,b", name="x y.csv"),
     {"uri": "attachment:///x%20y.csv", "mimeType": "text/csv", "text": "a,b"}),
    (File(data=b"# Hi", name="a.md"),
     {"uri": "attachment:///a.md", "mimeType": "text/markdown", "text": "# Hi"}),
    (File(data=b"hi", uri="a:b"), {"uri": "a:b", "mimeType": "text/plain", "text": "hi"}),
    (File(data=b"hi", uri="a:b", mime_type="application/octet-stream"),
     {"uri": "a:b", "mimeType": "application/octet-stream", "blob": "aGk="}),
    (File(data=b"a\0", uri="a:b"), {"uri": "a:b", "mimeType": "application/octet-stream", "blob": "YQA="}),
    (File(data=b"\xe9", uri="a:b", name="a.txt"), {"uri": "a:b", "mimeType": "text/plain", "blob": "6Q=="}),
    (File(data=b"hi", uri="a:b", name="a.pdf"), {"uri": "a:b", "mimeType": "application/pdf", "blob": "aGk="}),
    (File(data=b"hi", uri="a:b", name="a.png"), {"uri": "a:b", "mimeType": "image/png", "blob": "aGk="}),
    (File(data=PNG, uri="a:b"), {"uri": "a:b", "mimeType": "image/png", "blob": base64_text(PNG)}),
    (File(data=b"hi", uri="a:b", name="a.tar.gz"),
     {"uri": "a:b", "mimeType": "application/gzip", "text": "hi"}),
    (File(data=b"<svg/>", uri="a:b", name="a.svg"),
     {"uri": "a:b", "mimeType": "image/svg+xml", "text": "<svg/>"}),
])  # fmt: skip
def test_file_block(file: File, resource: dict[str, str]) -> None:
    assert to_content(file) == [{"type": "resource", "resource": resource}]


@each_row(("value", "declared", "contents"), [
    ("hi", None, {"mimeType": "text/plain", "text": "hi"}),
    ("# hi", "text/markdown", {"mimeType": "text/markdown", "text": "# hi"}),
    (b"hi", None, {"mimeType": "application/octet-stream", "blob": "aGk="}),
    (b"hi", "text/plain", {"mimeType": "text/plain", "blob": "aGk="}),
    ({"a": 1}, None, {"mimeType": "application/json", "text": '{"a":1}'}),
    ([1], "application/x-own", {"mimeType": "application/x-own", "text": "[1]"}),
    (Point(x=1), None, {"mimeType": "application/json", "text": '{"x":1.0,"label":"p"}'}),
    (3, None, {"mimeType": "application/json", "text": "3"}),
    (Shape.ROUND, None, {"mimeType": "text/plain", "text": "round"}),
    (Image(data=PNG), "image/jpeg", {"mimeType": "image/png", "blob": base64_text(PNG)}),
    (File(data="x", name="a.csv"), None, {"mimeType": "text/csv", "text": "x"}),
    (File(data="x", name="a.csv"), "text/x-own", {"mimeType": "text/x-own", "text": "x"}),
])  # fmt: skip
def test_resource_contents(value: Any, declared: str | None, contents: dict[str, str]) -> None:
    assert to_contents(value, "data://x", declared) == [{"uri": "data://x", **contents}]


def test_resource_contents_keep_their_uris() -> None:
    value = [File(data="a", uri="d://a"), EmbeddedResource("d://b", blob=b"b", meta={"k": 1}), "d"]
    assert to_contents(value, "d://all", None) == [
        {"uri": "d://a", "mimeType": "text/plain", "text": "a"},
        {"uri": "d://b", "blob": "Yg==", "_meta": {"k": 1}},
        {"uri": "d://all", "mimeType": "text/plain", "text": "d"},
    ]


@each_row(("value", "message"), [
    (None, "result is None; return the contents, or raise ResourceNotFoundError"),
    (ResourceLink("a:b", "n"), "result cannot be sent: a ResourceLink.*return a File"),
    (ToolResult("x"), "a ToolResult, which must be the whole result"),
])  # fmt: skip
def test_resource_contents_wrong_value_is_refused(value: Any, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        to_contents(value, "data://x", None)


JSON_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


JSON = st.recursive(
    JSON_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=40
)
NON_JSON: list[Any] = [
    *(b"", bytearray(), (), (1,), set(), dt.date(2026, 1, 1), Decimal(1), 1j, object(), OrderedDict(a=1)),
    *({1: 2}, {None: 1}, {True: 1}, range(1), "".join, type("Text", (str,), {})("a")),
]


@each_row("levels", [1, 2, 3, 190])
def test_is_json_limits_levels(levels: int) -> None:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    assert is_json(value, levels)
    assert not is_json([value], levels)


@given(JSON, st.sampled_from(NON_JSON), st.integers(0, 30))
def test_is_json_finds_other_values_anywhere(value: Any, odd: Any, place: int) -> None:
    rows: list[Any] = [{"a": [value], "b": {"c": 1}} for _ in range(31)]
    rows[place] = {"a": [value], "b": {"c": [odd]}}
    assert not is_json(odd)
    for holder in ([odd], {"a": odd}, rows, {"a": rows}, [[1] * 20, [value] * 20, [1] * 19 + [odd]]):
        assert not is_json(holder)


@given(
    st.recursive(
        JSON_SCALARS | st.sampled_from(NON_JSON), lambda inner: st.lists(inner) | st.tuples(inner, inner)
    )
)
def test_json_value_of_any_value_is_json_or_refused(value: Any) -> None:
    data: Any = None
    with suppress(OutputError):
        data = json_value(value)
    assert is_json(data)
    assert from_json(to_json(data)) == data


@pytest.mark.parametrize("width", [2, 9])
def test_json_value_cycle_is_refused(width: int) -> None:
    circle: list[Any] = []
    circle += [circle] * width
    assert not is_json(circle)
    with pytest.raises(OutputError, match=r"result\[0\] cannot be converted to JSON: it is result again"):
        json_value(circle)

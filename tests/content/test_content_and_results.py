"""Content blocks: values, bytes, media, files, links and contents of resources."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime as dt
import enum
import math
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, computed_field
from pydantic_core import from_json, to_json
from typing_extensions import TypedDict

from mcpkit import (
    Audio,
    EmbeddedResource,
    File,
    Image,
    ProtocolError,
    ResourceLink,
    Server,
    Text,
    ToolError,
    ToolResult,
    user,
)
from mcpkit._utils.exceptions import OutputError
from mcpkit.content.json_encoding import is_json, json_value
from mcpkit.content.results_to_blocks import to_content, to_contents
from mcpkit.testing import connect
from mcpkit.types import as_content
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


# Results of tools, resources and prompts: content, data, and values that cannot be sent


@dataclass
class Row:
    price: float
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""
    more: Any = None


class Sheet(BaseModel):
    rows: list[Row] = []
    counts: dict[str, int] = {}
    more: Any = None


class Report(TypedDict):
    rows: list[Row]


class Failing(BaseModel):
    inner: int = 1

    @computed_field
    def ratio(self) -> float:
        return 1 / (self.inner - 1)


class Unread(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise LookupError("hunter2")


class Hidden:
    """A class without a JSON form."""

    def __repr__(self) -> str:
        return "hunter2"


class Drawing:
    def _repr_png_(self) -> bytes:
        raise LookupError("hunter2")


def circle() -> Any:
    inner: dict[str, Any] = {}
    inner["parent"] = [inner]
    return {"top": inner}


def deep(levels: int, value: Any = 1) -> Any:
    for _ in range(levels):
        value = [value]
    return value


async def fetch() -> int:
    return 1


async def stream() -> AsyncIterator[int]:
    yield 1


def failing_iterator() -> Iterator[int]:
    yield 1
    raise LookupError("hunter2")


def exhausted() -> Any:
    numbers = (number for number in range(3))
    return {"sum": sum(numbers), "numbers": numbers}


def gallery() -> list[Any]:
    images: list[Any] = [Image(data=PNG)]
    images.append(images)
    return images


class Place(BaseModel):
    name: str
    height: float


class Link(BaseModel):
    next: Link | None = None


def circular() -> Link:
    link = Link()
    link.next = link
    return link


NOT_JSON = "cannot be converted to JSON:"
NOT_AWAITED = f"{NOT_JSON} a coroutine that was not awaited"
TWO_KEYS = f"{NOT_JSON} two keys"
SURROGATE = f"{NOT_JSON} a lone surrogate"

UNTYPED: list[tuple[Callable[[], Any], str]] = [
    (lambda: {"a": [1, Hidden()]}, f"result.a[1] {NOT_JSON} a Hidden; return its data as a dict"),
    (Hidden, f"result {NOT_JSON} a Hidden; return its data as a dict"),
    (lambda: {1: "a", "1": "b"}, f'result.1 {TWO_KEYS} become "1"'),
    (lambda: {"a": {(1, 2): 3}}, f"result.a {NOT_JSON} a tuple as a key; use a string"),
    (lambda: {"a": 1 + 2j}, f"result.a {NOT_JSON} a complex number; return [z.real, z.imag]"),
    (lambda: [1, fetch], f"result[1] {NOT_JSON} a function; call it"),
    (lambda: {"a": Row}, f"result.a {NOT_JSON} a class; return an instance or the name"),
    (lambda: {"plot": Image(data=PNG)}, f"result.plot {NOT_JSON} an Image, which is a content block"),
    (lambda: {"a": ToolResult("x")}, f"result.a {NOT_JSON} a ToolResult, which must be the whole result"),
    (lambda: ["a\ud800"], f"result[0] {SURROGATE}, U+D800, at index 1 of a text"),
    (lambda: "\ud800", "result cannot be sent: the text contains a lone surrogate"),
    (circle, f"result.top.parent[0] {NOT_JSON} it is result.top again, a circular reference; remove it"),
    (lambda: deep(191), f"{NOT_JSON} more than 190 levels of arrays and objects"),
    (lambda: deep(3000), f"{NOT_JSON} more than 190 levels of arrays and objects"),
    (gallery, "result cannot be sent: it contains itself, or more than 190 levels of lists"),
    (lambda: deep(191, Image(data=PNG)), "result cannot be sent: it contains itself, or more than 190 levels"),
    (lambda: {"n": 10**400}, f"result.n {NOT_JSON} an integer of 1,329 bits"),
    (fetch, f"result {NOT_AWAITED}; write `return await ...`"),
    (lambda: [fetch(), fetch()], f"result[0] {NOT_AWAITED}; await it first"),
    (lambda: {"a": [fetch()]}, f"result.a[0] {NOT_AWAITED}"),
    (lambda: {"a": stream()}, f"result.a {NOT_JSON} an async_generator that was not iterated"),
    (Failing, "result.ratio could not be read: ZeroDivisionError was raised; the server's log has the traceback"),
    (lambda: {"a": Unread([1])}, "result.a could not be read: LookupError was raised"),
    (lambda: {"a": failing_iterator()}, "result.a could not be read: LookupError was raised"),
    (exhausted, f"result.numbers {NOT_JSON} an exhausted generator"),
    (Drawing, "result could not be read: LookupError was raised"),
    (lambda: ["a", Drawing()], "result[1] could not be read: LookupError was raised"),
    (lambda: ["a", Image(data=b"?")], "result[1] cannot be sent: the data is not a known type of image. Pass mime_"),
    (lambda: Row(1, {"1": 1, 1: 2}), f"result.counts.1 {TWO_KEYS}"),  # type: ignore[dict-item]
    (lambda: Sheet.model_construct(counts={"1": 1, 1: 2}), f"result.counts.1 {TWO_KEYS}"),  # type: ignore[dict-item]
    (lambda: Sheet(more=[Hidden()]), f"result.more[0] {NOT_JSON} a Hidden"),
]  # fmt: skip
TYPED: list[tuple[Any, Callable[[], Any], str]] = [
    (str, lambda: None, "result: expected a string, got null; return a value of the declared type, or change the type"),
    (list[int], lambda: [1, "2"], 'result[1]: expected an integer, got "2"'),
    (Place, lambda: {"name": "a"}, "result.height: expected a number, but it is missing"),
    (Place, lambda: Place(name="a", height=math.nan),
     "result.height cannot be converted to JSON: NaN; return None or a string"),
    (dict[str, list[float]], lambda: {"a": [1, math.inf]}, "result.a[1] cannot be converted to JSON: Infinity"),
    (Report, lambda: {"rows": [Row(1.5)] * 3 + [Row(math.nan)]}, "result.rows[3].price cannot be converted to JSON"),
    (Report, lambda: {"rows": [Row(1, {"1": 1, 1: 2})]}, "result.rows[0].counts.1 cannot be converted to JSON: two"),
    (dict[str, int], lambda: {"1": 1, 1: 2}, "result.1 cannot be converted to JSON: two keys"),
    (dict[str, Any], lambda: {"a": "\ud800"}, "result.a cannot be converted to JSON: a lone surrogate"),
    (int, lambda: 10**5000, "result cannot be converted to JSON: an integer of 16,610 bits"),
    (int, fetch, "result cannot be converted to JSON: a coroutine that was not awaited; write `return await ...`"),
    (list[Place], lambda: [fetch()], "result[0] cannot be converted to JSON: a coroutine that was not awaited"),
    (Failing, Failing, "result.ratio could not be read: ZeroDivisionError"),
    (str, lambda: b"abc", "result: expected text, got bytes; decode them, or change the type to `bytes`"),
    (list[str], lambda: ["a", bytearray(b"b")], "result[1]: expected text, got bytes; decode them"),
    # A class whose fields are all optional fits anything that has none of them.
    (Sheet, Hidden, "result cannot be converted to JSON: a Hidden"),
    (Sheet, lambda: LookupError("hunter2"), "result cannot be converted to JSON: a LookupError; raise it instead"),
    (list[Sheet], lambda: [Sheet(), asyncio], "result[1] cannot be converted to JSON: a module"),
    (dict[str, Row], lambda: {"a": Place(name="b", height=1)},
     "result.a.price: expected a number, but it is missing"),
    (Link, circular, "it contains itself, or more than 190 levels of arrays and objects"),
]  # fmt: skip


@each_row(("annotation", "make", "text"), [*((Any, *row) for row in UNTYPED), *TYPED])
async def test_result_that_cannot_be_sent_is_reported_at_its_place(annotation, make, text, caplog) -> None:
    async def tool() -> Any:
        return make()

    caplog.clear()
    server = Server("s")
    tool.__annotations__["return"] = annotation
    server.tool(tool)
    async with connect(server) as client:
        result = await client.call_tool("tool")
    assert (result.is_error, len(result.content)) == (True, 1)
    assert text in result.text
    assert "hunter2" not in result.text
    assert result.text.startswith("the tool ran, but result")
    assert [record.getMessage() for record in caplog.records] == [f"tools/call 'tool': {result.text}"]


@pytest.mark.parametrize("annotation", [Iterator[int], dict[str, Any]])
async def test_result_iterator_tool_error_is_sent(annotation: Any) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ToolError("the disk is full")

    def tool() -> Any:
        return {"all": broken()} if annotation == dict[str, Any] else broken()

    tool.__annotations__["return"] = annotation
    server = Server("s")
    server.tool(tool)
    async with connect(server) as client:
        result = await client.call_tool("tool")
    assert (result.is_error, result.text) == (True, "the disk is full")


async def test_result_of_resource_or_prompt_that_cannot_be_sent_is_an_error(revision, caplog) -> None:
    server = Server("s")
    value: Any = None

    @server.resource("data://x")
    def read() -> Any:
        return value

    @server.prompt
    def ask() -> Any:
        return ["a", user(value)]

    async with connect(server, protocol_version=revision) as client:
        for value, text in (
            ({"a": [Hidden()]}, f".a[0] {NOT_JSON} a Hidden"),
            ({"a": {"1": 1, 1: 2}}, f".a.1 {TWO_KEYS}"),
            ("\ud800", " cannot be sent: the text contains a lone surrogate"),
            (Drawing(), " could not be read: LookupError was raised"),
        ):
            caplog.clear()
            for request, start in (
                (client.read_resource("data://x"), "the resource was read, but result"),
                (client.get_prompt("ask"), "the prompt was made, but result[1].content"),
            ):
                with pytest.raises(ProtocolError) as refused:
                    await request
                assert refused.value.code == -32603
                assert refused.value.message.startswith(start + text)
            assert [record.levelname for record in caplog.records] == ["ERROR"] * 2
        value = None
        with pytest.raises(ProtocolError, match="was read, but result is None; return the contents"):
            await client.read_resource("data://x")


# Classes with a content of their own


@dataclass
class DataPoint:
    x: int = 1


class Named(str):
    __slots__ = ()


class Html:
    def _repr_html_(self) -> str:
        return "<b>html</b>"

    class Inner:
        """A nested class."""


def describe(value: Any) -> str:
    return f"a {type(value).__name__}"


@each_row("kind", [DataPoint, Named, Html, Html.Inner])
async def test_as_content_of_any_class(kind: Any) -> None:
    server = Server("s")

    def alone() -> Any:
        return kind()

    def listed() -> Any:
        return ["one", kind()]

    alone.__annotations__["return"] = kind
    listed.__annotations__["return"] = list[kind]
    with as_content(kind, describe):
        server.tool(alone)
        server.tool(listed)
        async with connect(server) as client:
            assert all("outputSchema" not in tool for tool in await client.list_tools())
            for name, texts in (("alone", [describe(kind())]), ("listed", ["one", describe(kind())])):
                result = await client.call_tool(name)
                assert [block["text"] for block in result.content] == texts
                assert result.structured_content is None


@each_row("name", ["pandas.DataFrame", pd.DataFrame])
def test_as_content_overrides_built_in_renderer(name: Any) -> None:
    def texts(value: Any) -> list[Any]:
        return [block.get("text", block["type"]) for block in to_content(value)]

    table = pd.DataFrame({"a": [1]})
    with as_content(name, lambda frame: f"{len(frame)} rows"):
        assert texts(table) == ["1 rows"]
        assert texts([table, PNG]) == ["1 rows", "image"]
    assert texts(table) == ["a\n1\n"]

"""Results of tools, resources and prompts: content, data, and values that cannot be sent."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
from pydantic import BaseModel, computed_field
from typing_extensions import TypedDict

from mcpkit import Image, ProtocolError, Server, ToolError, ToolResult, user
from mcpkit.content.results_to_blocks import to_content
from mcpkit.testing import connect
from mcpkit.types import as_content
from tests.helpers.tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


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

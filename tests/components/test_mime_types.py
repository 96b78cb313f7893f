"""Media types in lists: of the return type unless said otherwise, and the same as those of what is read."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Awaitable, Coroutine, Literal, NamedTuple  # noqa: UP035 - also bare

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from mcpkit import EmbeddedResource, File, Image, Server, Text
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))


class Model(BaseModel):
    """A model."""

    name: str = "é"


@dataclass
class Record:
    """A dataclass."""

    name: str = "é"


class Typed(TypedDict):
    """A typed dictionary."""

    name: str


class Pair(NamedTuple):
    """A named tuple."""

    first: int
    second: str


class Key(str):
    """A text of a class of its own."""

    __slots__ = ()


JSON: list[tuple[Any, Any]] = [
    (Model, Model()),
    (Record, Record()),
    (Typed, {"name": "é"}),
    (Pair, Pair(1, "x")),
    (dict, {"a": 1}),
    (Mapping[str, Any], {"a": None}),
    (list[int], [1]),
    (set[int], {1}),
]
TEXT: list[tuple[Any, Any]] = [(str, "é"), (Annotated[str, "doc"], "x"), (Key, Key("x"))]
BYTES: list[tuple[Any, Any]] = [(bytes, b"\0\1"), (bytearray, bytearray(b"\0\1"))]
NONE: list[tuple[Any, Any]] = [
    (Any, "x"),
    (File, File(data=b"a,b", name="a.csv")),
    (Text, Text("x")),
    (EmbeddedResource, EmbeddedResource("data://inner", text="x")),
    (Image, Image(data=b"\x89PNG\r\n\x1a\n", mime_type="image/png")),
    (str | bytes, "x"),
    (dict[str, int] | bytes, {"a": 1}),
    (list[Any], [1]),
    (list, [1]),
]


def drawn(draw: random.Random, depth: int = 0) -> tuple[Any, Any, str | None]:
    """Return a type, a value of it, and the media type that a list shows."""
    kinds = [
        lambda: (*draw.choice(JSON), "application/json"),
        lambda: (*draw.choice(TEXT), "text/plain"),
        lambda: (*draw.choice(BYTES), "application/octet-stream"),
        lambda: (*draw.choice(NONE), None),
        lambda: (Literal["a", "b"], "a", None),
        lambda: listed(draw, depth),
    ]
    kind, value, mime_type = draw.choice(kinds if depth < 3 else kinds[:4])()
    return (Annotated[kind, "more"] if draw.random() < 0.2 else kind), value, mime_type


def listed(draw: random.Random, depth: int) -> tuple[Any, Any, str | None]:
    """Return a list of something; it is data if its items are."""
    kind, value, mime_type = drawn(draw, depth + 1)
    is_data = mime_type in ("application/json", "text/plain")
    container = draw.choice([list[kind], Sequence[kind], tuple[kind, ...], list[kind | int]])  # type: ignore[valid-type]  # drawn
    return container, [value], "application/json" if is_data else None


def returning(annotation: Any, value: Any, *, is_async: bool) -> Callable[..., Any]:
    """Return a function of a return type."""

    def function() -> Any:
        return value

    async def coroutine() -> Any:
        return value

    made = coroutine if is_async else function
    made.__annotations__["return"] = annotation
    return made


async def test_a_list_shows_the_media_type_of_the_return_type_and_what_is_read_has_it() -> None:
    server = Server("types")
    expected: dict[str, str | None] = {}
    for seed in range(EXAMPLES):
        draw = random.Random(seed)
        annotation, value, mime_type = drawn(draw)
        uri = f"data://{seed}"
        server.resource(uri)(returning(annotation, value, is_async=draw.random() < 0.5))
        expected[uri] = mime_type
    async with connect(server) as client:
        for resource in await client.list_resources():
            uri = resource["uri"]
            assert resource.get("mimeType") == expected[uri], server.resources[uri]
            if expected[uri] is not None:
                contents = await client.read(uri)
                assert {each["mimeType"] for each in contents} == {expected[uri]}, server.resources[uri]
    assert set(expected.values()) == {"text/plain", "application/json", "application/octet-stream", None}


async def test_what_an_author_says_holds_and_no_annotation_says_nothing() -> None:
    server = Server("types")

    @server.resource("data://said", mime_type="text/html")
    def said() -> str:
        return "<p>"

    @server.resource("data://open")
    def unsaid():  # type: ignore[no-untyped-def]  # that is the case
        return "x"

    @server.resource("data://{name}")
    def page(name: str) -> str:
        return name

    async with connect(server) as client:
        assert [each.get("mimeType") for each in await client.list_resources()] == ["text/html", None]
        assert [each["mimeType"] for each in await client.list_resource_templates()] == ["text/plain"]
        assert (await client.read("data://said"))[0]["mimeType"] == "text/html"


async def test_entries_inherit_the_media_type_and_the_description_of_their_template_not_its_title() -> None:
    server = Server("types")
    entries = [{"uri": "data://a", "name": "a"}, {"uri": "data://b", "name": "b", "mimeType": "text/csv"}]

    @server.resource("data://{name}", title="Rows", description="Some rows.", entries=lambda: entries)
    def rows(name: str) -> str:
        return name

    async with connect(server) as client:
        first, second = await client.list_resources()
    assert first == {"uri": "data://a", "name": "a", "mimeType": "text/plain", "description": "Some rows."}
    assert second == {**first, "uri": "data://b", "name": "b", "mimeType": "text/csv"}


@pytest.mark.parametrize(
    ("annotation", "value", "read"),
    [
        (list, [b"x"], "application/octet-stream"),
        (tuple, (b"x",), "application/octet-stream"),
        (memoryview, memoryview(b"x"), "application/octet-stream"),
        (Awaitable, "x", "text/plain"),
        (Coroutine, "x", "text/plain"),
    ],
)
async def test_a_return_type_that_leaves_the_media_type_open_lists_none(
    annotation: Any, value: Any, read: str
) -> None:
    server = Server("types")
    server.resource("data://open")(returning(annotation, value, is_async=False))
    async with connect(server) as client:
        (resource,) = await client.list_resources()
        assert "mimeType" not in resource
        assert (await client.read("data://open"))[0]["mimeType"] == read

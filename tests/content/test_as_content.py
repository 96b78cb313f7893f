"""What the author says of a class is what its values are as content, whatever else they could be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
import pytest

from mcpkit import Image, Message, RegistrationError, Server, Text, ToolError, as_content
from mcpkit.common.errors import OutputError
from mcpkit.content.values import to_content
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n"
REVISIONS = ["2025-11-25", "2026-07-28"]


@dataclass
class Point:
    x: int = 1


class Pair(NamedTuple):
    a: int = 1
    b: int = 2


class Named(str):
    __slots__ = ()


class Mapped(dict[str, int]):
    pass


class Shows:
    def _repr_html_(self) -> str:
        return "<b>html</b>"


class Opaque:
    pass


class Nested:
    class Inner:
        pass


def said(value: Any) -> str:
    return f"a {type(value).__name__}"


def texts(value: Any) -> list[Any]:
    return [block.get("text", block["type"]) for block in to_content(value)]


@pytest.mark.parametrize("kind", [Point, Pair, Named, Mapped, Shows, Opaque, Nested.Inner])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_values_of_any_class_are_what_is_said(kind: Any, revision: str) -> None:
    server = Server("s")

    def alone() -> Any:
        return kind()

    def listed() -> Any:
        return ["one", kind()]

    alone.__annotations__["return"] = kind
    listed.__annotations__["return"] = list[kind]
    with as_content(kind, said):
        server.tool(alone)
        server.tool(listed)
        async with connect(server, revision=revision) as client:
            assert all("outputSchema" not in tool for tool in await client.list_tools())
            for name, told in (("alone", [said(kind())]), ("listed", ["one", said(kind())])):
                result = await client.call(name)
                assert [block["text"] for block in result.content] == told
                assert result.structured is None


@pytest.mark.parametrize("name", ["pandas.DataFrame", pd.DataFrame])
def test_a_row_of_the_table_gives_way(name: Any) -> None:
    table = pd.DataFrame({"a": [1]})
    with as_content(name, lambda frame: f"{len(frame)} rows"):
        assert texts(table) == ["1 rows"]
        assert texts([table, PNG]) == ["1 rows", "image"]
    assert texts(table) == ["a\n1\n"]


@pytest.mark.parametrize("name", ["shapes.flat.Nested.Inner", "shapes.Nested.Inner"])
def test_a_class_is_known_by_its_module_or_its_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nested.Inner, "__module__", "shapes.flat")
    with as_content(name, said):
        assert texts(Nested.Inner()) == ["a Inner"]


def test_what_was_said_last_counts_until_it_is_taken_back() -> None:
    first, second = as_content(Opaque, lambda _: "first"), as_content(Opaque, lambda _: "second")
    assert texts(Opaque()) == ["second"]
    first.remove()
    first.remove()
    assert texts(Opaque()) == ["second"]
    second.remove()
    with pytest.raises(OutputError, match="has no form in JSON"):
        to_content(Opaque())


def test_what_is_made_may_be_of_another_class_that_is_said() -> None:
    with (
        as_content(Opaque, lambda _: [Point(), Text("x")]),
        as_content(Point, lambda _: Image(data=b"\x89PNG\r\n\x1a\n")),
    ):
        assert texts(Opaque()) == ["image", "x"]


def test_none_leaves_it_to_what_the_value_is() -> None:
    with as_content(Point, lambda _: None):
        assert texts(Point(3)) == ['{"x":3}']


def again(value: Any) -> Any:
    return value


def in_a_list(value: Any) -> Any:
    return [value]


@pytest.mark.parametrize("make", [again, in_a_list])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_makes_itself_again_is_an_answer(make: Callable[[Any], Any], revision: str) -> None:
    server = Server("s")
    server.tool(name="draw")(lambda: Opaque())
    with as_content(Opaque, make):
        async with connect(server, revision=revision) as client:
            result = await client.call("draw")
    assert result.is_error
    assert "the tool ran, but result cannot be sent" in result.text


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ToolError("no ink"), "no ink"),
        (OSError("secret"), "the tool ran, but result could not be read: OSError"),
    ],
)
async def test_what_is_raised_there_is_told(error: Exception, told: str) -> None:
    def fail(value: Any) -> Any:
        raise error

    server = Server("s")
    server.tool(name="draw")(lambda: Opaque())
    with as_content(Opaque, fail):
        async with connect(server) as client:
            result = await client.call("draw")
    assert result.is_error
    assert told in result.text
    assert "secret" not in result.text


async def test_it_is_made_in_a_thread_and_holds_for_what_is_registered_already() -> None:
    server = Server("s")
    threads: list[bool] = []

    @server.tool
    async def draw() -> Opaque:
        return Opaque()

    @server.prompt
    async def show() -> Message:
        return Message("user", Opaque())

    @server.resource("shape://1")
    async def shape() -> Opaque:
        return Opaque()

    def make(value: Any) -> str:
        threads.append(threading.current_thread() is threading.main_thread())
        return "drawn"

    async with connect(server) as client:
        assert (await client.call("draw")).is_error
        with as_content(Opaque, make):
            assert (await client.call("draw")).text == "drawn"
            assert (await client.get_prompt("show"))[0]["content"]["text"] == "drawn"
            assert (await client.read("shape://1"))[0]["text"] == "drawn"
    assert threads == [False] * 3


def test_within_data_it_is_refused() -> None:
    with as_content(Opaque, said), pytest.raises(OutputError, match="content beside the data"):
        to_content({"a": Opaque()})


async def make_later(value: Any) -> str:
    return "later"


@pytest.mark.parametrize("make", [None, "text", make_later])
def test_what_makes_nothing_is_refused(make: Any) -> None:
    with pytest.raises(RegistrationError, match="takes a function that is not async"):
        as_content(Opaque, make)

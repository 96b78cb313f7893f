"""A table of foreign types says what their values are as content, without importing them."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mcpkit import Image, Server, Text
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + b"chart"


class Chart:
    """As it would stand in a library that is installed or not."""

    def __init__(self, title: str) -> None:
        self.title = title


class BarChart(Chart):
    pass


Chart.__module__ = "instruments.charts"


def blocks(chart: Any) -> list[Any]:
    return [Text(chart.title), Image(data=PNG, mime_type="image/png")]


@pytest.fixture(autouse=True)
def table() -> Any:
    from mcpkit import as_content

    with as_content("instruments.charts.Chart", blocks):
        yield
    assert "instruments" not in sys.modules


async def contents(value: Any, hint: Any = None) -> list[str]:
    server = Server("charts")

    def draw() -> Any:
        return value

    draw.__annotations__ = {} if hint is None else {"return": hint}
    server.tool(draw)
    async with connect(server) as client:
        listed = (await client.list_tools())[0]
        assert "outputSchema" not in listed
        return [block.get("text", block["type"]) for block in (await client.call("draw")).content]


@pytest.mark.parametrize("hint", [None, Chart, list[Chart], Chart | None])
async def test_values_are_what_the_table_says(hint: Any) -> None:
    value: Any = [Chart("a"), Chart("b")] if hint == list[Chart] else Chart("a")
    expected = ["a", "image", "b", "image"] if hint == list[Chart] else ["a", "image"]
    assert await contents(value, hint) == expected


async def test_classes_below_one_of_the_table_are_that() -> None:
    assert await contents(BarChart("a")) == ["a", "image"]


async def test_a_class_itself_may_stand_in_the_table() -> None:
    from mcpkit import as_content

    with as_content(BarChart, lambda chart: f"bars of {chart.title}"):  # nearer than what it is derived from
        assert await contents(BarChart("a")) == ["bars of a"]
    assert await contents(BarChart("a")) == ["a", "image"]


async def test_resources_are_the_same_content() -> None:
    server = Server("charts")
    server.resource("chart://a", name="a")(lambda: Chart("a"))
    async with connect(server) as client:
        first, second = await client.read("chart://a")
    assert first["text"] == "a"
    assert second["mimeType"] == "image/png"


async def test_what_fails_there_is_said() -> None:
    from mcpkit import as_content

    def fail(chart: Any) -> Any:
        raise OSError("no ink")

    with as_content(BarChart, fail):
        server = Server("charts")
        server.tool(name="draw")(lambda: BarChart("a"))
        async with connect(server) as client:
            result = await client.call("draw")
    assert result.is_error


@pytest.mark.parametrize("wrong", ["Chart", "", 5, "a b.c"])
def test_what_names_no_class_is_refused(wrong: Any) -> None:
    from mcpkit import RegistrationError, as_content

    with pytest.raises(RegistrationError, match="class"):
        as_content(wrong, blocks)

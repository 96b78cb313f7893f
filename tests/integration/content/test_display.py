"""Objects that display themselves: the IPython protocol, Pillow, matplotlib, pandas and polars."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image as Pillow

from mcpkit import Server
from mcpkit.content.values import to_content, to_contents
from mcpkit.testing import connect
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def text_blocks(value: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value}]


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def make_displayable(**methods: Any) -> Any:
    """Make an object with the representations that are given, as IPython knows them."""
    return type(
        "Shows", (), {f"_repr_{name}_": lambda self, value=value: value for name, value in methods.items()}
    )()


def bundle(data: Any) -> Any:
    return type("Bundle", (), {"_repr_mimebundle_": lambda self, include=None, exclude=None: data})()


def image(mime_type: str, data: bytes) -> list[dict[str, Any]]:
    return [{"type": "image", "data": base64_text(data), "mimeType": mime_type}]


@each_row(
    ("value", "blocks"),
    [
        (make_displayable(png=PNG, jpeg=b"j", html="h"), image("image/png", PNG)),
        (make_displayable(png=(PNG, {"width": 1})), image("image/png", PNG)),
        (make_displayable(png=base64_text(PNG)), image("image/png", PNG)),
        (make_displayable(png=None, jpeg=b"j", svg="<svg/>"), image("image/jpeg", b"j")),
        (make_displayable(svg="<svg/>", markdown="m"), image("image/svg+xml", b"<svg/>")),
        (make_displayable(html="<b>h</b>", markdown="**m**"), text_blocks("**m**")),
        (make_displayable(html="<b>h</b>"), text_blocks("<b>h</b>")),
        (bundle({"text/html": "<b>h</b>", "text/plain": "h"}), text_blocks("h")),
        (bundle({"text/plain": "h", "image/png": base64_text(PNG)}), image("image/png", PNG)),
        (bundle(({"text/markdown": "m"}, {"text/markdown": {}})), text_blocks("m")),
        ([make_displayable(png=PNG), "caption"], [*image("image/png", PNG), *text_blocks("caption")]),
    ],
)
def test_display_best_representation(value: Any, blocks: Any) -> None:
    assert to_content(value) == blocks


def test_display_pillow_image() -> None:

    [block] = to_content(Pillow.new("RGB", (4, 3), "red"))
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert Pillow.open(io.BytesIO(base64.b64decode(block["data"]))).size == (4, 3)
    # PNG knows no CMYK; JPEG does.
    [block] = to_content(Pillow.new("CMYK", (4, 3)))
    assert block["mimeType"] == "image/jpeg"


def test_display_pandas_table() -> None:

    frame = pd.DataFrame({"day": ["Mon", "Tue"], "high": [21.5, float("nan")]})
    assert to_content(frame) == text_blocks("day,high\nMon,21.5\nTue,\n")
    assert to_content(frame.set_index("day")) == text_blocks("day,high\nMon,21.5\nTue,\n")
    assert to_content(frame[1:]) == text_blocks(",day,high\n1,Tue,\n")
    assert to_content(frame["day"]) == text_blocks("day\nMon\nTue\n")
    assert to_contents(frame, "t://x", None) == [
        {"uri": "t://x", "mimeType": "text/csv", "text": "day,high\nMon,21.5\nTue,\n"}
    ]
    rows = pd.DataFrame({"n": range(5000)})
    assert to_content(rows)[0]["text"].count("\n") == 5001


def test_display_polars_table() -> None:
    import polars as pl

    frame = pl.DataFrame({"day": ["Mon", "Tue"], "high": [21.5, None]})
    assert to_content(frame) == text_blocks("day,high\nMon,21.5\nTue,\n")
    assert to_content(frame["day"]) == text_blocks("day\nMon\nTue\n")
    assert to_content(frame.lazy().filter(pl.col("day") == "Tue")) == text_blocks("day,high\nTue,\n")
    assert to_content(["a table", frame[:1]]) == [
        *text_blocks("a table"),
        *text_blocks("day,high\nMon,21.5\n"),
    ]
    assert to_contents(frame, "t://x", None)[0]["mimeType"] == "text/csv"
    # CSV has no lists.
    nested = pl.DataFrame({"day": ["Mon"], "highs": [[1, 2]]})
    assert to_content(nested) == text_blocks('[{"day":"Mon","highs":[1,2]}]')


async def test_result_open_file_is_its_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first\nsecond\n")
    (tmp_path / "a.png").write_bytes(PNG)
    server = Server("s")

    @server.tool
    def text() -> Any:
        return (tmp_path / "a.txt").open()

    @server.tool
    def image() -> Any:
        return (tmp_path / "a.png").open("rb")

    @server.tool
    def in_memory() -> Any:
        file = io.BytesIO()
        file.write(PNG)
        return ["drawn", file]

    @server.tool
    def nested() -> Any:
        return {"text": io.StringIO("a"), "bytes": io.BytesIO(b"\xfb\xff")}

    @server.tool
    def closed() -> Any:
        with (tmp_path / "a.txt").open() as file:
            return [1, file]

    @server.resource("data://text")
    def read() -> Any:
        return (tmp_path / "a.txt").open()

    picture = {"type": "image", "data": base64_text(PNG), "mimeType": "image/png"}
    async with connect(server) as client:
        assert (await client.call_tool("text")).content == [{"type": "text", "text": "first\nsecond\n"}]
        assert (await client.call_tool("image")).content == [picture]
        assert (await client.call_tool("in_memory")).content == [{"type": "text", "text": "drawn"}, picture]
        assert (await client.call_tool("nested")).structured_content == {"text": "a", "bytes": "+/8="}
        assert (await client.call_tool("closed")).text.startswith(
            "the tool ran, but result[1] cannot be converted to JSON: a closed file; return"
        )
        assert (await client.read_resource("data://text"))[0]["text"] == "first\nsecond\n"

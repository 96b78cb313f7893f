"""Objects that display themselves: the IPython protocol, Pillow, matplotlib, pandas and polars."""

import base64
import io
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
from PIL import Image as Pillow

from mcpkit import Server
from mcpkit.content.results_to_blocks import to_content, to_contents
from mcpkit.testing import connect
from tests.helpers.tables import each_row

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


@each_row(("value", "blocks"), [
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
])  # fmt: skip
def test_display_best_representation(value: Any, blocks: Any) -> None:
    assert to_content(value) == blocks


def test_display_pillow_image() -> None:
    [block] = to_content(Pillow.new("RGB", (4, 3), "red"))
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert Pillow.open(io.BytesIO(base64.b64decode(block["data"]))).size == (4, 3)
    # PNG knows no CMYK; JPEG does.
    [block] = to_content(Pillow.new("CMYK", (4, 3)))
    assert block["mimeType"] == "image/jpeg"


PANDAS = pd.DataFrame({"day": ["Mon", "Tue"], "high": [21.5, float("nan")]})
POLARS = pl.DataFrame({"day": ["Mon", "Tue"], "high": [21.5, None]})


@each_row(("value", "text"), [
    (PANDAS, "day,high\nMon,21.5\nTue,\n"), (PANDAS.set_index("day"), "day,high\nMon,21.5\nTue,\n"),
    (PANDAS[1:], ",day,high\n1,Tue,\n"), (PANDAS["day"], "day\nMon\nTue\n"),
    (pd.DataFrame({"n": range(5000)}), "n\n" + "".join(f"{number}\n" for number in range(5000))),
    (POLARS, "day,high\nMon,21.5\nTue,\n"), (POLARS["day"], "day\nMon\nTue\n"),
    (POLARS.lazy().filter(pl.col("day") == "Tue"), "day,high\nTue,\n"),
    # CSV has no lists.
    (pl.DataFrame({"day": ["Mon"], "highs": [[1, 2]]}), '[{"day":"Mon","highs":[1,2]}]'),
])  # fmt: skip
def test_display_table_is_csv(value: Any, text: str) -> None:
    assert to_content(value) == text_blocks(text)
    assert to_content(["a table", value]) == [*text_blocks("a table"), *text_blocks(text)]


@each_row("value", [PANDAS, POLARS])
def test_display_table_in_resource_has_media_type(value: Any) -> None:
    text = "day,high\nMon,21.5\nTue,\n"
    assert to_contents(value, "t://x", None) == [{"uri": "t://x", "mimeType": "text/csv", "text": text}]


async def test_result_open_file_is_its_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first\nsecond\n")
    (tmp_path / "a.png").write_bytes(PNG)

    def closed() -> Any:
        with (tmp_path / "a.txt").open() as file:
            return [1, file]

    results = {
        "text": lambda: (tmp_path / "a.txt").open(), "image": lambda: (tmp_path / "a.png").open("rb"),
        "in_memory": lambda: ["drawn", io.BytesIO(PNG)], "closed": closed,
        "nested": lambda: {"text": io.StringIO("a"), "bytes": io.BytesIO(b"\xfb\xff")},
    }  # fmt: skip
    server = Server("s")
    for name, result in results.items():
        server.tool(result, name=name)
    server.resource("data://text", name="text")(results["text"])
    async with connect(server) as client:
        found = {name: await client.call_tool(name) for name in results}
        assert (await client.read_resource("data://text"))[0]["text"] == "first\nsecond\n"
    assert found["text"].content == text_blocks("first\nsecond\n")
    assert found["image"].content == image("image/png", PNG)
    assert found["in_memory"].content == [*text_blocks("drawn"), *image("image/png", PNG)]
    assert found["nested"].structured_content == {"text": "a", "bytes": "+/8="}
    message = "the tool ran, but result[1] cannot be converted to JSON: a closed file; return"
    assert found["closed"].text.startswith(message)

"""Objects that show themselves: IPython's display protocol, Pillow, matplotlib and pandas."""

from __future__ import annotations

import base64
import dataclasses
import io
import subprocess
import sys
from typing import Any

import pytest

from mcpkit.content.values import to_content, to_contents
from tests.helpers.contents import PNG, encoded, shows, text


def bundle(data: Any) -> Any:
    return type("Bundle", (), {"_repr_mimebundle_": lambda self, include=None, exclude=None: data})()


def image(mime_type: str, data: bytes) -> list[dict[str, Any]]:
    return [{"type": "image", "data": encoded(data), "mimeType": mime_type}]


@pytest.mark.parametrize(
    ("value", "blocks"),
    [
        (shows(png=PNG, jpeg=b"j", html="h"), image("image/png", PNG)),
        (shows(png=(PNG, {"width": 1})), image("image/png", PNG)),
        (shows(png=encoded(PNG)), image("image/png", PNG)),
        (shows(png=None, jpeg=b"j", svg="<svg/>"), image("image/jpeg", b"j")),
        (shows(svg="<svg/>", markdown="m"), image("image/svg+xml", b"<svg/>")),
        (shows(html="<b>h</b>", markdown="**m**"), text("**m**")),
        (shows(html="<b>h</b>"), text("<b>h</b>")),
        (bundle({"text/html": "<b>h</b>", "text/plain": "h"}), text("h")),
        (bundle({"text/plain": "h", "image/png": encoded(PNG)}), image("image/png", PNG)),
        (bundle(({"text/markdown": "m"}, {"text/markdown": {}})), text("m")),
        ([shows(png=PNG), "caption"], [*image("image/png", PNG), *text("caption")]),
    ],
)
def test_an_object_that_shows_itself_is_the_best_that_it_shows(value: Any, blocks: Any) -> None:
    assert to_content(value) == blocks


def test_a_bundle_without_anything_usable_leaves_it_to_the_methods() -> None:
    value = shows(markdown="m")
    type(value)._repr_mimebundle_ = lambda self, include=None, exclude=None: {"application/x-own": "?"}
    assert to_content(value) == text("m")


def test_an_object_that_shows_nothing_now_is_data() -> None:
    @dataclasses.dataclass
    class Plot:
        points: int

        def _repr_png_(self) -> None:
            return None

    assert to_content(Plot(3)) == text('{"points":3}')


def test_pillow_images_are_png() -> None:
    from PIL import Image as Pillow

    [block] = to_content(Pillow.new("RGB", (4, 3), "red"))
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert Pillow.open(io.BytesIO(base64.b64decode(block["data"]))).size == (4, 3)
    # PNG knows no CMYK; JPEG does.
    [block] = to_content(Pillow.new("CMYK", (4, 3)))
    assert block["mimeType"] == "image/jpeg"


def test_matplotlib_figures_are_png() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    plain = Figure()
    plain.subplots().plot([1, 2])
    drawn, axes = plt.subplots()
    axes.set_title("Temperature")
    try:
        for figure in (plain, drawn, [drawn]):
            [block] = to_content(figure)
            assert (block["type"], block["mimeType"]) == ("image", "image/png")
            assert base64.b64decode(block["data"]).startswith(b"\x89PNG")
        [contents] = to_contents(plain, "plot://x", None)
        assert contents["mimeType"] == "image/png"
    finally:
        plt.close(drawn)


def test_pandas_tables_are_csv_in_full() -> None:
    import pandas as pd

    frame = pd.DataFrame({"day": ["Mon", "Tue"], "high": [21.5, float("nan")]})
    assert to_content(frame) == text("day,high\nMon,21.5\nTue,\n")
    assert to_content(frame.set_index("day")) == text("day,high\nMon,21.5\nTue,\n")
    assert to_content(frame[1:]) == text(",day,high\n1,Tue,\n")
    assert to_content(frame["day"]) == text("day\nMon\nTue\n")
    assert to_contents(frame, "t://x", None) == [
        {"uri": "t://x", "mimeType": "text/csv", "text": "day,high\nMon,21.5\nTue,\n"}
    ]
    rows = pd.DataFrame({"n": range(5000)})
    assert to_content(rows)[0]["text"].count("\n") == 5001


def test_polars_tables_are_csv_like_those_of_pandas() -> None:
    import polars as pl

    frame = pl.DataFrame({"day": ["Mon", "Tue"], "high": [21.5, None]})
    assert to_content(frame) == text("day,high\nMon,21.5\nTue,\n")
    assert to_content(frame["day"]) == text("day\nMon\nTue\n")
    assert to_content(frame.lazy().filter(pl.col("day") == "Tue")) == text("day,high\nTue,\n")
    assert to_content(["a table", frame[:1]]) == [*text("a table"), *text("day,high\nMon,21.5\n")]
    assert to_contents(frame, "t://x", None)[0]["mimeType"] == "text/csv"
    # CSV has no lists.
    nested = pl.DataFrame({"day": ["Mon"], "highs": [[1, 2]]})
    assert to_content(nested) == text('[{"day":"Mon","highs":[1,2]}]')


def test_a_colormap_of_matplotlib_is_its_picture() -> None:
    import matplotlib as mpl

    [block] = to_content(mpl.colormaps["viridis"])
    assert block["mimeType"] == "image/png"


def test_conversion_imports_none_of_the_libraries() -> None:
    code = (
        "import sys, mcpkit.content.values as c\n"
        "c.to_content([c.Text('a'), {'b': 1}, 'x'])\n"
        "heavy = ('pandas', 'PIL', 'matplotlib', 'mimetypes', 'hashlib', 'pydantic')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

"""Returns ordinary values from a tool: `python bench/results.py`, which writes docs/reference/result-conversion.md.

Each row has what is returned, and what is obvious for it: by itself, and inside of data. A test keeps the page true.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

BENCH = Path(__file__).resolve().parent
PAGE = BENCH.parent / "docs" / "reference" / "result-conversion.md"

DEFINITIONS = """\
import array, collections, datetime as dt, enum, io, ipaddress
import pathlib, sqlite3, types, uuid
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import attrs, msgspec, numpy as np, pandas as pd, polars as pl
import pydantic, sqlalchemy as sa


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    x: int
    y: int


@dataclass
class Point:
    x: int
    y: int


class Model(pydantic.BaseModel):
    x: int
    label: str = pydantic.Field("p", alias="name")


@attrs.define
class Attrs:
    x: int


class Struct(msgspec.Struct):
    x: int


PNG = bytes.fromhex("89504e470d0a1a0a")
UTC = dt.timezone.utc
noon = dt.datetime(2026, 7, 28, 12, 0)
lite = sqlite3.connect(":memory:", check_same_thread=False)
lite.row_factory = sqlite3.Row
any_thread = {"check_same_thread": False}
alchemy = sa.create_engine(
    "sqlite://", poolclass=sa.pool.StaticPool, connect_args=any_thread
).connect()
frame = pd.DataFrame({"day": ["Mon", "Tue"], "high": [21, 19]})
polar = pl.DataFrame({"day": ["Mon", "Tue"], "high": [21, 19]})
"""

PNG_IN_BASE64 = "iVBORw0KGgo="
CSV = "day,high\nMon,21\nTue,19\n"
RECORDS = [{"day": "Mon", "high": 21}, {"day": "Tue", "high": 19}]
IMAGE = {"type": "image", "data": PNG_IN_BASE64, "mimeType": "image/png"}


class Content(list[Any]):
    """Content blocks, which are no data."""


def blob(base64: str, digest: str) -> Content:
    """Return an embedded blob of bytes of which nothing is known."""
    uri = f"attachment:///{digest}"
    return Content(
        [
            {
                "type": "resource",
                "resource": {"uri": uri, "mimeType": "application/octet-stream", "blob": base64},
            }
        ]
    )


NOTHING = Content()
SAME: Any = object()
"""Inside of data it is what it is by itself."""

ROWS: list[tuple[str, str, Any, Any]] = [
    # group, what is returned, what it is by itself, what it is inside of data
    ("Python's own", '"text"', "text", SAME),
    ("Python's own", "5", 5, SAME),
    ("Python's own", "2.5", 2.5, SAME),
    ("Python's own", "2**70", 2**70, SAME),
    ("Python's own", "True", True, SAME),
    ("Python's own", "None", NOTHING, None),
    ("Python's own", '{"a": [1, None]}', {"a": [1, None]}, SAME),
    ("Python's own", '[1, "a"]', [1, "a"], SAME),
    ("Python's own", "(1, 2)", [1, 2], SAME),
    ("Python's own", "{3}", [3], SAME),
    ("Python's own", "frozenset({3})", [3], SAME),
    ("Python's own", 'float("nan")', None, SAME),
    ("Python's own", "[1.5, float('inf')]", [1.5, None], SAME),
    ("Python's own", "range(3)", [0, 1, 2], SAME),
    ("Python's own", '{"a": 1}.keys()', ["a"], SAME),
    ("Python's own", '{"a": 1}.values()', [1], SAME),
    ("Python's own", '{"a": 1}.items()', [["a", 1]], SAME),
    ("Python's own", "map(str, [1, 2])", ["1", "2"], SAME),
    ("Python's own", "(n * n for n in range(3))", [0, 1, 4], SAME),
    ("Python's own", 'zip("ab", [1, 2])', [["a", 1], ["b", 2]], SAME),
    ("Python's own", "reversed([1, 2])", [2, 1], SAME),
    ("Python's own", "collections.deque([1, 2])", [1, 2], SAME),
    ("Python's own", 'collections.Counter("aab")', {"a": 2, "b": 1}, SAME),
    ("Python's own", 'collections.ChainMap({"a": 1})', {"a": 1}, SAME),
    ("Python's own", 'types.MappingProxyType({"a": 1})', {"a": 1}, SAME),
    ("Python's own", "types.SimpleNamespace(a=1)", {"a": 1}, SAME),
    ("Python's own", 'array.array("i", [1, 2])', [1, 2], SAME),
    ("Python's own", 'Decimal("1.10")', "1.10", SAME),
    ("Python's own", "Fraction(1, 3)", "1/3", SAME),
    ("Python's own", "Color.RED", "red", SAME),
    ("Python's own", "Level.HIGH", 3, SAME),
    ("Python's own", "uuid.UUID(int=1)", "00000000-0000-0000-0000-000000000001", SAME),
    ("Python's own", 'pathlib.PurePosixPath("/a/b")', "/a/b", SAME),
    ("Python's own", 'ipaddress.ip_address("::1")', "::1", SAME),
    ("Dates", "noon", "2026-07-28T12:00:00", SAME),
    ("Dates", "noon.replace(tzinfo=UTC)", "2026-07-28T12:00:00Z", SAME),
    ("Dates", "noon.date()", "2026-07-28", SAME),
    ("Dates", "noon.time()", "12:00:00", SAME),
    ("Dates", "dt.timedelta(hours=36)", "P1DT12H", SAME),
    ("Keys that are no strings", '{1: "a", 2: "b"}', {"1": "a", "2": "b"}, SAME),
    ("Keys that are no strings", '{True: "yes"}', {"true": "yes"}, SAME),
    ("Keys that are no strings", "{noon.date(): 21}", {"2026-07-28": 21}, SAME),
    ("Keys that are no strings", "{Color.RED: 1}", {"red": 1}, SAME),
    ("Classes", "Pair(1, 2)", [1, 2], SAME),
    ("Classes", "Point(1, 2)", {"x": 1, "y": 2}, SAME),
    ("Classes", "[Point(1, 2)]", [{"x": 1, "y": 2}], SAME),
    ("Classes", 'Model(x=1, name="q")', {"x": 1, "name": "q"}, SAME),
    ("Classes", "Attrs(1)", {"x": 1}, SAME),
    ("Classes", "Struct(1)", {"x": 1}, SAME),
    ("Bytes and files", "PNG", Content([IMAGE]), PNG_IN_BASE64),
    ("Bytes and files", r'b"\xfb\xff"', blob("+/8=", "cf997a4c889425df"), "+/8="),
    ("Bytes and files", r'bytearray(b"\xfb\xff")', blob("+/8=", "cf997a4c889425df"), "+/8="),
    ("Bytes and files", "io.BytesIO(PNG)", Content([IMAGE]), PNG_IN_BASE64),
    ("Bytes and files", 'io.StringIO("text")', "text", SAME),
    (
        "Bytes and files",
        '["a plot", PNG]',
        Content([{"type": "text", "text": "a plot"}, IMAGE]),
        ["a plot", PNG_IN_BASE64],
    ),
    ("numpy", "np.int64(5)", 5, SAME),
    ("numpy", "np.float32(0.5)", 0.5, SAME),
    ("numpy", "np.float64(0.1)", 0.1, SAME),
    ("numpy", "np.bool_(True)", True, SAME),
    ("numpy", "np.arange(3)", [0, 1, 2], SAME),
    ("numpy", "np.eye(2)", [[1.0, 0.0], [0.0, 1.0]], SAME),
    ("numpy", '[np.int64(1), np.float32("nan")]', [1, None], SAME),
    ("numpy", 'np.datetime64("2026-07-28")', "2026-07-28", SAME),
    ("pandas and polars", 'pd.Timestamp("2026-07-28 12:00")', "2026-07-28T12:00:00", SAME),
    ("pandas and polars", 'pd.Timedelta("90 min")', "PT1H30M", SAME),
    ("pandas and polars", "pd.NaT", NOTHING, None),
    ("pandas and polars", "pd.NA", NOTHING, None),
    ("pandas and polars", "frame", CSV, RECORDS),
    ("pandas and polars", 'frame["high"]', "high\n21\n19\n", [21, 19]),
    ("pandas and polars", "frame.columns", ["day", "high"], SAME),
    ("pandas and polars", 'frame["high"].mean()', 20.0, SAME),
    ("pandas and polars", "polar", CSV, RECORDS),
    ("pandas and polars", 'polar["high"]', "high\n21\n19\n", [21, 19]),
    ("Databases", 'lite.execute("SELECT 1 AS a").fetchone()', {"a": 1}, SAME),
    ("Databases", 'lite.execute("SELECT 1 AS a").fetchall()', [{"a": 1}], SAME),
    ("Databases", 'lite.execute("SELECT 1 AS a")', [{"a": 1}], SAME),
    ("Databases", 'alchemy.execute(sa.text("SELECT 1 AS a")).one()', {"a": 1}, SAME),
    ("Databases", 'alchemy.execute(sa.text("SELECT 1 AS a")).all()', [{"a": 1}], SAME),
    ("Databases", 'alchemy.execute(sa.text("SELECT 1 AS a")).mappings().all()', [{"a": 1}], SAME),
]

INTRODUCTION = """\
<!-- Written by bench/results.py: change that, and run it again. -->

# What results become

What a client gets of {count} ordinary values that a tool returns, without a return annotation or with `Any`. An object
or an array comes as structured content and as its JSON in a text; anything else as the text or the content that is
shown. *Inside of data* is what the value is in a dict, a list, a model or a dataclass. With an annotation that promises
data the JSON is the same, and is checked against the schema.

`python bench/results.py` returns them all and writes this page; a test keeps it true. Which values have no form in
JSON, and what a client reads then, is on the page on
[content](../guides/rich-content.md#values-that-json-cannot-represent).

```python
{definitions}```
"""


def namespace() -> dict[str, Any]:
    """Return the names that the rows use."""
    module = ModuleType("results_definitions")
    sys.modules[module.__name__] = module  # where classes are looked for by name
    names = vars(module)
    exec(DEFINITIONS, names)
    return names


def expected(row: tuple[str, str, Any, Any]) -> tuple[Any, Any]:
    """Return what a row should be by itself, and inside of data."""
    _, _, alone, inside = row
    return alone, alone if inside is SAME else inside


async def outcomes(revision: str = "2026-07-28") -> list[tuple[Any, Any]]:
    """Return what a client gets of each row: by itself, and inside of data."""
    from mcpkit import Server
    from mcpkit.testing import connect

    names = namespace()
    server = Server("results")

    @server.tool
    def alone(source: str) -> Any:
        """Return a value."""
        return eval(source, names)

    @server.tool
    def inside(source: str) -> Any:
        """Return a value inside of data."""
        return {"value": eval(source, names)}

    found: list[tuple[Any, Any]] = []
    async with connect(server, protocol_version=revision) as client:
        for _, source, _, _ in ROWS:
            by_itself = await client.call_tool("alone", {"source": source})
            in_data = await client.call_tool("inside", {"source": source})
            found.append((read(by_itself), read(in_data)))
    return [
        (own, data["value"] if isinstance(data, dict) and "value" in data else data) for own, data in found
    ]


def read(result: Any) -> Any:
    """Return the value of a result: its data, else its text where that is all, else its content."""
    if result.is_error:
        return {"error": result.text}
    if result.structured_content is not None:
        data = result.structured_content
        return data["result"] if isinstance(data, dict) and set(data) == {"result"} else data
    if len(result.content) == 1 and result.content[0]["type"] == "text":
        return result.text
    return Content(result.content)


def is_same(got: Any, expected_value: Any) -> bool:
    """Return whether a client got the expected value; a number or a null alone comes as text."""
    if isinstance(got, str) and not isinstance(expected_value, (str, Content)):
        got = json.loads(got)
    return type(got) is type(expected_value) and got == expected_value


def page(found: list[tuple[Any, Any]]) -> str:
    """Return the page."""
    lines = [INTRODUCTION.format(count=len(ROWS), definitions=DEFINITIONS)]
    rows = zip(ROWS, found, strict=True)
    for group, members in itertools.groupby(rows, key=lambda each: each[0][0]):
        lines += [f"## {group}", "", "| returned | by itself | inside of data |", "| --- " * 3 + "|"]
        for (_, source, _, inside), (alone, data) in members:
            lines.append(f"| `{source}` | {shown(alone)} | {'the same' if inside is SAME else shown(data)} |")
        lines.append("")
    return "\n".join(lines)


def shown(value: Any) -> str:
    """Return a value as a cell of a table."""
    if isinstance(value, Content):
        return ", ".join(map(block, value)) or "no content"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{text!r}`" if "\n" in text else f"`{text}`"


def block(content: dict[str, Any]) -> str:
    """Return a content block in words."""
    if content["type"] == "text":
        return f"the text `{content['text']}`"
    if content["type"] == "image":
        return f"an image, `{content['mimeType']}`"
    return f"an embedded blob, `{content['resource']['blob']}`"


def main() -> None:
    found = asyncio.run(outcomes())
    for row, got in zip(ROWS, found, strict=True):
        for what, each, expected_value in zip(("alone", "inside"), got, expected(row), strict=True):
            if not is_same(each, expected_value):
                print(f"{row[1]} {what}: {each!r}, not {expected_value!r}")
    PAGE.write_text(page(found), "utf-8")
    print(f"wrote {PAGE}: {len(ROWS)} rows")


if __name__ == "__main__":
    main()

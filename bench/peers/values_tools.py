"""Ordinary values: each of a type, alone and held by others, and results that have no annotation."""

# ruff: noqa: UP045, DTZ001 - the old spellings, and dates without offset, are ordinary too
from __future__ import annotations

import collections
import datetime as dt
import enum
import io
import ipaddress
import re
import sqlite3
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar
from uuid import UUID

import attrs
import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pydantic
import sqlalchemy as sa
from PIL import Image as Pillow
from typing_extensions import TypedDict

T = TypeVar("T")
UTC = dt.timezone.utc
NOON = dt.datetime(2026, 7, 28, 12)


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    x: int
    y: int


class Place(TypedDict, total=False):
    name: str
    opens: dt.time


@dataclass
class Station:
    id: int
    seen: Optional[dt.datetime] = None
    counts: dict[int, str] = field(default_factory=dict)


class Circle(pydantic.BaseModel):
    kind: Literal["circle"] = "circle"
    radius: float


class Square(pydantic.BaseModel):
    kind: Literal["square"] = "square"
    side: int


class Tree(pydantic.BaseModel):
    name: str
    grown_at: Optional[dt.date] = pydantic.Field(None, alias="grownAt")
    branches: list[Tree] = []


class Area(pydantic.BaseModel):
    side: int

    @pydantic.computed_field
    def area(self) -> int:
        return self.side**2


class Names(pydantic.RootModel[list[str]]):
    pass


class Box(pydantic.BaseModel, Generic[T]):
    item: T


@attrs.define
class Leaf:
    share: float
    color: str = "green"


class Meal(msgspec.Struct):
    name: str
    calories: int = 250


UserId = NewType("UserId", int)

TYPES: list[tuple[str, Any, Any]] = [
    ("str", str, "tea"),
    ("str, not ASCII", str, "Grüße 🍵 ☃"),
    ("int", int, 5),
    ("int, huge", int, 2**70),
    ("float", float, 0.5),
    ("float, -0.0", float, -0.0),
    ("bool", bool, True),
    ("bytes", bytes, b"\xfb\xff"),
    ("bytes, empty", bytes, b""),
    ("datetime, naive", dt.datetime, NOON),
    ("datetime, aware", dt.datetime, NOON.replace(tzinfo=UTC)),
    ("date", dt.date, NOON.date()),
    ("time", dt.time, NOON.time()),
    ("timedelta", dt.timedelta, dt.timedelta(minutes=90)),
    ("timedelta, negative", dt.timedelta, dt.timedelta(minutes=-90)),
    ("Decimal", Decimal, Decimal("12.50")),
    ("Fraction", Fraction, Fraction(1, 3)),
    ("UUID", UUID, UUID(int=5)),
    ("Path", Path, Path("/srv/data")),
    ("Enum", Color, Color.RED),
    ("IntEnum", Level, Level.HIGH),
    ("Flag", Access, Access.READ),
    ("Literal", Literal["a", 1], "a"),
    ("IPv4Address", ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")),
    ("IPv6Network", ipaddress.IPv6Network, ipaddress.IPv6Network("2001:db8::/32")),
    ("re.Pattern", re.Pattern[str], re.compile("a+")),
    ("NewType", UserId, 5),
    ("Optional[datetime]", Optional[dt.datetime], None),
    ("int | str", int | str, "5 cups"),
    ("list[int]", list[int], [1, 2]),
    ("tuple[int, date]", tuple[int, dt.date], (1, NOON.date())),
    ("set[int]", set[int], {3}),
    ("frozenset[str]", frozenset[str], frozenset({"a"})),
    ("deque[int]", collections.deque[int], collections.deque([1, 2])),
    ("dict[str, int]", dict[str, int], {"a": 1}),
    ("dict[int, str]", dict[int, str], {1: "a"}),
    ("dict[date, float]", dict[dt.date, float], {NOON.date(): 21.5}),
    ("Mapping[UUID, bytes]", Mapping[UUID, bytes], {UUID(int=5): b"\xfb\xff"}),
    ("defaultdict[str, list[int]]", collections.defaultdict[str, list[int]], collections.defaultdict(list, a=[1])),
    ("Counter[str]", collections.Counter[str], collections.Counter("tea")),
    ("Sequence[time]", Sequence[dt.time], [NOON.time()]),
    ("dict[str, Any]", dict[str, Any], {"a": [1, None, {"b": 0.5}]}),
    ("NamedTuple", Pair, Pair(1, 2)),
    ("TypedDict", Place, {"name": "inn", "opens": dt.time(9)}),
    ("dataclass", Station, Station(1, NOON, {1: "a"})),
    ("model that holds itself", Tree, Tree(name="oak", grownAt=NOON.date(), branches=[Tree(name="ash")])),
    ("model with a computed field", Area, Area(side=2)),
    ("RootModel", Names, Names(["a", "b"])),
    ("generic model", Box[dt.timedelta], Box[dt.timedelta](item=dt.timedelta(hours=36))),
    ("union of models", Annotated[Circle | Square, pydantic.Field(discriminator="kind")], Square(side=2)),
    ("HttpUrl", pydantic.HttpUrl, pydantic.HttpUrl("https://example.org/tea")),
    ("np.int64", np.int64, np.int64(5)),
    ("NDArray[np.float64]", npt.NDArray[np.float64], np.array([0.5, 1.5])),
    ("pd.Timestamp", pd.Timestamp, pd.Timestamp("2026-07-28 12:00")),
    ("class of attrs", Leaf, Leaf(0.5)),
    ("msgspec.Struct", Meal, Meal("soup")),
]  # fmt: skip


def _in_model(annotation: Any, value: Any) -> tuple[Any, Any]:
    model = pydantic.create_model(
        "Model", __config__=pydantic.ConfigDict(arbitrary_types_allowed=True), value=(annotation, ...)
    )
    return model, model.model_construct(value=value)


def _in_dataclass(annotation: Any, value: Any) -> tuple[Any, Any]:
    cls: Any = make_dataclass("Data", [("value", annotation)])
    return cls, cls(value)


CONTAINERS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "alone": lambda annotation, value: (annotation, value),
    "list": lambda annotation, value: (list[annotation], [value]),
    "dict": lambda annotation, value: (dict[str, annotation], {"value": value}),
    "model": _in_model,
    "dataclass": _in_dataclass,
    "TypedDict": lambda annotation, value: (TypedDict("Record", {"value": annotation}), {"value": value}),
}


def is_same(first: Any, second: Any) -> bool:
    """Return whether two values, and the values inside them, are equal and of one type."""
    if type(first) is not type(second):
        return False
    if isinstance(first, list):
        return len(first) == len(second) and all(map(is_same, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(is_same(first[key], second[key]) for key in first)
    if type(first).__name__ in {"Model", "Data"}:
        return is_same(first.value, second.value)
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    return first == second and str(first) == str(second)


def _row(connect: Callable[[], Any], query: str) -> Any:
    return connect().execute(query if connect is _lite else sa.text(query))


def _lite() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    return database


def _alchemy() -> sa.Connection:
    return sa.create_engine("sqlite://", poolclass=sa.pool.NullPool).connect()


FRAME = {"day": ["Mon", "Tue"], "high": [21, 19]}
CSV = "day,high\nMon,21\nTue,19\n"
RECORDS = [{"day": "Mon", "high": 21}, {"day": "Tue", "high": 19}]
STATIONS = [{"id": 1, "seen": "2026-07-28T12:00:00", "counts": {"1": "a"}}]
QUERY = "SELECT 1 AS a"
PNG = bytes.fromhex("89504e470d0a1a0a")
IMAGE = {"image": "image/png"}

RESULTS: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    # what it is -> makes it, and what may be taken for it in JSON or as content
    "numpy integer": (lambda: np.int64(5), [5]),
    "numpy float": (lambda: np.float32(0.5), [0.5]),
    "numpy boolean": (lambda: np.bool_(True), [True]),
    "numpy integer in a dict": (lambda: {"n": np.int64(5)}, [{"n": 5}]),
    "numpy array": (lambda: np.eye(2), [[[1, 0], [0, 1]]]),
    "numpy array in a dict": (lambda: {"rows": np.arange(3)}, [{"rows": [0, 1, 2]}]),
    "NaN in a list": (lambda: [1.5, float("nan")], [[1.5, None]]),
    "mean of a column": (lambda: np.mean(pd.Series([21, 19])), [20]),
    "table of pandas": (lambda: pd.DataFrame(FRAME), [CSV, RECORDS]),
    "table of pandas in a dict": (lambda: {"rows": pd.DataFrame(FRAME)}, [{"rows": RECORDS}, {"rows": CSV}]),
    "Series in a dict": (lambda: {"high": pd.Series([21, 19])}, [{"high": [21, 19]}]),
    "pd.Timestamp in a dict": (lambda: {"at": pd.Timestamp(NOON)}, [{"at": "2026-07-28T12:00:00"}]),
    "pd.NaT in a list": (lambda: [pd.NaT], [[None]]),
    "table of polars": (lambda: pl.DataFrame(FRAME), [CSV, RECORDS]),
    "generator": (lambda: (n * n for n in range(3)), [[0, 1, 4]]),
    "map": (lambda: map(str, [1, 2]), [["1", "2"]]),
    "range": (lambda: range(3), [[0, 1, 2]]),
    "set": (lambda: {3}, [[3]]),
    "set in a dict": (lambda: {"ids": {3}}, [{"ids": [3]}]),
    "keys of a dict": ({"a": 1}.keys, [["a"]]),
    "values in a dict": (lambda: {"all": {"a": 1}.values()}, [{"all": [1]}]),
    "dict with numbers as keys": (lambda: {1: "a"}, [{"1": "a"}]),
    "dict with dates as keys": (lambda: {NOON.date(): 21}, [{"2026-07-28": 21}]),
    "Decimal": (lambda: Decimal("1.10"), ["1.10", 1.1]),
    "Fraction in a dict": (lambda: {"share": Fraction(1, 3)}, [{"share": "1/3"}]),
    "datetime in a dict": (lambda: {"at": NOON}, [{"at": "2026-07-28T12:00:00"}]),
    "timedelta in a dict": (lambda: {"for": dt.timedelta(hours=36)}, [{"for": "P1DT12H"}]),
    "Path in a list": (lambda: [PurePosixPath("/a/b")], [["/a/b"]]),
    "bytes in a dict": (lambda: {"raw": b"\xfb\xff"}, [{"raw": "+/8="}]),
    "BytesIO": (lambda: io.BytesIO(PNG), [IMAGE]),
    "image of Pillow in a list with text": (lambda: ["a plot", Pillow.new("RGB", (2, 2))], [["a plot", IMAGE]]),
    "nested dataclasses": (lambda: [Station(1, NOON, {1: "a"})], [STATIONS]),
    "class of attrs": (lambda: Leaf(0.5), [{"share": 0.5, "color": "green"}]),
    "msgspec.Struct": (lambda: [Meal("soup")], [[{"name": "soup", "calories": 250}]]),
    "SimpleNamespace": (lambda: types.SimpleNamespace(a=1), [{"a": 1}]),
    "row of sqlite3": (lambda: _row(_lite, QUERY).fetchone(), [{"a": 1}]),
    "rows of sqlite3": (lambda: _row(_lite, QUERY).fetchall(), [[{"a": 1}]]),
    "row of SQLAlchemy": (lambda: _row(_alchemy, QUERY).one(), [{"a": 1}]),
    "rows of SQLAlchemy": (lambda: _row(_alchemy, QUERY).all(), [[{"a": 1}]]),
}  # fmt: skip

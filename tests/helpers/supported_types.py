"""Types whose values a client returns unchanged, for tests and for docs/reference/type-mapping.md.

Each entry is tested alone and inside containers, and is a row of the table that `python bench/types_page.py` writes.
"""

# ruff: noqa: UP045 - built of what is known at run time only, and the old spellings are tested on purpose
from __future__ import annotations

import base64
import collections
import datetime as dt
import enum
import ipaddress
import json
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar
from uuid import UUID

import annotated_types as at
import attrs
import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
import pydantic
from hypothesis import strategies as st
from typing_extensions import LiteralString, NotRequired, TypeAliasType, TypedDict

from mcpkit import Server
from mcpkit.client import CallResult
from mcpkit.schema import Output
from mcpkit.testing import connect
from mcpkit.types import json_type
from tests.helpers.schema_cases import Color, Level

T = TypeVar("T")


class Mixed(enum.Enum):
    A = "a"
    ONE = 1
    HALF = 0.5
    NOTHING = None


class Season(enum.Enum):
    SPRING = dt.date(2026, 3, 20)
    NEVER = b"\xfb\xff"


class Paint(enum.Enum):
    RED = (255, 0, 0)
    NONE = ()


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


class Point(NamedTuple):
    x: int
    since: dt.datetime = dt.datetime(2026, 1, 31)


class Place(TypedDict):
    name: str
    opens: NotRequired[dt.time]


@dataclass
class Station:
    id: int
    last: dt.datetime | None = None
    counts: dict[int, str] = field(default_factory=dict)


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    born: dt.date = dt.date(2026, 1, 31)
    tag: bytes = b""


class Tree(pydantic.BaseModel):
    value: Decimal
    grown_at: dt.timedelta | None = pydantic.Field(None, alias="grownAt")
    children: list[Tree] = []


class Box(pydantic.BaseModel, Generic[T]):
    item: T


class Square(pydantic.BaseModel):
    side: int

    @pydantic.computed_field
    def area(self) -> int:
        return self.side**2


UserId = NewType("UserId", int)


Rows = TypeAliasType("Rows", list[dict[int, str]])


class Supported(NamedTuple):
    """A type whose values a client returns unchanged.

    Args:
        name: The type as an author writes it.
        annotation: The type.
        values: Draws values of it.
        sample: One of them, for the docs.
        lost: Values that do not come back, for the docs; `values` draws none of them.
        is_key: Whether its values may be keys of mappings.
        is_field: Whether pydantic's models and dataclasses may have fields of it.
        is_hashable: Whether it may be in a set.
        is_content: Whether a tool that returns several of them gives pieces of content.
        is_same: Compares a value with the received one; None for `is_same`.
    """

    name: str
    annotation: Any
    values: st.SearchStrategy[Any]
    sample: Any
    lost: str = ""
    is_key: bool = False
    is_field: bool = True
    is_hashable: bool = False
    is_content: bool = False
    is_same: Callable[[Any, Any], bool] | None = None

    def __repr__(self) -> str:
        return f"Supported({self.name}, {self.annotation})"


def scalar(
    name: str, annotation: Any, values: st.SearchStrategy[Any], sample: Any, lost: str = ""
) -> Supported:
    """Return an entry for values that may be keys of mappings and items of sets."""
    return Supported(name, annotation, values, sample, lost, is_key=True, is_hashable=True)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


OFFSETS = st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))


# Where the offset leads beyond the years of Python, two of them cannot be compared.
DAYS: Any = {"min_value": dt.datetime(1, 1, 3), "max_value": dt.datetime(9999, 12, 29)}


NAIVE = st.datetimes(**DAYS) | st.sampled_from(
    [dt.datetime(2024, 2, 29, 12), dt.datetime(2000, 2, 29, 23, 59, 59, 999_999)]
)


AWARE = st.datetimes(**DAYS, timezones=OFFSETS)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=4)


BYTES = st.just(b"\xfb\xff\xfe") | st.binary(max_size=8)


WORDS = st.text("abcxyz-_0", min_size=1, max_size=8)


OFFSET_LOST = "offsets of seconds; the name of the time zone"


SUPPORTED: list[Supported] = [
    scalar("str", str, TEXT, "tea", "halves of surrogate pairs"), scalar("int", int, st.integers(), 5),
    scalar("float", float, FINITE, 0.5, "NaN and infinities"), scalar("bool", bool, st.booleans(), True),
    scalar("LiteralString", LiteralString, TEXT, "tea")._replace(is_field=False),
    scalar("bytes", bytes, BYTES, b"\xfb\xff")._replace(is_content=True),
    Supported("bytearray", bytearray, BYTES.map(bytearray), bytearray(b"\xfb\xff"), is_field=False, is_content=True),
    Supported("Base64Bytes", pydantic.Base64Bytes, BYTES, b"\xfb\xff", is_content=True),
    scalar("datetime", dt.datetime, NAIVE | AWARE, dt.datetime(2026, 1, 31, 9, 30), OFFSET_LOST),
    scalar("NaiveDatetime", pydantic.NaiveDatetime, NAIVE, dt.datetime(2026, 1, 31, 9, 30)),
    scalar("AwareDatetime", pydantic.AwareDatetime, AWARE,
           dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.timezone.utc), OFFSET_LOST),
    scalar("date", dt.date, st.dates(), dt.date(2026, 1, 31)),
    scalar("time", dt.time, st.times() | st.times(timezones=OFFSETS), dt.time(9, 30), OFFSET_LOST),
    scalar("timedelta", dt.timedelta, st.timedeltas(), dt.timedelta(hours=-1.5)),
    scalar("Decimal", Decimal, DECIMALS, Decimal("12.50"), "NaN and infinities"),
    scalar("UUID", UUID, st.uuids(), UUID(int=5)), scalar("Path", Path, WORDS.map(Path), Path("/srv/data")),
    scalar("PurePosixPath", PurePosixPath, WORDS.map(PurePosixPath), PurePosixPath("srv/data")),
    scalar("Enum", Color, st.sampled_from(Color), Color.RED),
    scalar("IntEnum", Level, st.sampled_from(Level), Level.LOW),
    scalar("Enum of several types", Mixed, st.sampled_from(Mixed), Mixed.HALF),
    scalar("Enum of dates and bytes", Season, st.sampled_from(Season), Season.SPRING),
    Supported("Enum of tuples", Paint, st.sampled_from(Paint), Paint.RED, is_hashable=True),
    scalar("Flag", Access, st.sampled_from(list(map(Access, range(8)))), Access.WRITE),
    scalar('Literal["a", 1, None]', Literal["a", 1, None], st.sampled_from(["a", 1, None]), "a"),
    scalar("Literal[Color.RED]", Literal[Color.RED], st.just(Color.RED), Color.RED),
    scalar("IPv4Address", ipaddress.IPv4Address, st.ip_addresses(v=4), ipaddress.IPv4Address("10.0.0.1")),
    scalar("IPv6Address", ipaddress.IPv6Address, st.ip_addresses(v=6), ipaddress.IPv6Address("::1"), "zones"),
    scalar("IPv4Network", ipaddress.IPv4Network, st.ip_addresses(v=4).map(ipaddress.IPv4Network),
           ipaddress.IPv4Network("10.0.0.0/8")),
    Supported("re.Pattern", re.Pattern, WORDS.map(re.compile), re.compile("a+"), "flags", is_hashable=True),
    scalar("AnyUrl", pydantic.AnyUrl, WORDS.map(lambda word: pydantic.AnyUrl(f"https://example.org/{word}")),
           pydantic.AnyUrl("https://example.org/tea")),
    scalar("HttpUrl", pydantic.HttpUrl, WORDS.map(lambda word: pydantic.HttpUrl(f"https://example.org/{word}")),
           pydantic.HttpUrl("https://example.org/tea")),
    scalar('NewType("UserId", int)', UserId, st.integers(), 5),
    scalar("Annotated[int, Ge(0), Lt(10)]", Annotated[int, at.Ge(0), at.Lt(10)], st.integers(0, 9), 5),
    scalar('Annotated[str, Field(pattern="^[a-z]+$")]', Annotated[str, pydantic.Field(pattern="^[a-z]+$")],
           st.text("abc", min_size=1), "tea"),
    Supported("None", None, st.none(), None, is_field=True),
    Supported("list", list, st.lists(st.integers() | TEXT, max_size=3), [1, "a"]),
    Supported("deque[int]", collections.deque[int], st.lists(st.integers(), max_size=3).map(collections.deque),
              collections.deque([1, 2])),
    Supported("Sequence[date]", Sequence[dt.date], st.lists(st.dates(), max_size=3), [dt.date(2026, 1, 31)]),
    Supported("AbstractSet[int]", AbstractSet[int], st.frozensets(st.integers(), max_size=3), frozenset({1, 2}),
              "which kind of set it was"),
    Supported("dict", dict, st.dictionaries(TEXT, st.integers() | TEXT, max_size=3), {"a": 1}),
    Supported("Mapping[int, int]", Mapping[int, int],
              st.dictionaries(st.integers(), st.integers(), max_size=3), {1: 2}),
    Supported("MutableMapping[bool, str]", MutableMapping[bool, str],
              st.dictionaries(st.booleans(), TEXT, max_size=3), {True: "a"}),
    Supported("OrderedDict[int, str]", collections.OrderedDict[int, str],
              st.dictionaries(st.integers(), TEXT, max_size=3).map(collections.OrderedDict),
              collections.OrderedDict({1: "a"})),
    Supported("defaultdict[int, list[int]]", collections.defaultdict[int, list[int]],
              st.dictionaries(st.integers(), st.lists(st.integers(), max_size=2), max_size=2).map(
                  lambda members: collections.defaultdict(list, members)),
              collections.defaultdict(list, {1: [2]})),
    Supported("Counter[str]", collections.Counter[str],
              st.dictionaries(TEXT, st.integers(), max_size=3).map(collections.Counter), collections.Counter("tea")),
    Supported("dict[int | str, int]", dict[int | str, int],
              st.dictionaries(st.integers() | st.text("abc", min_size=1, max_size=3), st.integers(), max_size=3),
              {1: 2, "a": 3}, "a `str` that reads as an `int`"),
    Supported("datetime | str", dt.datetime | str, NAIVE | AWARE | st.text("abc"), dt.datetime(2026, 1, 31),
              "a `str` that reads as a `datetime`", is_hashable=True),
    Supported("date | datetime", dt.date | dt.datetime, st.dates() | NAIVE, dt.date(2026, 1, 31), is_hashable=True),
    Supported("int | float", int | float, st.integers() | FINITE, 0.5),
    Supported("Optional[timedelta]", Optional[dt.timedelta], st.none() | st.timedeltas(), None),
    Supported("tuple[()]", tuple[()], st.just(()), (), is_hashable=True),
    Supported("NamedTuple", Point, st.builds(Point, st.integers(), NAIVE | AWARE), Point(1), is_hashable=True),
    Supported("TypedDict", Place, st.fixed_dictionaries({"name": TEXT}, optional={"opens": st.times()}),
     {"name": "inn", "opens": dt.time(9)}),
    Supported("dataclass", Station,
              st.builds(Station, st.integers(), st.none() | NAIVE,
                        st.dictionaries(st.integers(), TEXT, max_size=2)), Station(1)),
    Supported("model", Dog, st.builds(Dog, born=st.dates(), tag=st.binary(max_size=4)), Dog(tag=b"\xfb\xff")),
    Supported("model of itself", Tree,
              st.recursive(st.builds(Tree, value=DECIMALS, grownAt=st.none() | st.timedeltas()),
                           lambda inner: st.builds(Tree, value=DECIMALS, children=st.lists(inner, max_size=2)),
                           max_leaves=3), Tree(value=Decimal(1), children=[Tree(value=Decimal(2))])),
    Supported("generic model", Box[dt.time], st.builds(Box[dt.time], item=st.times()), Box[dt.time](item=dt.time(9))),
    Supported("model with a computed field", Square, st.builds(Square, side=st.integers(0, 99)), Square(side=2)),
    Supported("models with a discriminator", Annotated[Cat | Dog, pydantic.Field(discriminator="kind")],
              st.builds(Cat) | st.builds(Dog, born=st.dates()), Cat()),
    Supported("type Rows = list[dict[int, str]]", Rows,
              st.lists(st.dictionaries(st.integers(), TEXT, max_size=2), max_size=2), [{1: "a"}]),
]  # fmt: skip


def is_same(sent: Any, received: Any) -> bool:
    """Return whether a received value equals the sent one, with the same types at every level."""
    if isinstance(sent, dict):
        return (type(received) is type(sent) and len(sent) == len(received) and all(any(is_same(key,
            other) and is_same(value, received[other]) for other in received) for key,
            value in sent.items()))  # fmt: skip
    if isinstance(sent, list | tuple | collections.deque):
        return (
            type(received) is type(sent) and len(sent) == len(received) and all(map(is_same, sent, received))
        )
    if hasattr(sent, "dtype") and hasattr(sent, "shape") and sent.shape:  # an array, or a column of pandas
        return (type(received) is type(
            sent) and received.dtype == sent.dtype and received.shape == sent.shape and all(
            left == right or left != left for left,
            right in zip(sent.ravel() if hasattr(sent, "ravel") else sent,
            received.ravel() if hasattr(received, "ravel") else received, strict=True)))  # fmt: skip
    if isinstance(sent, pydantic.BaseModel) or hasattr(sent, "__dataclass_fields__"):
        return type(received) is type(sent) and is_same(vars(sent), vars(received))
    if isinstance(sent, dt.datetime | dt.time):
        return type(received) is type(sent) and received == sent and received.utcoffset() == sent.utcoffset()
    return type(received) is type(sent) and bool(received == sent)


class Money:
    """A class with a JSON form declared by json_type."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    def __hash__(self) -> int:
        return hash(self.cents)

    def __repr__(self) -> str:
        return f"Money({self.cents})"


json_type(Money, schema=int, encode=lambda money: money.cents, decode=Money)


@attrs.frozen
class Leaf:
    share: Fraction
    seen: dt.datetime | None = None
    _note: str = ""


@attrs.define
class Branch:
    leaf: Leaf
    branches: list[Branch] = attrs.Factory(list)


class Meal(msgspec.Struct, tag=True, rename="camel", frozen=True):
    calories_each: Annotated[int, msgspec.Meta(ge=0)]
    raw: bytes = b""


INT64 = st.integers(-(2**63), 2**63 - 1)


NANOSECONDS = st.integers(-(2**62), 2**62)


ROWS = st.integers(0, 3).flatmap(
    lambda width: st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=3)
)


LEAVES = st.builds(Leaf, st.fractions(), st.none() | st.datetimes(), TEXT)


def hashable(
    name: str, annotation: Any, values: Any, sample: Any, lost: str = "", **options: Any
) -> Supported:
    """Return an entry for values that may be in sets."""
    return Supported(name, annotation, values, sample, lost, is_hashable=True, **options)


FOREIGN: list[Supported] = [
    hashable("Fraction", Fraction, st.fractions(), Fraction(1, 3)),
    hashable("range", range, st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-2, 1, 3])),
             range(0, 6, 2), "start, stop and step of the same numbers"),
    Supported("SimpleNamespace", SimpleNamespace,
              st.dictionaries(TEXT, st.integers() | TEXT, max_size=3).map(lambda values: SimpleNamespace(**values)),
              SimpleNamespace(a=1)),
    hashable("np.float64", np.float64, FINITE.map(np.float64), np.float64(0.5), "NaN and infinities"),
    hashable("np.float32", np.float32, st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32),
             np.float32(0.5), "NaN and infinities"),
    hashable("np.int64", np.int64, INT64.map(np.int64), np.int64(5)),
    hashable("np.uint8", np.uint8, st.integers(0, 255).map(np.uint8), np.uint8(5)),
    hashable("np.bool_", np.bool_, st.booleans().map(np.bool_), np.bool_(True)),
    hashable("np.str_", np.str_, TEXT.map(np.str_), np.str_("tea")),
    hashable("np.datetime64", np.datetime64, NANOSECONDS.map(lambda count: np.datetime64(count, "ns")),
             np.datetime64("2026-01-31T09:30:00"), "the unit"),
    hashable("np.timedelta64", np.timedelta64, NANOSECONDS.map(lambda count: np.timedelta64(count, "ns")),
             np.timedelta64(90, "s"), "the unit"),
    Supported("NDArray[np.float64]", npt.NDArray[np.float64],
              st.lists(st.floats(allow_infinity=False), max_size=3).map(np.array), np.array([0.5, np.nan]),
              "infinities"),
    Supported("NDArray[np.int64]", npt.NDArray[np.int64],
              st.lists(INT64, max_size=3).map(lambda values: np.array(values, np.int64)),
              np.array([[1, 2], [3, 4]])),
    Supported("np.ndarray[tuple[int, int], np.dtype[np.bool_]]", np.ndarray[tuple[int, int], np.dtype[np.bool_]],
              ROWS.map(lambda rows: np.array(rows, np.bool_)), np.array([[True, False]])),
    hashable("pd.Timestamp", pd.Timestamp, NANOSECONDS.map(pd.Timestamp), pd.Timestamp("2026-01-31T09:30:00.123456789"),
             "the name of the time zone"),
    hashable("pd.Timedelta", pd.Timedelta, NANOSECONDS.map(pd.Timedelta), pd.Timedelta(hours=-1.5)),
    hashable("attrs class", Leaf, LEAVES, Leaf(Fraction(1, 3))),
    Supported("attrs class of itself", Branch,
              st.recursive(st.builds(Branch, LEAVES),
                           lambda inner: st.builds(Branch, LEAVES, st.lists(inner, max_size=2)), max_leaves=3),
              Branch(Leaf(Fraction(1)), [Branch(Leaf(Fraction(2)))])),
    hashable("msgspec.Struct", Meal, st.builds(Meal, st.integers(0), st.binary(max_size=4)), Meal(250)),
    hashable("class with a json_type", Money, st.builds(Money, st.integers()), Money(250)),
]  # fmt: skip


EVERY: list[Supported] = [*SUPPORTED, *FOREIGN]


REVISIONS = ("2025-11-25", "2026-07-28")


class Echo:
    """A server with `give() -> T` and `echo(x: T) -> T`.

    Args:
        annotation: The type.
    """

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self.given: Any = None
        self.received: Any = None
        self.server = Server("echo")
        self.output = Output.of(annotation)

        async def give() -> Any:
            return self.given

        async def echo(x: Any) -> Any:
            self.received = x
            return x

        give.__annotations__ = {"return": annotation}
        echo.__annotations__ = {"x": annotation, "return": annotation}
        self.server.tool(give)
        self.server.tool(echo)

    @property
    def schema(self) -> Any:
        """The published schema of the argument, with what its references lead to."""
        tool = self.server.catalog.tools["echo"]
        schema = tool.arguments.schema
        definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
        return {**schema["properties"]["x"], **definitions}

    async def pass_on(self, value: Any, revision: str) -> Any:
        """Return the JSON form of a value, after a client has sent it back."""
        self.given = value
        async with connect(self.server, protocol_version=revision) as client:
            sent = self.data(await client.call_tool("give", {}), revision)
            returned = self.data(await client.call_tool("echo", {"x": sent}), revision)
        assert _unordered(returned) == _unordered(sent)
        return sent

    def data(self, result: CallResult, revision: str) -> Any:
        """Return the JSON value in a result."""
        assert not result.is_error, result.text
        if self.output is None:  # content: bytes are a blob, what holds them is JSON in a text
            if not result.content:
                return None
            block = result.content[0]
            if block["type"] == "text":
                return json.loads(block["text"])
            data = block["resource"]["blob"] if block["type"] == "resource" else block["data"]
            assert base64.b64encode(base64.b64decode(data, validate=True)).decode() == data
            return data
        is_wrapped = self.output.is_wrapped and revision == REVISIONS[0]
        return result.structured_content["result"] if is_wrapped else result.structured_content


def _unordered(data: Any) -> str:
    """Return a JSON value as a text that is the same for two arrays that a set may become."""
    if isinstance(data, list):
        return f"[{','.join(sorted(map(_unordered, data)))}]"
    if isinstance(data, dict):
        return f"{{{','.join(f'{name!r}:{_unordered(value)}' for name, value in sorted(data.items()))}}}"
    return json.dumps(data)

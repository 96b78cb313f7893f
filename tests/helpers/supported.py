"""The types that come back from a client as they went out, each with its values: tests and docs read this one list.

An entry is added for each type: it is drawn alone and in everything of drawn_types.py, and stands in the table of
docs/reference/types.md, which `python bench/types_page.py` writes.
"""

# ruff: noqa: UP045 - built of what is known at run time only, and the old spellings are tested on purpose
from __future__ import annotations

import collections
import datetime as dt
import enum
import ipaddress
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar
from uuid import UUID

import annotated_types as at
from hypothesis import strategies as st
from pydantic import (
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    Field,
    HttpUrl,
    NaiveDatetime,
    computed_field,
)
from typing_extensions import LiteralString, NotRequired, TypeAliasType, TypedDict

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


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


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    born: dt.date = dt.date(2026, 1, 31)
    tag: bytes = b""


class Tree(BaseModel):
    value: Decimal
    grown_at: dt.timedelta | None = Field(None, alias="grownAt")
    children: list[Tree] = []


class Box(BaseModel, Generic[T]):
    item: T


class Square(BaseModel):
    side: int

    @computed_field
    def area(self) -> int:
        return self.side**2


UserId = NewType("UserId", int)
Rows = TypeAliasType("Rows", list[dict[int, str]])


class Supported(NamedTuple):
    """A type whose values come back as they went out.

    Args:
        name: How an author writes it.
        annotation: The type.
        values: Draws values of it.
        sample: One of them, for the docs.
        lost: What does not come back, in words for the docs; `values` draws nothing of it.
        is_key: Whether its values may be keys of mappings.
        is_field: Whether pydantic's models and dataclasses may have fields of it.
        is_hashable: Whether it may be in a set.
        is_content: Whether a tool that returns several of them gives pieces of content.
        is_same: Tells whether a value has come back; None for `is_same`.
        is_exact: Whether all that its schema allows is a value of it; its class refuses the rest.
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
    is_exact: bool = True

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
    scalar("str", str, TEXT, "tea", "halves of surrogate pairs"),
    scalar("int", int, st.integers(), 5),
    scalar("float", float, FINITE, 0.5, "NaN and infinities"),
    scalar("bool", bool, st.booleans(), True),
    scalar("LiteralString", LiteralString, TEXT, "tea")._replace(is_field=False),
    scalar("bytes", bytes, BYTES, b"\xfb\xff")._replace(is_content=True),
    Supported("bytearray", bytearray, BYTES.map(bytearray), bytearray(b"\xfb\xff"), is_field=False, is_content=True),
    Supported("Base64Bytes", Base64Bytes, BYTES, b"\xfb\xff", is_content=True),
    scalar("datetime", dt.datetime, NAIVE | AWARE, dt.datetime(2026, 1, 31, 9, 30), OFFSET_LOST),
    scalar("NaiveDatetime", NaiveDatetime, NAIVE, dt.datetime(2026, 1, 31, 9, 30)),
    scalar("AwareDatetime", AwareDatetime, AWARE, dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.timezone.utc), OFFSET_LOST),
    scalar("date", dt.date, st.dates(), dt.date(2026, 1, 31)),
    scalar("time", dt.time, st.times() | st.times(timezones=OFFSETS), dt.time(9, 30), OFFSET_LOST),
    scalar("timedelta", dt.timedelta, st.timedeltas(), dt.timedelta(hours=-1.5)),
    scalar("Decimal", Decimal, DECIMALS, Decimal("12.50"), "NaN and infinities"),
    scalar("UUID", UUID, st.uuids(), UUID(int=5)),
    scalar("Path", Path, WORDS.map(Path), Path("/srv/data")),
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
    scalar("AnyUrl", AnyUrl, WORDS.map(lambda word: AnyUrl(f"https://example.org/{word}")),
           AnyUrl("https://example.org/tea")),
    scalar("HttpUrl", HttpUrl, WORDS.map(lambda word: HttpUrl(f"https://example.org/{word}")),
           HttpUrl("https://example.org/tea")),
    scalar('NewType("UserId", int)', UserId, st.integers(), 5),
    scalar("Annotated[int, Ge(0), Lt(10)]", Annotated[int, at.Ge(0), at.Lt(10)], st.integers(0, 9), 5),
    scalar('Annotated[str, Field(pattern="^[a-z]+$")]', Annotated[str, Field(pattern="^[a-z]+$")],
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
    Supported("TypedDict", Place,
              st.fixed_dictionaries({"name": TEXT}, optional={"opens": st.times()}),
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
    Supported("models told apart by a field", Annotated[Cat | Dog, Field(discriminator="kind")],
              st.builds(Cat) | st.builds(Dog, born=st.dates()), Cat()),
    Supported("type Rows = list[dict[int, str]]", Rows,
              st.lists(st.dictionaries(st.integers(), TEXT, max_size=2), max_size=2), [{1: "a"}]),
]  # fmt: skip


def is_same(sent: Any, received: Any) -> bool:
    """Tell whether a value has come back as it went out: of the same types, all the way down."""
    if isinstance(sent, dict):
        return (
            type(received) is type(sent)
            and len(sent) == len(received)
            and all(
                any(is_same(key, other) and is_same(value, received[other]) for other in received)
                for key, value in sent.items()
            )
        )
    if isinstance(sent, list | tuple | collections.deque):
        return (
            type(received) is type(sent) and len(sent) == len(received) and all(map(is_same, sent, received))
        )
    if hasattr(sent, "dtype") and hasattr(sent, "shape") and sent.shape:  # an array, or a column of pandas
        return (
            type(received) is type(sent)
            and received.dtype == sent.dtype
            and received.shape == sent.shape
            and all(
                left == right or left != left
                for left, right in zip(
                    sent.ravel() if hasattr(sent, "ravel") else sent,
                    received.ravel() if hasattr(received, "ravel") else received,
                    strict=True,
                )
            )
        )
    if isinstance(sent, BaseModel) or hasattr(sent, "__dataclass_fields__"):
        return type(received) is type(sent) and is_same(vars(sent), vars(received))
    if isinstance(sent, dt.datetime | dt.time):
        return type(received) is type(sent) and received == sent and received.utcoffset() == sent.utcoffset()
    return type(received) is type(sent) and bool(received == sent)

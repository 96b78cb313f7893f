"""The list of supported.py, and the types of other libraries and of authors that come back as they went out."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from types import SimpleNamespace
from typing import Annotated, Any

import attrs
import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
from hypothesis import strategies as st

from mcpkit import json_type
from tests.helpers.supported import SUPPORTED, TEXT, Supported


class Money:
    """A class of which json_type says what it is in JSON."""

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
FINITE = st.floats(allow_nan=False, allow_infinity=False)
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
             range(0, 6, 2), "start, stop and step of the same numbers", is_exact=False),
    Supported("SimpleNamespace", SimpleNamespace,
              st.dictionaries(TEXT, st.integers() | TEXT, max_size=3).map(lambda held: SimpleNamespace(**held)),
              SimpleNamespace(a=1)),
    hashable("np.float64", np.float64, FINITE.map(np.float64), np.float64(0.5), "NaN and infinities"),
    hashable("np.float32", np.float32, st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32),
             np.float32(0.5), "NaN and infinities", is_exact=False),
    hashable("np.int64", np.int64, INT64.map(np.int64), np.int64(5), is_exact=False),
    hashable("np.uint8", np.uint8, st.integers(0, 255).map(np.uint8), np.uint8(5)),
    hashable("np.bool_", np.bool_, st.booleans().map(np.bool_), np.bool_(True)),
    hashable("np.str_", np.str_, TEXT.map(np.str_), np.str_("tea")),
    hashable("np.datetime64", np.datetime64, NANOSECONDS.map(lambda count: np.datetime64(count, "ns")),
             np.datetime64("2026-01-31T09:30:00"), "the unit", is_exact=False),
    hashable("np.timedelta64", np.timedelta64, NANOSECONDS.map(lambda count: np.timedelta64(count, "ns")),
             np.timedelta64(90, "s"), "the unit", is_exact=False),
    Supported("NDArray[np.float64]", npt.NDArray[np.float64],
              st.lists(st.floats(allow_infinity=False), max_size=3).map(np.array), np.array([0.5, np.nan]),
              "infinities", is_exact=False),
    Supported("NDArray[np.int64]", npt.NDArray[np.int64],
              st.lists(INT64, max_size=3).map(lambda held: np.array(held, np.int64)),
              np.array([[1, 2], [3, 4]]), is_exact=False),
    Supported("np.ndarray[tuple[int, int], np.dtype[np.bool_]]", np.ndarray[tuple[int, int], np.dtype[np.bool_]],
              ROWS.map(lambda rows: np.array(rows, np.bool_)), np.array([[True, False]]), is_exact=False),
    hashable("pd.Timestamp", pd.Timestamp, NANOSECONDS.map(pd.Timestamp), pd.Timestamp("2026-01-31T09:30:00.123456789"),
             "the name of the time zone", is_exact=False),
    hashable("pd.Timedelta", pd.Timedelta, NANOSECONDS.map(pd.Timedelta), pd.Timedelta(hours=-1.5), is_exact=False),
    hashable("attrs class", Leaf, LEAVES, Leaf(Fraction(1, 3))),
    Supported("attrs class of itself", Branch,
              st.recursive(st.builds(Branch, LEAVES),
                           lambda inner: st.builds(Branch, LEAVES, st.lists(inner, max_size=2)), max_leaves=3),
              Branch(Leaf(Fraction(1)), [Branch(Leaf(Fraction(2)))])),
    hashable("msgspec.Struct", Meal, st.builds(Meal, st.integers(0), st.binary(max_size=4)), Meal(250)),
    hashable("class with a json_type", Money, st.builds(Money, st.integers()), Money(250)),
]  # fmt: skip

EVERY: list[Supported] = [*SUPPORTED, *FOREIGN]

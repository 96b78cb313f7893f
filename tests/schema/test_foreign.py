"""Values of other people's classes, as the data that they are."""

from __future__ import annotations

import array
import collections
import ctypes
import io
import itertools
import sqlite3
import tempfile
import types
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, deferred, mapped_column

from mcpkit.content import lazy
from mcpkit.content.foreign import encoder


@attrs.define
class Point:
    x: int
    _y: str = "up"


class Sound(msgspec.Struct, rename="camel"):
    sample_rate: int
    title: str | msgspec.UnsetType = msgspec.UNSET


class Tagged(msgspec.Struct, tag=True):
    size: int


class Pair(msgspec.Struct, array_like=True):
    left: int
    right: int


class Base(DeclarativeBase):
    """Tables."""


class User(Base):
    __tablename__ = "user"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    note: Mapped[str | None] = deferred(mapped_column(sa.String))


def counting() -> Iterator[int]:
    """Yield two numbers."""
    yield 1
    yield 2


def encoded(value: Any) -> Any:
    """Return what becomes of a value of which something is known."""
    encode = encoder(type(value))
    assert encode is not None
    return encode(value)


FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
RECORD = np.array([(1, 2.5)], dtype=[("a", int), ("b", float)])
VALUES: list[tuple[Any, Any]] = [
    (np.int64(3), 3),
    (np.float32(1.5), 1.5),
    (np.longdouble(1.5), 1.5),
    (np.bool_(True), True),
    (np.str_("x"), "x"),
    (np.datetime64("2026-07-28"), "2026-07-28"),
    (np.datetime64("2026-07-28T01:02:03.123456789"), "2026-07-28T01:02:03.123456789"),
    (np.datetime64("NaT", "s"), None),
    (np.timedelta64("NaT", "s"), None),
    (np.timedelta64(90, "s"), "PT1M30S"),
    (np.timedelta64(-3, "M"), "-P3M"),
    (np.timedelta64(1, "ns"), "PT0.000000001S"),
    (RECORD[0], {"a": 1, "b": 2.5}),
    (RECORD, [RECORD[0]]),
    (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
    (np.array(5), 5),
    (np.array(["2026-07-28"], dtype="datetime64[ns]"), [np.datetime64("2026-07-28", "ns")]),
    (np.array([Fraction(1, 3)], dtype=object), [Fraction(1, 3)]),
    (np.ma.array([1, 2], mask=[False, True]), [1, None]),
    (np.ma.masked, None),
    (pd.Timestamp("2026-07-28T01:02:03.123456789Z"), "2026-07-28T01:02:03.123456789+00:00"),
    (pd.Timedelta("1 day 00:00:01.5"), "P1DT1.5S"),
    (pd.Timedelta("-1 day"), "-P1D"),
    (pd.Timedelta(0), "PT0S"),
    (pd.NaT, None),
    (pd.NA, None),
    (pd.Period("2026-07"), "2026-07"),
    (pd.Interval(1, 2), {"left": 1, "right": 2, "closed": "right"}),
    (pd.Series([1, 2]), [1, 2]),
    (pd.Index(["a"]), ["a"]),
    (pd.RangeIndex(2), [0, 1]),
    (pd.Categorical(["a", "b"]), ["a", "b"]),
    (FRAME, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
    (FRAME.set_index("b"), [{"b": "x", "a": 1}, {"b": "y", "a": 2}]),
    (FRAME[FRAME.a > 1], [{"index": 1, "a": 2, "b": "y"}]),
    (pl.DataFrame({"a": [1], "b": ["x"]}), [{"a": 1, "b": "x"}]),
    (pl.Series([1, 2]), [1, 2]),
    (Fraction(1, 3), "1/3"),
    (types.SimpleNamespace(a=1), {"a": 1}),
    (Point(1), {"x": 1, "y": "up"}),
    (Sound(44_100), {"sampleRate": 44_100}),
    (Tagged(3), {"type": "Tagged", "size": 3}),
    (Pair(1, 2), [1, 2]),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    (collections.ChainMap({"a": 1}, {"b": 2}), {"a": 1, "b": 2}),
    (collections.UserDict({"a": 1}), {"a": 1}),
    (collections.UserList([1]), [1]),
    (collections.UserString("x"), "x"),
    (collections.deque([1]), [1]),
    (array.array("d", [1.5]), [1.5]),
    (range(3), [0, 1, 2]),
    ({"a": 1}.keys(), ["a"]),
    ({"a": 1}.values(), [1]),
    ({"a": 1}.items(), [("a", 1)]),
    (map(str, [1]), ["1"]),
    (filter(None, [0, 1]), [1]),
    (zip([1], [2], strict=True), [(1, 2)]),
    (iter([1]), [1]),
    (counting(), [1, 2]),
    (memoryview(b"x"), b"x"),
    (io.BytesIO(b"x"), b"x"),
    (io.StringIO("x"), "x"),
]


@pytest.mark.parametrize(("value", "data"), VALUES, ids=[type(value).__qualname__ for value, _ in VALUES])
def test_a_value_is_the_data_that_it_obviously_is(value: Any, data: Any) -> None:
    found = encoded(value)
    assert found == data
    assert type(found) is type(data)


@pytest.mark.parametrize(
    "value",
    [object(), 1j, (ctypes.c_int * 2)(1, 2), len, pl.LazyFrame({"a": [1]}), io, type],
    ids=lambda value: type(value).__qualname__,
)
def test_nothing_is_made_of_an_object_that_is_no_data(value: object) -> None:
    assert encoder(type(value)) is None


@pytest.mark.parametrize("value", ["a", b"a", 1, 1.5, True, {}, [], (), set(), collections.Counter()])
def test_nothing_is_to_be_made_of_what_json_knows(value: object) -> None:
    assert encoder(type(value)) is None


def test_a_row_of_sqlite_is_an_object() -> None:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    cursor = database.execute("select 1 as a, 'x' as b")
    assert [encoded(row) for row in encoded(cursor)] == [{"a": 1, "b": "x"}]
    database.close()


def test_rows_and_instances_of_sqlalchemy_are_objects() -> None:
    engine = sa.create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(User(id=1, name="Ada"))
        session.commit()
        row = session.execute(sa.select(User.id, User.name)).one()
        mapping = session.execute(sa.select(User.id, User.name)).mappings().one()
        user = session.execute(sa.select(User)).scalar_one()
        assert encoded(row) == encoded(mapping) == encoded(user) == {"id": 1, "name": "Ada"}
        session.commit()
    with pytest.raises(ValueError, match="a User whose column 'id' is not loaded; refresh it"):
        encoded(user)
    engine.dispose()


def test_an_endless_iterator_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "MOST_ITEMS", 1000)
    with pytest.raises(ValueError, match=r"a count of more than 1,000 items; is it endless\?"):
        encoded(itertools.count())


def test_a_file_is_all_that_is_in_it(tmp_path: Path) -> None:
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("written")
        assert encoded(file) == "written"
    with (tmp_path / "bytes").open("wb+") as binary:
        binary.write(b"written")
        assert encoded(binary) == b"written"
    with pytest.raises(ValueError, match="a file that is closed"):
        encoded(binary)
    with (tmp_path / "bytes").open("w") as unreadable, pytest.raises(ValueError, match="cannot be read"):
        encoded(unreadable)


def test_a_table_loses_no_column() -> None:
    with pytest.raises(ValueError, match="a DataFrame with two columns 'a'"):
        encoded(pd.DataFrame([[1, 2]], columns=["a", "a"]))

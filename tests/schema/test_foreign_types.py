"""Types of other libraries, and of classes for which `json_type` declares a JSON form."""

import array
import collections
import dataclasses
import datetime as dt
import enum
import io
import types
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

import attrs
import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest
import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, deferred, mapped_column
from typing_extensions import Required, TypedDict, Unpack

from mcpkit import RegistrationError, Server
from mcpkit.content.iterators_and_third_party_values import encoder
from mcpkit.content.json_encoding import json_value
from mcpkit.exceptions import ArgumentsError
from mcpkit.schema import Arguments, Signature
from mcpkit.schema.json_schema import json_types
from mcpkit.testing import connect
from mcpkit.types import json_type
from tests.helpers.schema_cases import arguments_of
from tests.helpers.tables import each_row


@attrs.define
class Point:
    x: int
    _y: str = "up"


class Cat(msgspec.Struct, tag=True, rename="camel"):
    nine_lives: Annotated[int, msgspec.Meta(ge=0, le=9, description="Those that are left")]
    name: str | msgspec.UnsetType = msgspec.UNSET


class ArrayPair(msgspec.Struct, array_like=True):
    left: int
    right: int


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
    (np.int64(3), 3), (np.float32(1.5), 1.5), (np.longdouble(1.5), 1.5), (np.bool_(True), True),
    (np.str_("x"), "x"), (np.datetime64("2026-07-28"), "2026-07-28"),
    (np.datetime64("2026-07-28T01:02:03.123456789"), "2026-07-28T01:02:03.123456789"),
    (np.datetime64("NaT", "s"), None), (np.timedelta64("NaT", "s"), None), (np.timedelta64(90, "s"), "PT1M30S"),
    (np.timedelta64(-3, "M"), "-P3M"), (np.timedelta64(1, "ns"), "PT0.000000001S"),
    (RECORD[0], {"a": 1, "b": 2.5}), (RECORD, [RECORD[0]]), (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
    (np.array(5), 5), (np.array(["2026-07-28"], dtype="datetime64[ns]"), [np.datetime64("2026-07-28", "ns")]),
    (np.array([Fraction(1, 3)], dtype=object), [Fraction(1, 3)]),
    (np.ma.array([1, 2], mask=[False, True]), [1, None]), (np.ma.masked, None),
    (pd.Timestamp("2026-07-28T01:02:03.123456789Z"), "2026-07-28T01:02:03.123456789+00:00"),
    (pd.Timedelta("1 day 00:00:01.5"), "P1DT1.5S"), (pd.Timedelta("-1 day"), "-P1D"), (pd.Timedelta(0), "PT0S"),
    (pd.NaT, None), (pd.NA, None), (pd.Period("2026-07"), "2026-07"),
    (pd.Interval(1, 2), {"left": 1, "right": 2, "closed": "right"}), (pd.Series([1, 2]), [1, 2]),
    (pd.Index(["a"]), ["a"]), (pd.RangeIndex(2), [0, 1]), (pd.Categorical(["a", "b"]), ["a", "b"]),
    (FRAME, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
    (FRAME.set_index("b"), [{"b": "x", "a": 1}, {"b": "y", "a": 2}]),
    (FRAME[FRAME.a > 1], [{"index": 1, "a": 2, "b": "y"}]),
    (pl.DataFrame({"a": [1], "b": ["x"]}), [{"a": 1, "b": "x"}]), (pl.Series([1, 2]), [1, 2]),
    (Fraction(1, 3), "1/3"), (types.SimpleNamespace(a=1), {"a": 1}), (Point(1), {"x": 1, "y": "up"}),
    (Cat(9), {"type": "Cat", "nineLives": 9}), (ArrayPair(1, 2), [1, 2]), (types.MappingProxyType({"a": 1}), {"a": 1}),
    (collections.ChainMap({"a": 1}, {"b": 2}), {"a": 1, "b": 2}), (collections.UserDict({"a": 1}), {"a": 1}),
    (collections.UserList([1]), [1]), (collections.UserString("x"), "x"), (collections.deque([1]), [1]),
    (array.array("d", [1.5]), [1.5]), (range(3), [0, 1, 2]), ({"a": 1}.keys(), ["a"]), ({"a": 1}.values(), [1]),
    ({"a": 1}.items(), [("a", 1)]), (map(str, [1]), ["1"]), (filter(None, [0, 1]), [1]),
    (zip([1], [2], strict=True), [(1, 2)]), (iter([1]), [1]), (counting(), [1, 2]), (memoryview(b"x"), b"x"),
    (io.BytesIO(b"x"), b"x"), (io.StringIO("x"), "x"),
]  # fmt: skip


@each_row(("value", "data"), VALUES)
def test_foreign_value_is_encoded(value: Any, data: Any) -> None:
    found = encoded(value)
    assert found == data
    assert type(found) is type(data)


def test_foreign_table_with_duplicate_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="a DataFrame with two columns 'a'"):
        encoded(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@attrs.define
class Leaf:
    share: Fraction
    _count: int = attrs.field(default=1, validator=attrs.validators.ge(0))
    label: Any = attrs.field(default="", validator=attrs.validators.instance_of(str))


@each_row(("annotation", "sent", "message"), [
    (Fraction, "1/0", 'value: expected a fraction such as "1/3"'),
    (np.uint8, 256, "value: expected an integer from 0 to 255, got 256"), (np.int64, 2**63, "value: "),
    (range, [1, 2, 4], "value: expected integers with a constant step"),
    (npt.NDArray[np.int64], [[1], [1, 2]], "value: .*inhomogeneous"),
    (npt.NDArray[np.int64], ["a"], r"value\[0\]: expected an integer"),
    (pd.Timestamp, "yesterday", "value: expected a date and time"),
    (pd.Timestamp, "9999-01-01T00:00:00Z", None), (pd.Timedelta, "P999999999D", "value: "),
    (Leaf, {"share": "1", "count": -1}, "value: 'count' must be >= 0|value: '_count' must be >= 0"),
    (Leaf, {"share": "1", "label": 1}, "value: 'label' must be <class 'str'>"),
    (Leaf, {"share": 1.5}, r"value\.share: expected a fraction"),
    (Cat, {"type": "Dog", "nineLives": 1}, "value.type"),
    (Cat, {"type": "Cat", "nineLives": 10}, "value.nineLives: expected an integer from 0 to 9, got 10"),
])  # fmt: skip
def test_foreign_type_wrong_value_is_reported(annotation: Any, sent: Any, message: str | None) -> None:
    if message is None:
        arguments_of(annotation).validate({"value": sent})
        return
    with pytest.raises(ArgumentsError, match=message):
        arguments_of(annotation).validate({"value": sent})


class Strange:
    """A class without a JSON form."""


@each_row("annotation", [np.complex128, Strange, list[Cat | Strange], AsyncIterator[int], ArrayPair])
def test_foreign_type_without_json_form_is_refused(annotation: Any) -> None:
    with pytest.raises(
        RegistrationError, match=r"JSON; .*json_type|use another type|array_like|an async iterable"
    ):
        arguments_of(annotation)


class Money:
    """A class without a JSON form of its own."""

    def __init__(self, amount: Decimal, currency: str) -> None:
        self.amount = amount
        self.currency = currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def parse(text: str) -> Money:
    """Make money of a text."""
    amount, _, currency = text.partition(" ")
    if currency not in {"EUR", "USD"}:
        raise ValueError(f"there is no currency {currency}; use EUR or USD")
    return Money(Decimal(amount), currency)


json_type(
    Money,
    schema={"type": "string", "pattern": "^[0-9]+ [A-Z]{3}$"},
    encode=lambda money: f"{money.amount} {money.currency}",
    decode=parse,
)


class Spot(TypedDict):
    lat: float
    since: dt.date


@json_type(
    schema=Spot,
    encode=lambda place: {"lat": place.lat, "since": place.since},
    decode=lambda spot: SpotPlace(**spot),
)
@dataclass
class SpotPlace:
    lat: float
    since: dt.date


@json_type(
    schema={"type": "integer"}, encode=lambda level: level.value * 10, decode=lambda tens: Level(tens // 10)
)
class Level(enum.Enum):
    LOW = 1
    HIGH = 2


json_type(  # a class of C, which takes no attributes
    slice,
    schema={"type": "array", "items": {"$ref": "#/$defs/end"}, "$defs": {"end": {"type": "integer"}}},
    encode=lambda part: [part.start, part.stop],
    decode=lambda ends: slice(*ends),
)


class MoneyOrder(BaseModel):
    price: Money
    place: SpotPlace | None = None


@attrs.define
class Attrs:
    price: Money


PRICE, SPOT = "12 EUR", {"lat": 1.5, "since": "2026-07-28"}
Bill = dataclasses.make_dataclass("Bill", [("price", Money), ("part", slice)])
PLACES: list[tuple[Any, Any]] = [
    (Money, PRICE), (SpotPlace, SPOT), (Level, 20), (dict[str, Level], {"a": 10}), (slice, [1, 2]),
    (list[Money], [PRICE]), (dict[str, Money], {"a": PRICE}), (Money | None, PRICE), (Money | int, PRICE),
    (tuple[Money, SpotPlace], [PRICE, SPOT]), (Annotated[Money, "What it costs"], PRICE),
    (MoneyOrder, {"price": PRICE, "place": SPOT}), (list[MoneyOrder], [{"price": PRICE, "place": None}]),
    (Bill, {"price": PRICE, "part": [1, 2]}), (Attrs, {"price": PRICE}),
    (TypedDict("TypedMoney", {"price": Money}), {"price": PRICE}),
    (NamedTuple("NamedMoney", [("price", Money)]), [PRICE]),
]  # fmt: skip


@each_row(("annotation", "data"), PLACES)
def test_json_type_round_trip_in_every_type(annotation: Any, data: Any) -> None:
    value = arguments_of(annotation).validate({"value": data})["value"]
    assert json_value({"within": [value]}) == {"within": [data]}


@each_row(("annotation", "sent", "message"), [
    (Money, "12 GBP", "^value: there is no currency GBP; use EUR or USD$"),
    (Money, "12", "^value: expected a string that matches"), (Money, 12, "^value: expected a string"),
    (MoneyOrder, {"price": "12 GBP"}, r"^value\.price: there is no currency GBP"),
    (list[Money], [PRICE, "1 GBP"], r"^value\[1\]: there is no currency GBP"),
    (SpotPlace, {"lat": 1}, r"^value\.since: "), (Level, 50, "^value: 5 is not a valid Level"),
])  # fmt: skip
def test_json_type_decode_error_is_reported_at_its_place(annotation: Any, sent: Any, message: str) -> None:
    with pytest.raises(ArgumentsError, match=message):
        arguments_of(annotation).validate({"value": sent})


@pytest.mark.parametrize(("options", "message"), [
    ({"schema": {"type": "strin"}}, r"json_type\(.*Fresh\): schema: not a valid JSON Schema at type"),
    ({"schema": {"$ref": "#/$defs/x"}}, r"schema: a \$ref cannot be resolved"),
    ({"schema": {"type": "string"}, "encode": None}, "encode= and decode= must be functions"),
    ({"schema": {"type": "string"}, "decode": 1}, "encode= and decode= must be functions"),
    ({"schema": {"$ref": "#/$defs/node",
     "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
     "the schema refers to recursive definitions"),
])  # fmt: skip
def test_json_type_wrong_declaration_is_refused(options: Any, message: str) -> None:
    class Fresh:
        """Not declared yet."""

    with pytest.raises(RegistrationError, match=message):
        json_type(Fresh, **{"encode": str, **options})
    assert Fresh not in json_types


class Base(DeclarativeBase):
    """Tables."""


class User(Base):
    __tablename__ = "user"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    note: Mapped[str | None] = deferred(mapped_column(sa.String))


def test_foreign_sqlalchemy_rows_are_objects() -> None:
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
    with pytest.raises(ValueError, match="the column 'id' of a User is not loaded; refresh the object"):
        encoded(user)
    engine.dispose()


class Options(TypedDict, total=False):
    city: Required[str]
    days: int


def travel(by: str, **options: Unpack[Options]) -> None:
    """Travel.

    Args:
        city: Where to.
    """


def test_kwargs_of_typed_dict_are_arguments() -> None:
    arguments = Arguments.of(Signature.of(travel, is_injected=lambda *_: False))
    assert arguments.schema == {"type": "object", "properties": {"by": {"type": "string"},
        "city": {"type": "string", "description": "Where to."}, "days": {"type": "integer"}},
        "required": ["by", "city"], "additionalProperties": False}  # fmt: skip
    assert arguments.validate({"by": "bus", "city": "Rome"}) == {"by": "bus", "city": "Rome"}
    with pytest.raises(ArgumentsError, match='dayz: unknown argument; did you mean "days"'):
        arguments.validate({"by": "bus", "city": "Rome", "dayz": 2})


class PointModel(BaseModel, arbitrary_types_allowed=True):
    point: Point
    cats: list[Cat]


async def test_attrs_and_msgspec_in_model_defined_before_registration_are_converted(revision: str) -> None:
    server = Server("models")

    @server.tool
    def same(model: PointModel) -> PointModel:
        assert isinstance(model.point, Point)
        assert isinstance(model.cats[0], Cat)
        return model

    value = {"point": {"x": 1, "y": "down"}, "cats": [{"type": "Cat", "nineLives": 9, "name": "Tom"}]}
    async with connect(server, protocol_version=revision) as client:
        assert (await client.call_tool("same", {"model": value})).structured_content == value
        refused = await client.call_tool("same", {"model": {**value, "point": {"x": "one"}}})
        assert "model.point.x" in refused.error_text

"""What an answer to a form becomes, and what is told of one that does not fit."""

# ruff: noqa: UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Annotated, Optional

import attrs
import msgspec
import pydantic
import pytest
from pydantic import BaseModel, Field, RootModel

from mcpkit.schema.form import Form
from tests.helpers.form_types import NEWEST, Box, City, Color, Order, Place, Point, Size, Span, lines


def test_an_answer_becomes_a_value_of_the_type():
    content = {
        "name": "Berlin",
        "mail": "a@example.org",
        "people": 3.0,
        "area": 891,
        "color": "red",
        "size": "l",
        "seen": "2026-01-31T09:30:00Z",
        "more": [1],
    }
    assert Form.of(City).read(content) == City(
        *("Berlin", "a@example.org", 3, 891.0, Color.RED, Size.LARGE, None),
        seen=dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.timezone.utc),
    )


@pytest.mark.parametrize(
    ("annotation", "content", "value"),
    [
        (Point, {"x": 1}, Point(1)),
        (Place, {"name": "a"}, {"name": "a", "note": None}),
        (Place, {"name": "a", "note": "b", "size": 2, "more": 1}, {"name": "a", "note": "b", "size": 2}),
        (Order, {}, Order()),
        (Order, {"how-large": "s", "size": "l"}, Order(**{"how-large": Size.SMALL})),
        (Order, {"how-large": None}, Order()),
        (Box, {"color": "blue"}, Box(Color.BLUE)),
        (Span, {"first": 1, "last": 4, "scale": 2}, Span(1, 4, 2)),
        (Annotated[Point, "Where"], {"x": 1}, Point(1)),
        (Optional[str], {}, None),
        (Optional[str], {"value": None}, None),
        (Optional[str], {"value": ""}, ""),
        (Annotated[str, Field(default="a")], {}, "a"),
        (set[Color], {"value": ["red", "blue"]}, {Color.RED, Color.BLUE}),
        (float, {"value": 5}, 5.0),
        (RootModel[str], {"value": "a"}, RootModel[str]("a")),
        (Decimal, {"value": "1.50"}, Decimal("1.50")),
        (dt.datetime, {"value": "2026-01-31T09:30:00"}, dt.datetime(2026, 1, 31, 9, 30)),
        (
            Optional[dt.datetime],
            {"value": "2026-01-31T09:30:00.5"},
            dt.datetime(2026, 1, 31, 9, 30, 0, 500000),
        ),
    ],
    ids=lambda value: "a set" if isinstance(value, set) else str(value),
)
def test_what_is_read(annotation, content, value):
    read = Form.of(annotation).read(content)
    assert read == value
    assert type(read) is type(value)


def test_an_answer_that_does_not_fit_has_one_line_a_field():
    content = {
        "name": "x",
        "mail": "home",
        "people": "3",
        "area": 0,
        "color": "green",
        "size": 1,
        "founded": "soon",
    }
    assert lines(City, content) == [
        'name: expected a string of 2 to 20 characters, got "x"',
        'mail: expected an email address, got "home"',
        'people: expected an integer greater than 0 and less than 100000000, got "3"',
        "area: expected a number of at least 0.5, got 0",
        'color: expected "red" or "blue", got "green"',
        'size: expected "s" or "l", got 1',
        'founded: expected a date such as 2026-01-31, got "soon"',
    ]


@pytest.mark.parametrize(
    ("annotation", "content", "expected"),
    [
        (Point, {}, ["x: expected an integer, but it is missing"]),
        (Point, {"x": None}, ["x: expected an integer, got null"]),
        (Point, {"x": "1"}, ['x: expected an integer, got "1"']),
        (Point, {"x": True}, ["x: expected an integer, got true"]),
        (Point, None, ["expected an object, got null"]),
        (Point, [1], ["expected an object, got [1]"]),
        (bool, {"value": "true"}, ['value: expected true or false, got "true"']),
        (list[Color], {"value": "red"}, ['value: expected an array, got "red"']),
        (list[Color], {"value": ["red", "x"]}, ['value[1]: expected "red" or "blue", got "x"']),
        (set[Color], {"value": ["red", "red"]}, ["value: expected an array without duplicates, got [\"red\",\"red\"]"]),
        (Order, {"mail": "home"}, ['mail: expected an email address, got "home"']),
        (Order, {"cups": 7}, ["cups: seven cups are too many"]),
        (Span, {"first": 2, "last": 1}, ["the last comes before the first"]),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_with_an_answer(annotation, content, expected):
    assert lines(annotation, content) == expected


class Strict(BaseModel, extra="forbid"):
    low: int = 0
    high: int = 9

    @pydantic.model_validator(mode="after")
    def ordered(self) -> Strict:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


def test_what_a_model_checks_itself_speaks_without_names_of_libraries():
    assert lines(Strict, {"low": 10}) == ["low is above high"]
    (line,) = lines(Strict, {"more": 1})
    assert line.startswith("more: ")
    assert "pydantic" not in line


@attrs.define
class Booking:
    city: str
    days: int = attrs.field(default=2, validator=attrs.validators.ge(1))
    color: Color | None = None


class Ticket(msgspec.Struct, rename="camel"):
    seat_number: Annotated[int, msgspec.Meta(ge=1)]


def test_classes_of_attrs_and_msgspec_are_forms() -> None:
    form = Form.of(Booking)
    assert form.schema(NEWEST)["properties"]["days"] == {"type": "integer", "default": 2}
    assert form.schema(NEWEST)["required"] == ["city"]
    assert form.read({"city": "Rome"}) == Booking("Rome")
    assert lines(Booking, {"city": "Rome", "days": 0}) == ["'days' must be >= 1: 0"]
    assert Form.of(Ticket).schema(NEWEST)["properties"] == {"seatNumber": {"type": "integer", "minimum": 1}}
    assert Form.of(Ticket).read({"seatNumber": 3}) == Ticket(3)

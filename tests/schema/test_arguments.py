"""Arguments: their schema, their validation, and the messages about values that do not fit."""

# ruff: noqa: UP007 - with `|` the names would have to be defined when the class is made
from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

import annotated_types as at
import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    SecretBytes,
    SecretStr,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from mcpkit._utils.exceptions import ArgumentsError
from mcpkit._utils.option_checks import nearest
from mcpkit.schema import Arguments, Signature, custom_schemas
from tests.helpers.schema_cases import Color, arguments_of
from tests.helpers.tables import each_row


class Place(TypedDict):
    name: str
    size: int


@dataclass
class CircleShape:
    kind: Literal["circle"]
    radius: Annotated[float, at.Gt(0)]


@dataclass
class SquareShape:
    kind: Literal["square"]
    side: int


class Range(BaseModel):
    low: int
    high: int

    @field_validator("low")
    @classmethod
    def _low(cls, value: int) -> int:
        if value == 13:
            raise ValueError("13 is not served")
        return value

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


def forecast(
    latitude: Annotated[float, at.Interval(ge=-90, le=90)],
    longitude: float,
    days: int = 3,
    unit: Literal["c", "f"] = "c",
    *,
    places: list[Place] | None = None,
    shape: CircleShape | SquareShape | None = None,
    range: Range | None = None,
    tags: frozenset[str] = frozenset(),
    color: Color = Color.RED,
) -> None: ...


FORECAST = Arguments.of(Signature.of(forecast, is_injected=lambda *_: False))
GOOD = {"latitude": 47, "longitude": 8.5}


def lines(arguments: Arguments, value: dict[str, Any]) -> list[str]:
    """Return the lines of the error of arguments."""
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate(value)
    return str(caught.value).splitlines()


def test_arguments_schema_is_closed_in_signature_order_with_defaults_as_json() -> None:
    schema = FORECAST.schema
    properties = schema["properties"]
    assert list(schema) == ["type", "properties", "required", "additionalProperties"]
    assert list(properties)[:4] == ["latitude", "longitude", "days", "unit"]
    assert (schema["required"], schema["additionalProperties"]) == (["latitude", "longitude"], False)
    assert properties["days"] == {"type": "integer", "default": 3}
    assert properties["tags"]["default"] == []
    assert properties["color"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}


def test_arguments_keywords_have_type_of_kwargs() -> None:
    def f(a: int, **rest: Annotated[int, at.Ge(0)]) -> None: ...

    arguments = Arguments.of(Signature.of(f, is_injected=lambda *_: False))
    assert arguments.schema["additionalProperties"] == {"type": "integer", "minimum": 0}
    assert arguments.validate({"a": 1, "b": 2.0}) == {"a": 1, "b": 2}
    assert lines(arguments, {"a": 1, "b": -1}) == ["b: expected an integer of at least 0, got -1"]


@each_row(("wrong", "line"), [
    ({"latitude": "north"}, 'latitude: expected a number from -90 to 90, got "north"'),
    ({"latitude": 91}, "latitude: expected a number from -90 to 90, got 91"),
    ({"longitude": None}, "longitude: expected a number, got null"),
    ({"longitude": True}, "longitude: expected a number, got true"),
    ({"days": 1.5}, "days: expected an integer, got 1.5"),
    ({"unit": "k"}, 'unit: expected "c" or "f", got "k"'),
    ({"color": "green"}, 'color: expected "red" or "blue", got "green"'),
    ({"lattitude": 1}, 'lattitude: unknown argument; did you mean "latitude"?'),
    ({"tags": ["a", "a"]}, 'tags: expected an array without duplicates, got ["a","a"]'),
    ({"places": {}}, "places: expected an array or null, got {}"),
    ({"places": [{"name": "a"}]}, "places[0].size: expected an integer, but it is missing"),
    ({"places": [{"name": True, "size": 2}]}, "places[0].name: expected a string, got true"),
    ({"shape": {"kind": "circle", "radius": 0}}, "shape.radius: expected a number greater than 0, got 0"),
    ({"shape": {"kind": "square"}}, "shape.side: expected an integer, but it is missing"),
    ({"shape": "round"}, 'shape: expected an object or null, got "round"'),
    ({"range": {"low": 2, "high": 1}}, "range: low is above high"),
    ({"range": {"low": 13, "high": 14}}, "range.low: 13 is not served"),
])  # fmt: skip
def test_arguments_wrong_value_is_reported_in_one_line(wrong: dict[str, Any], line: str) -> None:
    assert lines(FORECAST, {**GOOD, **wrong}) == [line]


def test_arguments_missing_values_are_reported() -> None:
    assert lines(FORECAST, {}) == [
        "latitude: expected a number from -90 to 90, but it is missing",
        "longitude: expected a number, but it is missing",
    ]


def test_arguments_error_has_no_more_than_ten_lines() -> None:
    found = lines(arguments_of(list[int]), {"value": ["x"] * 12})
    assert (found[9], found[10:]) == ('value[9]: expected an integer, got "x"', ["and 2 more"])


COUNTRIES = [f"{first}{second}" for first in "ABCDE" for second in "KLMNO"]


Country = enum.Enum("Country", {name: name for name in COUNTRIES})


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog", "wolf"]
    age: int


class Circle(BaseModel, extra="forbid"):
    radius: int
    color: str


class Square(BaseModel, extra="forbid"):
    side: int
    angle: int


KINDS = 'expected "cat", "dog" or "wolf"'
CHOICES = 'value: expected one of 25 values such as "AK", "AL", "AM", "AN", "AO"'


@each_row(("annotation", "value", "line"), [
    (Cat | Dog | None, {"kind": "Cat", "lives": 9}, f'value.kind: {KINDS}, got "Cat"'),
    (Cat | Dog | None, {"kind": None}, f"value.kind: {KINDS}, got null"),
    (Cat | Dog | None, {"lives": 9}, f"value.kind: {KINDS}, but it is missing"),
    (Cat | Dog | None, {"kind": "wolf"}, "value.age: expected an integer, but it is missing"),
    (Cat | Dog | None, 9, "value: expected an object or null, got 9"),
    (Country, "em", f'{CHOICES}, got "em"; did you mean "EM"?'),
    (Country, "Switzerland", f'{CHOICES}, got "Switzerland"'),
    # of a union, the problem of the branch with most members
    (Circle | Square, {"side": "long", "angle": 1}, 'value.side: expected an integer, got "long"'),
    (Circle | Square, {"radius": "long", "color": "red"}, 'value.radius: expected an integer, got "long"'),
    (set[Union[int, str, None]], [1, "1", 1], "value: expected an array without duplicates, got [1,\"1\",1]"),
    (frozenset[tuple[int, str]], [[1, "a"]] * 2,
     'value: expected an array without duplicates, got [[1,"a"],[1,"a"]]'),
])  # fmt: skip
def test_problem_is_that_of_the_intended_choice(annotation: Any, value: Any, line: str) -> None:
    assert lines(arguments_of(annotation), {"value": value}) == [line]


@each_row(
    ("annotation", "value"),
    [(set[Union[int, str, None]], [1, "1", None]), (frozenset[tuple[int, str]], [[1, "a"], [2, "a"]])],
)
def test_arguments_array_of_different_values_becomes_a_set(annotation: Any, value: Any) -> None:
    assert len(arguments_of(annotation).validate({"value": value})["value"]) == len(value)


HIDDEN = Field(json_schema_extra={"writeOnly": True})


TOO_SHORT = ": expected a string of at least 12 characters, got a string"


PASSWORD = Field(json_schema_extra={"format": "password"})


class Login(BaseModel):
    user: str
    password: Annotated[SecretStr, Field(min_length=12)]


class Vault(BaseModel):
    logins: list[Login]
    parts: list[Vault] = []


def _never(value: Any) -> Any:
    raise ValueError("it is too weak")


@each_row(("annotation", "sent", "problem"), [
    (Annotated[SecretStr, Field(min_length=12)], "hunter2", TOO_SHORT),
    (SecretStr, 47.11, ": expected a string, got a number"),
    (SecretBytes, "hunter-2", ": expected a base64 string, got a string"),
    (Annotated[str, HIDDEN, Field(pattern="^1$")], "hunter2", ": expected a string that matches ^1$, got a string"),
    (Annotated[int, PASSWORD], "hunter2", ": expected an integer, got a string"),
    (Annotated[int, PASSWORD], True, ": expected an integer, got a boolean"),
    (Annotated[list[int], HIDDEN], [1, "hunter2"], "[1]: expected an integer, got a string"),
    (Annotated[dict[str, int], HIDDEN], {"a": "hunter2"}, ".a: expected an integer, got a string"),
    (Login, {"user": "ada", "password": "hunter2"}, f".password{TOO_SHORT}"),
    (Login, '{"user": "ada", "password": "hunter2', ": expected an object, got a string"),
    (Login | None, [{"user": "ada", "password": "hunter2"}], ": expected an object or null, got an array"),
    (Login | int, "hunter2", ": expected an object or an integer, got a string"),
    (Vault, {"logins": "hunter2"}, ".logins: expected an array, got a string"),
    (Vault, {"logins": [], "parts": "hunter2"}, ".parts: expected an array, got a string"),
    (Annotated[SecretStr, AfterValidator(_never)], "hunter2", ": it is too weak"),
])  # fmt: skip
def test_problem_secret_value_is_not_shown(annotation: Any, sent: Any, problem: str) -> None:
    assert lines(arguments_of(annotation), {"value": sent}) == [f"value{problem}"]


def test_problem_secret_of_json_schema_is_not_shown() -> None:
    arguments = custom_schemas.arguments({"type": "object", "properties": {"pin": {"$ref": "#/$defs/pin"},
        "keys": {"type": "array", "writeOnly": True, "contains": {"const": 1}}, "size": {"type": "integer"}},
        "$defs": {"pin": {"type": "string", "format": "password", "minLength": 12}}})  # fmt: skip
    assert lines(arguments, {"pin": "hunter2", "keys": ["hunter2"], "size": "small"}) == [
        "pin: expected a string of at least 12 characters, got a string",
        'keys: an array does not fit {"contains":{"const":1}}',
        'size: expected an integer, got "small"',
    ]


KNOWN = ["latitude", "longitude", "max_results", "query", "unit", "id"]


@each_row(("name", "known"), [
    ("lattitude", "latitude"), ("lat", "latitude"), ("LONG", "longitude"), ("maxResults", "max_results"),
    ("max-results", "max_results"), ("MAX_RESULTS", "max_results"), ("Query", "query"),
    ("search_query", "query"), ("units", "unit"), ("ID", "id"), ("page", None), ("q", None), ("", None),
    ("é", None), ("query" * 100_000, None),
])  # fmt: skip
def test_nearest_name(name: str, known: str | None) -> None:
    assert nearest(name, KNOWN) == known

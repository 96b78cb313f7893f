"""Arguments: their schema, their validation, and the messages about values that do not fit."""

# ruff: noqa: UP007 - with `|` the names would have to be defined when the class is made
from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Union
from uuid import UUID

import annotated_types as at
import pydantic
import pytest
from typing_extensions import NotRequired, TypedDict

from mcpkit._utils.exceptions import ArgumentsError
from mcpkit._utils.option_checks import nearest
from mcpkit.schema import Arguments, Signature, custom_schemas
from mcpkit.schema.elicitation_forms import Form
from mcpkit.schema.function_signatures import parameter
from tests.helpers.schema_cases import Color, Place, Point, arguments_of
from tests.helpers.tables import each_row


class SizedPlace(TypedDict):
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


class Range(pydantic.BaseModel):
    low: int
    high: int

    @pydantic.field_validator("low")
    @classmethod
    def _low(cls, value: int) -> int:
        if value == 13:
            raise ValueError("13 is not served")
        return value

    @pydantic.model_validator(mode="after")
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
    places: list[SizedPlace] | None = None,
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


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog", "wolf"]
    age: int


class Circle(pydantic.BaseModel, extra="forbid"):
    radius: int
    color: str


class Square(pydantic.BaseModel, extra="forbid"):
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


HIDDEN = pydantic.Field(json_schema_extra={"writeOnly": True})


TOO_SHORT = ": expected a string of at least 12 characters, got a string"


PASSWORD = pydantic.Field(json_schema_extra={"format": "password"})


class Login(pydantic.BaseModel):
    user: str
    password: Annotated[pydantic.SecretStr, pydantic.Field(min_length=12)]


class Vault(pydantic.BaseModel):
    logins: list[Login]
    parts: list[Vault] = []


def _never(value: Any) -> Any:
    raise ValueError("it is too weak")


@each_row(("annotation", "sent", "problem"), [
    (Annotated[pydantic.SecretStr, pydantic.Field(min_length=12)], "hunter2", TOO_SHORT),
    (pydantic.SecretStr, 47.11, ": expected a string, got a number"),
    (pydantic.SecretBytes, "hunter-2", ": expected a base64 string, got a string"),
    (Annotated[str, HIDDEN, pydantic.Field(pattern="^1$")], "hunter2",
     ": expected a string that matches ^1$, got a string"),
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
    (Annotated[pydantic.SecretStr, pydantic.AfterValidator(_never)], "hunter2", ": it is too weak"),
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


# Repair of arguments: JSON in strings, numbers for texts, and blank fields


@dataclass
class Disk:
    radius: float


@dataclass
class Tile:
    side: int


class Tree(pydantic.BaseModel):
    value: int
    children: list[Tree] = []


@each_row(("annotation", "sent", "expected"), [
    (list[int], " [1, 2]\n", [1, 2]), (list[int], ["1", 2, "3"], [1, 2, 3]),
    (list[int], '["1", "2"]', [1, 2]), (dict[str, list[int]], {"a": "[1]"}, {"a": [1]}),
    (Place, '{"name": "a", "size": "1"}', {"name": "a", "size": 1}),
    (Place, {"name": "[1]", "size": "1"}, {"name": "[1]", "size": 1}), (Point, "[1, 2]", Point(1, 2.0)),
    (Tree, {"value": 1, "children": '[{"value": "2"}]'}, Tree(value=1, children=[Tree(value=2)])),
    (Disk | Tile, '{"side": 1}', Tile(1)), (Disk | list[Tile], ['{"side": "1"}'], [Tile(1)]),
    (int, "5", 5), (int, "5.0", 5), (float, "5", 5.0), (bool, "true", True), (int | None, "null", None),
    (Literal["a", None], "null", None), (dt.date | list[int], "[1]", [1]),
])  # fmt: skip
def test_repair_json_in_string_is_parsed(annotation: Any, sent: Any, expected: Any) -> None:
    result = arguments_of(annotation).validate({"value": sent})["value"]
    assert result == expected
    assert type(result) is type(expected)


@each_row(("annotation", "sent"), [
    (int, "5 apples"), (int, "1.5"), (int, "true"), (int, '"5"'), (bool, "True"), (bool, "1"),
    (float, "NaN"), (float, "1e400"), (float, "9" * 5000), (list[int], "[1, 2"), (list[int], "[1] [2]"),
    (list[int], "['1']"), (list[str], '["\\ud800"]'), (list[int], ""), (list[int], "[" * 100_000),
    (list[int], "[" * 150 + "]" * 150), (Color, '"red"'), (dt.date, '"2026-01-31"'),
    (list[int], json.dumps(json.dumps([1]))),
])  # fmt: skip
def test_repair_other_strings_are_refused(annotation: Any, sent: Any) -> None:
    with pytest.raises(ArgumentsError, match="value"):
        arguments_of(annotation).validate({"value": sent})


def test_repair_applies_to_explicit_json_schema() -> None:
    schema = {"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}},
        "shape": {"anyOf": [{"type": "object", "properties": {"side": {"type": "integer"}},
        "required": ["side"]}, {"type": "null"}]}, "note": {"type": "string"}}}  # fmt: skip
    arguments = custom_schemas.arguments(schema)
    sent = {"ids": "[1, 2]", "shape": {"side": "3"}, "note": "4"}
    assert arguments.validate(sent) == {"ids": [1, 2], "shape": {"side": 3}, "note": "4"}
    with pytest.raises(ArgumentsError, match=r'^ids: expected an array, got "1, 2"$'):
        arguments.validate({**sent, "ids": "1, 2"})


@each_row(("annotation", "sent", "expected"), [
    (str, 5, "5"), (str, -(2**70), str(-(2**70))), (str | None, 5, "5"), (Literal["1", "2"], 2, "2"),
    (Decimal, 12, Decimal(12)), (list[str], ["a", 5, 6], ["a", "5", "6"]), (list[str], "[5]", ["5"]),
    (dict[str, list[Place]], {"x": [{"name": 5, "size": "5"}]}, {"x": [{"name": "5", "size": 5}]}),
    (tuple[str, int], [5, "6"], ("5", 6)), (tuple[str, int] | tuple[int, bool], [5, 6], ("5", 6)),
    (list[str] | list[bool], [5, 6], ["5", "6"]), (str | list[str], 5, "5"),
])  # fmt: skip
def test_repair_whole_number_becomes_text(annotation: Any, sent: Any, expected: Any) -> None:
    result = arguments_of(annotation).validate({"value": sent})["value"]
    assert result == expected
    assert type(result) is type(expected)


class A(TypedDict):
    a: int
    b: str


class B(TypedDict):
    a: str
    b: bool


class C(TypedDict):
    a: str
    b: NotRequired[int]


@each_row(("annotation", "sent", "expected"), [
    # None: no reading or several, which are refused
    (tuple[str, int] | tuple[int, str], [5, 6], None), (tuple[str, int] | tuple[int, str], ["5", "6"], None),
    (tuple[str, int] | tuple[int, bool], ["5", "true"], (5, True)),
    (tuple[int, bool] | tuple[str, str], ["5", True], (5, True)),
    (list[tuple[int, bool] | tuple[bool, int]], [["5", "true"], ["true", "1"]], [(5, True), (True, 1)]),
    (tuple[int, int] | tuple[str, str], [1, "2"], None), (tuple[str | None, int], ["null", "3"], ("null", 3)),
    (A | B, {"a": "5", "b": True}, {"a": "5", "b": True}), (A | B, {"a": "5", "b": 6}, {"a": 5, "b": "6"}),
    (A | B, {"a": 5, "b": True}, {"a": "5", "b": True}), (B | C, {"a": 5, "b": "6"}, {"a": "5", "b": 6}),
    (B | C, {"a": 5, "b": "true"}, {"a": "5", "b": True}),
    (list[A | B], [{"a": "1", "b": "x"}], [{"a": 1, "b": "x"}]),
    (list[int] | list[bool], ["true"], [True]), (list[int] | list[bool], ["1", "true"], None),
    (list[int] | list[str], [1, "a"], ["1", "a"]), (list[int] | list[str], ["1", 2], None),
    (list[list[int] | list[bool]], [["1"], ["true"]], [[1], [True]]),
    (list[list[int] | list[bool]], [["1"], ["true"], ["x"]], None),
    (list[Literal["1", 5]] | list[Literal["5", 1]], ["5"], ["5"]),
    (list[Literal["1", 5]] | list[int], ["5", 1], [5, 1]),
    (str | int, "5", "5"), (int | bool, "true", True), (str | list[int], "[1]", "[1]"), (bool | float, "5", 5.0),
    (list[int] | dict[str, int], '{"a":"1"}', {"a": 1}), (Literal["1", "2"] | bool, 1, "1"),
    (dict[str, int] | dict[str, str], {"a": "1", "b": 2}, None),
    (dict[str, int | None], {"a": "null", "b": "2"}, {"a": None, "b": 2}),
])  # fmt: skip
def test_repair_of_union_happens_if_exactly_one_reading_exists(annotation, sent, expected) -> None:
    arguments = arguments_of(annotation)
    if expected is None:
        with pytest.raises(ArgumentsError, match="value"):
            arguments.validate({"value": sent})
    else:
        assert repr(arguments.validate({"value": sent})["value"]) == repr(expected)


def check_filled(value: str) -> str:
    if not value:
        raise ValueError("it is empty")
    return value


FLAT: list[tuple[Any, Any]] = [
    # types that forms can have, with a default
    (int, 3), (float, 0.5), (bool, True), (int | None, None), (Literal["slow", "fast"], "slow"),
    (list[Literal["a", "b"]], None), (Color, Color.RED), (dt.date, dt.date(2026, 1, 31)),
    (Annotated[str, at.MinLen(1)], "x"), (Annotated[str, pydantic.AfterValidator(check_filled)], "x"),
]  # fmt: skip
NESTED: list[tuple[Any, Any]] = [
    (list[int] | None, None), (dict[str, int], None), (Place | None, None), (tuple[int, int], (1, 2)),
    (Decimal, Decimal(1)), (UUID | None, None), (Annotated[str, pydantic.Field(pattern="^[a-z]+$")], "x"),
]  # fmt: skip


@each_row(("hint", "default"), FLAT + NESTED)
def test_blank_argument_is_dropped_where_empty_text_does_not_fit(hint: Any, default: Any) -> None:
    optional = [parameter("p", hint, default), parameter("text", str | None, "x")]
    arguments = Arguments.of_parameters("f", [parameter("needed", int), *optional])
    assert arguments.validate_strings({"needed": "5", "p": "", "text": ""}) == {"needed": 5, "text": ""}
    with pytest.raises(ArgumentsError, match=r"^needed: expected an integer"):
        arguments.validate_strings({"needed": "", "p": ""})
    if hint == list[int] | None:
        assert arguments.validate_strings({"needed": "5", "p": [""]}) == {"needed": 5}


@each_row(("hint", "value"), [(str, ""), (Any, ""), (int | str, ""), (bytes | int, b"")])
def test_blank_argument_is_unchanged_where_empty_text_fits(hint: Any, value: Any) -> None:
    arguments = Arguments.of_parameters("f", [parameter("p", hint, 1)])
    assert arguments.validate_strings({"p": ""}) == {"p": value}


@each_row(("hint", "default"), FLAT)
def test_blank_form_field_has_default(hint: Any, default: Any) -> None:
    members = [("needed", int), ("p", hint, dataclasses.field(default=default)), ("text", str, "x")]
    form = Form.of(dataclasses.make_dataclass("Trip", members))
    assert dataclasses.astuple(form.read({"needed": 5, "p": "", "text": ""})) == (5, default, "")
    with pytest.raises(ArgumentsError, match=r"^needed: expected an integer"):
        form.read({"needed": "", "p": ""})

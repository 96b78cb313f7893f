"""The schema of all arguments, their validation, and what is said of wrong ones."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import annotated_types as at
import pytest
from pydantic import BaseModel, Field, StringConstraints, field_validator, model_validator
from typing_extensions import TypedDict

from mcpkit.common.errors import ArgumentsError, Problem, RegistrationError
from mcpkit.schema import Arguments, Signature


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(TypedDict):
    name: str
    size: int


@dataclass
class Circle:
    kind: Literal["circle"]
    radius: Annotated[float, at.Gt(0)]


@dataclass
class Square:
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
    shape: Circle | Square | None = None,
    range: Range | None = None,
    tags: frozenset[str] = frozenset(),
    color: Color = Color.RED,
) -> None: ...


def of(fn: Callable[..., Any]) -> Arguments:
    return Arguments.of(Signature.of(fn, is_injected=lambda *_: False))


GOOD = {"latitude": 47, "longitude": 8.5}


def problems(arguments: Arguments, value: dict[str, Any]) -> list[str]:
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate(value)
    return [str(problem) for problem in caught.value.problems]


def test_the_root_is_closed_and_in_the_order_of_the_signature() -> None:
    schema = of(forecast).schema
    assert list(schema) == ["type", "properties", "required", "additionalProperties"]
    assert list(schema["properties"])[:4] == ["latitude", "longitude", "days", "unit"]
    assert schema["required"] == ["latitude", "longitude"]
    assert schema["additionalProperties"] is False


def test_no_arguments() -> None:
    def f() -> None: ...

    arguments = of(f)
    assert arguments.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert arguments.validate({}) == {}
    assert problems(arguments, {"a": 1}) == ["a: unknown argument; there are no arguments"]


def test_defaults_are_shown_as_json() -> None:
    properties = of(forecast).schema["properties"]
    assert properties["days"] == {"type": "integer", "default": 3}
    assert properties["tags"]["default"] == []
    assert properties["color"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}


def test_a_default_that_json_does_not_know_is_not_shown() -> None:
    def f(a: float = float("nan"), b: Any = object()) -> None: ...

    schema = of(f).schema
    assert schema["properties"] == {"a": {"type": "number"}, "b": {}}
    assert "required" not in schema


def test_what_the_caller_leaves_out_is_left_to_python() -> None:
    assert of(forecast).validate(dict(GOOD)) == {"latitude": 47.0, "longitude": 8.5}


def test_a_default_is_not_validated() -> None:
    def f(a: int = "any") -> None: ...  # type: ignore[assignment]  # what is tested

    assert of(f).validate({}) == {}


def test_a_factory_in_the_annotation_makes_the_default() -> None:
    def f(
        a: Annotated[list[int], Field(default_factory=list)], b: Annotated[int, Field(default=2)]
    ) -> None: ...

    arguments = of(f)
    assert "required" not in arguments.schema
    assert arguments.validate({}) == {"a": [], "b": 2}


def test_any_other_arguments_have_the_type_of_the_keywords() -> None:
    def f(a: int, **rest: Annotated[int, at.Ge(0)]) -> None: ...

    arguments = of(f)
    assert arguments.schema["additionalProperties"] == {"type": "integer", "minimum": 0}
    assert arguments.validate({"a": 1, "b": 2.0}) == {"a": 1, "b": 2}
    assert problems(arguments, {"a": 1, "b": -1}) == ["b: expected an integer of at least 0, got -1"]


def test_any_other_arguments_may_be_anything() -> None:
    def f(**rest: Any) -> None: ...

    assert of(f).schema == {"type": "object", "properties": {}, "additionalProperties": True}
    assert of(f).validate({"a": [None]}) == {"a": [None]}


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
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
    ],
)
def test_a_wrong_argument_is_one_line(wrong: dict[str, Any], problem: str) -> None:
    assert problems(of(forecast), {**GOOD, **wrong}) == [problem]


def test_missing_arguments_say_what_they_are() -> None:
    assert problems(of(forecast), {}) == [
        "latitude: expected a number from -90 to 90, but it is missing",
        "longitude: expected a number, but it is missing",
    ]


def test_an_unknown_argument_like_no_other_lists_those_there_are() -> None:
    def f(a: int = 0, b: int = 0) -> None: ...

    assert problems(of(f), {"zzzz": 1}) == ["zzzz: unknown argument; the arguments are: a, b"]


def test_a_long_value_is_shortened() -> None:
    (line,) = problems(of(forecast), {**GOOD, "days": "x" * 5000})
    assert len(line) < 130
    assert "(5002 characters)" in line


def test_problems_have_fields_and_are_at_most_ten_lines() -> None:
    def f(a: list[int]) -> None: ...

    with pytest.raises(ArgumentsError) as caught:
        of(f).validate({"a": ["x"] * 12})
    assert caught.value.problems[11] == Problem("a[11]", 'expected an integer, got "x"')
    assert str(caught.value).splitlines()[10:] == ["and 2 more"]


def test_a_constraint_beyond_json_schema_is_told_too() -> None:
    def f(a: Annotated[Decimal, at.Ge(1)]) -> None: ...

    assert of(f).validate({"a": "1.0"}) == {"a": Decimal("1.0")}
    assert problems(of(f), {"a": "0.5"}) == ['a: expected greater than or equal to 1, got "0.5"']


def test_a_constraint_after_a_conversion_is_told_too() -> None:
    def f(a: Annotated[str, StringConstraints(strip_whitespace=True, min_length=2)]) -> None: ...

    assert of(f).validate({"a": " ab "}) == {"a": "ab"}
    assert problems(of(f), {"a": " a "}) == ['a: string should have at least 2 characters, got " a "']


def test_a_default_that_is_a_set_is_shown_sorted() -> None:
    def f(a: frozenset[str] = frozenset({"d", "c", "b", "a"}), b: bytes = b"\xff\xfe") -> None: ...

    properties = of(f).schema["properties"]
    assert properties["a"]["default"] == ["a", "b", "c", "d"]
    assert properties["b"]["default"] == "//4="


def typed(
    number: int,
    ratio: float = 0.0,
    is_on: bool = False,
    text: str = "",
    color: Color = Color.RED,
    level: Literal[1, 2] = 1,
    numbers: list[int] | None = None,
    place: Place | None = None,
    either: int | str = 0,
    anything: Any = None,
) -> None: ...


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("number", "5", 5),
        ("ratio", "0.5", 0.5),
        ("ratio", "5", 5.0),
        ("is_on", "true", True),
        ("text", "5", "5"),
        ("text", '"quoted"', '"quoted"'),
        ("text", "null", "null"),
        ("color", "blue", Color.BLUE),
        ("level", "2", 2),
        ("numbers", "[1, 2]", [1, 2]),
        ("numbers", ["1", "2"], [1, 2]),
        ("numbers", "null", None),
        ("place", '{"name": "a", "size": 1}', {"name": "a", "size": 1}),
        ("either", "5", "5"),
        ("anything", "[1]", "[1]"),
    ],
)
def test_texts_become_the_types_of_their_parameters(name: str, text: Any, value: Any) -> None:
    result = of(typed).validate_strings({"number": "1", name: text})[name]
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("number", "five", 'number: expected an integer, got "five"'),
        ("number", "", 'number: expected an integer, got ""'),
        ("ratio", "NaN", 'ratio: expected a number, got "NaN"'),
        ("is_on", "yes", 'is_on: expected true or false, got "yes"'),
        ("numbers", "1,2", 'numbers: expected an array or null, got "1,2"'),
        ("numbers", ["1", "x"], 'numbers[1]: expected an integer, got "x"'),
        ("place", '{"name": "a"}', "place.size: expected an integer, but it is missing"),
        ("numbre", "1", 'numbre: unknown argument; did you mean "number"?'),
    ],
)
def test_wrong_texts_are_problems(name: str, text: Any, problem: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        of(typed).validate_strings({"number": "1", name: text})
    assert [str(found) for found in caught.value.problems] == [problem]


def test_a_pattern_may_look_around() -> None:
    def pay(code: Annotated[str, Field(pattern="^(?!0)[0-9]+$")]) -> None: ...

    arguments = of(pay)
    assert arguments.validate({"code": "10"}) == {"code": "10"}
    with pytest.raises(ArgumentsError, match="matches"):
        arguments.validate({"code": "010"})


def test_a_pattern_that_is_none_is_refused_when_registered() -> None:
    def pay(code: Annotated[str, Field(pattern="(")]) -> None: ...

    with pytest.raises(RegistrationError, match=r"pay: argument 'code': the pattern '\(' is no regular"):
        of(pay)

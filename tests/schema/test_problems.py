"""What is said of a value that does not fit: one line, short, whatever was sent."""

# ruff: noqa: UP007 - with `|` the names would have to be defined when the class is made
from __future__ import annotations

import enum
from typing import Annotated, Any, Literal, Union

import pytest
from pydantic import AfterValidator, BaseModel, Field

from mcpkit.common.errors import ArgumentsError
from mcpkit.content.wording import path
from mcpkit.schema import Arguments
from mcpkit.schema.parameters import parameter
from mcpkit.schema.problems import problems
from tests.helpers.structures import arguments_of

COUNTRIES = [f"{first}{second}" for first in "ABCDE" for second in "KLMNO"]
Country = enum.Enum("Country", {name: name for name in COUNTRIES})


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog", "wolf"]
    age: int


class Fish(BaseModel):
    kind: Literal["fish"] = "fish"
    length: float


class Circle(BaseModel):
    radius: float


class Square(BaseModel):
    side: int


class Left(BaseModel):
    children: list[Union[Left, Right]] = []
    left: int = 0


class Right(BaseModel):
    children: list[Union[Left, Right]] = []
    right: int = 0


def lines(annotation: Any, value: Any) -> list[str]:
    with pytest.raises(ArgumentsError) as caught:
        arguments_of(annotation).validate({"value": value})
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", 0, "b", 1, 2), "a[0].b[1][2]"),
        (("a\nb",), '"a\\nb"'),
        (("a", "\x1b[31m"), 'a."\\u001b[31m"'),
        (("x" * 100,), "x" * 60 + "… (100 characters)"),
    ],
)
def test_a_path_is_one_short_line(steps: Any, text: str) -> None:
    assert path(steps) == text


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"kind": "Cat", "lives": 9}, 'value.kind: expected "cat", "dog" or "wolf", got "Cat"'),
        ({"kind": None}, 'value.kind: expected "cat", "dog" or "wolf", got null'),
        ({"lives": 9}, 'value.kind: expected "cat", "dog" or "wolf", but it is missing'),
        ({"kind": "wolf"}, "value.age: expected an integer, but it is missing"),
        (9, "value: expected an object or null, got 9"),
    ],
)
def test_the_constant_that_tells_classes_apart_is_named(value: Any, line: str) -> None:
    assert lines(Cat | Dog | None, value) == [line]


def test_a_constant_with_a_default_is_not_said_to_be_missing() -> None:
    assert lines(Cat | Fish, {}) == ["value: expected an object, got {}"]


def test_of_many_choices_some_are_shown_and_the_nearest() -> None:
    assert lines(Country, "em") == [
        'value: expected one of 25 values such as "AK", "AL", "AM", "AN", "AO", got "em"; did you mean "EM"?'
    ]
    assert lines(Country, "Switzerland") == [
        'value: expected one of 25 values such as "AK", "AL", "AM", "AN", "AO", got "Switzerland"'
    ]


def test_of_many_arguments_some_are_shown() -> None:
    arguments = Arguments.of_parameters("f", [parameter(f"a{number:02d}", int, 0) for number in range(25)])
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate({"zzz": 1})
    assert str(caught.value).endswith("a18, a19 and 5 more")


def test_null_for_what_may_be_left_out_is_told_so() -> None:
    class Order(BaseModel):
        name: str
        count: int = 1

    assert lines(Order, {"name": None, "count": None}) == [
        "value.name: expected a string, got null",
        "value.count: expected an integer, got null; leave it out instead",
    ]


def _refuse(value: Any) -> Any:
    raise ValueError("first line\nsecond line")


def test_a_message_of_the_author_is_one_line() -> None:
    assert lines(Annotated[int, AfterValidator(_refuse)], 1) == ["value: first line second line"]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (list[int], ["x"] * 30_000),
        (list[int], [1] * 30_000 + ["x"]),
        (dict[str, int], {f"key{number}": "x" for number in range(30_000)}),
        (list[Cat], [{"kind": "cat"}] * 15_000),
    ],
)
def test_much_that_is_wrong_is_a_short_text_all_the_same(annotation: Any, value: Any) -> None:
    found = lines(annotation, value)
    assert len(found) in (1, 11)
    assert max(map(len, found)) < 120


def test_many_unknown_arguments_are_not_all_compared_with_those_there_are() -> None:
    with pytest.raises(ArgumentsError) as caught:
        arguments_of(int).validate({f"name{number}": 1 for number in range(10_000)})
    assert len(caught.value.problems) < 1000


def test_a_value_that_many_branches_fit_in_part_is_given_up() -> None:
    value: Any = {"left": "x", "right": "x"}
    for _ in range(11):
        value = {"children": [value]}
    assert lines(Left | Right, value)[0].startswith("value: expected an object") or lines(
        Left | Right, value
    ) == ["8192 values do not fit what is expected of them"]


def test_a_reading_ends_at_a_depth() -> None:
    class Tree(BaseModel):
        value: int
        children: list[Tree] = []

    value: Any = {"value": "x"}
    for _ in range(60):
        value = {"value": 1, "children": [value]}
    schema = arguments_of(Tree).schema
    assert problems(schema, {"value": value}) == []
    (line,) = lines(Tree, value)
    assert line.endswith('expected a valid integer, got "x"')


def test_a_union_of_types_with_a_description_is_read_through() -> None:
    assert lines(Annotated[int | list[int], Field(description="one or many")], "x") == [
        'value: expected an integer or an array, got "x"'
    ]

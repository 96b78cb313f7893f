"""Unions that lead back to themselves: those choices are tried, once each, that can take a value."""

# Without `from __future__ import annotations`: the annotations name what is local to a test.
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Union

import pytest
from pydantic import BaseModel, RootModel, field_validator, model_validator

from mcpkit.common.errors import ArgumentsError
from tests.helpers.structures import arguments_of, calls_of


class Node(BaseModel):
    child: Union["Node", "Leaf", int, None] = None
    a: int = 0


class Leaf(BaseModel):
    child: Union[Node, "Leaf", int, None] = None
    b: int = 0


@pytest.mark.parametrize(("leaf", "most"), [(1, 30), ("x", 50)])
def test_a_level_takes_few_calls(leaf: Any, most: int) -> None:
    arguments = arguments_of(Node | Leaf)

    def validate(depth: int) -> Callable[[], None]:
        value = leaf
        for _ in range(depth):
            value = {"child": value}

        def act() -> None:
            with suppress(ArgumentsError):
                arguments.validate({"value": value})

        return act

    validate(3)()
    # From a depth on that is not explained any more.
    assert calls_of(validate(60)) - calls_of(validate(40)) <= most * 20


def test_what_makes_an_object_of_an_array_is_tried_with_an_array() -> None:
    class Named(BaseModel):
        names: list[Union["Named", "Numbered"]] = []

        @model_validator(mode="before")
        @classmethod
        def read(cls, value: Any) -> Any:
            return {"names": value} if isinstance(value, list) else value

    class Numbered(BaseModel):
        names: list[Union[Named, "Numbered"]] = []
        number: int

    Named.model_rebuild(_types_namespace={"Named": Named, "Numbered": Numbered})
    arguments = arguments_of(Named | Numbered)
    expected = Named(names=[Numbered(number=1, names=[Named()])])
    assert arguments.validate({"value": [{"number": 1, "names": [[]]}]})["value"] == expected


def test_a_root_model_takes_what_its_root_does() -> None:
    class Many(RootModel[list[Union["Many", "Few", int]]]):
        pass

    class Few(BaseModel):
        of: Union[Many, "Few", int]

    Many.model_rebuild(_types_namespace={"Many": Many, "Few": Few})
    arguments = arguments_of(Many | Few)
    value = arguments.validate({"value": [{"of": [1, {"of": 2}]}]})["value"]
    assert value == Many([Few(of=Many([1, Few(of=2)]))])


def test_unions_that_differ_in_one_member_are_told_apart() -> None:
    class Pair(BaseModel):
        left: list[Union["Pair", "Text"]] = []
        metadata: int = 0

    class Text(BaseModel):
        left: list[Union[Pair, "Text"]] = []
        right: list[Union["Text", Pair]] = []
        metadata: str

    Pair.model_rebuild(_types_namespace={"Pair": Pair, "Text": Text})
    shared: dict[str, Any] = {"metadata": "x", "left": [{}], "right": [{"left": [{"metadata": "y"}]}]}
    value = arguments_of(Pair | Text).validate({"value": shared})["value"]
    assert value == Text(metadata="x", left=[Pair()], right=[Pair(left=[Text(metadata="y")])])


def test_a_check_of_a_member_says_why_it_refuses_where_another_choice_knows_it_too() -> None:
    class Even(BaseModel):
        of: list[Union["Even", "Other"]] = []
        number: int

        @field_validator("number")
        @classmethod
        def is_even(cls, number: int) -> int:
            if number % 2:
                raise ValueError("number must be even")
            return number

    class Other(BaseModel):
        of: list[Union[Even, "Other"]] = []
        name: str

    Even.model_rebuild(_types_namespace={"Even": Even, "Other": Other})
    arguments = arguments_of(Even | Other)
    assert arguments.validate({"value": {"number": 2, "of": [{"name": "a"}]}})
    with pytest.raises(ArgumentsError, match="number must be even"):
        arguments.validate({"value": {"name": "a", "of": [{"number": 1}]}})

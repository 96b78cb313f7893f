"""What a client sends takes time and memory in proportion to its size, to check and to explain.

Work is counted in calls of functions, so that a slow machine changes nothing.
"""

# ruff: noqa: UP007 - with `|` the names would have to be defined when the class is made
from __future__ import annotations

import dataclasses
import json
import sys
import tracemalloc
import typing
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Annotated, Any, Literal, Union
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import from_json
from typing_extensions import TypedDict

from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import Arguments, Output, explicit
from mcpkit.schema.problems import MOST_PROBLEMS
from tests.helpers.structures import arguments_of, calls_of

pytestmark = pytest.mark.long

MODULUS = sys.hash_info.modulus
visits = [0]


def _visit(value: int) -> int:
    visits[0] += 1
    return value


Leaf = Annotated[int, AfterValidator(_visit)]


class A(BaseModel):
    a: int = 0
    child: Union[A, B, C, Leaf]


class B(BaseModel):
    b: int = 0
    child: Union[A, B, C, Leaf]


class C(BaseModel):
    c: int = 0
    child: Union[A, B, C, Leaf]


@dataclasses.dataclass
class Left:
    left: list[Union[Left, Right]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Right:
    right: int = 0
    left: list[Union[Left, Right]] = dataclasses.field(default_factory=list)


class Plus(TypedDict, total=False):
    terms: list[Union[Plus, Times, float]]


class Times(TypedDict, total=False):
    terms: list[Union[Plus, Times, float]]
    factor: float


RECURSIVE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "integer"}]},
        "a": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}, "required": ["child"]},
        "b": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}, "minProperties": 1},
    },
}


def refused(arguments: Arguments, value: Any) -> ArgumentsError:
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate({"value": value})
    return caught.value


def nested(member: str, depth: int, leaf: Any, *, listed: bool = False) -> Any:
    value = leaf
    for _ in range(depth):
        value = {member: [value] if listed else value}
    return value


@pytest.mark.parametrize("leaf", [1, "x"])
@pytest.mark.parametrize(
    ("annotation", "member", "listed"),
    [
        (Union[A, B, C, Leaf], "child", False),
        (Union[Left, Right], "left", True),
        (Union[Plus, Times], "terms", True),
    ],
)
def test_a_union_that_contains_itself_takes_as_many_steps_as_the_value_has_levels(
    annotation: Any, member: str, listed: bool, leaf: Any
) -> None:
    arguments = arguments_of(annotation)

    def validate(depth: int) -> Callable[[], None]:
        def act() -> None:
            with suppress(ArgumentsError):
                arguments.validate({"value": nested(member, depth, leaf, listed=listed)})

        return act

    validate(3)()
    visits[0] = 0
    calls_of(validate(10))
    few = calls_of(validate(20))
    assert calls_of(validate(40)) < 4 * few
    assert visits[0] < 1000


class Tagged(BaseModel, extra="forbid"):
    tags: frozenset[int] = frozenset()
    child: Union[Tagged, Marked, int]


class Marked(BaseModel, extra="forbid"):
    tags: frozenset[int] = frozenset()
    child: Union[Tagged, Marked, int]
    mark: int = 0


def _tagged(depth: int, leaf: Any) -> Any:
    value = leaf
    for _ in range(depth):
        value = {"tags": [1, 2], "child": value, "mark": 1}
    return value


def test_of_many_items_of_a_recursive_union_each_is_passed_over_in_as_many_steps() -> None:
    arguments = arguments_of(list[Union[Tagged, Marked]])
    few, many = ([_tagged(depth, "x")] * 40 for depth in (5, 10))
    refused(arguments, few)
    assert calls_of(lambda: refused(arguments, many)) < 4 * calls_of(lambda: refused(arguments, few))


def test_a_result_of_a_recursive_union_takes_as_many_steps_as_it_has_levels() -> None:
    output = Output.of(list[Union[Tagged, Marked]])
    assert output is not None
    arguments = arguments_of(list[Union[Tagged, Marked]])
    few, many = (arguments.validate({"value": [_tagged(depth, 1)]})["value"] for depth in (6, 12))
    assert output.dump(few) == [_tagged(6, 1)]
    assert calls_of(lambda: output.dump(many)) < 4 * calls_of(lambda: output.dump(few))


def test_a_recursive_reference_of_an_author_takes_as_many_steps_as_the_value_has_levels() -> None:
    arguments = explicit.arguments(RECURSIVE_SCHEMA)
    refused(arguments, nested("child", 3, "x"))
    assert calls_of(lambda: refused(arguments, nested("child", 24, "x"))) < 100_000
    assert arguments.validate({"value": nested("child", 24, 1)})


def test_of_the_choices_of_a_recursive_union_the_one_that_knows_most_members_wins() -> None:
    value = {"a": 1, "child": {"b": 1, "child": {"c": 1, "child": 5}}}
    result = arguments_of(Union[A, B, C, Leaf]).validate({"value": value})["value"]
    assert result == A(a=1, child=B(b=1, child=C(c=1, child=5)))
    assert arguments_of(Union[Left, Right]).validate({"value": {"left": [{"right": 1}, {}]}})[
        "value"
    ] == Left([Right(1), Left()])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.recursive(
        st.integers(-5, 5),
        lambda inner: st.builds(
            lambda name, child: {**({name: 1} if name else {}), "child": child},
            st.sampled_from(["", "a", "b", "c"]),
            inner,
        ),
        max_leaves=6,
    )
)
def test_the_same_is_chosen_as_by_pydantic(value: Any) -> None:
    class Root(BaseModel):
        value: Union[A, B, C, Leaf]

    assert arguments_of(Union[A, B, C, Leaf]).validate({"value": value}) == {
        "value": Root.model_validate({"value": value}).value
    }


def test_a_check_of_the_authors_in_a_recursive_union_says_what_it_refuses() -> None:
    class Branch(BaseModel):
        children: list[Union[Branch, Fork]] = []
        size: Annotated[int, AfterValidator(_positive)] = 1

    class Fork(BaseModel):
        tines: int
        children: list[Union[Branch, Fork]] = []

    Branch.model_rebuild(_types_namespace={"Branch": Branch, "Fork": Fork})
    error = refused(arguments_of(Union[Branch, Fork]), {"children": [{"size": -1}]})
    assert "size must be positive" in str(error)


def _positive(value: int) -> int:
    if value < 1:
        raise ValueError("size must be positive")
    return value


class P(BaseModel):
    x: int
    y: str


class Q(BaseModel):
    x: str
    z: list[int]


CHOICES: Any = Literal.__getitem__(tuple(f"k{index}" for index in range(250)))

WRONG: list[tuple[Any, Callable[[int], Any]]] = [
    (list[int], lambda count: [[]] * count),
    (list[Union[P, Q]], lambda count: [{}] * count),
    (list[str], lambda count: [1.5] * count),
    (list[int], lambda count: [*[1] * count, "x"]),
    (list[Union[P, Q]], lambda count: [*[{"x": 1, "y": ""}] * count, {}]),
    (tuple[int, ...], lambda count: ["x"] * count),
    (set[int], lambda count: [f"no {index}" for index in range(count)]),
    (dict[str, int], lambda count: {f"{index}": "x" for index in range(count)}),
    (dict[str, Union[P, Q]], lambda count: {f"{index}": {} for index in range(count)}),
    (dict[int, int], lambda count: {f"k{index}": 1 for index in range(count)}),
    (list[list[list[int]]], lambda count: [[["x"]]] * count),
    (list[dict[str, Union[list[P], list[Q]]]], lambda count: [{"a": [{}]}] * count),
    (P, lambda count: {f"k{index}": 1 for index in range(count)}),
    (list[CHOICES], lambda count: [f"z{index}" for index in range(count)]),
]


@pytest.mark.parametrize(("annotation", "make"), WRONG)
def test_what_is_wrong_is_told_within_bounds_however_much_it_is(
    annotation: Any, make: Callable[[int], Any]
) -> None:
    arguments = arguments_of(annotation)
    refused(arguments, make(100))
    few = calls_of(lambda: refused(arguments, make(5_000)))
    many = calls_of(lambda: refused(arguments, make(20_000)))
    assert many < 300_000
    assert many - few < 15_000  # but for the first thousands, all are passed over
    assert len(refused(arguments, make(20_000)).problems) <= MOST_PROBLEMS


@pytest.mark.parametrize(("annotation", "make"), WRONG)
def test_a_validator_does_not_collect_the_faults_of_all_items(
    annotation: Any, make: Callable[[int], Any]
) -> None:
    if annotation is P:
        pytest.skip("the members of an object are its own")
    with pytest.raises(ValidationError) as caught:
        arguments_of(annotation)._validator.validate_python({"value": make(10_000)})
    assert caught.value.error_count() < 10


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_type_and_any_wrong_value_are_told_within_bounds(data: st.DataObject) -> None:
    leaf = st.sampled_from([int, str, P, Q, float, bool, None])
    annotation = data.draw(
        st.recursive(
            leaf,
            lambda inner: st.one_of(
                inner.map(lambda one: list[one]),  # type: ignore[valid-type]
                inner.map(lambda one: dict[str, one]),  # type: ignore[valid-type]
                st.tuples(inner, inner).map(lambda two: Union[two]),
                inner.map(lambda one: tuple[one, ...]),  # type: ignore[valid-type]
            ),
            max_leaves=5,
        )
    )
    json_value = data.draw(
        st.recursive(
            st.sampled_from([None, True, 1, 1.5, "x", "[1]", "{}"]),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
            ),
            max_leaves=8,
        )
    )
    wide = [json_value] * 2_000
    arguments = arguments_of(annotation)

    def validate() -> list[int]:
        told = []
        for value in (wide, {f"{index}": each for index, each in enumerate(wide)}):
            try:
                arguments.validate({"value": value})
            except ArgumentsError as error:
                told.append(len(error.problems))
        return told

    assert all(1 <= count <= MOST_PROBLEMS for count in validate())
    assert calls_of(validate) < 800_000


# Values whose hashes are equal


COLLIDING: list[tuple[Any, Callable[[int], str]]] = [
    (set[int], lambda index: str(index * MODULUS)),
    (frozenset[int], lambda index: str(index * MODULUS)),
    (set[UUID], lambda index: f'"{UUID(int=index * MODULUS)}"'),
    (set[Decimal], lambda index: f'"{index * MODULUS}"'),
]


@pytest.mark.parametrize(("annotation", "text"), COLLIDING)
def test_a_set_of_values_of_one_hash_is_refused_and_any_other_is_not(
    annotation: Any, text: Callable[[int], str]
) -> None:
    arguments = arguments_of(annotation)
    colliding = from_json(f"[{','.join(map(text, range(1, 2_000)))}]")
    assert "have the same hash" in str(refused(arguments, colliding))
    assert len(arguments.validate({"value": colliding[:100]})["value"]) == 100


@pytest.mark.parametrize("annotation", [dict[int, int], dict[UUID, int]])
def test_keys_of_one_hash_are_refused_and_any_other_is_not(annotation: Any) -> None:
    make = str if annotation == dict[int, int] else (lambda number: str(UUID(int=number)))
    arguments = arguments_of(annotation)
    assert "have the same hash" in str(
        refused(arguments, {make(index * MODULUS): 1 for index in range(1, 2_000)})
    )
    assert len(arguments.validate({"value": {make(index): 1 for index in range(1, 2_000)}})["value"]) == 1_999


@pytest.mark.parametrize("wrap", [lambda value: {"a": value}, lambda value: [{"a": value}]])
@pytest.mark.parametrize("annotation", [set[int], Literal[1, 2]])
def test_values_within_each_other_are_compared_in_proportion_to_their_size(
    annotation: Any, wrap: Callable[[Any], Any]
) -> None:
    value: Any = 1
    for _ in range(22):
        value = wrap(value)
    arguments = arguments_of(annotation)
    tracemalloc.start()
    try:
        refused(arguments, [value, value] if annotation == set[int] else value)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2_000_000


def test_unique_items_are_told_apart_by_texts_whose_hashes_nobody_knows() -> None:
    schema = {"type": "object", "properties": {"value": {"type": "array", "uniqueItems": True}}}
    arguments = explicit.arguments(schema)
    items = [{"a": index, "b": [index * MODULUS]} for index in range(6_000)]
    assert calls_of(lambda: arguments.validate({"value": items})) < 100
    error = refused(arguments, [*items, items[0]])
    assert "without duplicates" in str(error)


def test_ordinary_large_arguments_are_taken() -> None:
    arguments = arguments_of(typing.Dict[str, typing.List[P]])  # noqa: UP006
    value = {f"day{day}": [{"x": index, "y": "a"} for index in range(100)] for day in range(100)}
    assert arguments.validate({"value": json.loads(json.dumps(value))})
    assert len(arguments_of(set[int]).validate({"value": list(range(100_000))})["value"]) == 100_000
    assert (
        len(arguments_of(set[float]).validate({"value": [n / 7 for n in range(50_000)]})["value"]) == 50_000
    )
    assert arguments_of(list[int]).validate({"value": [f"{n}" for n in range(1_500)]})["value"] == [
        *range(1_500)
    ]

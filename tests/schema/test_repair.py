"""Repair of arguments: JSON in strings, numbers for texts, and blank fields."""

# ruff: noqa: UP007 - not every pair of types drawn here can be written with `|` in Python 3.10
from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Union
from uuid import UUID

import annotated_types as at
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import ValidationError, from_json
from typing_extensions import NotRequired, TypedDict

from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import Arguments, explicit
from mcpkit.schema.form import Form
from mcpkit.schema.parameters import parameter
from tests.helpers.schema_cases import Color, Place, Point, arguments_of, fitting
from tests.helpers.tables import each_row


@dataclass
class Circle:
    radius: float


@dataclass
class Square:
    side: int


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


@each_row(
    ("annotation", "sent", "expected"),
    [
        (list[int], " [1, 2]\n", [1, 2]), (list[int], ["1", 2, "3"], [1, 2, 3]),
        (list[int], '["1", "2"]', [1, 2]), (dict[str, list[int]], {"a": "[1]"}, {"a": [1]}),
        (Place, '{"name": "a", "size": "1"}', {"name": "a", "size": 1}),
        (Place, {"name": "[1]", "size": "1"}, {"name": "[1]", "size": 1}), (Point, "[1, 2]", Point(1, 2.0)),
        (Tree, {"value": 1, "children": '[{"value": "2"}]'}, Tree(value=1, children=[Tree(value=2)])),
        (Circle | Square, '{"side": 1}', Square(1)), (Circle | list[Square], ['{"side": "1"}'], [Square(1)]),
        (int, "5", 5), (int, "5.0", 5), (float, "5", 5.0), (bool, "true", True), (int | None, "null", None),
        (Literal["a", None], "null", None), (dt.date | list[int], "[1]", [1]),
    ],
)  # fmt: skip
def test_repair_json_in_string_is_parsed(annotation: Any, sent: Any, expected: Any) -> None:
    result = arguments_of(annotation).validate({"value": sent})["value"]
    assert result == expected
    assert type(result) is type(expected)


@each_row(
    ("annotation", "sent"),
    [
        (int, "5 apples"), (int, "1.5"), (int, "true"), (int, '"5"'), (bool, "True"), (bool, "1"),
        (float, "NaN"), (float, "1e400"), (float, "9" * 5000), (list[int], "[1, 2"), (list[int], "[1] [2]"),
        (list[int], "['1']"), (list[str], '["\\ud800"]'), (list[int], ""), (list[int], "[" * 100_000),
        (list[int], "[" * 150 + "]" * 150), (Color, '"red"'), (dt.date, '"2026-01-31"'),
        (list[int], json.dumps(json.dumps([1]))),
    ],
)  # fmt: skip
def test_repair_other_strings_are_refused(annotation: Any, sent: Any) -> None:
    with pytest.raises(ArgumentsError, match="value"):
        arguments_of(annotation).validate({"value": sent})


def test_repair_applies_to_explicit_json_schema() -> None:
    schema = {"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}},
        "shape": {"anyOf": [{"type": "object", "properties": {"side": {"type": "integer"}},
        "required": ["side"]}, {"type": "null"}]}, "note": {"type": "string"}}}  # fmt: skip
    arguments = explicit.arguments(schema)
    sent = {"ids": "[1, 2]", "shape": {"side": "3"}, "note": "4"}
    assert arguments.validate(sent) == {"ids": [1, 2], "shape": {"side": 3}, "note": "4"}
    with pytest.raises(ArgumentsError, match=r'^ids: expected an array, got "1, 2"$'):
        arguments.validate({**sent, "ids": "1, 2"})


def accepted(arguments: Arguments, value: Any) -> Any:
    """Return what a value becomes without any repair; discard the example if it does not fit."""
    try:
        return arguments._validator.validate_python(value, by_alias=True, by_name=False)
    except ValidationError:
        return None


@each_row(
    ("annotation", "sent", "expected"),
    [
        (str, 5, "5"), (str, -(2**70), str(-(2**70))), (str | None, 5, "5"), (Literal["1", "2"], 2, "2"),
        (Decimal, 12, Decimal(12)), (list[str], ["a", 5, 6], ["a", "5", "6"]), (list[str], "[5]", ["5"]),
        (dict[str, list[Place]], {"x": [{"name": 5, "size": "5"}]}, {"x": [{"name": "5", "size": 5}]}),
        (tuple[str, int], [5, "6"], ("5", 6)), (tuple[str, int] | tuple[int, bool], [5, 6], ("5", 6)),
        (list[str] | list[bool], [5, 6], ["5", "6"]), (str | list[str], 5, "5"),
    ],
)  # fmt: skip
def test_repair_whole_number_becomes_text(annotation: Any, sent: Any, expected: Any) -> None:
    result = arguments_of(annotation).validate({"value": sent})["value"]
    assert result == expected
    assert type(result) is type(expected)


def swapped(value: Any) -> Any:
    """Return a scalar in its neighbouring type: a whole number as text, JSON text as its value."""
    if type(value) is int:
        return str(value)
    if isinstance(value, str):
        with suppress(ValueError):
            return from_json(value, allow_inf_nan=False)
    return value


def variants(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[frozenset[Any], Any]]:
    """Yield every value in which some scalars are in their neighbouring type, with the places of these."""
    if isinstance(value, list | dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        each = [[(key, *found) for found in variants(inner, (*path, key))] for key, inner in items]
        for chosen in itertools.product(*each):
            places = frozenset().union(*(places for _, places, _ in chosen))
            made = {key: inner for key, _, inner in chosen}
            yield places, made if isinstance(value, dict) else [made[index] for index in range(len(value))]
        return
    yield frozenset(), value
    other = swapped(value)
    if not isinstance(other, type(value)):
        yield frozenset([path]), other


NEIGHBOURS = st.recursive(
    st.sampled_from([str, int, bool, float, None, str | int, str | None, Literal["1", "2"], Literal[1, "a"]]),
    lambda inner: st.one_of(
        inner.map(lambda hint: list[hint]),
        inner.map(lambda hint: dict[str, hint]),
        st.tuples(inner, inner).map(lambda hints: tuple[hints[0], hints[1]]),
        st.tuples(inner, inner).map(
            lambda hints: TypedDict("T", {"a": hints[0], "b": NotRequired[hints[1]]})
        ),
        st.tuples(inner, inner).map(lambda hints: Union[hints[0], hints[1]]),
    ),
    max_leaves=5,
)


SCALARS = st.sampled_from([str, int, bool, Literal["1", 5]])


SHAPES: list[tuple[Any, Any]] = [
    # a type with two scalars, and a value with two
    (lambda hints: tuple[hints[0], hints[1]], list),
    (lambda hints: TypedDict("T", {"a": hints[0], "b": hints[1]}), lambda pair: dict(zip("ab", pair))),
    (lambda hints: list[hints[0]], list),
]


@st.composite
def alike(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a union of arrays or objects that differ in their scalars only, and a value near to it."""
    make_type, make_value = draw(st.sampled_from(SHAPES))
    hint = Union[tuple(make_type(draw(st.tuples(SCALARS, SCALARS))) for _ in range(2))]
    value = make_value(draw(st.tuples(*[st.sampled_from([1, 5, "1", "5", True])] * 2)))
    return (list[hint], [value]) if draw(st.booleans()) else (hint, value)


VALUES = st.recursive(
    st.sampled_from([1, 2, 5, "1", "5", "a", "true", "[1]", True, 1.5, None]),
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@settings(derandomize=True, database=None)  # fmt: skip
@given(st.data())
def test_repair_happens_if_exactly_one_reading_exists(data: st.DataObject) -> None:
    hint, sent = data.draw(alike() | st.tuples(NEIGHBOURS, st.none()), label="type and value")
    arguments = arguments_of(hint)
    if sent is None:
        near = fitting(arguments.schema["properties"]["value"], arguments.schema)
        sent = data.draw(near | VALUES, label="value")
    found = [(places, value) for places, value in itertools.islice(variants(sent), 256)
             if accepted(arguments, {"value": value}) is not None]  # fmt: skip
    readings = [value for places, value in found if not any(others < places for others, _ in found)]
    if len(readings) == 1:
        assert arguments.validate({"value": sent}) == accepted(arguments, {"value": readings[0]})
    else:
        try:
            result = arguments.validate({"value": sent})
        except ArgumentsError:
            pass
        else:
            # A string within a string is one reading more than `variants` knows of.
            assert readings == [], result
            assert deeper(sent), result


def deeper(value: Any) -> bool:
    """Return whether a string contains JSON with scalars of a neighbouring type."""
    if isinstance(value, str):
        return isinstance(swapped(value), list | dict)
    return isinstance(value, list | dict) and any(
        map(deeper, value.values() if isinstance(value, dict) else value)
    )


def check_filled(value: str) -> str:
    if not value:
        raise ValueError("it is empty")
    return value


FLAT: list[tuple[Any, Any]] = [
    # types that forms can have, with a default
    (int, 3), (float, 0.5), (bool, True), (int | None, None), (Literal["slow", "fast"], "slow"),
    (list[Literal["a", "b"]], None), (Color, Color.RED), (dt.date, dt.date(2026, 1, 31)),
    (Annotated[str, at.MinLen(1)], "x"), (Annotated[str, AfterValidator(check_filled)], "x"),
]  # fmt: skip
NESTED: list[tuple[Any, Any]] = [
    (list[int] | None, None), (dict[str, int], None), (Place | None, None), (tuple[int, int], (1, 2)),
    (Decimal, Decimal(1)), (UUID | None, None), (Annotated[str, Field(pattern="^[a-z]+$")], "x"),
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
def test_blank_argument_is_kept_where_empty_text_fits(hint: Any, value: Any) -> None:
    arguments = Arguments.of_parameters("f", [parameter("p", hint, 1)])
    assert arguments.validate_strings({"p": ""}) == {"p": value}


@each_row(("hint", "default"), FLAT)
def test_blank_form_field_has_default(hint: Any, default: Any) -> None:
    members = [("needed", int), ("p", hint, dataclasses.field(default=default)), ("text", str, "x")]
    form = Form.of(dataclasses.make_dataclass("Trip", members))
    assert dataclasses.astuple(form.read({"needed": 5, "p": "", "text": ""})) == (5, default, "")
    with pytest.raises(ArgumentsError, match=r"^needed: expected an integer"):
        form.read({"needed": "", "p": ""})

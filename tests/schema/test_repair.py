"""JSON in a string, and a whole number for a text, are read where only that fits, and nowhere else."""

# ruff: noqa: UP007 - not every pair of types drawn here can be written with `|` in Python 3.10
from __future__ import annotations

import datetime as dt
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Union

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, model_validator
from pydantic_core import ValidationError, from_json
from typing_extensions import NotRequired, TypedDict

from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import Arguments, explicit, repair
from mcpkit.schema.parameters import parameter
from tests.helpers.drawn import ANNOTATIONS, JSON, fitting
from tests.helpers.structures import Color, Place, Point, arguments_of

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))


@dataclass
class Circle:
    radius: float


@dataclass
class Square:
    side: int


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


@pytest.mark.parametrize(
    ("annotation", "sent", "expected"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (list[int], " [1, 2]\n", [1, 2]),
        (list[int], ["1", 2, "3"], [1, 2, 3]),
        (list[int], '["1", "2"]', [1, 2]),
        (set[int], "[1, 2]", {1, 2}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (dict[str, list[int]], {"a": "[1]"}, {"a": [1]}),
        (Place, '{"name": "a", "size": "1"}', {"name": "a", "size": 1}),
        (Place, {"name": "[1]", "size": "1"}, {"name": "[1]", "size": 1}),
        (list[Place], ['{"name": "a"}'], [{"name": "a"}]),
        (Point, "[1, 2]", Point(1, 2.0)),
        (Tree, {"value": 1, "children": '[{"value": "2"}]'}, Tree(value=1, children=[Tree(value=2)])),
        (Circle | Square, '{"side": 1}', Square(1)),
        (Circle | Square, {"side": "1"}, Square(1)),
        (Circle | list[Square], ['{"side": "1"}'], [Square(1)]),
        (int, "5", 5),
        (int, "5.0", 5),
        (float, "5", 5.0),
        (bool, "true", True),
        (int | None, "null", None),
        (Literal[1, 2], "2", 2),
        (Literal["a", None], "null", None),
        (dt.date | list[int], "[1]", [1]),
    ],
)
def test_json_in_a_string_is_read_where_a_string_does_not_fit(
    annotation: Any, sent: Any, expected: Any
) -> None:
    result = arguments_of(annotation).validate({"value": sent})["value"]
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("annotation", [str, str | int, str | list[int], str | None, Any, object])
@pytest.mark.parametrize("text", ["[1, 2]", "5", "null", '{"a": 1}'])
def test_a_string_that_fits_stays(annotation: Any, text: str) -> None:
    assert arguments_of(annotation).validate({"value": text}) == {"value": text}


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (int, "five"),
        (int, "0x10"),
        (int, "5 apples"),
        (int, "1.5"),
        (int, "true"),
        (int, '"5"'),
        (bool, "True"),
        (bool, "1"),
        (int | None, "None"),
        (float, "NaN"),
        (float, "Infinity"),
        (float, "1e400"),
        (float, "9" * 5000),
        (list[int], "1, 2"),
        (list[int], "[1, 2"),
        (list[int], "[1] [2]"),
        (list[int], "(1, 2)"),
        (list[int], "['1']"),
        (list[str], '["\\ud800"]'),
        (list[int], ""),
        (list[int], "[" * 100_000),
        (list[int], "[" * 150 + "]" * 150),
        (Color, '"red"'),
        (dt.date, '"2026-01-31"'),
        (list[int], json.dumps(json.dumps([1]))),
    ],
)
def test_what_does_not_fit_either_is_refused(annotation: Any, sent: Any) -> None:
    with pytest.raises(ArgumentsError, match="value"):
        arguments_of(annotation).validate({"value": sent})


@pytest.mark.parametrize(
    ("annotation", "sent", "problem"),
    [
        (list[int], "[1, null]", "value[1]: expected an integer, got null"),
        (list[int], '{"a": 1}', 'value: expected an array, got "{\\"a\\": 1}"'),
        (Place, '{"size": 1}', "value.name: expected a string, but it is missing"),
        (Range, '{"low": 2, "high": "1"}', "value: low is above high"),
        (list[Range], ['{"low": 2, "high": 1}'], "value[0]: low is above high"),
    ],
)
def test_the_error_is_about_what_was_read(annotation: Any, sent: Any, problem: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        arguments_of(annotation).validate({"value": sent})
    assert str(caught.value) == problem


def split(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


def test_only_what_failed_is_looked_at() -> None:
    names = Annotated[list[str], BeforeValidator(split)]
    arguments = Arguments.of_parameters("f", [parameter("names", names), parameter("count", int)])
    assert arguments.validate({"names": "[1]", "count": "5"}) == {"names": ["[1]"], "count": 5}
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate({"names": "a,b", "count": "many"})
    assert [problem.field for problem in caught.value.problems] == ["count"]


def test_the_arguments_that_were_sent_stay_as_they_were() -> None:
    sent = {"value": {"name": "a", "size": "1"}}
    arguments_of(Place).validate(sent)
    assert sent == {"value": {"name": "a", "size": "1"}}


def test_a_json_schema_of_the_author_is_no_different() -> None:
    schema = {
        "type": "object",
        "properties": {
            "ids": {"type": "array", "items": {"type": "integer"}},
            "shape": {
                "anyOf": [
                    {"type": "object", "properties": {"side": {"type": "integer"}}, "required": ["side"]},
                    {"type": "null"},
                ]
            },
            "note": {"type": "string"},
        },
    }
    arguments = explicit.arguments(schema)
    sent = {"ids": "[1, 2]", "shape": {"side": "3"}, "note": "4"}
    assert arguments.validate(sent) == {"ids": [1, 2], "shape": {"side": 3}, "note": "4"}
    with pytest.raises(ArgumentsError, match=r'^ids: expected an array, got "1, 2"$'):
        arguments.validate({**sent, "ids": "1, 2"})


def test_a_key_is_no_value_that_could_be_read() -> None:
    names = {"propertyNames": {"pattern": "^[a-z]+$"}}
    schema = {"type": "object", **names, "properties": {"a": {"type": ["object", "integer"], **names}}}
    for sent in ({"a": {"5": 1}}, {"5": 1}):
        with pytest.raises(ArgumentsError, match="5: the key is not a string that matches"):
            explicit.arguments(schema).validate(sent)


def test_where_nothing_is_allowed_nothing_is_read() -> None:
    with pytest.raises(ArgumentsError, match="nothing is allowed"):
        explicit.arguments({"type": "object", "properties": {"a": False}}).validate({"a": "1"})


def test_strings_within_strings_are_read_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(depth: int) -> Any:
        value: Any = {"value": 1}
        for _ in range(depth):
            value = {"value": 1, "children": json.dumps([value])}
        return value

    read: list[bytes] = []
    decode = repair.decode
    monkeypatch.setattr(repair, "decode", lambda data: read.append(data) or decode(data))
    assert (
        arguments_of(Tree).validate({"value": nested(3)})["value"].children[0].children[0].children[0].value
        == 1
    )
    assert len(read) == 3
    with pytest.raises(ArgumentsError, match="children: expected an array"):
        arguments_of(Tree).validate({"value": nested(4)})
    assert len(read) == 6


def test_a_call_that_fits_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "repaired", lambda *_: pytest.fail("it was looked at again"))
    assert arguments_of(list[int]).validate({"value": [1]}) == {"value": [1]}


CHECKED = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def accepted(arguments: Arguments, value: Any) -> Any:
    """Return what a value becomes without any repair; discard the example if it does not fit."""
    try:
        return arguments._validator.validate_python(value, by_alias=True, by_name=False)
    except ValidationError:
        return None


@CHECKED
@given(st.data())
def test_repair_never_touches_what_fits(data: st.DataObject) -> None:
    annotation = data.draw(ANNOTATIONS, label="type")
    arguments = Arguments.of_parameters("f", [parameter("value", annotation), parameter("other", int)])
    value = data.draw(fitting(arguments.schema["properties"]["value"], arguments.schema), label="value")
    plain = accepted(arguments, {"value": value, "other": 5})
    if plain is not None:
        assert arguments.validate({"value": value, "other": 5}) == plain
        assert arguments.validate({"value": value, "other": "5"}) == plain


@CHECKED
@given(st.data())
def test_the_json_of_what_fits_fits(data: st.DataObject) -> None:
    arguments = arguments_of(data.draw(ANNOTATIONS, label="type"))
    value = data.draw(fitting(arguments.schema["properties"]["value"], arguments.schema), label="value")
    plain = accepted(arguments, {"value": value})
    if (
        plain is not None
        and not isinstance(value, str)
        and accepted(arguments, {"value": json.dumps(value)}) is None
    ):
        assert arguments.validate({"value": json.dumps(value)}) == plain


@pytest.mark.parametrize(
    ("annotation", "sent", "expected"),
    [
        (str, 5, "5"),
        (str, -(2**70), str(-(2**70))),
        (str | None, 5, "5"),
        (Literal["1", "2"], 2, "2"),
        (Decimal, 12, Decimal(12)),
        (list[str], ["a", 5, 6], ["a", "5", "6"]),
        (list[str], "[5]", ["5"]),
        (dict[str, list[Place]], {"x": [{"name": 5, "size": "5"}]}, {"x": [{"name": "5", "size": 5}]}),
        (tuple[str, int], [5, "6"], ("5", 6)),
        (tuple[str, int] | tuple[int, bool], [5, 6], ("5", 6)),
        (list[str] | list[bool], [5, 6], ["5", "6"]),
        (str | list[str], 5, "5"),
    ],
)
def test_a_whole_number_is_read_as_text_where_only_text_fits(
    annotation: Any, sent: Any, expected: Any
) -> None:
    result = arguments_of(annotation).validate({"value": sent})["value"]
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (str, True),
        (str, 5.0),
        (str, 5.5),
        (str, None),
        (str, 10**1_000),
        (list[str], [False]),
        (Literal["True", "1.0"], True),
        (bytes, 1234),
        (dt.date, 20240229),
        (tuple[str, int] | tuple[int, str], [5, 6]),
        (tuple[str, int] | tuple[int, str], ["5", "6"]),
        (list[str] | list[int], [5, "6"]),
    ],
)
def test_a_boolean_a_fraction_and_what_has_two_readings_are_refused(annotation: Any, sent: Any) -> None:
    with pytest.raises(ArgumentsError, match="value"):
        arguments_of(annotation).validate({"value": sent})


def swapped(value: Any) -> Any:
    """Return a scalar in its neighbouring type: a whole number as text, a text that is JSON as what it says."""
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
    """Draw a union of arrays or objects that are told apart by their scalars alone, and a value near to it."""
    make_type, make_value = draw(st.sampled_from(SHAPES))
    hint = Union[tuple(make_type(draw(st.tuples(SCALARS, SCALARS))) for _ in range(2))]
    value = make_value(draw(st.tuples(*[st.sampled_from([1, 5, "1", "5", True])] * 2)))
    return (list[hint], [value]) if draw(st.booleans()) else (hint, value)


VALUES = st.recursive(
    st.sampled_from([1, 2, 5, "1", "5", "a", "true", "[1]", True, 1.5, None]),
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.data())
def test_a_value_is_read_where_there_is_exactly_one_reading(data: st.DataObject) -> None:
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
    """Say whether a string holds JSON that holds scalars of a neighbouring type itself."""
    if isinstance(value, str):
        return isinstance(swapped(value), list | dict)
    return isinstance(value, list | dict) and any(
        map(deeper, value.values() if isinstance(value, dict) else value)
    )


HOSTILE = st.recursive(
    JSON
    | st.text(max_size=5)
    | st.sampled_from(["[" * 300, '{"a":' * 90 + "1" + "}" * 90, "1e999", "-", '"', "\\"]),
    lambda inner: st.one_of(
        inner.map(lambda value: json.dumps(value)),
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["a", "name", "value", "children", "kind", "a\nb"]), inner, max_size=3
        ),
    ),
    max_leaves=6,
)


@CHECKED
@given(ANNOTATIONS, HOSTILE, st.dictionaries(st.text(max_size=5), JSON, max_size=2))
def test_nothing_but_an_arguments_error_is_raised(annotation: Any, value: Any, extra: dict[str, Any]) -> None:
    try:
        arguments_of(annotation).validate({**extra, "value": value})
    except ArgumentsError as error:
        text = str(error)
    else:
        text = ""
    assert len(text.splitlines()) <= 11
    assert "pydantic" not in text

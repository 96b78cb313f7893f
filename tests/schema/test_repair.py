"""JSON in a string is read where only that fits, and nowhere else."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, model_validator
from pydantic_core import ValidationError

from drawn import ANNOTATIONS, JSON, fitting
from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import Arguments, explicit, repair
from mcpkit.schema.parameters import parameter
from structures import Color, Place, Point, arguments_of


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

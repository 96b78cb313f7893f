"""Repair of arguments: JSON in strings, numbers for texts, and blank fields."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import annotated_types as at
import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import NotRequired, TypedDict

from mcpkit._utils.exceptions import ArgumentsError
from mcpkit.schema import Arguments, custom_schemas
from mcpkit.schema.elicitation_forms import Form
from mcpkit.schema.function_signatures import parameter
from tests.helpers.schema_cases import Color, Place, Point, arguments_of
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


@each_row(("annotation", "sent", "expected"), [
    (list[int], " [1, 2]\n", [1, 2]), (list[int], ["1", 2, "3"], [1, 2, 3]),
    (list[int], '["1", "2"]', [1, 2]), (dict[str, list[int]], {"a": "[1]"}, {"a": [1]}),
    (Place, '{"name": "a", "size": "1"}', {"name": "a", "size": 1}),
    (Place, {"name": "[1]", "size": "1"}, {"name": "[1]", "size": 1}), (Point, "[1, 2]", Point(1, 2.0)),
    (Tree, {"value": 1, "children": '[{"value": "2"}]'}, Tree(value=1, children=[Tree(value=2)])),
    (Circle | Square, '{"side": 1}', Square(1)), (Circle | list[Square], ['{"side": "1"}'], [Square(1)]),
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

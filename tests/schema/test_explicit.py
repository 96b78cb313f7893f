"""Arguments that the author describes."""

from __future__ import annotations

import sys
import typing
from typing import Annotated, Any

import pytest
from pydantic import Field
from typing_extensions import NotRequired

from mcpkit.common.errors import ArgumentsError, RegistrationError
from mcpkit.schema import Arguments, explicit

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "kind": {"enum": ["a", "b"]},
        "count": {"type": "integer", "minimum": 1},
        "when": {"type": "string", "format": "date-time"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/item"}, "contains": {"const": 1}},
    },
    "required": ["kind"],
    "additionalProperties": False,
    "if": {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
    "then": {"required": ["count"]},
    "$defs": {"item": {"type": ["integer", "string"]}},
}


class Place(typing.TypedDict):
    name: Annotated[str, "Where it is"]
    size: NotRequired[int]


def lines(arguments: Arguments, value: dict[str, Any]) -> list[str]:
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate(value)
    return [str(problem) for problem in caught.value.problems]


def test_a_json_schema_is_kept_as_it_is() -> None:
    assert explicit.arguments(SCHEMA).schema is SCHEMA


def test_a_json_schema_lets_arguments_through_unchanged() -> None:
    value = {"kind": "b", "count": 5.0, "when": "2026-01-31T09:30:00Z", "list": [1, "x"]}
    assert explicit.arguments(SCHEMA).validate(value) is value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, ['kind: expected "a" or "b", but it is missing']),
        ({"kind": "c"}, ['kind: expected "a" or "b", got "c"']),
        ({"kind": "b"}, ["count: expected a value, but it is missing"]),
        ({"kind": "a", "count": 0}, ["count: expected an integer of at least 1, got 0"]),
        ({"kind": "a", "count": True}, ["count: expected an integer of at least 1, got true"]),
        ({"kind": "a", "cuont": 1}, ['cuont: unknown argument; did you mean "count"?']),
        (
            {"kind": "a", "when": "2026-01-31"},
            ['when: expected a date and time with offset such as 2026-01-31T09:30:00Z, got "2026-01-31"'],
        ),
        ({"kind": "a", "list": [1, None]}, ["list[1]: expected an integer or a string, got null"]),
        ({"kind": "a", "list": [2]}, ['list: [2] does not fit {"contains":{"const":1}}']),
    ],
)
def test_a_json_schema_is_followed(value: dict[str, Any], expected: list[str]) -> None:
    assert lines(explicit.arguments(SCHEMA), value) == expected


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "text"}}},
            r"not a valid JSON Schema at properties\.a\.type",
        ),
        ({"type": "string"}, r'`"type": "object"`'),
        ({"properties": {}}, r'`"type": "object"`'),
        ({"$ref": "#/$defs/A"}, r'`"type": "object"`'),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
            r"leads nowhere \(Pointer '/\$defs/A'",
        ),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}}, "nothing is fetched"),
        ({"type": "object", "$schema": "https://example.org/own"}, "unknown dialect"),
        (["a"], r"not \['a'\]"),
        (int, "not <class 'int'>; for a class"),
    ],
)
def test_a_wrong_schema_is_refused_when_registered(schema: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        explicit.arguments(schema)


def test_a_constant_is_named() -> None:
    schema = {"type": "object", "properties": {"version": {"const": 2}}}
    assert lines(explicit.arguments(schema), {"version": 1}) == ["version: expected 2, got 1"]


def test_references_to_definitions_and_meta_schemas_are_found() -> None:
    arguments = explicit.arguments(
        {
            "type": "object",
            "properties": {
                "schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
                "tree": {"$ref": "tree"},
            },
            "$defs": {"t": {"$id": "tree", "type": "array", "items": {"$ref": "#"}}},
        }
    )
    assert arguments.validate({"schema": {"type": "string"}, "tree": [[], [[]]]})
    with pytest.raises(ArgumentsError):
        arguments.validate({"schema": {"type": 1}})
    with pytest.raises(ArgumentsError):
        arguments.validate({"tree": [1]})


def test_without_jsonschema_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(RegistrationError, match=r"pip install .*\[jsonschema\]"):
        explicit.arguments(SCHEMA)


def test_a_typed_dict() -> None:
    arguments = explicit.arguments(Place)
    assert arguments.schema == {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Where it is"}, "size": {"type": "integer"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    assert arguments.validate({"name": "a"}) == {"name": "a"}
    assert lines(arguments, {"name": "a", "size": "one"}) == ['size: expected an integer, got "one"']


def test_names_and_types() -> None:
    arguments = explicit.arguments(
        {"city": Annotated[str, "Where"], "days": Annotated[int, Field(default=3, ge=1)]}
    )
    assert arguments.schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where"},
            "days": {"type": "integer", "minimum": 1, "default": 3},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert arguments.validate({"city": "Bern"}) == {"city": "Bern", "days": 3}


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(?=a)(a+)+$", "a" * 4000 + "!"),  # Python's own engine would take 2**4000 steps
        (r"^(?=\p{L})x", "4"),  # Python knows neither this
        (r"(?<=a+)b", "b"),  # nor this
    ],
)
def test_a_wrong_text_is_told_by_the_engine_that_refused_it(pattern: str, text: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    (line,) = lines(explicit.arguments(schema), {"a": text})
    assert line.startswith(f"a: expected a string that matches {pattern}, got")


def test_a_wrong_key_is_told_by_the_engine_that_refused_it() -> None:
    schema = {"type": "object", "properties": {"a": {"propertyNames": {"pattern": r"^(?=\p{L})x"}}}}
    assert lines(explicit.arguments(schema), {"a": {"4": 1}}) == [
        r"a.4: the key is not a string that matches ^(?=\p{L})x"
    ]


PAIR = {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}
OLD_PAIR = {"items": [{"type": "integer"}, {"type": "string"}]}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"properties": {"a": PAIR}}, {"a": [1, 2]}, ["a: [1,2] does not fit "]),
        ({"properties": {"a": {"anyOf": [PAIR, {"type": "null"}]}}}, {"a": [1, 2]}, ["a: expected "]),
        (
            {"$schema": DRAFT_7, "properties": {"a": OLD_PAIR}},
            {"a": [1, True]},
            ["a[1]: expected a string, got true"],
        ),
        (
            {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False},
            {"x-1": 1, "x-2": "q", "y": 1},
            ["x-2: expected an integer", "y: unknown argument"],
        ),
        (
            {"patternProperties": {"^x-": {"type": "integer"}}, "required": ["x-1", "x-2"]},
            {"x-1": "q"},
            ["x-1: expected an integer", "x-2: expected a value, but it is missing"],
        ),
    ],
)
def test_every_value_that_does_not_fit_has_a_problem_at_its_place(
    schema: dict[str, Any], value: dict[str, Any], expected: list[str]
) -> None:
    found = lines(explicit.arguments({"type": "object", **schema}), value)
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(sorted(found), expected, strict=True)), found


def test_values_by_pattern_and_by_place_are_repaired() -> None:
    by_pattern = {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}
    assert explicit.arguments({"type": "object", **by_pattern}).validate({"x-1": "5"}) == {"x-1": 5}
    by_place = {"$schema": DRAFT_7, "type": "object", "properties": {"a": OLD_PAIR}}
    assert explicit.arguments(by_place).validate({"a": ["1", 2]}) == {"a": [1, "2"]}

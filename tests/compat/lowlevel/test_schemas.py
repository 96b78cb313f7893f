"""What is wrong with a value is said as by `jsonschema`, which is not asked where nothing is."""

from __future__ import annotations

import sys
from typing import Any

import jsonschema
import pytest

from mcpkit.compat.lowlevel.schemas import ToolSchema

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
SCHEMAS: list[Any] = [
    PERSON,
    {},
    {"type": "object"},
    {"type": ["object", "null"], "properties": {"a": {"enum": [1, "b", None]}, "b": {"const": [1]}}},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"type": "array", "items": PERSON}},
    },
    {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}},
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
    {
        "type": "object",
        "patternProperties": {"^x": {"type": "integer"}},
        "additionalProperties": {"type": "string"},
    },
    {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
    {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True, "maxItems": 2}}},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+$"}}},
    {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}},
    {"type": "object", "properties": {"a": {"multipleOf": 0.5, "exclusiveMaximum": 3}}},
    {"type": "nothing"},
    {"type": "object", "properties": {"a": {"type": "nothing"}}},
    {"properties": []},
    {"type": "object", "required": "a"},
]
VALUES: list[Any] = [
    {},
    {"name": "Ada"},
    {"name": "A", "age": -1, "x": 1},
    {"name": "Ada", "age": 1.0},
    {"name": "Ada", "age": True},
    *(
        {"a": value}
        for value in (1, "b", None, [], [1], [{"name": "Ada"}], [1, 1.0], "aa", 2.5, 3, "today", True)
    ),
    {"b": [1], "xa": "1", "y": 2},
    None,
    [],
]


def verdict(schema: Any, value: Any) -> str | None:
    """Return what `mcp` would say, which calls `validate` for each value."""
    try:
        jsonschema.validate(value, schema)
    except jsonschema.ValidationError as error:
        return error.message
    except jsonschema.SchemaError as error:
        return str(error)
    return None


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_what_is_wrong_is_said_as_by_jsonschema(schema: Any):
    ours = ToolSchema(schema)

    def said(value: Any) -> str | None:
        try:
            return ours.problem(value)
        except jsonschema.SchemaError as error:
            return str(error)

    assert [said(value) for value in VALUES] == [verdict(schema, value) for value in VALUES]


def test_the_package_is_needed_for_what_is_wrong_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    schema = ToolSchema(PERSON)
    assert schema.problem({"name": "Ada"}) is None
    with pytest.raises(RuntimeError, match=r"pip install .*\[compat\]"):
        schema.problem({})

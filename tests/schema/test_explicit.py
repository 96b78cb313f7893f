"""Schemas that an author writes: for arguments (`input_schema=`) and for results (`output_schema=`)."""

import re
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcpkit import Image, ResultOptions, Server
from mcpkit._utils.exceptions import ArgumentsError, RegistrationError
from mcpkit.protocol.revisions import LATEST, LATEST_HANDSHAKE
from mcpkit.schema import Arguments, custom_schemas
from mcpkit.schema.custom_schemas import CheckedSchema
from mcpkit.testing import connect
from tests.helpers.tables import each_row

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
    "properties": {"kind": {"enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 1},
     "when": {"type": "string", "format": "date-time"},
     "list": {"type": "array", "items": {"$ref": "#/$defs/item"}, "contains": {"const": 1}}},
    "required": ["kind"], "additionalProperties": False,
    "if": {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}, "then": {"required": ["count"]},
    "$defs": {"item": {"type": ["integer", "string"]}},
}  # fmt: skip


def lines(arguments: Arguments, value: dict[str, Any]) -> list[str]:
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate(value)
    return [str(problem) for problem in caught.value.problems]


@each_row(("value", "expected"), [
    ({}, ['kind: expected "a" or "b", but it is missing']),
    ({"kind": "c"}, ['kind: expected "a" or "b", got "c"']),
    ({"kind": "b"}, ["count: expected a value, but it is missing"]),
    ({"kind": "a", "count": 0}, ["count: expected an integer of at least 1, got 0"]),
    ({"kind": "a", "count": True}, ["count: expected an integer of at least 1, got true"]),
    ({"kind": "a", "cuont": 1}, ['cuont: unknown argument; did you mean "count"?']),
    ({"kind": "a", "when": "2026-01-31"},
     ['when: expected a date and time with offset such as 2026-01-31T09:30:00Z, got "2026-01-31"']),
    ({"kind": "a", "list": [1, None]}, ["list[1]: expected an integer or a string, got null"]),
    ({"kind": "a", "list": [2]}, ['list: [2] does not fit {"contains":{"const":1}}']),
])  # fmt: skip
def test_explicit_schema_wrong_arguments_are_reported(value: dict[str, Any], expected: list[str]) -> None:
    assert lines(custom_schemas.arguments(SCHEMA), value) == expected


@each_row(("schema", "message"), [
    ({"type": "object", "properties": {"a": {"type": "text"}}},
     r"not a valid JSON Schema at properties\.a\.type"),
    ({"type": "string"}, r'`"type": "object"`'), ({"properties": {}}, r'`"type": "object"`'),
    ({"$ref": "#/$defs/A"}, r'`"type": "object"`'),
    ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, r"cannot be resolved \(Pointer '/\$defs/A'",),
    ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}}, "remote schemas are not fetched"),
    ({"type": "object", "$schema": "https://example.org/own"}, "unknown dialect"), (["a"], r"got \['a'\]"),
    (int, "got <class 'int'>. For another class"),
])  # fmt: skip
def test_explicit_schema_that_is_invalid_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        custom_schemas.arguments(schema)


def test_explicit_schema_without_jsonschema_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(RegistrationError, match=r"pip install .*\[jsonschema\]"):
        custom_schemas.arguments(SCHEMA)


PAIR = {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}


OLD_PAIR = {"items": [{"type": "integer"}, {"type": "string"}]}


DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@each_row(("schema", "value", "expected"), [
    ({"properties": {"a": PAIR}}, {"a": [1, 2]}, ["a: [1,2] does not fit "]),
    ({"properties": {"a": {"anyOf": [PAIR, {"type": "null"}]}}}, {"a": [1, 2]}, ["a: expected "]),
    ({"$schema": DRAFT_7, "properties": {"a": OLD_PAIR}}, {"a": [1, True]},
     ["a[1]: expected a string, got true"]),
    ({"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False},
     {"x-1": 1, "x-2": "q", "y": 1}, ["x-2: expected an integer", "y: unknown argument"]),
    ({"patternProperties": {"^x-": {"type": "integer"}}, "required": ["x-1", "x-2"]}, {"x-1": "q"},
     ["x-1: expected an integer", "x-2: expected a value, but it is missing"]),
])  # fmt: skip
def test_explicit_schema_every_fault_is_reported_at_its_place(schema, value, expected) -> None:
    found = lines(custom_schemas.arguments({"type": "object", **schema}), value)
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(sorted(found), expected, strict=True)), found


def test_explicit_schema_pattern_and_tuple_values_are_repaired() -> None:
    by_pattern = {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}
    assert custom_schemas.arguments({"type": "object", **by_pattern}).validate({"x-1": "5"}) == {"x-1": 5}
    value = {"kind": "b", "count": 5.0, "when": "2026-01-31T09:30:00Z", "list": [1, "x"]}
    assert custom_schemas.arguments(SCHEMA).validate(value) is value  # without a repair
    by_place = {"$schema": DRAFT_7, "type": "object", "properties": {"a": OLD_PAIR}}
    assert custom_schemas.arguments(by_place).validate({"a": ["1", 2]}) == {"a": [1, "2"]}


MANY = [{"name": f"n{index}", "at": [index]} for index in range(100)]


VALUES = st.recursive(
    st.sampled_from([None, False, True, 0, 1, 1.0, -0.0, 2**53, 2**70, 1e300, 1.5, "", "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(VALUES, VALUES)
@example(1, 1.0)
@example(True, 1)
@example({"a": 1, "b": 2}, {"b": 2.0, "a": 1})
@example([0], [False])
def test_explicit_choice_equality_agrees_with_json_schema(choice: Any, value: Any) -> None:
    schema = {"type": "object", "properties": {"value": {"enum": [*MANY, choice]}}}
    assert CheckedSchema(schema, "input_schema").fits({"value": value}) == Draft202012Validator(
        {"enum": [choice]}
    ).is_valid(value)


FORECAST = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "array", "items": {"$ref": "#/$defs/degree"}}},
    "required": ["city", "degrees"], "additionalProperties": False,
    "$defs": {"degree": {"type": "number", "minimum": -90, "maximum": 60}},
}  # fmt: skip


EVEN = {"type": "object", "properties": {"n": {"multipleOf": 2}}, "not": {"required": ["m"]}}
"""Needs more than the validator in Rust knows."""


async def call(output_schema: Any, value: Any, revision: str = LATEST) -> tuple[Any, Any]:
    """Return the published schema of a tool that promises something and returns a value, and its result."""
    server = Server("promises")

    @server.tool(output_schema=output_schema)
    def observe() -> Any:
        return value

    async with connect(server, protocol_version=revision) as client:
        (tool,) = await client.list_tools()
        return tool.get("outputSchema"), await client.call_tool("observe")


@each_row(("schema", "value", "message"), [
    (FORECAST, {"city": "Rome"}, r"the tool ran, but result\.degrees: expected an array.*missing"),
    (FORECAST, {"city": "Rome", "degrees": [99]},
     r"result\.degrees\[0\]: expected a number from -90 to 60, got 99"),
    (FORECAST, {"city": "Rome", "degrees": [], "x": 1}, r"result\.x: unknown"),
    (FORECAST, None, "result: expected an object, got null"), (EVEN, {"n": 3}, r"result\.n: "),
    (EVEN, {"m": 2}, "result: .*does not fit"),
])  # fmt: skip
async def test_output_schema_wrong_result_is_error(schema: Any, value: Any, message: str) -> None:
    _, result = await call(schema, value)
    assert result.is_error
    assert result.structured_content is None
    assert re.search(message, result.text), result.text


async def test_output_schema_array_is_wrapped_in_handshake_versions() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
    published, result = await call(schema, [1], LATEST)
    assert (published, result.structured_content) == (schema, [1])
    published, result = await call(schema, [1], LATEST_HANDSHAKE)
    assert published == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
        "required": ["result"],
        "$defs": {"n": {"type": "integer"}},
    }
    assert result.structured_content == {"result": [1]}


@each_row(("options", "message"), [
    ({"output_schema": {"type": "objekt"}}, "tool 'observe': output_schema: not a valid JSON Schema at type"),
    ({"output_schema": {"$ref": "#/$defs/x"}}, "output_schema: a \\$ref cannot be resolved"),
    ({"output_schema": {"type": "array", "items": {"$ref": "#"}}},
     "\\$ref '#'; move the definition under `\\$defs`"),
    ({"output_schema": "Report"}, "'Report' is neither a JSON Schema nor a type"),
    ({"output_schema": [int]}, "is neither a JSON Schema nor a type; pass a dict or a class"),
    ({"output_schema": Image}, "declares no data"), ({"output_schema": Any}, "declares no data"),
    ({"output_schema": FORECAST, "result": ResultOptions(structured=False)}, "needs structured content"),
])  # fmt: skip
def test_output_schema_that_is_invalid_is_refused(options: Any, message: str) -> None:
    def observe() -> None:
        """Look."""

    with pytest.raises(RegistrationError, match=message):
        Server("promises").tool(observe, **options)

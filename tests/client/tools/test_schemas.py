"""Schemas of servers: what fits them, what cannot be held against anything, and what a hostile one costs."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from mcpkit.client.tools.schemas import ServerSchema, UnusableSchemaError
from mcpkit.schema import patterns, values


def problem(schema: Any, value: Any, **options: Any) -> str:
    return "; ".join(map(str, ServerSchema(schema, **options).problems(value)))


NODE = {
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "inner": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
        }
    },
    "$ref": "#/$defs/Node",
}
POINT = {
    "type": "array",
    "prefixItems": [{"type": "integer"}, {"type": "string"}],
    "minItems": 2,
    "maxItems": 2,
}
OPTIONAL = {"type": ["string", "null"]}


@pytest.mark.parametrize(
    ("schema", "fitting", "other", "told"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": "x"}, 'a: .* got "x"'),
        ({"type": "object", "required": ["a"]}, {"a": None}, {}, "a: .*missing"),
        ({"type": "object", "additionalProperties": False}, {}, {"a": 1}, "a: unknown"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a": 1},
            {"a": ""},
            "a: expected an int",
        ),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, None, {"a": 1}, "a"),
        ({"type": "object", "minProperties": 1, "properties": {"a": {}}}, {"b": 1}, {}, "at least 1 key"),
        (
            NODE,
            {"inner": [{"value": 1}]},
            {"inner": [{"value": ""}]},
            r"inner\[0\]\.value: expected an integer",
        ),
        ({**NODE, "$ref": "#/%24defs/Node"}, {"value": 1}, {"value": ""}, "value: expected an integer"),
        (
            {"type": "object", "properties": {"a": {"$ref": "#"}}},
            {"a": {"a": {}}},
            {"a": {"a": 1}},
            "a.a: expected",
        ),
        (POINT, [1, "a"], ["a", 1], r"\[0\]: expected an integer"),
        (POINT, [1, "a"], [1], "array of 2 items"),
        (OPTIONAL, None, 1, "expected a string or null"),
        ({"oneOf": [{"type": "string"}, {"const": 5}]}, 5, 6, "expected a string or 5"),
        ({"const": 1}, 1, True, "expected 1, got true"),
        ({"enum": [[1], None]}, [1], [2], r"expected \[1\] or null"),
        ({"type": "string", "enum": [1, "a"]}, "a", 1, "expected a string"),
        ({"type": "integer", "allOf": [{"type": "number", "maximum": 5}]}, 5, 6, "at most 5"),
        ({"type": "integer", "minimum": 0.5}, 1, 0, "at least 0.5"),
        ({"type": "number", "multipleOf": 0.5}, 1.5, 1.2, "multiple of 0.5"),
        (
            {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
            [1, 2],
            [1, 1],
            "without duplicates",
        ),
        ({"type": "string", "pattern": "^a+$", "maxLength": 3}, "aa", "ab", "matches"),
        (False, None, 1, "expected nothing"),
        (
            {"type": "object", "properties": {"default": {"type": "integer"}}},
            {},
            {"default": ""},
            "default: expected",
        ),
    ],
)
def test_what_fits_a_schema_and_what_does_not(schema: Any, fitting: Any, other: Any, told: str) -> None:

    assert fitting is None or problem(schema, fitting) == ""
    assert re.search(told, problem(schema, other))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "format": "date-time"}, "2026-01-31T09:30:00"),
        ({"type": "string", "pattern": "(?=(a+)+$)b"}, "a" * 100),
        ({"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False}, {"a": 1}),
        ({"type": "object", "x-fastmcp-wrap-result": True, "title": "T", "nullable": 5}, {}),
        ({"type": "string", "minLength": -1, "maxLength": "x", "pattern": 5}, "x"),
        ({"$ref": "https://example.com/schema.json"}, 5),
        ({"$ref": "#there"}, 5),
        ({"$ref": "#/$defs/missing"}, 5),
        ({"properties": {"a": {"type": "string"}}}, 5),
    ],
)
def test_what_is_a_note_or_not_understood_refuses_nothing(schema: Any, value: Any) -> None:
    assert problem(schema, value) == ""


def test_the_formats_of_a_form_are_held() -> None:
    schema = {"type": "string", "format": "email"}
    assert problem(schema, "ada") == ""
    assert "email" in problem(schema, "ada", asserts_formats=True)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"not": {"type": "string"}}}},
        {"type": "object", "patternProperties": {"^a": {"type": "integer"}}},
        {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"type": "object", "dependentRequired": {"a": ["b"]}},
        {"type": "object", "propertyNames": {"pattern": "^b"}, "properties": {}},
        {"oneOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]},
    ],
)
def test_the_other_keywords_are_held_by_the_library_of_the_extra(schema: Any) -> None:
    assert problem(schema, {"b": 1}) == ""
    assert problem(schema, {"a": "text"}) != ""


def test_without_the_extra_the_other_keywords_refuse_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    schema = {"type": "object", "properties": {"a": {"not": {"type": "string"}}, "b": {"type": "string"}}}
    assert problem(schema, {"a": "text"}) == ""
    assert problem(schema, {"a": "text", "b": 5}) == "b: expected a string, got 5"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (5, "a schema is an object"),
        ({"type": "strng"}, "no type 'strng'"),
        ({"type": [5]}, "no type 5"),
        ({"type": "object", "properties": []}, "`properties` is an object"),
        ({"type": "object", "required": "a"}, "`required` an array"),
        ({"anyOf": {}}, "`anyOf` is an array"),
        ({"enum": "a"}, "`enum` is an array"),
        ({"$ref": 5}, "`\\$ref` is a string"),
        ({"$ref": "#"}, "more than 1000 schemas"),
        ({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, "more than 1000 schemas"),
        ({"allOf": [{}] * 30_000}, "more than 20000 schemas"),
    ],
)
def test_a_schema_that_is_none_says_so(schema: Any, why: str) -> None:
    with pytest.raises(UnusableSchemaError, match=why):
        ServerSchema(schema)


HOSTILE = """
import time
from mcpkit.client.tools.schemas import ServerSchema, UnusableSchemaError
from mcpkit.schema import patterns, values

def chain(build, last, length=60):
    names = [f"d{index}" for index in range(length)]
    definitions = {name: build({"$ref": f"#/$defs/{after}"}) for name, after in zip(names, [*names[1:], "end"])}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, "end": last}}

def branch(inner):
    return {"type": "object", "properties": {"x": inner}, "required": ["none"]}

deep = 1
for _ in range(60):
    deep = {"x": deep}
cases = [
    (chain(lambda inner: {"anyOf": [inner, inner]}, {"type": "string"}), 1),
    (chain(lambda inner: {"anyOf": [branch(inner), branch(inner)]}, {"type": "string"}), deep),
    (chain(lambda inner: {"allOf": [branch(inner), branch(inner)], "not": {}}, {"type": "string"}), deep),
    (chain(lambda inner: inner, {"type": "string"}, 5000), 1),
    ({"not": {"$ref": "#"}}, 1),
    ({"$dynamicRef": "#", "not": {}}, 1),
    ({"if": {"$ref": "#/$defs/a"}, "$defs": {"a": {"if": {"$ref": "#/$defs/a"}}}}, 1),
    ({"type": "string", "pattern": "((a{0,100}){0,100}){0,100}"}, "a" * 1000),
    ({"type": "array", "items": {"type": "integer"}}, list(range(200_000)) + ["x"]),
]
for schema, value in cases:
    begun = time.perf_counter()
    try:
        ServerSchema(schema).problems(value)
    except UnusableSchemaError:
        pass
    assert time.perf_counter() - begun < 5, schema
print("held")
"""


@pytest.mark.slow
def test_a_hostile_schema_neither_holds_up_the_client_nor_ends_it() -> None:
    run = subprocess.run(
        [sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout == "held\n", run.stderr


@pytest.mark.slow
def test_what_is_kept_of_the_patterns_of_servers_has_a_bound() -> None:
    for number in range(3_000):
        assert problem({"type": "string", "pattern": f"^{number}$"}, str(number)) == ""
    for kept in (patterns.read, values.matches):
        assert kept.cache_info().currsize <= values.MOST_PATTERNS

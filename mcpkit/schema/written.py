"""JSON Schemas that an author writes: those that the validators of this package hold as they are, and all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_core import CoreSchema, core_schema

from ..content.convert import check_sendable
from ..protocol.jsonrpc import SCALARS, is_array, is_object, without
from . import from_schema
from .described import Described
from .explicit import CheckedSchema
from .types import KINDS
from .values import Json, refusal

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
                          "$comment"})  # fmt: skip
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_LIMITS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_KEYWORDS: dict[str, frozenset[str]] = {
    # what a schema of a type may say, for the validator in Rust to hold values against all of it
    "integer": _LIMITS,
    "number": _LIMITS,
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "boolean": frozenset(),
    "null": frozenset(),
    "array": frozenset({"items", "minItems", "maxItems", "uniqueItems"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
}


def described(option: str, schema: Json) -> Described:
    """Return a JSON Schema of an author with what accepts the values that fit it, and changes nothing of them.

    Args:
        option: Where it was given, for messages.
        schema: The schema.

    Raises:
        RegistrationError: It is not valid, or refers to what is not there; or it needs jsonschema, which is missing.
    """
    check_sendable("", option, schema)
    core = from_schema.core(schema) if knows(schema) else _core(CheckedSchema(schema, option))
    return Described(without(schema, "$defs"), core, definitions=schema.get("$defs", {}))


def _core(checked: CheckedSchema) -> CoreSchema:
    def check(value: Any) -> Any:
        if not checked.fits(value):
            for fault in checked.reader().faults(value):
                raise refusal(str(fault.problem))
            raise refusal("it does not match the schema")
        return value

    return core_schema.no_info_plain_validator_function(check)


def knows(schema: Json) -> bool:
    """Return whether a schema is valid and only has keywords that the validator of from_schema.py supports."""
    named = schema.get("$defs", {})
    if not is_object(named) or schema.get("$schema", _DIALECT) != _DIALECT:
        return False
    root = without(schema, "$defs", "$schema")
    targets = {f"#/$defs/{name}" for name in named}
    # A definition that is nothing but another may lead back to itself.
    return _knows(root, targets) and all(
        _knows(inner, targets) and "$ref" not in inner for inner in named.values()
    )


def _knows(schema: Any, targets: set[str]) -> bool:
    if not is_object(schema):
        return False
    said = schema.keys() - _NOTES
    if not said or said == {"$ref"}:
        return not said or schema["$ref"] in targets
    if said == {"anyOf"}:
        branches = schema["anyOf"]
        return is_array(branches) and bool(branches) and all(_knows(branch, targets) for branch in branches)
    if "enum" in said and said <= {"type", "enum"}:
        return _knows_choices(schema)
    kind = schema.get("type")
    if not isinstance(kind, str) or not said <= _KEYWORDS.get(kind, frozenset()) | {"type"}:
        return False
    is_counted = all(_is_count(schema[key]) for key in said & _COUNTS)
    return kind in _KEYWORDS and is_counted and _KNOWS.get(kind, _knows_limits)(schema, targets)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _knows_limits(schema: Json, targets: set[str]) -> bool:
    return all(type(schema[key]) in (int, float) for key in schema.keys() & _LIMITS)


def _knows_choices(schema: Json) -> bool:
    choices = schema["enum"]
    if not is_array(choices) or not choices or not SCALARS.issuperset(map(type, choices)):
        return False
    return "type" not in schema or all(KINDS[type(choice)] == schema["type"] for choice in choices)


def _knows_text(schema: Json, targets: set[str]) -> bool:
    return isinstance(schema.get("format", ""), str) and isinstance(schema.get("pattern", ""), str)


def _knows_array(schema: Json, targets: set[str]) -> bool:
    return _knows(schema.get("items", {}), targets) and type(schema.get("uniqueItems", False)) is bool


def _knows_object(schema: Json, targets: set[str]) -> bool:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    additional = schema.get("additionalProperties", True)
    return (
        is_object(properties)
        and all(_knows(inner, targets) for inner in properties.values())
        and is_array(required)
        and all(isinstance(name, str) and name in properties for name in required)
        and (type(additional) is bool or _knows(additional, targets))
    )


_KNOWS: dict[str, Callable[[Json, set[str]], bool]] = {
    "string": _knows_text,
    "array": _knows_array,
    "object": _knows_object,
}

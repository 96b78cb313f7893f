"""Converts JSON Schema to a validator that runs in Rust, for the keywords that this package writes.

Results are validated with it against the published schema. So are results of other servers; their schemas are first
converted to these keywords, with `allOf` alone in its schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from pydantic_core import CoreSchema, SchemaValidator, core_schema

from ..protocol.jsonrpc import is_array, is_object
from . import values
from .formats import FORMATS
from .values import CONSTRAINTS, Json


def validator(schema: Json) -> SchemaValidator:
    """Return the validator of a schema."""
    return SchemaValidator(core(schema))


def core(schema: Json) -> CoreSchema:
    """Return the validator of a schema as pydantic-core describes it."""
    core = _core(schema)
    definitions = schema.get("$defs", {})
    if definitions:
        from .recursion import bounded

        named: list[Any] = [{**_core(inner), "ref": f"#/$defs/{name}"} for name, inner in definitions.items()]
        core = bounded(core_schema.definitions_schema(core, named))
    return core


def _core(schema: Json) -> CoreSchema:
    if "$ref" in schema:
        return core_schema.definition_reference_schema(schema["$ref"])
    for keyword, join in _JOINED.items():
        if keyword in schema:
            return join([_core(part) for part in schema[keyword]])
    if "const" in schema or "enum" in schema:
        return values.one_of([(choice, choice) for choice in schema.get("enum", [schema.get("const")])])
    kinds = schema.get("type")
    if kinds is None:
        return core_schema.any_schema()
    if is_array(kinds):
        kindly: list[Any] = [_of_kind(kind, schema) for kind in kinds]
        return core_schema.union_schema(kindly, mode="left_to_right")
    return _of_kind(kinds, schema)


def _of_kind(kind: str, schema: Json) -> CoreSchema:
    constraints = {name: schema[key] for name, key in CONSTRAINTS.get(kind, {}).items() if key in schema}
    return _KINDS[kind](schema, constraints)


def _string(schema: Json, constraints: Json) -> CoreSchema:
    # A constraint of any kind makes the validator look at the characters, and find lone surrogates.
    text = values.string(**{"min_length": 0, **constraints})
    if schema.get("format") in FORMATS:
        return core_schema.chain_schema([text, values.formatted(schema["format"])])
    if schema.get("contentEncoding") == "base64":
        return core_schema.chain_schema([text, values.base64_bytes(core_schema.any_schema())])
    return text


def _array(schema: Json, constraints: Json) -> CoreSchema:
    prefix = schema.get("prefixItems")
    core: CoreSchema
    if prefix is None:
        core = core_schema.list_schema(
            _core(schema.get("items", {})), strict=True, fail_fast=True, **constraints
        )
    else:
        # A tuple of this package has as many items as types, but for those with a default at its end.
        items: list[CoreSchema] = [_core(item) for item in prefix]
        least = schema.get("minItems", 0)
        lengths: list[Any] = [
            core_schema.tuple_schema(items[:length]) for length in range(least, len(items) + 1)
        ]
        core = values.array(core_schema.union_schema(lengths, mode="left_to_right"))
    return values.unique(core) if schema.get("uniqueItems") else core


def _object(schema: Json, constraints: Json) -> CoreSchema:
    properties: Json = schema.get("properties", {})
    additional = schema.get("additionalProperties", True)
    extras = _core(additional) if is_object(additional) else None
    if not properties and additional is not False:
        # Constraints of any kind as in _string: keys have characters too.
        keys = _core({"type": "string", **schema.get("propertyNames", {})})
        return cast("CoreSchema", {**values.mapping(keys, extras or core_schema.any_schema()), **constraints})
    required = set(schema.get("required", ()))
    fields = {
        name: core_schema.typed_dict_field(_core(inner), required=name in required)
        for name, inner in properties.items()
    }
    behavior: Literal["forbid", "allow"] = "forbid" if additional is False else "allow"
    return core_schema.typed_dict_schema(fields, extras_schema=extras, extra_behavior=behavior)


_JOINED: dict[str, Callable[[list[Any]], CoreSchema]] = {
    "anyOf": values.in_order,
    "oneOf": values.in_order,
    "allOf": core_schema.chain_schema,
}
_KINDS: dict[str, Callable[[Json, Json], CoreSchema]] = {
    "integer": lambda _, constraints: values.integer(**constraints),
    "number": lambda _, constraints: values.number(**constraints),
    "string": _string,
    "boolean": lambda _, __: values.boolean(),
    "null": lambda _, __: core_schema.none_schema(),
    "array": _array,
    "object": _object,
}

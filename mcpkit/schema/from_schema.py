"""JSON Schema to a validator that runs in Rust, for the keywords that this package writes.

Results are checked with it: what leaves is compared with the schema that was published, and with nothing else.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import CoreSchema, SchemaValidator, core_schema

from . import values
from .formats import FORMATS
from .values import Json

_CONSTRAINTS = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}
_OF_KIND = {
    "integer": ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def validator(schema: Json) -> SchemaValidator:
    """Return the validator of a schema."""
    core = _core(schema)
    definitions = schema.get("$defs", {})
    if definitions:
        named: list[Any] = [{**_core(inner), "ref": f"#/$defs/{name}"} for name, inner in definitions.items()]
        core = core_schema.definitions_schema(core, named)
    return SchemaValidator(core)


def _core(schema: Json) -> CoreSchema:
    if "$ref" in schema:
        return core_schema.definition_reference_schema(schema["$ref"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return core_schema.union_schema([_core(branch) for branch in schema[union]], mode="left_to_right")
    if "const" in schema:
        return values.one_of([(schema["const"], schema["const"])])
    if "enum" in schema:
        return values.one_of([(choice, choice) for choice in schema["enum"]])
    kinds = schema.get("type")
    if kinds is None:
        return core_schema.any_schema()
    if isinstance(kinds, list):
        return core_schema.union_schema([_of_kind(kind, schema) for kind in kinds], mode="left_to_right")
    return _of_kind(kinds, schema)


def _of_kind(kind: str, schema: Json) -> CoreSchema:
    constraints = {
        _CONSTRAINTS[key]: schema[key]
        for key in _OF_KIND.get(kind, ())
        if key in _CONSTRAINTS and key in schema
    }
    if kind == "integer":
        return values.integer(**constraints)
    if kind == "number":
        return values.number(**constraints)
    if kind == "string":
        return _string(schema, constraints)
    if kind == "array":
        return _array(schema, constraints)
    if kind == "object":
        return _object(schema)
    return values.boolean() if kind == "boolean" else core_schema.none_schema()


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
        core = core_schema.list_schema(_core(schema.get("items", {})), strict=True, **constraints)
    else:
        # A tuple of this package has as many items as types, but for those with a default at its end.
        items: list[CoreSchema] = [_core(item) for item in prefix]
        least = schema.get("minItems", 0)
        lengths: list[Any] = [
            core_schema.tuple_schema(items[:length]) for length in range(least, len(items) + 1)
        ]
        core = values.array(core_schema.union_schema(lengths, mode="left_to_right"))
    return values.unique(core) if schema.get("uniqueItems") else core


def _object(schema: Json) -> CoreSchema:
    properties = schema.get("properties")
    additional = schema.get("additionalProperties", True)
    extras = _core(additional) if isinstance(additional, dict) else None
    if not properties:
        if additional is False:
            return core_schema.typed_dict_schema({}, extra_behavior="forbid")
        lengths: Any = {
            name: schema[key]
            for key, name in (("minProperties", "min_length"), ("maxProperties", "max_length"))
            if key in schema
        }
        return core_schema.dict_schema(values.string(min_length=0), extras, strict=True, **lengths)
    required = set(schema.get("required", ()))
    fields = {
        name: core_schema.typed_dict_field(_core(inner), required=name in required)
        for name, inner in properties.items()
    }
    behavior: Any = "forbid" if additional is False else "allow"
    return core_schema.typed_dict_schema(fields, extras_schema=extras, extra_behavior=behavior)

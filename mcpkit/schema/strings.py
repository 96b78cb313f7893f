"""Text to JSON values: the arguments of prompts and URI templates are texts, whatever their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from ..protocol.jsonrpc import is_object
from .problems import Reader
from .values import Json


def parse(schema: Json, arguments: Mapping[str, str | list[str]]) -> Json:
    """Return the JSON values that texts stand for, by the schema of each.

    Args:
        schema: The schema of all arguments.
        arguments: The texts; those in a list stand for the items of an array.
    """
    properties: Json = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    rest: Json = additional if is_object(additional) else {}
    reader = Reader(schema)
    return {
        name: _value(properties.get(name, rest), text, reader) if rest or name in properties else text
        for name, text in arguments.items()  # an unknown argument stays as it is
    }


def blank(schema: Json, arguments: Mapping[str, str | list[str]]) -> set[str]:
    """Return the names of optional arguments that are empty texts, as hosts send fields that were not filled in."""
    required = schema.get("required", ())
    return {
        name
        for name, text in arguments.items()
        if text in ("", [""]) and name in schema.get("properties", {}) and name not in required
    }


def _value(schema: Json, text: str | list[str], reader: Reader) -> Any:
    if isinstance(text, list):
        return [_value(_item(schema, index), part, reader) for index, part in enumerate(text)]
    if reader.takes(schema, text):
        return text
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        # It stays what it is, and validation says what was expected.
        return text


def _item(schema: Json, index: int) -> Json:
    """Return the schema of an item of an array, which may be one of several branches."""
    for branch in schema.get("anyOf", [schema]):
        if branch.get("type") == "array":
            prefix: list[Json] = branch.get("prefixItems", [])
            items: Json = branch.get("items", {})
            return prefix[index] if index < len(prefix) else items
    return {}

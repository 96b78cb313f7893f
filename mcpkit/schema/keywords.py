"""What the keywords of JSON Schema that are about a value alone demand of it, but for what lies inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..protocol.jsonrpc import is_array, is_object
from .formats import FORMATS
from .values import Json, decode_base64, identity, is_unique, matches


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


KINDS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": is_array,
    "object": is_object,
}


def _is_base64(text: str) -> bool:
    try:
        decode_base64(text)
    except ValueError:
        return False
    return True


# Each keyword that is about the value alone, with the kinds that it is about and what it demands.
KEYWORDS: dict[str, tuple[tuple[str, ...], Callable[[Any, Any], bool]]] = {
    "minimum": (("number",), lambda value, limit: value >= limit),
    "maximum": (("number",), lambda value, limit: value <= limit),
    "exclusiveMinimum": (("number",), lambda value, limit: value > limit),
    "exclusiveMaximum": (("number",), lambda value, limit: value < limit),
    "multipleOf": (("number",), lambda value, step: value % step == 0),
    "minLength": (("string",), lambda value, limit: len(value) >= limit),
    "maxLength": (("string",), lambda value, limit: len(value) <= limit),
    "pattern": (("string",), lambda value, pattern: matches(pattern)(value)),
    "format": (("string",), lambda value, name: name not in FORMATS or matches(FORMATS[name])(value)),
    "contentEncoding": (("string",), lambda value, name: name != "base64" or _is_base64(value)),
    "minItems": (("array",), lambda value, limit: len(value) >= limit),
    "maxItems": (("array",), lambda value, limit: len(value) <= limit),
    "uniqueItems": (("array",), lambda value, wanted: not wanted or is_unique(value)),
    "minProperties": (("object",), lambda value, limit: len(value) >= limit),
    "maxProperties": (("object",), lambda value, limit: len(value) <= limit),
}


def fits_alone(schema: Json, value: Any) -> bool:
    """Tell whether a value fits but for what lies inside it."""
    kinds = schema.get("type")
    if kinds is not None:
        allowed = [kinds] if isinstance(kinds, str) else kinds
        if not any(KINDS[kind](value) for kind in allowed):
            return False
    if "enum" in schema and identity(value) not in map(identity, schema["enum"]):
        return False
    if "const" in schema and identity(value) != identity(schema["const"]):
        return False
    return all(
        demand(value, schema[keyword])
        for keyword, (about, demand) in KEYWORDS.items()
        if keyword in schema and any(KINDS[kind](value) for kind in about)
    )

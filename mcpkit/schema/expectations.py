"""Descriptions of expected and actual values, in words for a model."""

from __future__ import annotations

from typing import Any

from ..content.blocks import shown
from .formats import EITHER, EXAMPLES
from .keywords import KEYWORDS, KINDS
from .references import target
from .values import DECIMAL_PATTERN, Json

MOST_CHOICES = 20
"""How many choices or names are listed; of more only some are."""
_SOME_CHOICES = 5


_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "an array",
    "object": "an object",
}


_SIZES = {
    "string": ("minLength", "maxLength", "character"),
    "array": ("minItems", "maxItems", "item"),
    "object": ("minProperties", "maxProperties", "key"),
}
"""The keywords of how much a value holds, and what it holds."""

_OF_PATTERNS = {**EXAMPLES, DECIMAL_PATTERN: 'a string with a decimal number such as "12.50"'}


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value without its contents."""
    if isinstance(value, bool):
        return "a boolean"
    return next((name for kind, name in _NAMES.items() if KINDS[kind](value)), "a value")


def expected(schema: Json, root: Json) -> str:
    """Return what a schema expects, as the object of a sentence."""
    if "$ref" in schema:
        return expected(target(schema, root), root)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return _either(list(dict.fromkeys(expected(branch, root) for branch in schema[union])))
    if "const" in schema:
        return shown(schema["const"])
    if "enum" in schema:
        choices = [shown(choice) for choice in schema["enum"]]
        if len(choices) > MOST_CHOICES:
            return f"one of {len(choices)} values such as {', '.join(choices[:_SOME_CHOICES])}"
        *first, last = choices or ["nothing"]
        return f"{', '.join(first)} or {last}" if first else last
    kinds = schema.get("type") or list(
        dict.fromkeys(about for key, (about, _) in KEYWORDS.items() if key in schema)
    )
    named = [_named(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return " or ".join(named) or "a value"


def _either(texts: list[str]) -> str:
    """Return what one of several branches expects."""
    for (first, second), both in EITHER.items():
        if first in texts and second in texts:
            texts = [both if text == first else text for text in texts if text != second]
    return " or ".join(texts)


def _named(kind: str, schema: Json) -> str:
    text = _NAMES[kind]
    if kind in ("integer", "number"):
        return text + _range(schema)
    if kind == "string":
        if schema.get("pattern") in _OF_PATTERNS:
            return _OF_PATTERNS[schema["pattern"]]
        if schema.get("contentEncoding") == "base64":
            text = "a base64 string"
        text = EXAMPLES.get(schema.get("format", ""), text)
    text += _size(schema, *_SIZES[kind]) if kind in _SIZES else ""
    if kind == "string" and "pattern" in schema:
        text += f" that matches {schema['pattern']}"
    return f"{text} without duplicates" if kind == "array" and schema.get("uniqueItems") else text


def _range(schema: Json) -> str:
    if "minimum" in schema and "maximum" in schema:
        text = f" from {shown(schema['minimum'])} to {shown(schema['maximum'])}"
    else:
        words = {
            "minimum": "of at least",
            "exclusiveMinimum": "greater than",
            "maximum": "of at most",
            "exclusiveMaximum": "less than",
        }
        parts = [f"{word} {shown(schema[key])}" for key, word in words.items() if key in schema]
        text = f" {' and '.join(parts)}" if parts else ""
    return text + (f" that is a multiple of {shown(schema['multipleOf'])}" if "multipleOf" in schema else "")


def _size(schema: Json, least: str, most: str, unit: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if low is None and high is None:
        return ""
    if low == high:
        text = f"{low}"
    elif high is None:
        text = f"at least {low}"
    else:
        text = f"at most {high}" if not low else f"{low} to {high}"
    return f" of {text} {unit}{'' if text.endswith(' 1') or text == '1' else 's'}"

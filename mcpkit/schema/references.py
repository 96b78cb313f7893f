"""The schemas that a JSON Schema is made of, and what its `$ref`s refer to.

Only keywords hold schemas: a property may be called `default`, `enum` or `$ref`, and data may look like a schema.
Everything here that reads or rewrites a whole schema goes through `subschemas` and `replaced`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from ..protocol.jsonrpc import is_array, is_object, without
from ..protocol.types import Json

_ONE = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"
})  # fmt: skip
_SEVERAL = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})  # `items` up to 2019-09
_NAMED = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords with a schema, an array of schemas, or schemas by name as value. All others contain data."""

Change = Callable[[str, Any], Any]
"""Returns what replaces a schema; gets the keyword that holds it, and the schema."""


def subschemas(schema: Json) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the schemas directly within one: the steps that lead to each (`("properties", "city")`), and the schema.

    Booleans, which are schemas too, are among them.
    """
    for key, value in schema.items():
        if is_object(value):
            if key in _ONE:
                yield (key,), value
            elif key in _NAMED:
                for name, inner in value.items():
                    if isinstance(inner, (dict, bool)):  # `dependencies` holds arrays of names as well
                        yield (key, name), inner
        elif is_array(value):
            if key in _SEVERAL:
                yield from (((key, index), inner) for index, inner in enumerate(value))
        elif key in _ONE:
            yield (key,), value


def replaced(schema: Json, change: Change) -> Json:
    """Return a copy of a schema in which `change` has replaced each schema directly within it."""
    result: Json = {}
    for key, value in schema.items():
        if is_object(value) and key in _NAMED:
            result[key] = {
                name: change(key, inner) if isinstance(inner, (dict, bool)) else inner
                for name, inner in value.items()
            }
        elif is_array(value) and key in _SEVERAL:
            result[key] = [change(key, inner) for inner in value]
        elif key in _ONE and isinstance(value, (dict, bool)):
            result[key] = change(key, value)
        else:
            result[key] = value
    return result


def nodes(schema: Any, root: Json | None = None) -> Iterator[Json]:
    """Yield a schema and all that it is made of, without booleans.

    Args:
        schema: A JSON Schema.
        root: Where references start from, to follow each of them once; None to follow none.
    """
    waiting = [schema]
    followed: set[str] = set()
    while waiting:
        part = waiting.pop()
        if not is_object(part):
            continue
        yield part
        reference = part.get("$ref")
        if root is not None and isinstance(reference, str) and reference not in followed:
            followed.add(reference)
            waiting.append(target(part, root))
        waiting += [inner for _, inner in subschemas(part)]


def resolved(reference: object, root: object) -> Any:
    """Return what a `$ref` within a schema refers to.

    Raises:
        LookupError: It leads out of the schema, or nowhere.
    """
    if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
        raise LookupError(reference)
    found = root
    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if is_object(found):
            found = found[key]
        elif is_array(found) and key.isdecimal() and len(key) < 10:
            found = found[int(key)]
        else:
            raise LookupError(reference)
    return found


def target(schema: Json, root: Json) -> Json:
    """Return the schema that a `$ref` refers to, with what stands beside it."""
    beside = without(schema, "$ref")
    try:
        found = resolved(schema["$ref"], root)
    except LookupError:
        # A reference of another form is an author's own; the validator follows it, here it says nothing.
        return beside
    return {**found, **beside} if is_object(found) else beside

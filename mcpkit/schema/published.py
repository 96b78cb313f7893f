"""A schema as clients can read it: its patterns in the words of ECMA-262, and without those that it has none for."""

from __future__ import annotations

from typing import Any

from ..protocol.jsonrpc import is_object
from .references import replaced
from .values import Json

_NEGATING = {"not": ("not",), "if": ("if", "then", "else")}
"""Keywords with schemas that must not become more permissive, and the keywords to remove in that case."""


def published(schema: Json, *, drops: bool = True) -> Json:
    """Return a schema that allows what `schema` allows, and what only a pattern that clients cannot read forbids.

    Args:
        schema: A JSON Schema with patterns of any engine.
        drops: Whether patterns that ECMA-262 has no words for are left out, and do not stay.

    Returns:
        The very same where there is nothing to change.
    """
    result, _ = _read(schema, drops=drops)
    return schema if result == schema else result


def _read(schema: Any, *, drops: bool) -> tuple[Any, bool]:
    """Return a schema in the words of ECMA-262, and whether it allows more than before."""
    if not is_object(schema):
        return schema, False
    wider: set[str] = set()

    def read(keyword: str, inner: Any) -> Any:
        written, is_wider = _read(inner, drops=drops)
        if is_wider:
            wider.add(keyword)
        return written

    result = replaced(schema, read)
    if isinstance(result.get("pattern"), str):
        result["pattern"] = _pattern(result["pattern"], drops=drops)
        if result["pattern"] is None:
            del result["pattern"]
            wider.add("pattern")
    if is_object(named := result.get("patternProperties")):
        written = {_pattern(name, drops=drops): inner for name, inner in named.items()}
        result["patternProperties"] = {name: inner for name, inner in written.items() if name is not None}
        if None in written:
            wider.add("patternProperties")
    _widen(result, wider)
    return result, bool(wider)


def _pattern(pattern: str, *, drops: bool) -> str | None:
    from . import patterns

    known = patterns.read(pattern)
    if known is not None:
        return known.published
    patterns.warn(pattern)
    return None if drops else pattern


def _widen(schema: Json, wider: set[str]) -> None:
    """Change what would forbid more, now that some of a schema's parts allow more."""
    for key in wider & _NEGATING.keys():
        for other in _NEGATING[key]:
            schema.pop(other, None)
    if "oneOf" in wider:
        # Branches that only a pattern told apart may now be two at a time.
        branches = schema.pop("oneOf")
        schema.setdefault("anyOf", branches)
    if "contains" in wider:
        schema.pop("maxContains", None)
    if "patternProperties" in wider:
        for key in ("additionalProperties", "unevaluatedProperties"):
            schema.pop(key, None)

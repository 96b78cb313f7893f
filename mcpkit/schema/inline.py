"""Definitions put where they are used, so that hosts that do not follow `$ref` read the whole schema."""

from __future__ import annotations

from typing import Any

from ..common.members import without
from ..protocol.jsonrpc import is_array, is_object
from .references import DATA, nodes
from .values import Json

_PREFIX = "#/$defs/"
_NO_STANDARD_FORMATS = frozenset({"path", "file-path", "directory-path", "binary", "base64", "base64url"})


def definitions(schema: Json) -> Json:
    """Return a schema with every definition inlined, but for those that contain themselves.

    Args:
        schema: A schema whose references are `#/$defs/...`.

    Returns:
        A new schema; `$defs` holds what is left, in order of first use.
    """
    defined: Json = schema.get("$defs", {})
    recursive = {
        name
        for name in defined
        if any(node.get("$ref") == _PREFIX + name for node in nodes(defined[name], schema))
    }
    used: Json = {}

    def expand(value: Any) -> Any:
        if is_array(value):
            return [expand(item) for item in value]
        if not is_object(value):
            return value
        rest = {key: item if key in DATA else expand(item) for key, item in value.items() if key != "$defs"}
        if rest.get("format") in _NO_STANDARD_FORMATS:
            del rest["format"]
        if rest.get("propertyNames") == {}:
            del rest["propertyNames"]
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return rest
        name = reference.removeprefix(_PREFIX)
        if name not in recursive:
            return {**expand(defined[name]), **without(rest, "$ref")}
        if name not in used:
            used[name] = None  # its place, before those that it uses
            used[name] = expand(defined[name])
        return rest

    expanded: Json = expand(schema)
    return {**expanded, "$defs": used} if used else expanded

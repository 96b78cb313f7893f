"""Definitions put where they are used, so that hosts that do not follow `$ref` read the whole schema."""

from __future__ import annotations

from typing import Any

from .._utils.exceptions import RegistrationError
from ..protocol.jsonrpc import is_object, without
from .references import nodes, replaced
from .values import Json, items_of_tuple

_PREFIX = "#/$defs/"
_NO_STANDARD_FORMATS = ("path", "file-path", "directory-path", "binary", "base64", "base64url")
NOWHERE = "$ref cannot be resolved: {!r}; put the schema under `$defs` and write `#/$defs/<name>`"
"""The message for a reference that leads to no definition."""
ITEMS_OF_TUPLE: Json = {"mcpkit:items": "prefixItems"}
"""Stands for the `items` of a tuple, which depend on its `prefixItems` as they are once definitions are inlined."""


def definitions(schema: Json) -> Json:
    """Return a schema with all definitions inlined, except recursive ones.

    Args:
        schema: A schema with references of the form `#/$defs/...`.

    Returns:
        A new schema; `$defs` has the remaining definitions, in order of first use.

    Raises:
        RegistrationError: A reference has no target.
    """
    defined: Json = schema.get("$defs", {})
    recursive = {
        name
        for name in defined
        if any(_name(node.get("$ref")) == name for node in nodes(defined[name], schema))
    }
    used: Json = {}

    def expand(value: Any) -> Any:
        if not is_object(value):
            return value
        rest = replaced(without(value, "$defs"), lambda _, inner: expand(inner))
        if rest.get("format") in _NO_STANDARD_FORMATS:
            del rest["format"]
        if rest.get("propertyNames") == {}:
            del rest["propertyNames"]
        if rest.get("items") == ITEMS_OF_TUPLE:
            rest["items"] = items_of_tuple(rest.get("prefixItems", []))
        if "$ref" not in rest:
            return rest
        name = _name(rest["$ref"])
        if name is None or name not in defined:
            raise RegistrationError(NOWHERE.format(rest["$ref"]))
        if name not in recursive:
            return {**expand(defined[name]), **without(rest, "$ref")}
        if name not in used:
            used[name] = None  # its place, before those that it uses
            used[name] = expand(defined[name])
        return rest

    expanded: Json = expand(schema)
    return {**expanded, "$defs": used} if used else expanded


def _name(reference: object) -> str | None:
    """Return the name of the definition that a reference leads to; None where it leads elsewhere."""
    if not isinstance(reference, str) or not reference.startswith(_PREFIX):
        return None
    return reference.removeprefix(_PREFIX).replace("~1", "/").replace("~0", "~")

"""`$ref`s within one schema."""

from __future__ import annotations

from typing import Any

from ..protocol.jsonrpc import is_object
from .values import Json


def target(schema: Json, root: Json) -> Json:
    """Return the schema that a `$ref` refers to, with what stands beside it."""
    reference: str = schema["$ref"]
    found: Any = root if reference.startswith("#/") else {}
    for key in reference.split("/")[1:]:
        # A reference of another form is an author's own; the validator follows it, here it says nothing.
        found = found.get(key.replace("~1", "/").replace("~0", "~"), {}) if is_object(found) else {}
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return {**found, **beside} if is_object(found) else beside

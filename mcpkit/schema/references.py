"""`$ref`s within one schema, and all the schemas that it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..common.members import without
from ..protocol.jsonrpc import is_array, is_object
from ..protocol.types import Json

DATA = frozenset({"default", "examples", "enum", "const"})
"""Keywords that hold data of the author, whatever that looks like."""


def nodes(schema: Any, root: Json | None = None) -> Iterator[Json]:
    """Yield a schema and all that it is made of.

    Args:
        schema: A JSON Schema, or several.
        root: Where references start from, to follow each of them once; None to follow none.
    """
    waiting = [schema]
    followed: set[str] = set()
    while waiting:
        part = waiting.pop()
        if is_array(part):
            waiting += part
        elif is_object(part):
            yield part
            reference = part.get("$ref")
            if root is not None and isinstance(reference, str) and reference not in followed:
                followed.add(reference)
                waiting.append(target(part, root))
            waiting += [value for key, value in part.items() if key not in DATA]


def target(schema: Json, root: Json) -> Json:
    """Return the schema that a `$ref` refers to, with what stands beside it."""
    reference: str = schema["$ref"]
    found: Any = root if reference.startswith("#/") else {}
    for key in reference.split("/")[1:]:
        # A reference of another form is an author's own; the validator follows it, here it says nothing.
        found = found.get(key.replace("~1", "/").replace("~0", "~"), {}) if is_object(found) else {}
    beside = without(schema, "$ref")
    return {**found, **beside} if is_object(found) else beside

"""Fields whose values nobody shall read in a message: `writeOnly`, or of the format `password`.

pydantic describes `SecretStr` and `SecretBytes` so; `Field(json_schema_extra={"writeOnly": True})` does the same.
"""

from __future__ import annotations

from typing import Any

from ..protocol.jsonrpc import is_array, is_object
from .inline import DATA
from .references import target
from .values import Json


def is_secret(schema: Json) -> bool:
    """Tell whether a schema calls its value a secret (JSON Schema 2020-12, "readOnly" and "writeOnly")."""
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def holds_secret(schema: Json, root: Json) -> bool:
    """Tell whether a value of a schema may be, or hold, a secret.

    Args:
        schema: The schema.
        root: What its references start from.
    """
    return _holds(schema, root, set())


def _holds(part: Any, root: Json, followed: set[str]) -> bool:
    if is_array(part):
        return any(_holds(each, root, followed) for each in part)
    if not is_object(part):
        return False
    if is_secret(part):
        return True
    reference = part.get("$ref")
    if isinstance(reference, str) and reference not in followed:
        followed.add(reference)
        if _holds(target(part, root), root, followed):
            return True
    return any(_holds(each, root, followed) for key, each in part.items() if key not in DATA)

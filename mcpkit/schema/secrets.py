"""Fields whose values nobody shall read in a message: `writeOnly`, or of the format `password`.

pydantic describes `SecretStr` and `SecretBytes` so; `Field(json_schema_extra={"writeOnly": True})` does the same.
"""

from __future__ import annotations

from .references import nodes
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
    return any(map(is_secret, nodes(schema, root)))

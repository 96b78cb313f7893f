"""Small questions about JSON Schemas that more than one module here asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Final

from ..client.tools.schemas import ServerSchema, UnusableSchemaError
from ..protocol.jsonrpc import Json, is_array, is_object
from ..schema.json_schema import replaced, resolved, subschemas

KINDS: Final = ("null", "boolean", "number", "string", "array", "object")
"""The kinds of JSON values; integers are numbers."""

ANNOTATIONS: Final = frozenset(
    {"$comment", "$schema", "$id", "$defs", "definitions", "default", "deprecated", "description", "examples",
     "readOnly", "title", "writeOnly", "contentMediaType", "contentSchema", "propertyOrdering"}
)  # fmt: skip
"""Keywords that refuse no value."""

_IN_PLACE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
"""Keywords that hold the same value against further schemas."""


def text_of(schema: object) -> str:
    """Return a schema as a text that is the same for the same schema."""
    return json.dumps(schema, sort_keys=True)


def bare(schema: Json) -> Json:
    """Return a schema without what refuses no value."""
    return {
        key: value for key, value in schema.items() if key not in ANNOTATIONS and not key.startswith("x-")
    }


def target_of(reference: object, root: object) -> object:
    """Return what a `$ref` within a schema leads to; None where it leads out of it, or nowhere."""
    try:
        found: object = resolved(reference, root)
    except LookupError:
        return None
    return found


def kinds_of(schema: Json) -> list[str]:
    """Return the types that a schema's `type` allows, `integer` among them; all types without `type`."""
    kinds: object = schema.get("type", list(KINDS))
    return [kind for kind in (kinds if is_array(kinds) else [kinds]) if isinstance(kind, str)]


def choices_of(schema: Json) -> list[object] | None:
    """Return the values that a schema names, where it allows no others by naming them or by their kind."""
    choices: object = schema.get("enum")
    if is_array(choices):
        return list(choices)
    if "const" in schema:
        return [schema["const"]]
    named: dict[str, list[object]] = {"null": [None], "boolean": [False, True]}
    kinds = kinds_of(schema)
    return named.get(kinds[0]) if len(kinds) == 1 else None


def closed(schema: object) -> object:
    """Return a schema whose objects have only the named properties, unless it allows others explicitly.

    JSON Schema allows further properties by default, but clients and servers send those that are declared. A schema
    that composes one object of several is returned unchanged.
    """
    return _closed(schema) if not _puts_together(schema) else schema


def _puts_together(schema: object) -> bool:
    if not is_object(schema):
        return False
    if (
        "allOf" in schema
        or "not" in schema
        or (is_object(schema.get("properties")) and _IN_PLACE & schema.keys())
    ):
        return True
    return any(_puts_together(inner) for _, inner in subschemas(schema))


def _closed(schema: object) -> object:
    if not is_object(schema):
        return schema
    inner = replaced(schema, lambda _, each: _closed(each))
    is_open = not {"additionalProperties", "patternProperties", "unevaluatedProperties"} & schema.keys()
    if is_object(schema.get("properties")) and is_open:
        inner["additionalProperties"] = False
    return inner


class Held:
    """Validates values against a schema, including formats.

    For keywords such as `oneOf` and `prefixItems`, only `mcpkit[jsonschema]` decides which values fit. `mcpkit[cli]`
    includes it.

    Args:
        schema: The schema, or one within `root`.
        root: The root of its references.

    Attributes:
        is_usable: Whether the schema is valid and not too large.
    """

    def __init__(self, schema: object, root: object) -> None:
        if is_object(schema) and is_object(root) and schema is not root:
            definitions: Json = {key: root[key] for key in ("$defs", "definitions") if key in root}
            schema = {**definitions, **schema}
        self._schema: ServerSchema | None = None
        self._is_valid: Callable[[object], bool] | None = None
        try:
            self._schema = ServerSchema(schema, asserts_formats=True)
        except (UnusableSchemaError, RecursionError):
            pass
        else:
            if not self._schema.is_whole:
                self._is_valid = _by_library(schema)
        self.is_usable = self._schema is not None

    def refuses(self, value: object) -> bool:
        """Return whether a value certainly does not fit."""
        if self._is_valid is not None:
            return not self._is_valid(value)
        return self._schema is not None and bool(self._schema.problems(value))

    def takes(self, value: object) -> bool:
        """Return whether a value certainly fits."""
        if self._schema is None or not (self._schema.is_whole or self._is_valid is not None):
            return False
        return not self.refuses(value) and not self._schema.problems(value)


def _by_library(schema: object) -> Callable[[object], bool] | None:
    try:
        library = import_module("jsonschema_rs")  # there only with the extra
    except ModuleNotFoundError:
        return None
    try:
        is_valid: Callable[[object], bool] = library.validator_for(
            schema, validate_formats=True, offline=True, pattern_options=library.RegexOptions()
        ).is_valid
    except (library.ValidationError, library.ReferencingError, ValueError, TypeError):
        return None
    return is_valid

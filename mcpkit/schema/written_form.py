"""Forms that an author writes as JSON Schema: an object of flat fields (client/elicitation, "Requested Schema")."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .._utils.exceptions import RegistrationError
from ..content.convert import check_sendable
from ..protocol.jsonrpc import is_array, is_object
from . import inline
from .expectations import expected
from .keywords import fits_alone
from .values import Json

_ROOT = frozenset({"type", "properties", "required"})
# What generators of schemas write and no form says.
_DROPPED = frozenset({"$schema", "$id", "$defs", "$comment", "title", "description", "additionalProperties"})


_KEYWORDS: dict[str, Json] = {
    keyword: rule
    for rule, keywords in (
        ({"type": "string"}, ("title", "description", "format")),
        ({"type": "integer", "minimum": 0}, ("minLength", "maxLength", "minItems", "maxItems")),
        ({"type": "number"}, ("minimum", "maximum")),
        ({"type": "array"}, ("enum", "oneOf", "anyOf", "enumNames")),
    )
    for keyword in keywords
}
"""The schema of each keyword's value."""


def checked(schema: Json) -> Json:
    """Return the schema of a form, with the keywords that a form may have at its root, and inlined fields.

    Raises:
        RegistrationError: It is not the schema of a form. The message has the place and the remedy.
    """
    check_sendable("", "form", schema)
    if schema.get("type") != "object" or not is_object(schema.get("properties")):
        raise RegistrationError(
            'the JSON Schema of a form must have {"type": "object", "properties": {...}}; for another '
            "type, pass the type"
        )
    if strange := sorted(schema.keys() - _ROOT - _DROPPED):
        raise RegistrationError(f"a form does not support `{strange[0]}`; remove it")
    schema = inline.definitions(schema)
    properties: Json = schema["properties"]
    for name, field in properties.items():
        _check_field(f"the field {name!r}", field)
    required = schema.get("required", [])
    if not is_array(required) or not all(isinstance(name, str) for name in required):
        raise RegistrationError("`required` must be an array of field names")
    if unknown := [name for name in required if name not in properties]:
        raise RegistrationError(
            f"`required` contains {unknown[0]!r}, which is not a field; add it to `properties`, or remove it"
        )
    return {key: value for key, value in schema.items() if key in _ROOT}


def _check_field(where: str, field: Any) -> None:
    if not is_object(field):
        raise RegistrationError(f"{where} is not a JSON Schema; write it as a dict")
    for keyword, value in field.items():
        rule = _KEYWORDS.get(keyword)
        if rule is not None and not fits_alone(rule, value):
            raise RegistrationError(f"{where}: `{keyword}` must be {expected(rule, {})}, got {value!r}")
        if keyword == "pattern" and not _is_pattern(value):
            raise RegistrationError(f"{where}: `pattern` must be a regular expression, got {value!r}")
        if keyword in ("oneOf", "anyOf", "items"):
            for part in value if is_array(value) else [value]:
                _check_field(where, part)


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return True


def reader(schema: Json) -> Callable[[Json], Json]:
    """Return what makes the value of an answer that fits a form: its fields, with defaults for what is left out."""
    properties: Json = schema["properties"]
    defaults = {name: field["default"] for name, field in properties.items() if "default" in field}

    def read(content: Json) -> Json:
        answered = {**defaults, **content}
        return {name: answered[name] for name in properties if name in answered}

    return read

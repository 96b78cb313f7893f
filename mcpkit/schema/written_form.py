"""Forms that an author writes as JSON Schema: an object of flat fields (client/elicitation, "Requested Schema")."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from ..errors import RegistrationError
from ..protocol.jsonrpc import is_array, is_object
from . import inline
from .values import Json

_ROOT: Final = frozenset({"type", "properties", "required"})
# What generators of schemas write and no form says.
_DROPPED: Final = frozenset(
    {"$schema", "$id", "$defs", "$comment", "title", "description", "additionalProperties"}
)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return True


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


_KEYWORDS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    # keyword: what its value must be, and how that is said
    "title": (_is_text, "a string"),
    "description": (_is_text, "a string"),
    "format": (_is_text, "a string"),
    "pattern": (_is_pattern, "a regular expression"),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems"), (_is_count, "an integer of at least 0")
    ),
    **dict.fromkeys(("minimum", "maximum"), (_is_number, "a number")),
    **dict.fromkeys(("enum", "oneOf", "anyOf", "enumNames"), (is_array, "an array")),
    "items": (is_object, "a schema"),
}


def checked(schema: Json) -> Json:
    """Return the schema of a form, with what a form can say of its root, and its fields in place.

    Raises:
        RegistrationError: It is not the schema of a form; the message says where, and what to change.
    """
    if schema.get("type") != "object" or not is_object(schema.get("properties")):
        raise RegistrationError(
            'the JSON Schema of a form says {"type": "object", "properties": {...}}; for another type, give the type'
        )
    if strange := sorted(schema.keys() - _ROOT - _DROPPED):
        raise RegistrationError(f"a form has no `{strange[0]}` beside its fields; leave it out")
    try:
        schema = inline.definitions(schema)
    except KeyError as error:
        raise RegistrationError(f"$ref leads nowhere: there is no {error} in `$defs`") from None
    properties: Json = schema["properties"]
    for name, field in properties.items():
        _check_field(f"the field {name!r}", field)
    required = schema.get("required", [])
    if not is_array(required) or not all(isinstance(name, str) for name in required):
        raise RegistrationError("`required` is an array of the names of fields")
    if unknown := [name for name in required if name not in properties]:
        raise RegistrationError(f"`required` names {unknown[0]!r}, and there is no such field")
    return {key: value for key, value in schema.items() if key in _ROOT}


def _check_field(where: str, field: Any) -> None:
    if not is_object(field):
        raise RegistrationError(f"{where} is no JSON Schema; write it as a dict")
    for keyword, value in field.items():
        is_valid, kind = _KEYWORDS.get(keyword, (None, ""))
        if is_valid is not None and not is_valid(value):
            raise RegistrationError(f"{where}: `{keyword}` is {kind}, not {value!r}")
    inner = [
        *field.get("oneOf", []),
        *field.get("anyOf", []),
        *([field["items"]] if "items" in field else []),
    ]
    for part in inner:
        _check_field(where, part)


def reader(schema: Json) -> Callable[[Json], Json]:
    """Return what makes the value of an answer that fits a form: its fields, with defaults for what is left out."""
    properties: Json = schema["properties"]
    defaults = {name: field["default"] for name, field in properties.items() if "default" in field}

    def read(content: Json) -> Json:
        answered = {**defaults, **content}
        return {name: answered[name] for name in properties if name in answered}

    return read

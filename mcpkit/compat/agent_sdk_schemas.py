"""JSON Schemas of the parameters of agent SDK tools, equal to those that the SDKs create."""

from __future__ import annotations

import sys
from types import NoneType, UnionType
from typing import Annotated, Final, Union, get_args, get_origin

from typing_extensions import NotRequired, ReadOnly, Required

from ..protocol.jsonrpc import Json, is_object

if sys.version_info >= (3, 11):  # as the SDKs do: what is a TypedDict to one is none to the other
    from typing import get_type_hints, is_typeddict
else:
    from typing_extensions import get_type_hints, is_typeddict

_TYPES: Final = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
_QUALIFIERS: Final = (NotRequired, Required, ReadOnly)


def input_schema(declared: object) -> Json:
    """Return the schema of a tool's arguments.

    Args:
        declared: A JSON Schema; types by parameter name, all required; or a TypedDict. Anything else has no parameters.
    """
    if is_object(declared):
        if isinstance(declared.get("type"), str) and "properties" in declared:
            return declared
        properties = {name: _of(hint) for name, hint in declared.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}
    if is_typeddict(declared):
        return _of_typed_dict(declared)
    return {"type": "object", "properties": {}}


def _of_typed_dict(declared: object) -> Json:
    hints = get_type_hints(declared, include_extras=True)
    schema: Json = {"type": "object", "properties": {name: _of(hint) for name, hint in hints.items()}}
    if required := sorted(getattr(declared, "__required_keys__", hints)):
        schema["required"] = required
    return schema


def _of(hint: object) -> Json:
    """Return the schema of one type; a type that the SDKs do not know is a string."""
    if is_typeddict(hint):
        return _of_typed_dict(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in _QUALIFIERS:
        return _of(arguments[0])
    if origin is Annotated:
        described = [each for each in arguments[1:] if isinstance(each, str)]
        return {**_of(arguments[0]), **({"description": described[0]} if described else {})}
    if origin is Union or origin is UnionType:
        members = [_of(member) for member in arguments if member is not NoneType]
        return members[0] if len(members) == 1 else {"anyOf": members}
    if origin is list and arguments:
        return {"type": "array", "items": _of(arguments[0])}
    return {"type": next((name for kind, name in _TYPES.items() if kind is (origin or hint)), "string")}

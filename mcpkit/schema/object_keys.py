"""Keys of mappings: the names of a JSON object are strings, whatever Python's keys are.

An `int` is written `"5"`, a `bool` `"true"`; what is a string in JSON anyway, such as a date, stays what it is.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, cast

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

from .._utils.core_schema import Node, choices_of
from ..content.blocks import shown
from ..content.convert import member_name
from ..protocol.jsonrpc import is_object, without
from . import values
from .values import Json

_INTEGER = "^-?[0-9]+$"
_ANY: Json = {"type": "string"}
_NUMBER = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"


def schema(values_schema: Json) -> Json | None:
    """Return the JSON Schema of names that stand for values.

    Args:
        values_schema: The schema of the values as they are when they are no keys.

    Returns:
        A schema of strings; None where there are values that are never keys.
    """
    if "anyOf" in values_schema:
        branches = [schema(branch) for branch in values_schema["anyOf"]]
        known = [branch for branch in branches if branch is not None]
        if len(known) < len(branches):
            return None
        return _ANY if _ANY in known else values.any_of(known)
    if "enum" in values_schema:
        if any(isinstance(value, (list, dict)) for value in values_schema["enum"]):
            return None
        return {"type": "string", "enum": list(dict.fromkeys(map(member_name, values_schema["enum"])))}
    kind = values_schema.get("type", "string")
    if kind == "string":
        return values_schema
    return _SCHEMAS.get(kind)


_SCHEMAS: dict[str, Json] = {
    "integer": {"type": "string", "pattern": _INTEGER},
    "number": {"type": "string", "pattern": _NUMBER},
    "boolean": {"type": "string", "enum": ["true", "false"]},
    "null": {"type": "string", "enum": ["None"]},
}


def _read(pattern: str) -> Callable[[Node], CoreSchema]:
    def rewrite(node: Node) -> CoreSchema:
        convert = {**without(node, "ref", "metadata", "serialization"), "strict": False}
        return core_schema.chain_schema([values.string(pattern=pattern), cast("CoreSchema", convert)])

    return rewrite


def _one_of(choices: list[tuple[Any, Any]]) -> CoreSchema:
    return values.one_of([(member_name(value), result) for value, result in choices])


def _union(node: Node) -> CoreSchema:
    # Texts come last: any name is one.
    choices: list[Any] = sorted(choices_of(node), key=lambda choice: choice["type"] == "str")
    return values.in_order(choices)


_NONE = _one_of([(None, None)])

REWRITES: Mapping[str, Callable[[Node], Any]] = {
    "int": _read(_INTEGER),
    "float": lambda node: _read(_NUMBER)({**node, "allow_inf_nan": False}),
    "bool": lambda _: _one_of([(True, True), (False, False)]),
    "none": lambda _: _NONE,
    "enum": lambda node: _one_of(values.members(node["cls"])),
    "literal": lambda node: _one_of(
        [(each.value if isinstance(each, enum.Enum) else each, each) for each in node["expected"]]
    ),
    "union": _union,
    "nullable": lambda node: _union({"choices": [_NONE, node["schema"]]}),
}
"""What makes a core schema of values one of names, by its type, in place of what wire.py makes of it."""


def distinct(mapping: CoreSchema, keys: CoreSchema) -> CoreSchema:
    """Return the validator of a mapping that refuses two names that stand for the same key, and many of one hash.

    Args:
        mapping: The validator of the mapping.
        keys: That of its names.
    """

    @cache
    def reader() -> SchemaValidator:
        return SchemaValidator(keys)

    @cache
    def all_of() -> SchemaValidator:
        return SchemaValidator(core_schema.list_schema(keys, fail_fast=True))

    def check(value: Any, validate: Callable[[Any], Any]) -> Any:
        if is_object(value) and len(value) > values.MOST_COLLISIONS:
            with suppress(ValidationError):  # which is told below, with its place
                values.check_hashes(all_of().validate_python(list(value)))
        result = validate(value)
        if len(result) < len(value):
            read = reader().validate_python
            names: dict[Any, str] = {}
            for name in value:
                other = names.setdefault(read(name), name)
                if other is not name:
                    raise ValueError(
                        f"the keys {shown(other)} and {shown(name)} are the same value; send one of them"
                    )
        return result

    return core_schema.no_info_wrap_validator_function(check, mapping)

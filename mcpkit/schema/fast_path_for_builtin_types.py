"""Python types to JSON Schema and validator: the entry point, and the short way for types that need no pydantic.

Importing pydantic is most of the start of a server, and most signatures have only the types below. For these the short
way makes the same JSON Schema and core schema as `type_schemas`, which describes all other types.
"""

from __future__ import annotations

import collections.abc
import datetime as dt
import enum
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import CoreSchema, core_schema
from typing_extensions import LiteralString, NoExtraItems, is_typeddict

from ..protocol.jsonrpc import Json
from ..protocol.objects import KEYWORD, ParamHeader
from . import json_schema, patterns_and_formats, value_validators
from .function_signatures import classes_of, empty, fields_of, is_bare, last_text
from .json_schema import Described, Mode


def describe(annotation: Any, mode: Mode = "validation") -> Described:
    """Return JSON Schema and validator of a type.

    Args:
        annotation: The type, as `typing.get_type_hints(include_extras=True)` gives it.
        mode: Whether it is the type of an argument or of a result.

    Raises:
        RegistrationError: JSON has no form for the type.
        UnresolvedHint: The type needs a name that is not defined yet.
    """
    try:
        return describe_plain(annotation)
    except NotPlainError:
        from . import type_schemas

        return type_schemas.describe(annotation, mode)


class NotPlainError(Exception):
    """A type that the short way does not support."""


def describe_plain(annotation: Any) -> Described:
    """Return JSON Schema and validator of a type that needs no pydantic.

    Raises:
        NotPlainError: It needs pydantic.
    """
    if is_bare(annotation):
        annotation = get_origin(annotation)
    try:
        build = _TYPES.get(annotation)
    except TypeError:  # metadata of Annotated need not have a hash (PEP 593)
        build = None
    if build is not None:
        return build()
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(annotation)
    if origin in _GENERICS:
        return _GENERICS[origin](arguments)
    if is_typeddict(annotation):
        return _typed_dict(annotation)
    if not isinstance(annotation, type) or hasattr(annotation, "__get_pydantic_core_schema__"):
        raise NotPlainError
    return _class(annotation)


def _class(cls: type[Any]) -> Described:
    if issubclass(cls, enum.Enum):
        return _choice(json_schema.members(cls), cls)
    # Modules that are slow to import, and imported already when an annotation names their classes.
    if cls is getattr(sys.modules.get("uuid"), "UUID", None):
        return _formatted("uuid", core_schema.uuid_schema())
    if any(cls is getattr(sys.modules.get("pathlib"), name, None) for name in ("Path", "PurePath")):
        return Described({"type": "string"}, value_validators.string_to(cls))
    raise NotPlainError


def _scalar(kind: str, core: Callable[..., CoreSchema]) -> Callable[..., Described]:
    keywords = value_validators.CONSTRAINTS.get(kind, {})

    def build(**constraints: Any) -> Described:
        if not constraints.keys() <= keywords.keys():
            raise NotPlainError
        limits = {keywords[name]: value for name, value in constraints.items()}
        return Described({"type": kind, **limits}, core(**constraints), is_plain=True)

    return build


def _formatted(name: str, core: CoreSchema) -> Described:
    return Described(patterns_and_formats.format_schema(name), value_validators.temporal(name, core))


def _decimal() -> Described:
    string = value_validators.string(pattern=patterns_and_formats.DECIMAL_PATTERN)
    schema = {"type": "string", "pattern": patterns_and_formats.DECIMAL_PATTERN}
    return Described(schema, core_schema.chain_schema([string, core_schema.decimal_schema()]))


def _bytes() -> Described:
    schema = {"type": "string", "contentEncoding": "base64"}
    return Described(schema, value_validators.base64_bytes(core_schema.bytes_schema()))


def _choice(choices: list[tuple[Any, Any]], cls: type | None = None) -> Described:
    schema = json_schema.enumeration([value for value, _ in choices], cls)
    if schema is None:
        raise NotPlainError
    is_plain = schema.get("type") == "string" and all(value is result for value, result in choices)
    return Described(schema, value_validators.one_of(choices), is_plain=is_plain)


def _union(arguments: tuple[Any, ...]) -> Described:
    branches = [describe_plain(argument) for argument in arguments]
    schema = json_schema.any_of(branch.schema for branch in branches)
    rest = [branch for branch in branches if branch.schema != {"type": "null"}]
    if any(not branch.schema for branch in branches):  # pydantic keeps the other branches, as notes
        return _ANY
    cores = [branch.core for branch in rest]
    core: CoreSchema = cores[0] if len(cores) == 1 else core_schema.union_schema(list(cores))
    if first := value_validators.first_choices(cores):
        core = value_validators.in_order([*first, core])
    if len(rest) < len(branches):
        core = core_schema.nullable_schema(core)
    return Described(schema, core, is_plain=all(branch.is_plain for branch in branches))


def _array(item: Any) -> Described:
    items = describe_plain(item)
    core = core_schema.list_schema(items.core, strict=True, fail_fast=True)
    # `items` stays when it is empty: some hosts refuse an array without.
    return Described({"type": "array", "items": items.schema}, core, is_plain=items.is_plain)


def _tuple(arguments: tuple[Any, ...]) -> Described:
    if arguments[1:] == (...,):
        items = describe_plain(arguments[0])
        core = core_schema.tuple_schema([items.core], variadic_item_index=0, fail_fast=True)
        return Described({"type": "array", "items": items.schema}, core)
    described = [describe_plain(argument) for argument in arguments if argument != ()]
    schemas = [item.schema for item in described]
    schema: Json = {"type": "array", **({"prefixItems": schemas} if schemas else {})}
    schema |= {"minItems": len(schemas), "maxItems": len(schemas)}
    schema["items"] = json_schema.items_of_tuple(schemas)
    return Described(schema, core_schema.tuple_schema([item.core for item in described]))


def _mapping(key: Any, value: Any) -> Described:
    if key is not str:
        raise NotPlainError
    item = describe_plain(value)
    schema = {"type": "object", "additionalProperties": item.schema or True}
    core = value_validators.mapping(value_validators.string(), item.core)
    return Described(schema, core, is_plain=item.is_plain)


def _typed_dict(cls: Any) -> Described:
    has_own_rules = hasattr(cls, "__pydantic_config__") or getattr(cls, "__closed__", None)
    if has_own_rules or getattr(cls, "__extra_items__", NoExtraItems) is not NoExtraItems:
        raise NotPlainError
    fields = fields_of(cls)
    if any(cls in classes_of(hint) for hint, _ in fields.values()):  # it contains itself
        raise NotPlainError
    described = {name: describe_plain(hint) for name, (hint, _) in fields.items()}
    schema: Json = {"type": "object", "properties": {name: each.schema for name, each in described.items()}}
    if text := cls.__dict__.get("__doc__"):
        schema["description"] = inspect.cleandoc(text)
    if required := [name for name, (_, is_required) in fields.items() if is_required]:
        schema["required"] = required
    members = {
        name: core_schema.typed_dict_field(each.core, required=name in required)
        for name, each in described.items()
    }
    return Described(schema, core_schema.typed_dict_schema(members, extra_behavior="ignore"))


def _annotated(annotation: Any) -> Described:
    constraints: dict[str, Any] = {}
    notes: Json = {}
    for item in annotation.__metadata__:
        if (text := last_text([item])) is not None:
            notes["description"] = text
        elif isinstance(item, ParamHeader):
            notes[KEYWORD] = item.name
        elif isinstance(item, patterns_and_formats.Format):
            notes["format"] = item.name
        elif type(item).__module__ == "annotated_types":
            constraints |= _constraints(item)
        elif type(item).__name__ == "FieldInfo":
            given = item.asdict()["attributes"].items()
            attributes = {name: value for name, value in given if value is not None}
            if attributes.keys() - {"title", "description", "default", "default_factory", "repr"}:
                raise NotPlainError
            notes |= {name: attributes[name] for name in ("title", "description") if name in attributes}
            metadata: Iterable[object] = item.metadata
            for each in metadata:
                pattern: object = getattr(each, "pattern", None)
                is_pattern = isinstance(pattern, str) and vars(each) == {"pattern": pattern}
                constraints |= {"pattern": pattern} if is_pattern else _constraints(each)
        elif type(item).__module__.startswith("pydantic") or any(hasattr(item, hook) for hook in _HOOKS):
            raise NotPlainError
    origin = annotation.__origin__
    if constraints and origin not in (int, float, str):
        raise NotPlainError
    described = _TYPES[origin](**constraints) if constraints else describe_plain(origin)
    core = described.core
    if "format" in notes:
        core = core_schema.chain_schema([core, value_validators.formatted(notes["format"])])
    return Described({**described.schema, **notes}, core, is_plain=described.is_plain)


def _constraints(item: Any) -> dict[str, Any]:
    """Return the constraints of an object of annotated_types; pydantic-core uses the same names."""
    names = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length")
    found = {name: value for name in names if (value := getattr(item, name, None)) is not None}
    is_portable = all(type(value) in (int, float) and math.isfinite(value) for value in found.values())
    is_limit = type(item).__module__ == "annotated_types" and found.get("min_length") != 0
    if not (found and is_portable and is_limit):
        raise NotPlainError
    return found


_HOOKS = ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__")
_ANY = Described({}, core_schema.any_schema())
_NULL = Described({"type": "null"}, core_schema.none_schema(), is_plain=True)
_TYPES: dict[Any, Callable[..., Described]] = {
    **dict.fromkeys((empty, Any, object), lambda: _ANY),
    **dict.fromkeys((None, type(None)), lambda: _NULL),
    **dict.fromkeys((str, LiteralString), _scalar("string", value_validators.string)),
    int: _scalar("integer", value_validators.integer),
    float: _scalar("number", value_validators.number),
    bool: _scalar("boolean", lambda: core_schema.bool_schema(strict=True)),
    bytes: _bytes,
    dt.datetime: lambda: _formatted("date-time", core_schema.datetime_schema()),
    dt.date: lambda: _formatted("date", core_schema.date_schema()),
    dt.time: lambda: _formatted("time", core_schema.time_schema()),
    dt.timedelta: lambda: _formatted("duration", core_schema.timedelta_schema()),
    # A string, as a JSON number is read as a binary float.
    Decimal: _decimal,
    list: lambda: _array(Any),
    tuple: lambda: _tuple((Any, ...)),
    dict: lambda: Described({"type": "object", "additionalProperties": True}, value_validators.mapping()),
}
_GENERICS: dict[Any, Callable[[tuple[Any, ...]], Described]] = {
    **dict.fromkeys((list, collections.abc.Sequence), lambda arguments: _array(*arguments)),
    tuple: _tuple,
    **dict.fromkeys((dict, collections.abc.Mapping), lambda arguments: _mapping(*arguments)),
    Literal: lambda arguments: _choice([(json_schema.choice_value(choice), choice) for choice in arguments]),
    **dict.fromkeys((Union, types.UnionType), _union),
}

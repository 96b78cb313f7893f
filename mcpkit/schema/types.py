"""Python types to JSON Schema and validator, for the types that need no pydantic.

Importing pydantic and building a model for each signature is most of what starting a server would
cost, and most signatures are made of these types. Any other type goes to models.py as a whole.
"""

from __future__ import annotations

import collections.abc
import datetime as dt
import enum
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from pydantic_core import CoreSchema, core_schema
from typing_extensions import LiteralString, NoExtraItems, is_typeddict

from .._utils.exceptions import RegistrationError
from ..protocol.mirrored import KEYWORD, ParamHeader
from . import typed_dict, values
from .described import Described, NotInTable
from .equality import identity
from .parameters import empty, last_text
from .texts import Format
from .values import Json


def _null() -> Described:
    return Described({"type": "null"}, core_schema.none_schema(), is_plain=True)


def _string() -> Described:
    return Described({"type": "string"}, values.string(), is_plain=True)


def _bytes(core: CoreSchema) -> Described:
    return Described({"type": "string", "contentEncoding": "base64"}, values.base64_bytes(core))


def _formatted(name: str, core: CoreSchema) -> Described:
    from . import formats

    return Described(formats.schema(name), values.temporal(name, core))


_TABLE: dict[Any, Callable[[], Described]] = {
    **dict.fromkeys(
        (empty, Any, object, collections.abc.Hashable, typing.Hashable),
        lambda: Described({}, core_schema.any_schema()),
    ),
    str: _string,
    int: lambda: Described({"type": "integer"}, values.integer(), is_plain=True),
    float: lambda: Described({"type": "number"}, values.number(), is_plain=True),
    bool: lambda: Described({"type": "boolean"}, values.boolean(), is_plain=True),
    None: _null,
    type(None): _null,
    LiteralString: _string,
    bytes: lambda: _bytes(core_schema.bytes_schema()),
    bytearray: lambda: _bytes(core_schema.no_info_plain_validator_function(bytearray)),
    memoryview: lambda: _bytes(core_schema.no_info_plain_validator_function(memoryview)),
    dt.datetime: lambda: _formatted("date-time", core_schema.datetime_schema()),
    dt.date: lambda: _formatted("date", core_schema.date_schema()),
    dt.time: lambda: _formatted("time", core_schema.time_schema()),
    dt.timedelta: lambda: _formatted("duration", core_schema.timedelta_schema()),
    # A string: a JSON number has passed through binary floating point before anyone sees it.
    Decimal: lambda: Described(
        {"type": "string", "pattern": values.DECIMAL_PATTERN},
        core_schema.chain_schema(
            [values.string(pattern=values.DECIMAL_PATTERN), core_schema.decimal_schema()]
        ),
    ),
    list: lambda: _array(Any),
    set: lambda: _set(set, Any),
    frozenset: lambda: _set(frozenset, Any),
    tuple: lambda: _tuple((Any, ...)),
    dict: lambda: _mapping(str, Any),
    collections.abc.Collection: lambda: _array(Any),
}


# Their modules are slow to import, and here already when an annotation names them.
_ELSEWHERE: dict[str, tuple[str, Callable[[type], Described]]] = {
    "UUID": ("uuid", lambda _: _formatted("uuid", core_schema.uuid_schema())),
    "Path": ("pathlib", lambda cls: Described({"type": "string"}, values.text_to(cls))),
    "PurePath": ("pathlib", lambda cls: Described({"type": "string"}, values.text_to(cls))),
}


def _is_class(annotation: Any) -> TypeGuard[type[Any]]:
    return isinstance(annotation, type)


def _elsewhere(annotation: Any) -> Described:
    name: str = getattr(annotation, "__name__", "")
    module, build = _ELSEWHERE.get(name, ("", None))
    if build is not None and getattr(sys.modules.get(module), name, None) is annotation:
        known: Any = annotation
        return build(known)
    from . import foreign_types

    return foreign_types.described(annotation, describe)


def is_bare(annotation: object) -> bool:
    """Return whether an annotation is an alias of `typing` without brackets: `List`, which stands for `list`."""
    return get_origin(annotation) is not None and not hasattr(annotation, "__args__")


def describe(annotation: Any) -> Described:
    """Return what `hints.describe` does, for a type or a part of one.

    Raises:
        NotInTable: The whole is not to be described here.
    """
    if is_bare(annotation):
        annotation = get_origin(annotation)
    try:
        entry = _TABLE.get(annotation)
    except TypeError:  # metadata of Annotated need not have a hash (PEP 593)
        entry = None
    if entry is not None:
        return entry()
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(annotation)
    if origin in _GENERICS:
        return _GENERICS[origin](arguments)
    if _is_class(annotation) and not hasattr(annotation, "__get_pydantic_core_schema__"):
        if is_typeddict(annotation):
            return _typed_dict(annotation)
        if issubclass(annotation, enum.Enum):
            return enumeration(annotation)
    return _elsewhere(annotation)


def enumeration(cls: type[enum.Enum]) -> Described:
    """Return an Enum: the values of its members."""
    described = one_of(values.members(cls))
    text = cls.__doc__
    # What the enum module writes itself up to 3.12 says nothing.
    if text and text != "An enumeration." and cls.__doc__ is not enum.Enum.__doc__ and "__doc__" in vars(cls):
        schema = {**described.schema, "description": inspect.cleandoc(text)}
        return Described(schema, described.core)
    return described


def one_of(choices: list[tuple[Any, Any]]) -> Described:
    """Return a choice of JSON values, each with the Python value that it becomes."""
    wire = [value for value, _ in choices]
    kinds: set[type[Any]] = {type(value) for value in wire}
    if not kinds <= KINDS.keys():
        raise NotInTable
    schema: Json = {}
    if len(kinds) == 1:
        schema["type"] = KINDS[kinds.pop()]
    schema["enum"] = list({identity(value): value for value in wire}.values())
    if schema.get("type") == "array":
        schema["items"] = {}
    is_plain = schema.get("type") == "string" and all(value is result for value, result in choices)
    return Described(schema, values.one_of(choices), is_plain=is_plain)


KINDS: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def _union(branches: list[Described]) -> Described:
    schema = values.any_of(branch.schema for branch in branches)
    rest = [branch for branch in branches if branch.schema != {"type": "null"}]
    if any(not branch.schema for branch in branches):
        return Described({}, core_schema.any_schema())
    cores: list[Any] = [branch.core for branch in rest]
    core: CoreSchema = cores[0] if len(cores) == 1 else core_schema.union_schema(cores)
    if first := values.first_choices(cores):
        core = values.in_order([*first, core])
    if len(rest) < len(branches):
        core = core_schema.nullable_schema(core)
    return Described(schema, core, is_plain=all(branch.is_plain for branch in branches))


def optional(described: Described) -> Described:
    """Return the type or None."""
    if not described.schema:
        return described
    return described.but(
        schema=values.nullable(described.schema), core=core_schema.nullable_schema(described.core)
    )


def _array(item: Any) -> Described:
    items = describe(item)
    return Described(
        # `items` stays when it says nothing: some hosts refuse an array without.
        {"type": "array", "items": items.schema},
        core_schema.list_schema(items.core, strict=True, fail_fast=True),
        is_plain=items.is_plain,
    )


def _set(build: type[set[Any]] | type[frozenset[Any]], item: Any) -> Described:
    items = describe(item)
    return Described(
        {"type": "array", "items": items.schema, "uniqueItems": True}, values.hashed(build, items.core)
    )


def _tuple(arguments: tuple[Any, ...]) -> Described:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        items = describe(arguments[0])
        core = core_schema.tuple_schema([items.core], variadic_item_index=0, fail_fast=True)
        return Described({"type": "array", "items": items.schema}, core)
    described = [describe(argument) for argument in arguments if argument != ()]
    schemas = [item.schema for item in described]
    schema: Json = {"type": "array"}
    if described:
        schema["prefixItems"] = schemas
    schema |= {
        "minItems": len(described),
        "maxItems": len(described),
        "items": values.items_of_tuple(schemas),
    }
    return Described(schema, core_schema.tuple_schema([item.core for item in described]))


def _mapping(key: Any, value: Any) -> Described:
    if key not in (str, Any, collections.abc.Hashable, typing.Hashable):
        raise NotInTable
    item = describe(value)
    return Described(
        {"type": "object", "additionalProperties": item.schema or True},
        values.mapping(values.string(), item.core),
        is_plain=item.is_plain,
    )


_LISTS = (list, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable)
_GENERICS: dict[Any, Callable[[tuple[Any, ...]], Described]] = {
    **dict.fromkeys(_LISTS, lambda arguments: _array(*arguments)),
    set: lambda arguments: _set(set, *arguments),
    **dict.fromkeys((frozenset, collections.abc.Set), lambda arguments: _set(frozenset, *arguments)),
    tuple: _tuple,
    **dict.fromkeys((dict, collections.abc.Mapping), lambda arguments: _mapping(*arguments)),
    Literal: lambda arguments: one_of([(values.plain(choice), choice) for choice in arguments]),
    **dict.fromkeys((Union, types.UnionType), lambda arguments: _union(list(map(describe, arguments)))),
}

_describing: ContextVar[tuple[Any, ...]] = ContextVar("_describing", default=())


def _typed_dict(cls: Any) -> Described:
    """Return a TypedDict that is made of types of the table and not of itself."""
    has_own_rules = hasattr(cls, "__pydantic_config__") or getattr(cls, "__closed__", None)
    outer = _describing.get()
    if has_own_rules or getattr(cls, "__extra_items__", NoExtraItems) is not NoExtraItems or cls in outer:
        raise NotInTable
    properties: Json = {}
    members: dict[str, core_schema.TypedDictField] = {}
    required: list[str] = []
    token = _describing.set((*outer, cls))
    try:
        for name, (hint, is_required) in typed_dict.fields(cls).items():
            described = describe(hint)
            properties[name] = described.schema
            members[name] = core_schema.typed_dict_field(described.core, required=is_required)
            required += [name] if is_required else []
    finally:
        _describing.reset(token)
    schema: Json = {"type": "object", "properties": properties}
    text: str | None = cls.__dict__.get("__doc__")
    if text:
        schema["description"] = inspect.cleandoc(text)
    if required:
        schema["required"] = required
    return Described(schema, core_schema.typed_dict_schema(members, extra_behavior="ignore"))


def _annotated(annotation: Any) -> Described:
    constraints: dict[str, Any] = {}
    notes: Json = {}
    format_: str | None = None
    for item in annotation.__metadata__:
        if (text := last_text([item])) is not None:
            notes["description"] = text
        elif isinstance(item, ParamHeader):
            notes[KEYWORD] = item.name
        elif isinstance(item, Format):
            format_ = item.name
        elif type(item).__module__ == "annotated_types":
            constraints |= _constraints(item)
        elif type(item).__module__ == "pydantic.fields" and hasattr(item, "_attributes_set"):
            _read_field(item, constraints, notes)
        elif _belongs_to_pydantic(item):
            raise NotInTable
    described = describe(annotation.__origin__)
    if constraints:
        described = _constrain(described, constraints)
    core = described.core
    if format_ is not None:
        notes["format"] = format_
        core = core_schema.chain_schema([core, values.formatted(format_)])
    return Described({**described.schema, **notes}, core, is_plain=described.is_plain)


def _belongs_to_pydantic(item: object) -> bool:
    return type(item).__module__.partition(".")[0] in {"pydantic", "pydantic_core"} or any(
        hasattr(item, hook) for hook in ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__")
    )


def _constraints(item: Any) -> dict[str, Any]:
    """Return the constraints in a piece of annotated_types, by the names that its classes use."""
    found = {
        name: value
        for name in ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length")
        if (value := getattr(item, name, None)) is not None
    }
    if not found or type(item).__name__ == "Predicate":
        raise NotInTable
    if found.get("min_length") == 0:
        del found["min_length"]
    return found


def _read_field(field: Any, constraints: dict[str, Any], notes: Json) -> None:
    given: dict[str, Any] = field._attributes_set  # noqa: SLF001 - pydantic says it nowhere else
    if given.keys() - _FIELD_NOTES:
        raise NotInTable
    metadata: list[Any] = field.metadata
    for item in metadata:
        if type(item).__module__ == "annotated_types":
            constraints |= _constraints(item)
        elif (pattern := getattr(item, "pattern", None)) is not None and list(item.__dict__) == ["pattern"]:
            constraints["pattern"] = pattern
        else:
            raise NotInTable
    for name in ("title", "description"):
        if (value := getattr(field, name)) is not None:
            notes[name] = value
    if field.examples is not None:
        notes["examples"] = _examples(field.examples)


def _examples(examples: Any) -> list[Any]:
    try:
        return [values.default(example) for example in examples]
    except ValueError as error:
        raise RegistrationError(
            f"one of its examples cannot be converted to JSON ({error}); write the examples as JSON values"
        ) from error


_FIELD_NOTES = {"title", "description", "examples", "default", "default_factory", "annotation"}


def _constrain(described: Described, constraints: Mapping[str, Any]) -> Described:
    """Return the type with constraints, which pydantic-core and JSON Schema both know under their names."""
    kind = described.schema.get("type", "")
    keywords = values.CONSTRAINTS.get(kind, {})
    if not described.is_plain or "enum" in described.schema:
        raise NotInTable
    if not constraints.keys() <= keywords.keys() or not all(map(_is_portable, constraints.values())):
        raise NotInTable
    schema = {**described.schema, **{keywords[name]: value for name, value in constraints.items()}}
    from . import from_schema

    return Described(schema, from_schema.core(schema), is_plain=True)


def _is_portable(value: Any) -> bool:
    return isinstance(value, str) or (type(value) in (int, float) and math.isfinite(value))

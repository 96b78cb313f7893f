"""Classes with fields: the types of their fields, and core schemas of those that pydantic does not know.

Those are the classes of attrs and msgspec, and the TypedDicts of older Pythons. pydantic describes a TypedDict of the
same fields in their place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typing_extensions
from pydantic_core import core_schema
from typing_extensions import NotRequired, Required, is_typeddict

from .._utils.exceptions import RegistrationError
from .json_schema import default_value

# Subscribed with what is only known at run time, which no type checker follows.
_ANNOTATED: Any = Annotated
_LITERAL: Any = Literal
_UNION: Any = Union

# --- Fields

_QUALIFIERS: tuple[Any, ...] = (Required, NotRequired, typing_extensions.ReadOnly)
_MARKS = ("__total__", "__dataclass_fields__", "_fields", "__attrs_attrs__", "__struct_encode_fields__")
"""Attributes of classes with fields: TypedDicts, dataclasses, NamedTuples, those of attrs and of msgspec."""


def is_bare(annotation: object) -> bool:
    """Return whether an annotation is an alias of `typing` without brackets: `List`, which stands for `list`."""
    return get_origin(annotation) is not None and not hasattr(annotation, "__args__")


def hints_of(cls: Any) -> dict[str, Any]:
    """Return the types of a class's fields, with their metadata.

    Raises:
        NameError: One of them needs a name that is not defined.
    """
    return typing_extensions.get_type_hints(cls, include_extras=True)


def fields_of(cls: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a TypedDict: the type of each, and whether it is required."""

    def unqualified(hint: Any, is_required: bool) -> tuple[Any, bool]:
        origin = get_origin(hint)
        if origin is Annotated:
            inner, is_required = unqualified(hint.__origin__, is_required)
            parts = (inner, *hint.__metadata__)
            return _ANNOTATED[parts], is_required
        if origin in _QUALIFIERS:
            is_required = is_required if origin is _QUALIFIERS[2] else origin is Required
            return unqualified(get_args(hint)[0], is_required)
        return hint, is_required

    # The qualifiers are unknown to the class of Python 3.10, and hidden from all by PEP 563.
    return {name: unqualified(hint, name in cls.__required_keys__) for name, hint in hints_of(cls).items()}


def classes_of(annotation: Any) -> Iterator[Any]:
    """Yield every class in a type: in its arguments, and in the fields of its classes.

    Raises:
        NameError: The type of a field needs a name that is not defined.
    """
    waiting: list[Any] = [annotation]
    seen: set[Any] = set()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, type) or get_origin(part) is not None:
            waiting += get_args(part)
        elif part not in seen:
            seen.add(part)
            yield part
            if any(hasattr(part, name) for name in _MARKS):
                waiting += hints_of(part).values()


# --- Core schemas

HOOK = "__get_pydantic_core_schema__"
_equivalents: dict[Any, Any] = {}


def prepare(annotation: Any) -> None:
    """Make pydantic accept every class of attrs and msgspec and every TypedDict of `typing` in a type.

    Each such class gets pydantic's own hook: nothing else would reach those in the fields of a dataclass. Before 3.12
    pydantic refuses TypedDicts of `typing`, because inherited fields lose their qualifiers.
    """
    from ..content.third_party import is_struct

    has_structs = "attr" in sys.modules or "msgspec" in sys.modules
    has_typed_dicts = sys.version_info < (3, 12)
    for cls in classes_of(annotation) if has_structs or has_typed_dicts else ():
        if hasattr(cls, HOOK):
            continue
        if has_structs and is_struct(cls):
            setattr(cls, HOOK, _describe_struct)
        elif has_typed_dicts and is_typeddict(cls) and type(cls).__module__ == "typing":
            hints = {name: hint if is_required else NotRequired[hint]
                     for name, (hint, is_required) in fields_of(cls).items()}  # fmt: skip
            built = _typed_dict(cls, hints)
            if (config := getattr(cls, "__pydantic_config__", None)) is not None:
                built.__pydantic_config__ = config
            setattr(cls, HOOK, partial(_describe_as, built))


def _describe_as(built: Any, source: Any, handler: Any) -> Any:
    return handler.generate_schema(built)


def _typed_dict(cls: Any, hints: dict[str, Any]) -> Any:
    """Return the TypedDict that pydantic describes in place of a class."""
    build: Any = typing_extensions.TypedDict
    built = build(cls.__name__, hints)
    built.__module__, built.__qualname__, built.__doc__ = cls.__module__, cls.__qualname__, cls.__doc__
    return built


def struct_hints(cls: Any) -> dict[str, Any]:
    """Return the types of the constructor's arguments of a class of attrs or msgspec, by their names in JSON."""
    return hints_of(_equivalent(cls))


def _equivalent(cls: Any) -> Any:
    if cls not in _equivalents:
        hints = _attrs_hints(cls) if hasattr(cls, "__attrs_attrs__") else _msgspec_hints(cls)
        _equivalents[cls] = _typed_dict(cls, dict(hints))
    return _equivalents[cls]


def _describe_struct(source: Any, handler: Any) -> Any:
    """Return the core schema of a class (`__get_pydantic_core_schema__`)."""
    from ..content.third_party import attrs_fields, struct_fields

    cls = get_origin(source) or source
    inner = handler.generate_schema(_equivalent(cls))
    names: dict[str, str] = {}
    dump = attrs_fields
    if not hasattr(cls, "__attrs_attrs__"):
        dump = struct_fields
        names = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
        if cls.__struct_config__.tag is not None:
            names[cls.__struct_config__.tag_field] = ""

    def construct(fields: dict[str, Any]) -> Any:
        arguments: dict[str, Any] = {names.get(name, name): value for name, value in fields.items()}
        arguments.pop("", None)
        try:
            return cls(**arguments)
        except TypeError as error:  # raised by the validators of attrs for a type
            raise ValueError(error.args[0] if error.args else str(error)) from error

    serializer = core_schema.plain_serializer_function_ser_schema(dump, return_schema=inner)
    return core_schema.no_info_after_validator_function(construct, inner, serialization=serializer)


def _attrs_hints(cls: Any) -> Iterator[tuple[str, Any]]:
    hints = hints_of(cls)
    attr: Any = sys.modules["attr"]
    for field in cls.__attrs_attrs__:
        if field.init:
            name = getattr(field, "alias", None) or field.name.lstrip("_")
            hint = hints.get(field.name, Any)
            yield name, hint if field.default is attr.NOTHING else _with_default(hint, field.default)


_META = (
    "gt",
    "ge",
    "lt",
    "le",
    "multiple_of",
    "pattern",
    "min_length",
    "max_length",
    "title",
    "description",
    "examples",
)


def _msgspec_hints(cls: Any) -> Iterator[tuple[str, Any]]:
    from pydantic import Field

    msgspec: Any = sys.modules["msgspec"]
    config = cls.__struct_config__
    if config.array_like:
        raise RegistrationError(
            f"{cls.__qualname__} has array_like=True, which a schema cannot describe; remove it"
        )
    if config.tag is not None:
        yield config.tag_field, _LITERAL[config.tag]
    hints = hints_of(cls)
    for field in msgspec.structs.fields(cls):
        hint = hints[field.name]
        parts = get_args(hint)
        if msgspec.UnsetType in parts:  # the marker of an absent field
            hint = _UNION[tuple(part for part in parts if part is not msgspec.UnsetType)]
        if get_origin(hint) is Annotated:
            metadata: list[Any] = [
                Field(**{name: value for name in _META if (value := getattr(item, name)) is not None})
                if isinstance(item, msgspec.Meta)
                else item
                for item in hint.__metadata__
            ]
            parts = (hint.__origin__, *metadata)
            hint = _ANNOTATED[parts]
        yield field.encode_name, hint if field.required else _with_default(hint, field.default)


def _with_default(hint: Any, default: Any) -> Any:
    from pydantic import Field

    with suppress(ValueError):  # a factory, or a value without a JSON form, is not in the schema
        hint = _ANNOTATED[hint, Field(json_schema_extra={"default": default_value(default)})]
    return NotRequired[hint]

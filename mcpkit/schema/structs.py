"""Classes of attrs and msgspec: their fields are those of an equivalent TypedDict, which pydantic describes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Field
from pydantic_core import core_schema
from typing_extensions import NotRequired

from .._utils.exceptions import RegistrationError
from ..content.third_party import attrs_fields, is_struct, struct_fields
from . import typed_dict, values

# Subscribed with what is only known at run time, which no type checker follows.
_ANNOTATED: Any = Annotated
_LITERAL: Any = Literal
_UNION: Any = Union
_equivalents: dict[Any, Any] = {}


def prepare(annotation: Any) -> None:
    """Make pydantic know every class of attrs and msgspec that a type refers to.

    Each such class gets pydantic's own hook; nothing else would reach those in the fields of a dataclass.
    """
    if "attr" not in sys.modules and "msgspec" not in sys.modules:
        return
    for cls in typed_dict.classes(annotation):
        if is_struct(cls) and not hasattr(cls, typed_dict.HOOK):
            setattr(cls, typed_dict.HOOK, _describe)


def fields(cls: Any) -> dict[str, Any]:
    """Return the types of what the constructor of a class of attrs or msgspec takes, by its names on the wire."""
    return typed_dict.hints(_equivalent(cls))


def _is_attrs(cls: object) -> bool:
    return hasattr(cls, "__attrs_attrs__")


def _describe(source: Any, handler: Any) -> Any:
    """Describe a class to pydantic (`__get_pydantic_core_schema__`)."""
    cls = get_origin(source) or source
    inner = handler.generate_schema(_equivalent(cls))
    dump = attrs_fields if _is_attrs(cls) else struct_fields
    return core_schema.no_info_after_validator_function(
        _constructor(cls),
        inner,
        serialization=core_schema.plain_serializer_function_ser_schema(dump, return_schema=inner),
    )


def _constructor(cls: Any) -> Callable[[Any], Any]:
    names: dict[str, str] = {}
    if not _is_attrs(cls):
        names = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
        if cls.__struct_config__.tag is not None:
            names[cls.__struct_config__.tag_field] = ""

    def construct(fields: dict[str, Any]) -> Any:
        arguments: dict[str, Any] = {names.get(name, name): value for name, value in fields.items()}
        arguments.pop("", None)
        try:
            return cls(**arguments)
        except TypeError as error:  # what the validators of attrs raise for a type
            raise ValueError(error.args[0] if error.args else str(error)) from error

    return construct


def _equivalent(cls: Any) -> Any:
    """Return the TypedDict of what goes over the wire: the names and types that the constructor takes."""
    if cls not in _equivalents:
        items = dict(_attrs(cls) if _is_attrs(cls) else _msgspec(cls))
        _equivalents[cls] = typed_dict.equivalent(cls, items)
    return _equivalents[cls]


def _attrs(cls: Any) -> Iterator[tuple[str, Any]]:
    hints = typed_dict.hints(cls)
    attr: Any = sys.modules["attr"]
    for field in cls.__attrs_attrs__:
        if not field.init:
            continue
        name = getattr(field, "alias", None) or field.name.lstrip("_")
        hint = hints.get(field.name, Any)
        yield name, hint if field.default is attr.NOTHING else _with_default(hint, field.default)


def _msgspec(cls: Any) -> Iterator[tuple[str, Any]]:
    msgspec: Any = sys.modules["msgspec"]
    config = cls.__struct_config__
    if config.array_like:
        raise RegistrationError(
            f"{cls.__qualname__} has array_like=True, which a schema cannot describe; remove it"
        )
    if config.tag is not None:
        yield config.tag_field, _LITERAL[config.tag]
    hints = typed_dict.hints(cls)
    for field in msgspec.structs.fields(cls):
        hint = _with_meta(_without_unset(hints[field.name], msgspec.UnsetType), msgspec.Meta)
        yield field.encode_name, hint if field.required else _with_default(hint, field.default)


def _with_default(hint: Any, default: Any) -> Any:
    with suppress(ValueError):  # a factory, or what JSON does not know: it stays out of the schema
        hint = _ANNOTATED[hint, Field(json_schema_extra={"default": values.default(default)})]
    return NotRequired[hint]


def _without_unset(hint: Any, unset: Any) -> Any:
    """Remove the marker of an absent field from a union."""
    parts = get_args(hint)
    if unset not in parts:
        return hint
    return _UNION[tuple(part for part in parts if part is not unset)]


def _with_meta(hint: Any, meta: Any) -> Any:
    """Convert `msgspec.Meta` to pydantic's metadata."""
    if get_origin(hint) is not Annotated:
        return hint
    metadata = [_field(item) if isinstance(item, meta) else item for item in hint.__metadata__]
    parts = (hint.__origin__, *metadata)
    return _ANNOTATED[parts]


def _field(meta: Any) -> Any:
    names = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "title",
             "description", "examples")  # fmt: skip
    given: dict[str, Any] = {name: value for name in names if (value := getattr(meta, name)) is not None}
    return Field(**given)

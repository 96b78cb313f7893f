"""TypedDicts: their fields as parameters, and what makes pydantic accept them on every Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, get_args, get_origin

import typing_extensions
from typing_extensions import NotRequired, Required, is_typeddict

# Subscribed with what is only known at run time, which no type checker follows.
_ANNOTATED: Any = Annotated
_QUALIFIERS: tuple[Any, ...] = (Required, NotRequired, typing_extensions.ReadOnly)
_MARKS = ("__total__", "__dataclass_fields__", "_fields", "__attrs_attrs__", "__struct_encode_fields__")
"""Attributes that classes with fields have: TypedDicts, dataclasses, NamedTuples, those of attrs and of msgspec."""

HOOK = "__get_pydantic_core_schema__"
"""What pydantic asks a class for its own description."""


def fields(cls: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a TypedDict: the type of each, and whether it is required."""
    # 3.10's own class does not know the qualifiers, nor does PEP 563 let any see them: they are read here.
    return {name: _unqualified(hint, name in cls.__required_keys__) for name, hint in hints(cls).items()}


def hints(cls: Any) -> dict[str, Any]:
    """Return the types of a class's fields, with their metadata.

    Raises:
        NameError: One of them needs a name that is not defined.
    """
    return typing_extensions.get_type_hints(cls, include_extras=True)


def _unqualified(hint: Any, is_required: bool) -> tuple[Any, bool]:
    origin = get_origin(hint)
    if origin is Annotated:
        inner, is_required = _unqualified(hint.__origin__, is_required)
        parts = (inner, *hint.__metadata__)
        return _ANNOTATED[parts], is_required
    if origin in _QUALIFIERS:
        if origin is Required:
            is_required = True
        elif origin is NotRequired:
            is_required = False
        return _unqualified(get_args(hint)[0], is_required)
    return hint, is_required


def prepare(annotation: Any) -> None:
    """Make pydantic accept every TypedDict of `typing` that a type refers to.

    Before 3.12 it refuses them, because inherited fields lose their qualifiers. Each such class gets
    pydantic's own hook, which describes its equivalent of `typing_extensions` in its place; nothing
    else would reach those in the fields of a dataclass.
    """
    if sys.version_info >= (3, 12):
        return
    for cls in classes(annotation):
        if is_typeddict(cls) and type(cls).__module__ == "typing" and not hasattr(cls, HOOK):
            items = fields(cls).items()
            stand_in = equivalent(
                cls, {name: hint if is_required else NotRequired[hint] for name, (hint, is_required) in items}
            )
            if (config := getattr(cls, "__pydantic_config__", None)) is not None:
                stand_in.__pydantic_config__ = config
            setattr(cls, HOOK, partial(_describe, stand_in))


def _describe(stand_in: Any, source: Any, handler: Any) -> Any:
    return handler.generate_schema(stand_in)


def classes(annotation: Any) -> Iterator[Any]:
    """Give every class that a type refers to, by its arguments or in the fields of a class.

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
                waiting += hints(part).values()


def equivalent(cls: Any, items: dict[str, Any]) -> Any:
    """Return the TypedDict that pydantic describes in the place of a class.

    Args:
        cls: The class.
        items: The types of its fields by name.
    """
    build: Any = typing_extensions.TypedDict
    built = build(cls.__name__, items)
    built.__module__, built.__qualname__, built.__doc__ = cls.__module__, cls.__qualname__, cls.__doc__
    return built

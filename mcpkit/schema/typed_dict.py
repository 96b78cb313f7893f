"""TypedDicts: their fields as parameters, and a form that pydantic accepts on every Python."""

from __future__ import annotations

import sys
import types
import typing
from typing import Annotated, Any, ForwardRef, Union, get_args, get_origin

import typing_extensions
from typing_extensions import NotRequired, Required, is_typeddict

# Subscribed with what is only known at run time, which no type checker follows.
_ANNOTATED: Any = Annotated
_UNION: Any = Union
_QUALIFIERS: tuple[Any, ...] = (Required, NotRequired, typing_extensions.ReadOnly)


def fields(cls: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a TypedDict: the type of each, and whether it is required."""
    hints = typing_extensions.get_type_hints(cls, include_extras=True)
    # 3.10's own class does not know the qualifiers, nor does PEP 563 let any see them: they are read here.
    return {name: _unqualified(hint, name in cls.__required_keys__) for name, hint in hints.items()}


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


def portable(annotation: Any) -> Any:
    """Return a type in which every TypedDict of `typing` is one of `typing_extensions`.

    Before 3.12 pydantic refuses those of `typing`, whose fields lose their qualifiers when inherited.
    """
    if sys.version_info >= (3, 12):
        return annotation
    return _portable(annotation, {})


def _portable(annotation: Any, building: dict[Any, Any]) -> Any:
    if is_typeddict(annotation):
        if annotation not in building:
            # pydantic resolves the name of a TypedDict in its own fields, which makes recursion work.
            building[annotation] = ForwardRef(annotation.__name__)
            building[annotation] = _rebuilt(annotation, building)
        return building[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        parts = (_portable(annotation.__origin__, building), *annotation.__metadata__)
        return _ANNOTATED[parts]
    if (
        origin is None
        or origin is typing.Literal
        or not any(isinstance(a, type) or get_origin(a) for a in arguments)
    ):
        return annotation
    changed = tuple(_portable(argument, building) for argument in arguments)
    if changed == arguments:
        return annotation
    if origin in (Union, types.UnionType):
        return _UNION[changed]
    copy_with = getattr(annotation, "copy_with", None)
    return copy_with(changed) if copy_with else origin[changed]


def _rebuilt(cls: Any, building: dict[Any, Any]) -> Any:
    # NotRequired[...] in a mapping given at run time is beyond what a type checker follows.
    items: dict[str, Any] = {}
    for name, (hint, is_required) in fields(cls).items():
        changed = _portable(hint, building)
        items[name] = changed if is_required else NotRequired[changed]
    rebuild: Any = typing_extensions.TypedDict
    rebuilt = rebuild(cls.__name__, items)
    rebuilt.__module__, rebuilt.__qualname__, rebuilt.__doc__ = cls.__module__, cls.__qualname__, cls.__doc__
    config = getattr(cls, "__pydantic_config__", None)
    if config is not None:
        rebuilt.__pydantic_config__ = config
    return rebuilt

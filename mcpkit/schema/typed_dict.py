"""TypedDicts: their fields as parameters, and what makes pydantic accept them on every Python."""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypeGuard, get_args, get_origin

import typing_extensions
from typing_extensions import NotRequired, Required, is_typeddict

# Subscribed with what is only known at run time, which no type checker follows.
_ANNOTATED: Any = Annotated
_QUALIFIERS: tuple[Any, ...] = (Required, NotRequired, typing_extensions.ReadOnly)
_HOOK = "__get_pydantic_core_schema__"


def fields(cls: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a TypedDict: the type of each, and whether it is required."""
    # 3.10's own class does not know the qualifiers, nor does PEP 563 let any see them: they are read here.
    return {name: _unqualified(hint, name in cls.__required_keys__) for name, hint in _hints(cls).items()}


def _hints(cls: Any) -> dict[str, Any]:
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
    import dataclasses

    waiting: list[Any] = [annotation]
    seen: set[Any] = set()
    while waiting:
        part = waiting.pop()
        if not _is_class(part):
            waiting += get_args(part)
        elif part not in seen:
            seen.add(part)
            if is_typeddict(part) and type(part).__module__ == "typing" and not hasattr(part, _HOOK):
                setattr(part, _HOOK, _hook(part))
            if is_typeddict(part) or dataclasses.is_dataclass(part) or hasattr(part, "_fields"):
                waiting += _hints(part).values()


def _is_class(part: Any) -> TypeGuard[Any]:
    return isinstance(part, type) and get_origin(part) is None


def _hook(cls: Any) -> Any:
    equivalent = _equivalent(cls)

    def describe(source: Any, handler: Any) -> Any:
        return handler.generate_schema(equivalent)

    return describe


def _equivalent(cls: Any) -> Any:
    items = {
        name: hint if is_required else NotRequired[hint] for name, (hint, is_required) in fields(cls).items()
    }
    build: Any = typing_extensions.TypedDict
    built = build(cls.__name__, items)
    built.__module__, built.__qualname__, built.__doc__ = cls.__module__, cls.__qualname__, cls.__doc__
    config = getattr(cls, "__pydantic_config__", None)
    if config is not None:
        built.__pydantic_config__ = config
    return built

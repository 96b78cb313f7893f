"""Module-level `@tool`, `@resource` and `@prompt`, which mark functions for a later `include`."""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .._utils.exceptions import RegistrationError
from .decorators import Build, Decorators, check_is_function


class _Mark:
    """A marked function, weakly referenced, and the builders of its components."""

    __slots__ = ("builds", "function")

    def __init__(self, function: weakref.ref[Any], builds: list[Build]) -> None:
        self.function = function
        self.builds = builds


class Marked:
    """A marked function, bound to its object if it is a method, and the builder of its component."""

    __slots__ = ("build", "function")

    def __init__(self, function: Callable[..., Any], build: Build) -> None:
        self.function = function
        self.build = build


_marks: dict[int, _Mark] = {}
"""Marks by object id, as marked objects need not be hashable. No attribute of other objects in a module is read."""


_WRAPPERS = (staticmethod, classmethod, types.MethodType)


def underlying(function: Any) -> Any:
    """Return the plain function below a static method, class method or bound method."""
    return function.__func__ if type(function) in _WRAPPERS else function


class _Marking(Decorators):
    """The module-level decorators."""

    def _take(self, function: Any, build: Build) -> Any:
        target: Any = underlying(function)
        check_is_function(target)
        key = id(target)
        if key not in _marks:
            _marks[key] = _Mark(weakref.ref(target, lambda _: _marks.pop(key)), [])
        _marks[key].builds.append(build)
        return function


_free = _Marking()
tool = _free.tool
"""Marks a function or method as a tool; the options are those of `Server.tool`."""
resource = _free.resource
"""Marks a function or method as a resource or template; the options are those of `Server.resource`."""
prompt = _free.prompt
"""Marks a function or method as a prompt; the options are those of `Server.prompt`."""


def marked(source: Any) -> Iterator[Marked]:
    """Find the marked functions of a module, an object with its class, or a function.

    Args:
        source: A module, an instance, a class (for its static and class methods), or a function.

    Returns:
        The marked functions in order of definition, those of base classes first. A method that a subclass overrides
        counts only when the override is marked.

    Raises:
        RegistrationError: `source` is a class with a marked instance method.
    """
    if isinstance(source, types.ModuleType):
        yield from _of_values(vars(source).values())
    elif _has_marks(source):
        yield from _of_values([source])
    else:
        cls = source if isinstance(source, type) else type(source)
        names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
        for name in names:
            yield from _of_attribute(source, name, inspect.getattr_static(cls, name))


def _of_values(values: Any) -> Iterator[Marked]:
    seen: set[int] = set()
    for value in list(values):
        if _has_marks(value) and id(value) not in seen:
            seen.add(id(value))
            yield from _of(value, value)


def _of_attribute(source: Any, name: str, static: Any) -> Iterator[Marked]:
    if not _has_marks(static):
        return
    if isinstance(source, type) and not isinstance(static, staticmethod | classmethod):
        raise RegistrationError(
            f"{source.__qualname__}.{name} is a method. Include an instance of {source.__qualname__}, not the class"
        )
    yield from _of(static, getattr(source, name))


def _of(marked: Any, function: Callable[..., Any]) -> Iterator[Marked]:
    return (Marked(function, build) for build in _marks[id(underlying(marked))].builds)


def _has_marks(value: Any) -> bool:
    return id(underlying(value)) in _marks

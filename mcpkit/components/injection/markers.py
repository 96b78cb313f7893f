"""Markers of parameters that clients do not see.

Such parameters receive the Context, a part of the request, or the value of a dependency, which may have such
parameters itself.
"""

from __future__ import annotations

import re
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
)
from typing import Annotated, Any, ClassVar, TypeVar, Union, overload

from ..._utils.errors import RegistrationError
from ...requests.call import Call, CallContext
from ...schema.parameters import empty
from .principal import leaves

T = TypeVar("T")

_HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"


class Hidden:
    """Base class of markers of parameters that clients do not see, as default value or in `Annotated`."""


class FromRequest(Hidden, ABC):
    """Base class of markers of parameters that are filled from the request.

    Attributes:
        is_question: Whether the value is requested from the user.
    """

    is_question: ClassVar[bool] = False

    @abstractmethod
    def reader(self, annotation: Any, default: Any) -> Callable[[Call], Any]:
        """Return the function that reads the value: a coroutine function, or one that never blocks.

        Args:
            annotation: Type hint of the parameter, with metadata.
            default: Default value; `inspect.Parameter.empty` for none.

        Raises:
            RegistrationError: The type cannot hold the value. The message contains the remedy.
        """


M = TypeVar("M", bound=Callable[..., Any])

_MARKING: list[Callable[..., Any]] = []


def marking(function: M) -> M:
    """Record a function that returns a marker, to detect the function itself in an annotation."""
    _MARKING.append(function)
    return function


@marking
def FromHeader(name: str) -> Any:  # noqa: N802 - reads as a type where it stands
    """Fill a parameter with a header of the HTTP request.

    Write it in the annotation, `tenant: Annotated[str | None, FromHeader("X-Tenant")]`, or as default value,
    `tenant: str | None = FromHeader("X-Tenant")`. Without such a header, and over other transports than HTTP, the
    parameter has its default value, or else None. The server does not verify the value: any client can send it, unless
    a proxy sets it.

    Args:
        name: Header name, in any case.

    Returns:
        A marker; type checkers see a value of any type.

    Raises:
        RegistrationError: It is not a valid header name.
    """
    return HeaderValue(name)


@marking
def FromState() -> Any:  # noqa: N802 - reads as a type where it stands
    """Fill a parameter with the value that the server's lifespan yielded.

    Write it in the annotation, `db: Annotated[Database, FromState()]`, or as default value,
    `db: Database = FromState()`. A call fails when the lifespan yields no value, unless the parameter may be None.

    Returns:
        A marker; type checkers see a value of any type.
    """
    return StateValue()


class HeaderValue(FromRequest):
    """Marker that `FromHeader` returns.

    Args:
        name: Header name, in any case.
    """

    def __init__(self, name: str) -> None:
        if not re.fullmatch(_HEADER, name):
            raise RegistrationError(
                f"FromHeader takes the name of an HTTP header, such as 'X-Tenant', got {name!r}"
            )
        self.name = name

    def reader(self, annotation: Any, default: Any) -> Callable[[Call], Any]:
        """Return the function that reads the header."""
        kinds = set(leaves(annotation))
        if kinds - {str, types.NoneType, Any, empty}:
            names = " | ".join(_name(kind) for kind in leaves(annotation))
            raise RegistrationError(
                f"the value of a header is a string. Annotate the parameter as `str | None`, not `{names}`"
            )
        if default is empty:
            if kinds == {str}:
                raise RegistrationError(
                    f"the header {self.name} may be missing. Annotate the parameter as `str | None`, or "
                    "give it a default"
                )
            default = None
        name = self.name
        return lambda call: call.headers.get(name, default)


class StateValue(FromRequest):
    """Marker that `FromState` returns."""

    def reader(self, annotation: Any, default: Any) -> Callable[[Call], Any]:
        """Return the function that reads the state; it raises a RuntimeError when there is none."""
        may_be_none = not {types.NoneType, Any, empty}.isdisjoint(leaves(annotation))
        return lambda call: call.known_state if may_be_none else _known(call.known_state)


class Dependency(Hidden):
    """Marker that `Depends` returns.

    Attributes:
        function: The dependency.
        is_cached: Whether one value is shared within a request.
    """

    def __init__(self, function: Callable[..., Any], is_cached: bool) -> None:
        self.function = function
        self.is_cached = is_cached


@overload
def Depends(function: Callable[..., AsyncGenerator[T, Any]], *, cached: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., AsyncIterator[T]], *, cached: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., Generator[T, Any, Any]], *, cached: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., Iterator[T]], *, cached: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., Awaitable[T]], *, cached: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., T], *, cached: bool = True) -> T: ...
@marking
def Depends(function: Callable[..., Any], *, cached: bool = True) -> Any:  # noqa: N802 - reads as a type where it stands
    """Fill a parameter with the value that a function returns or yields.

    Write it in the annotation, `db: Annotated[Database, Depends(connect)]`, or as default value,
    `db: Database = Depends(connect)`. The parameter is not in the input schema. A generator function yields once; the
    code after `yield` runs when the handler has returned or raised, in reverse order of the dependencies. An exception
    of the handler is raised at the `yield`, and is raised further even if it is caught there.

    Args:
        function: Any callable. Its parameters are a Context, other dependencies, `FromHeader`, `FromState`, or have
            defaults. It is called once in a request: `async` functions and generators in the event loop, others in a
            worker thread.
        cached: Whether parameters of one request share the value. False calls the function for this parameter alone.

    Returns:
        A marker; type checkers see the value that the function returns or yields.

    Raises:
        RegistrationError: It is not callable; often it is the result of the function.
    """
    if not callable(function):
        raise RegistrationError(
            f"Depends takes the function itself, got {function!r}. Write Depends(connect), not Depends(connect())"
        )
    return Dependency(function, cached)


def hidden(annotation: Any, default: Any) -> Hidden | None:
    """Return the marker of a parameter, or None.

    Raises:
        RegistrationError: There are several, or the marker lacks its parentheses, so that clients would see the
            parameter.
    """
    if isinstance(default, Hidden):
        return default
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        for item in annotation.__metadata__:
            if any(item is function for function in _MARKING):
                raise RegistrationError(
                    f"Annotated contains the class {item.__name__}. Write {item.__name__}(...)"
                )
        marks = [item for item in annotation.__metadata__ if isinstance(item, Hidden)]
        if len(marks) > 1:
            raise RegistrationError(
                "the parameter has several of Depends, Ask, FromHeader and FromState. Keep one"
            )
        return marks[0] if marks else hidden(annotation.__origin__, empty)
    if origin is Union or origin is types.UnionType:
        return next(filter(None, (hidden(part, empty) for part in typing.get_args(annotation))), None)
    return None


def is_hidden(annotation: Any, default: Any) -> bool:
    """Return whether clients do not see a parameter: it is the Context, or has a marker."""
    return context_type(annotation) is not None or hidden(annotation, default) is not None


def context_type(annotation: Any) -> type[CallContext] | None:
    """Return the Context class of an annotation (`Context`, `Context[T]`, or a union with None), or None."""
    for leaf in leaves(annotation):
        kind = typing.get_origin(leaf) or leaf
        if isinstance(kind, type) and issubclass(kind, CallContext):
            return kind
    return None


def _known(state: Any) -> Any:
    if state is None:
        raise RuntimeError(
            "the server has no lifespan state. Pass Server(lifespan=...) with a function that yields it"
        )
    return state


def _name(kind: Any) -> str:
    if kind is types.NoneType:
        return "None"
    return kind.__name__ if isinstance(kind, type) else str(kind)

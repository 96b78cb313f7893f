"""Hidden parameters, and what marks them.

Clients see neither these parameters nor what fills them: the Context, something of the request, or what a
function of the author's makes, which may have hidden parameters of its own.
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

from ...calls.call import Call, CallContext
from ...common.errors import RegistrationError
from ...schema.parameters import empty
from .principal import leaves

T = TypeVar("T")

_HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"


class Hidden:
    """Marks a parameter that clients do not see, as a default value or in `Annotated`."""


class FromRequest(Hidden, ABC):
    """Marks a parameter that the request itself fills.

    Attributes:
        is_question: Whether the user does.
    """

    is_question: ClassVar[bool] = False

    @abstractmethod
    def reader(self, annotation: Any, default: Any) -> Callable[[Call], Any]:
        """Return what reads the value: a coroutine function, or one that never blocks.

        Args:
            annotation: The parameter's type hint, with its metadata.
            default: Its default; `inspect.Parameter.empty` when there is none.

        Raises:
            RegistrationError: The parameter cannot hold it; the message says what to change.
        """


M = TypeVar("M", bound=Callable[..., Any])

_MARKING: list[Callable[..., Any]] = []


def marking(function: M) -> M:
    """Take note of a function that returns a mark, so that one who forgets to call it is told."""
    _MARKING.append(function)
    return function


@marking
def FromHeader(name: str) -> Any:  # noqa: N802 - reads as a type where it stands
    """Fill a parameter with a header of the HTTP request.

    It stands in the type, `tenant: Annotated[str | None, FromHeader("X-Tenant")]`, or as a default value,
    `tenant: str | None = FromHeader("X-Tenant")`. Where there is no such header, and over every transport but
    HTTP, the parameter has its default value, or else None. What a header says nobody has verified, but by what
    stands before the server.

    Args:
        name: The header's name, in any case.

    Returns:
        What marks the parameter; to type checkers, a value of any type.

    Raises:
        RegistrationError: It is no name of a header.
    """
    return HeaderValue(name)


@marking
def FromState() -> Any:  # noqa: N802 - reads as a type where it stands
    """Fill a parameter with what the server's lifespan yielded.

    It stands in the type, `db: Annotated[Database, FromState()]`, or as a default value,
    `db: Database = FromState()`. Without a lifespan that yields something there is none: an error, unless the
    parameter may be None.

    Returns:
        What marks the parameter; to type checkers, a value of any type.
    """
    return StateValue()


class HeaderValue(FromRequest):
    """What `FromHeader` returns.

    Args:
        name: The header's name, in any case.
    """

    def __init__(self, name: str) -> None:
        if not re.fullmatch(_HEADER, name):
            raise RegistrationError(
                f"FromHeader takes the name of an HTTP header, such as 'X-Tenant', got {name!r}"
            )
        self.name = name

    def reader(self, annotation: Any, default: Any) -> Callable[[Call], Any]:
        """Return what reads the header."""
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
    """What `FromState` returns."""

    def reader(self, annotation: Any, default: Any) -> Callable[[Call], Any]:
        """Return what reads the state, and complains when there is none to pass."""
        may_be_none = not {types.NoneType, Any, empty}.isdisjoint(leaves(annotation))
        return lambda call: call.known_state if may_be_none else _known(call.known_state)


class Dependency(Hidden):
    """What `Depends` returns.

    Attributes:
        function: What makes the value.
        is_cached: Whether all that depend on it in one request share one value.
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
    """Fill a parameter with what a function of one's own returns or yields.

    It stands in the type, `db: Annotated[Database, Depends(connect)]`, or as a default value,
    `db: Database = Depends(connect)`; the parameter stays out of the schema. A generator function yields
    once; the rest of it runs when the handler has returned, whatever came of it and in reverse order. An
    exception of the handler is raised at the `yield`, and goes on even where it is caught there.

    Args:
        function: Any callable; its parameters are a Context, other dependencies, `FromHeader`, `FromState`, or
            have defaults. It is called once in a request: a coroutine function or async generator in the
            event loop, any other in a worker thread.
        cached: False calls it for this parameter alone.

    Returns:
        What marks the parameter; to type checkers, what the function returns or yields.

    Raises:
        RegistrationError: It is no function, above all what one has returned.
    """
    if not callable(function):
        raise RegistrationError(
            f"Depends takes the function itself, got {function!r}. Write Depends(connect), not Depends(connect())"
        )
    return Dependency(function, cached)


def hidden(annotation: Any, default: Any) -> Hidden | None:
    """Return the mark of a parameter, None when it has none.

    Raises:
        RegistrationError: There are several, or the mark lacks its parentheses, so that clients would see
            the parameter.
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
    """Say whether clients do not see a parameter: because it is the Context, or has a mark."""
    return context_type(annotation) is not None or hidden(annotation, default) is not None


def context_type(annotation: Any) -> type[CallContext] | None:
    """Return the type of Context that a parameter asks for (`Context`, `Context[T]`, or with None); else None."""
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

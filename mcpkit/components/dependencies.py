"""Parameters that clients do not see: their markers (`Depends`, `Ask`, ...), and the order in which they are filled."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import MethodType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, overload

from .._utils.exceptions import MissingCapabilityError, RegistrationError
from ..identity.principals_and_scopes import Principal
from ..requests.request_record import Call, CallContext
from ..schema.function_signatures import empty, head, innermost

T = TypeVar("T")


# Parameters that clients do not see: the Context, and those with a marker


class Hidden:
    """Base class of markers of parameters that clients do not see, as default value or in `Annotated`."""


def is_hidden(annotation: Any, default: Any) -> bool:
    """Return whether clients do not see a parameter: it is the Context, or has a marker."""
    return context_type(annotation) is not None or hidden(annotation, default) is not None


def hidden(annotation: Any, default: Any) -> Hidden | None:
    """Return the marker of a parameter, or None.

    Raises:
        RegistrationError: There are several, or the marker lacks its parentheses, so that clients would see the
            parameter.
    """
    if isinstance(default, Hidden):
        return default
    origin = get_origin(annotation)
    if origin is Annotated:
        for item in annotation.__metadata__:
            if any(item is function for function in (Ask, Depends, FromHeader, FromState)):
                name = item.__name__
                raise RegistrationError(f"Annotated contains the class {name}. Write {name}(...)")
        marks = [item for item in annotation.__metadata__ if isinstance(item, Hidden)]
        if len(marks) > 1:
            raise RegistrationError(
                "the parameter has several of Depends, Ask, FromHeader and FromState. Keep one"
            )
        return marks[0] if marks else hidden(annotation.__origin__, empty)
    if origin is Union or origin is types.UnionType:
        return next(filter(None, (hidden(part, empty) for part in get_args(annotation))), None)
    return None


def context_type(annotation: Any) -> type[CallContext] | None:
    """Return the Context class of an annotation (`Context`, `Context[T]`, or a union with None), or None."""
    for leaf in leaves(annotation):
        kind = get_origin(leaf) or leaf
        if isinstance(kind, type) and issubclass(kind, CallContext):
            return kind
    return None


def leaves(annotation: object) -> Iterator[Any]:
    """Yield the types of a union without metadata, or the type itself."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated or origin is Union or origin is types.UnionType:
        for part in arguments[:1] if origin is Annotated else arguments:
            yield from leaves(part)
    else:
        yield annotation


# Values of the request


class FromRequest(Hidden):
    """Marker of a parameter that is filled from the request.

    Args:
        reader: Takes the type hint of the parameter with metadata, and its default value or `inspect.Parameter.empty`.
            Returns the function that reads the value from a `Call`: a coroutine function, or one that never blocks.
            Raises a RegistrationError if the type cannot hold the value.
        header: Name of the header that it reads; None for other values.
        is_question: Whether the value is requested from the user.
    """

    def __init__(
        self,
        reader: Callable[[Any, Any], Callable[[Call], Any]],
        *,
        header: str | None = None,
        is_question: bool = False,
    ) -> None:
        self.reader = reader
        self.header = header
        self.is_question = is_question


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
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise RegistrationError(
            f"FromHeader takes the name of an HTTP header, such as 'X-Tenant', got {name!r}"
        )

    def reader(annotation: Any, default: Any) -> Callable[[Call], Any]:
        kinds = list(leaves(annotation))
        if {*kinds} - {str, types.NoneType, Any, empty}:
            names = " | ".join(
                "None" if kind is types.NoneType else kind.__name__ if isinstance(kind, type) else str(kind)
                for kind in kinds
            )
            raise RegistrationError(
                f"the value of a header is a string. Annotate the parameter as `str | None`, not `{names}`"
            )
        if default is empty and {*kinds} == {str}:
            raise RegistrationError(
                f"the header {name} may be missing. Annotate the parameter as `str | None`, or give it a default"
            )
        fallback = None if default is empty else default
        return lambda call: call.headers.get(name, fallback)

    return FromRequest(reader, header=name.lower())


def FromState() -> Any:  # noqa: N802 - reads as a type where it stands
    """Fill a parameter with the value that the server's lifespan yielded.

    Write it in the annotation, `db: Annotated[Database, FromState()]`, or as default value,
    `db: Database = FromState()`. A call fails when the lifespan yields no value, unless the parameter may be None.

    Returns:
        A marker; type checkers see a value of any type.
    """
    return FromRequest(_state_reader)


def _state_reader(annotation: Any, _: Any) -> Callable[[Call], Any]:
    may_be_none = not {types.NoneType, Any, empty}.isdisjoint(leaves(annotation))

    def read(call: Call) -> Any:
        state = call.known_state
        if state is None and not may_be_none:
            raise RuntimeError(
                "the server has no lifespan state. Pass Server(lifespan=...) with a function that yields it"
            )
        return state

    return read


def Ask(message: str, *, key: str | None = None) -> Any:  # noqa: N802 - reads as a type where it stands
    """Fill a parameter with input of the user, requested before the function runs (client/elicitation).

    Write it in the annotation, `city: Annotated[City, Ask("Which city?")]`, or as default value,
    `city: City = Ask("Which city?")`. The parameter is not in the input schema. Its type is the requested type.
    `City | None` is None when the user declines or the client does not support elicitation. `ElicitationResult[City]`
    has the user's action. With other types, the call fails when the user declines.

    Args:
        message: Message for the user.
        key: See `ElicitRequest`; None takes the position of the parameter.

    Returns:
        A marker; type checkers see a value of any type.
    """
    return FromRequest(partial(_input_reader, message, key), is_question=True)


def _input_reader(message: str, key: str | None, annotation: Any, default: Any) -> Callable[[Call], Any]:
    from ..requests.elicitation_and_sampling import ElicitationResult, ElicitRequest, ask

    requested: Any = annotation
    metadata: tuple[Any, ...] = ()
    if get_origin(requested) is Annotated:
        metadata = tuple(item for item in requested.__metadata__ if not isinstance(item, Hidden))
        requested = get_args(requested)[0]
    takes_result = get_origin(requested) is ElicitationResult
    if takes_result:
        (requested,) = get_args(requested)
    may_be_none = False
    if get_origin(requested) in (Union, types.UnionType):
        branches = [branch for branch in get_args(requested) if branch is not types.NoneType]
        may_be_none = len(branches) < len(get_args(requested))
        requested = Union[tuple(branches)]  # noqa: UP007 - of as many as there are
    if metadata:
        parts = (requested, *metadata)  # a star in an index is Python 3.11's
        requested = cast("Any", Annotated)[parts]
    if default is not empty:
        raise RegistrationError(
            "a parameter with Ask must not have a default. Write `| None` for users who decline or cancel"
        )
    try:
        request = ElicitRequest(message, requested, key=key)  # raises for a type that no form can request
    except (TypeError, ValueError) as error:
        raise RegistrationError(str(error)) from None

    async def elicit(call: Call) -> Any:
        try:
            result: ElicitationResult[Any] = (await ask(call, (request,)))[0]
        except MissingCapabilityError:
            if may_be_none:
                return None
            raise
        if takes_result:
            return result
        return None if may_be_none and not result else result.value

    return elicit


# Values of functions


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
def Depends(function: Callable[..., AsyncIterator[T]], *, cached: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., Iterator[T]], *, cached: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., Awaitable[T]], *, cached: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., T], *, cached: bool = True) -> T: ...
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


# The order of the values of one function


# Replacements of functions in a test, by the function's `identity`.
Overrides = Mapping[Hashable, Callable[..., Any]]

# Name, annotation and default of a parameter.
Hint = tuple[str, Any, Any]

# Parameters by name, and the numbers of their values.
Fills = tuple[tuple[str, int], ...]


class Step(NamedTuple):
    """The computation of one value.

    Args:
        number: Index of the value.
        function: Takes hidden parameters. A reader takes the request; a generator function is already a context
            manager factory.
        fills: Hidden parameters by name, with the indexes of their values.
        is_reader: Whether it reads the request.
        is_generator: Whether it yields.
        is_question: Whether it requests input from the user.
        name: Name of the function, if it yields.
    """

    number: int
    function: Callable[..., Any]
    fills: Fills = ()
    is_reader: bool = False
    is_generator: bool = False
    is_question: bool = False
    name: str = ""


class Part:
    """Consecutive steps that run in the same place.

    Attributes:
        steps: The steps.
        is_in_loop: Whether they run in the event loop, or in a thread; None for readers, which run in either.
    """

    def __init__(self, is_in_loop: bool | None) -> None:
        self.steps: list[Step] = []
        self.is_in_loop = is_in_loop


class Plan:
    """The steps that fill the hidden parameters of a handler, computed once.

    Args:
        what: Name of the handler in messages.
        parameters: Name, annotation and default of each hidden parameter.
        overrides: Replacements of functions.

    Attributes:
        parts: The steps, each after its dependencies.
        size: Number of values.
        fills: Hidden parameters of the handler by name, with the indexes of their values.
        replaced: Overridden functions that are not called.
        takes_context: Whether a step takes the Context.
        has_closings: Whether a dependency must be closed after the handler.
        headers: Lower-case names of the request headers that are read.

    Raises:
        RegistrationError: A parameter cannot be filled. The message contains the remedy.
    """

    def __init__(self, what: str, parameters: Iterable[Hint], overrides: Overrides) -> None:
        self.parts: list[Part] = []
        self.size = 0
        self.replaced: set[Hashable] = set()
        self.takes_context = False
        self.has_closings = False
        self.headers: set[str] = set()
        self._overrides = overrides
        self._numbers: dict[Hashable, int] = {}
        self._path: dict[Hashable, str] = {}
        self.fills = self._fill(what, parameters)

    @property
    def questions(self) -> list[Callable[[Call], Awaitable[Any]]]:
        """Functions that request input from the user, in their order."""
        return [step.function for part in self.parts for step in part.steps if step.is_question]

    def _fill(self, what: str, hints: Iterable[Hint]) -> Fills:
        return tuple((name, self._number(f"{what}: {name}", hint, default)) for name, hint, default in hints)

    def _number(self, where: str, annotation: Any, default: Any) -> int:
        """Return the number of a parameter's value, after adding the steps that compute it."""
        mark = hidden(annotation, default)
        if isinstance(mark, Dependency):
            return self._depend(where, mark)
        if isinstance(mark, FromRequest):
            if mark.header is not None:
                self.headers.add(mark.header)
            try:
                reader = mark.reader(annotation, empty if default is mark else default)
            except RegistrationError as error:  # or an UnresolvedHint, which may be gone later
                raise type(error)(f"{where}: {error}") from None
            is_in_loop = True if inspect.iscoroutinefunction(reader) else None
            return self._add(is_in_loop, reader, is_reader=True, is_question=mark.is_question)
        kind = context_type(annotation)
        assert kind is not None, "a parameter that nothing else marks is the Context"
        self.takes_context = True
        key = id(kind)
        if key not in self._numbers:
            self._numbers[key] = self._add(None, kind, is_reader=True)
        return self._numbers[key]

    def _depend(self, where: str, mark: Dependency) -> int:
        function = mark.function
        key = identity(function)
        other = self._overrides.get(key)
        if other is not None and identity(other) not in self._path:  # what replaces it may depend on it
            self.replaced.add(key)
            function, key = other, identity(other)
        if mark.is_cached and key in self._numbers:
            return self._numbers[key]
        read = head(function)
        name = read.name
        if key in self._path:
            names = " -> ".join([*self._path.values(), name])
            raise RegistrationError(
                f"{where}: circular dependency: {names}. Remove one of these dependencies"
            )
        hints: list[Hint] = []
        for each in read.parameters:
            if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD} or each.name in read.bound:
                continue
            annotation = read.hints.get(each.name, empty)
            if is_hidden(annotation, each.default) and each.kind is not each.POSITIONAL_ONLY:
                hints.append((each.name, annotation, each.default))
            elif each.default is empty:
                raise RegistrationError(
                    f"{where}: the dependency {name} has the parameter {each.name!r} without a source. Dependencies do "
                    "not receive the arguments of the call. Make it a Context, Depends(...), FromHeader(...) or "
                    "FromState(), or give it a default"
                )
        self._path[key] = name
        fills = self._fill(f"{where}: {name}", hints)
        del self._path[key]
        plain, wrapped = innermost(function), read.function
        is_in_loop = inspect.isasyncgenfunction(plain)
        is_generator = is_in_loop or inspect.isgeneratorfunction(plain)
        if is_generator:
            self.has_closings = True
            function = (asynccontextmanager if is_in_loop else contextmanager)(function)
        elif inspect.isasyncgenfunction(wrapped) or inspect.isgeneratorfunction(wrapped):
            raise RegistrationError(
                f"{where}: {name} is a decorated generator function. Remove the decorator (such as "
                "@contextmanager): the code after `yield` runs after the handler without it"
            )
        else:
            is_in_loop = inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(wrapped)
        number = self._add(is_in_loop, function, fills, is_generator=is_generator, name=name)
        if mark.is_cached:
            self._numbers[key] = number
        return number

    def _add(
        self, is_in_loop: bool | None, function: Callable[..., Any], fills: Fills = (), **kind: Any
    ) -> int:
        """Add a step to the last part, or to a new one if it runs in another place, and return its number."""
        part = self.parts[-1] if self.parts else None
        if part is None or (None not in {part.is_in_loop, is_in_loop} and part.is_in_loop is not is_in_loop):
            self.parts.append(part := Part(is_in_loop))
        elif part.is_in_loop is None:
            part.is_in_loop = is_in_loop
        part.steps.append(Step(self.size, function, fills, **kind))
        self.size += 1
        return self.size - 1


def identity(function: Callable[..., Any]) -> Hashable:
    """Return a key that identifies a function; bound methods of one object have equal keys."""
    if isinstance(function, MethodType):
        return id(function.__self__), id(function.__func__)
    return id(function)


# The principal, as functions beside the handler take it: `watch=`, `list_entries=`


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, with evaluated annotations if that is possible now."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception:  # noqa: BLE001 - an annotation may raise anything
        signature = inspect.signature(function)
    return list(signature.parameters.values())


def takes_principal(parameter: inspect.Parameter, variables: Collection[str] = ()) -> bool:
    """Return whether a parameter receives the principal: it is annotated `Principal`, or named `principal`.

    Args:
        parameter: The parameter.
        variables: Names that have another meaning.
    """
    if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
        return False
    if parameter.annotation is parameter.empty:
        return parameter.name == "principal" and parameter.name not in variables
    return any(
        issubclass(leaf, Principal)
        if isinstance(leaf, type)
        else isinstance(leaf, str) and leaf.rpartition(".")[2] == "Principal"  # it cannot be evaluated yet
        for leaf in leaves(parameter.annotation)
    )

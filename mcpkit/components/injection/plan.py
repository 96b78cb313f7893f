"""Dependency plans: the order in which hidden parameters are filled, computed once for each component."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import MethodType
from typing import Any

from ..._utils.errors import RegistrationError
from ...requests.call import Call
from ...requests.handlers import Make
from ...schema.parameters import empty
from ...schema.signature import head, innermost
from .markers import Dependency, FromRequest, HeaderValue, context_type, hidden, is_hidden
from .run import Fills, Part, Plan, Step, call_filled

Overrides = Mapping[Hashable, Callable[..., Any]]
"""Replacements of functions in a test, by the function's `identity`."""

Hint = tuple[str, Any, Any]
"""Name, annotation and default of a parameter."""

_VARIADIC = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


class Injection:
    """The hidden parameters of one function.

    Args:
        what: Name of the function in messages.
        parameters: Name, annotation and default of each parameter.

    Raises:
        RegistrationError: A parameter cannot be filled. The message contains the remedy.
    """

    def __init__(self, what: str, parameters: Iterable[Hint]) -> None:
        self._what = what
        self._parameters = tuple(parameters)
        self._plan = self.plan_with({})
        self._overridden: tuple[Overrides, Plan] = ({}, self._plan)

    @property
    def takes_context(self) -> bool:
        """True if a parameter is the Context."""
        return self._plan.takes_context

    @property
    def headers(self) -> frozenset[str]:
        """Lower-case names of the headers that fill parameters."""
        return self._plan.headers

    @property
    def questions(self) -> list[Callable[[Call], Awaitable[Any]]]:
        """Functions that request input from the user, in their order."""
        return [step.function for part in self._plan.parts for step in part.steps if step.is_question]

    async def call(
        self,
        function: Callable[..., Any],
        kwargs: dict[str, Any],
        call: Call,
        make: Make,
        *,
        is_in_loop: bool,
    ) -> Any:
        """Call the function with its hidden parameters.

        Args:
            function: The function.
            kwargs: Its other arguments.
            call: The request.
            make: Converts the returned value to the result, before dependencies are closed.
            is_in_loop: Whether the function runs in the event loop, else in a worker thread.

        Returns:
            What `make` returned.

        Raises:
            BaseException: Raised by the function or a dependency.
        """
        overrides = call.runtime.overrides
        plan = self._plan
        if overrides:
            if self._overridden[0] is not overrides:
                self._overridden = (overrides, self.plan_with(overrides))
            plan = self._overridden[1]
        return await call_filled(plan, partial(function, **kwargs), call, make, is_in_loop=is_in_loop)

    def plan_with(self, overrides: Overrides) -> Plan:
        """Return the plan with some functions replaced.

        Raises:
            RegistrationError: A parameter cannot be filled. The message contains the remedy.
        """
        planning = _Planning(overrides)
        fills = planning.fill(self._what, self._parameters)
        has_closings = any(step.is_generator for part in planning.parts for step in part.steps)
        return Plan(
            planning.parts,
            planning.count,
            fills,
            planning.replaced,
            planning.takes_context,
            has_closings,
            frozenset(planning.headers),
        )


class _Planning:
    """Collects the steps of a plan, each function once."""

    def __init__(self, overrides: Overrides) -> None:
        self.parts: list[Part] = []
        self.count = 0
        self.replaced: set[Hashable] = set()
        self.takes_context = False
        self.headers: set[str] = set()
        self._overrides = overrides
        self._numbers: dict[Hashable, int] = {}
        self._path: dict[Hashable, str] = {}

    def fill(self, what: str, hints: Iterable[Hint]) -> Fills:
        return tuple((name, self._number(f"{what}: {name}", *hint)) for name, *hint in hints)

    def _number(self, where: str, annotation: Any, default: Any) -> int:
        mark = hidden(annotation, default)
        if isinstance(mark, Dependency):
            return self._depend(where, mark)
        if isinstance(mark, FromRequest):
            if isinstance(mark, HeaderValue):
                self.headers.add(mark.name.lower())
            try:
                reader = mark.reader(annotation, empty if default is mark else default)
            except RegistrationError as error:  # or an UnresolvedHint, which may be gone later
                raise type(error)(f"{where}: {error}") from None
            is_async = inspect.iscoroutinefunction(reader)
            return self._add(True if is_async else None, reader, is_reader=True, is_question=mark.is_question)
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
        self._path[key] = name
        written = [
            each for each in read.parameters if each.kind not in _VARIADIC and each.name not in read.bound
        ]
        filled: list[Hint] = []
        for each in written:
            hint = (each.name, read.hints.get(each.name, empty), each.default)
            if is_hidden(*hint[1:]) and each.kind is not each.POSITIONAL_ONLY:
                filled.append(hint)
            elif each.default is empty:
                raise RegistrationError(
                    f"{where}: the dependency {name} has the parameter {each.name!r} without a source. Dependencies do "
                    "not receive the arguments of the call. Make it a Context, Depends(...), FromHeader(...) or "
                    "FromState(), or give it a default"
                )
        fills = self.fill(f"{where}: {name}", filled)
        del self._path[key]
        is_in_loop, is_generator = _kind(where, name, function, read.function)
        if is_generator:
            function = (asynccontextmanager if is_in_loop else contextmanager)(function)
        number = self._add(is_in_loop, function, fills, is_generator=is_generator, name=name)
        if mark.is_cached:
            self._numbers[key] = number
        return number

    def _add(
        self,
        is_in_loop: bool | None,
        function: Callable[..., Any],
        fills: Fills = (),
        *,
        is_reader: bool = False,
        is_generator: bool = False,
        is_question: bool = False,
        name: str = "",
    ) -> int:
        part = self.parts[-1] if self.parts else None
        if part is None or (None not in {part.is_in_loop, is_in_loop} and part.is_in_loop is not is_in_loop):
            self.parts.append(part := Part([], is_in_loop))
        elif part.is_in_loop is None:
            self.parts[-1] = part = Part(part.steps, is_in_loop)
        part.steps.append(Step(self.count, function, fills, is_reader, is_generator, is_question, name))
        self.count += 1
        return self.count - 1


def _kind(where: str, name: str, function: Any, inner: Any) -> tuple[bool, bool]:
    """Return whether a function runs in the event loop, and whether it is a generator function."""
    function = innermost(function)
    is_async = inspect.isasyncgenfunction(function)
    if is_async or inspect.isgeneratorfunction(function):
        return is_async, True
    if inspect.isasyncgenfunction(inner) or inspect.isgeneratorfunction(inner):
        raise RegistrationError(
            f"{where}: {name} is a decorated generator function. Remove the decorator (such as "
            "@contextmanager): the code after `yield` runs after the handler without it"
        )
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner), False


def overridden(
    overrides: Overrides,
    injections: Iterable[Injection],
    function: Callable[..., Any],
    replacement: Callable[..., Any],
) -> Overrides:
    """Return the overrides with one added.

    Raises:
        RegistrationError: No handler depends on the function, or the replacement's parameters cannot be filled.
    """
    key = identity(function)
    overrides = {**overrides, key: replacement}
    plans = [each.plan_with(overrides) for each in injections]
    if not any(key in plan.replaced for plan in plans):
        raise RegistrationError(
            f"no handler depends on {function!r}, so it cannot be overridden. Pass the function that is in Depends(...)"
        )
    return overrides


def identity(function: Callable[..., Any]) -> Hashable:
    """Return a key that identifies a function; bound methods of one object have equal keys."""
    if isinstance(function, MethodType):
        return id(function.__self__), id(function.__func__)
    return id(function)

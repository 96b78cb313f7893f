"""A component made from a function: reads its signature and runs it."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Unpack

from .._utils.exceptions import RegistrationError
from ..content.blocks import LeaveLoop
from ..execution.coroutines import COMPLETE_TYPES, is_async_iterable, is_complete
from ..requests.call import Call, CallContext, run_limited
from ..requests.failures import error_for_client
from ..requests.handlers import (
    Make,
    Place,
    check_pickles,
    finish,
    finish_call,
    is_async_generator_function,
    make_result,
    place_of,
    run_in,
)
from ..requests.limits import CallLimits
from ..schema import Arguments, Output, Signature
from .base import Component, FunctionOptions
from .hidden_parameters import context_type, hidden, is_hidden

if TYPE_CHECKING:
    from .dependency_runner import Injection

logger = logging.getLogger(__name__)

_NOT_PICKLED = frozenset(
    {"_signature", "_injection", "_arguments", "_output", "_limits", "_place", "visible", "home", "watch"}
)
"""Attributes that do not go along to a worker process."""


class FunctionComponent(Component):
    """A component that is made from one function.

    Args:
        function: Function that handles requests.
        key: Name or URI.
        options: See `FunctionOptions`.

    Attributes:
        function: The function, unchanged.
        is_resolved: Whether its type hints have been read.
        describes_arguments: Whether lists show arguments with descriptions. If not, the description of the component
            keeps that part of the docstring.
    """

    allowed: ClassVar = FunctionOptions.__annotations__
    describes_arguments = True

    def __init__(self, function: Callable[..., Any], key: str, **options: Unpack[FunctionOptions]) -> None:
        super().__init__(key, options)
        self.function = function
        self.is_resolved = False
        self._signature: Signature | None = None
        self._arguments: Arguments | None = None
        self._injected: tuple[tuple[str, type[CallContext]], ...] = ()
        self._injection: Injection | None = None
        self._is_async = False
        self._place: Place | None = place_of(f"{self.kind} {key!r}", function, options) if options else None

    # Definition

    @property
    def description(self) -> str | None:
        """Description for models and users: `description=`, else the docstring's summary and body."""
        return self._description if self._description is not None else self.signature.description

    @property
    def signature(self) -> Signature:
        """Signature of the function, read on first use.

        Raises:
            RegistrationError: The signature cannot be served. The message contains the remedy.
        """
        if self._signature is None:
            self._signature = Signature.of(
                self.function, is_injected=is_hidden, describes_arguments=self.describes_arguments
            )
        return self._signature

    def resolve(self) -> None:
        """Read the type hints of the function and build what depends on them, on the first call.

        Raises:
            RegistrationError: The signature cannot be served, or a forward reference cannot be resolved yet
                (`schema.UnresolvedHint`); a later call tries again.
        """
        what = f"{self.kind} {self.key!r}"
        if self.is_resolved:
            if self._place == "process":  # by now the module that it is in has been executed
                check_pickles(what, self.function)
            return
        self.build()
        signature = self.signature
        for parameter in signature.parameters:
            if hint := parameter.context_hint:
                logger.warning(
                    "%s %r: the parameter %r has no type annotation, so clients see it as an argument. %s",
                    *(self.kind, self.key, parameter.name, hint),
                )
        hints = [(each.name, each.annotation, each.default) for each in signature.injected]
        if any(hidden(annotation, default) for _, annotation, default in hints):
            from .dependency_runner import Injection  # which few servers need

            self._injection = Injection(what, hints)
        else:
            kinds = ((name, context_type(annotation)) for name, annotation, _ in hints)
            self._injected = tuple((name, kind) for name, kind in kinds if kind is not None)
        if self._place is None and is_async_generator_function(self.function):
            self._place = "loop"
        self._is_async = signature.is_async and self._place is None
        if self._place == "process" and signature.injected:
            raise RegistrationError(
                f'{what}: a function with run_in="process" gets no Context and no dependencies. '
                f"Remove the parameter {signature.injected[0].name!r}, or run_in="
            )
        self.is_resolved = True

    @abstractmethod
    def build(self) -> None:
        """Build arguments, schemas and completions from the signature."""

    def _output_of_returns(self) -> Output | None:
        try:
            return Output.of(self.signature.returns)
        except RegistrationError as error:
            raise type(error)(f"{self.signature.name}: result: {error}") from error

    @property
    def origin(self) -> str:
        """Module, name, file and line of the function, for error messages."""
        function = inspect.unwrap(getattr(self.function, "func", self.function))
        function = getattr(function, "__func__", function)
        name = getattr(function, "__qualname__", type(function).__qualname__)
        code = getattr(function, "__code__", None)
        place = f"{code.co_filename}:{code.co_firstlineno}" if code else "defined elsewhere"
        return f"{getattr(function, '__module__', '?')}.{name} ({place})"

    # Hidden parameters

    @property
    def injections(self) -> tuple[Injection, ...]:
        """Dependency plans of the component's functions."""
        self.resolve()
        return () if self._injection is None else (self._injection,)

    @property
    def takes_context(self) -> bool:
        """True if the function or one of its dependencies has a parameter for the Context."""
        return any(injection.plan.takes_context for injection in self.injections) or bool(self._injected)

    @property
    def headers(self) -> frozenset[str]:
        """Lower-case names of the HTTP headers that `FromHeader` parameters read; empty before `resolve`."""
        return frozenset() if self._injection is None else frozenset(self._injection.plan.headers)

    @property
    def questions(self) -> list[Callable[[Call], Awaitable[Any]]]:
        """Functions that request input from the user before the function runs, one for each `Ask` parameter."""
        self.resolve()
        return [] if self._injection is None else self._injection.plan.questions

    # Calls

    def run(self, kwargs: dict[str, Any], call: Call, make: Make) -> Coroutine[Any, Any, Any]:
        """Call the function within its limits: in the event loop if `async`, else in a worker thread or process.

        Args:
            kwargs: Validated arguments; the Context is added.
            call: The request.
            make: Converts the returned value to the result. It runs where the function ran, or in a thread when it
                reads files or renders images.

        Returns:
            What `make` returned.

        Raises:
            CallTimeoutError: The call took longer than its timeout.
            BaseException: Raised by the function or by `make`; of a group of errors for the client, the first.
        """
        run = self._run(kwargs, call, make)
        is_limited = self._limits is not None or call.runtime.timeouts.call is not None
        return run_limited(run, call, self._limits) if is_limited else run

    def run_within(
        self, kwargs: dict[str, Any], call: Call, make: Make, seconds: float
    ) -> Coroutine[Any, Any, Any]:
        """Call the function as `run` does, with another timeout.

        Args:
            kwargs: Validated arguments; the Context is added.
            call: The request.
            make: Converts the returned value to the result.
            seconds: Timeout in seconds, in place of the component's.
        """
        slots = None if self._limits is None else self._limits.slots
        return run_limited(self._run(kwargs, call, make), call, CallLimits(seconds, slots))

    async def _run(self, kwargs: dict[str, Any], call: Call, make: Make) -> Any:
        if call.dialogue is not None:
            call.dialogue.begin()
        try:
            for name, kind in self._injected:
                kwargs[name] = kind(call)
            if self._injection is not None:
                is_in_loop = self._is_async or self._place is not None
                result = await self._injection.call(self.function, kwargs, call, make, is_in_loop=is_in_loop)
            elif self._is_async:
                value = await self.function(**kwargs)
                try:
                    is_plain = call.dialogue is None and type(value) in COMPLETE_TYPES  # as most are
                    result = make(value) if is_plain else make_result(value, make, call)
                except LeaveLoop:
                    result = await finish(value, make, call)
            elif self._place is not None:
                result = await run_in(self._place, self.function, kwargs, call, make)
            else:
                work = {"function": self.function, "kwargs": kwargs, "make": make, "call": call}
                result = await call.runtime.threads.run(_call_and_make, work, call)
                if type(result) is _Unfinished:
                    result = await finish_call(result.value, make, call)
        except BaseException as error:
            if error_for_client(error) is not error:  # not kept in a variable: its traceback has this frame
                raise error_for_client(error) from None
            raise
        if call.dialogue is not None:
            call.dialogue.check_settled()
        return result

    # Worker processes, which import the component by the name of its function

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that a worker process needs; it reads the function's signature again."""
        return {name: None if name in _NOT_PICKLED else value for name, value in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes in a worker process and read the signature again."""
        vars(self).update(state, is_resolved=False)
        self.resolve()


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, method, partial or callable object.

    Raises:
        RegistrationError: It has no name, or is a lambda.
    """
    inner: Any = function
    while hasattr(inner, "func"):
        inner = inner.func
    name = getattr(inner, "__name__", None) or type(inner).__name__
    if name == "<lambda>":
        raise RegistrationError("a lambda has no name. Pass name=")
    return str(name)


class _Unfinished:
    """Return value of a function in a thread that the event loop must await or iterate first.

    Attributes:
        value: The return value.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _call_and_make(function: Callable[..., Any], kwargs: dict[str, Any], make: Make, call: Call) -> Any:
    """Call a function in this thread, and make its result; `_Unfinished` if the event loop must await or iterate it."""
    try:
        value = function(**kwargs)
        if call.dialogue is None and type(value) in COMPLETE_TYPES:  # as most are
            return make(value)
        if not is_complete(type(value)) and (inspect.isawaitable(value) or is_async_iterable(value)):
            return _Unfinished(value)
        return make_result(value, make, call)
    finally:
        if call.stops is not None:
            call.close_stops()

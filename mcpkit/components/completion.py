"""Completion of the arguments of prompts and resource templates (utilities/completion)."""

from __future__ import annotations

import enum
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Unpack

from .._utils.errors import RegistrationError
from ..execution.coroutines import finish_awaitable
from ..requests.call import run_limited
from ..requests.limits import CallLimits
from ..schema import Arguments
from ..schema.parameters import empty
from ..schema.signature import head
from .component import Component, Listed
from .function import FunctionComponent
from .injection.markers import is_hidden
from .options import Completer, Completers, CompletionFunction, FunctionOptions

if TYPE_CHECKING:
    from ..requests.call import Call
    from ..schema import Parameter
    from .injection.plan import Hint, Injection

MOST = 100
"""Values in one answer, as the specification has it."""

MOST_COUNTED = 10_000
"""Number of values of a function that are counted. Beyond it, `hasMore` is set without an exact `total`."""

TIMEOUT = 10.0
"""Timeout in seconds of a completion where the server has no `timeout=`: a user is typing meanwhile."""


class Complete:
    """Marks an argument as completed by a function: `Annotated[str, Complete(cities)]`.

    Args:
        function: `fn(value, arguments)` or `fn(value)`, sync or async, that returns the matching values, best first.
            `value` is what the user has typed, `arguments` are the arguments already filled in. It may also have a
            Context or `Depends(...)` parameters, as tools do. A sequence of strings offers those that contain `value`.
    """

    def __init__(self, function: Completer) -> None:
        self.function = function


class Completion:
    """A completion function or list of values, with its parameters.

    Args:
        completer: A function, or all values.
        names: Parameters for the value and for the other arguments, as far as the function has them; None for one
            that is passed by position.
        injection: Dependencies of the function.
    """

    __slots__ = ("completer", "injection", "names")

    def __init__(
        self, completer: Completer, names: tuple[str | None, ...] = (), injection: Injection | None = None
    ) -> None:
        self.completer = completer
        self.names = names
        self.injection = injection

    @classmethod
    def of(cls, what: str, completer: Completer) -> Completion:
        """Read the signature of a completion function.

        Raises:
            RegistrationError: The function or value cannot be used for completion.
        """
        if not callable(completer):
            if isinstance(completer, str) or not hasattr(completer, "__iter__"):
                raise RegistrationError(
                    f"{what}: complete= must be a list of strings or a function, got {completer!r}"
                )
            return cls(completer)
        names: list[str | None] = []
        injected: list[Hint] = []
        read = head(completer)
        for each in read.parameters:
            hint = (each.name, read.hints.get(each.name, empty), each.default)
            if is_hidden(*hint[1:]):
                injected.append(hint)
            elif each.name not in read.bound and each.kind is not each.VAR_KEYWORD:
                by_name = each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}
                names.append(each.name if by_name else None)
        if len(names) > len(("value", "arguments")):
            raise RegistrationError(
                f"{what}: the completion function is called as fn(value, arguments), but takes {len(names)} parameters"
            )
        if not injected:
            return cls(completer, tuple(names))
        from .injection.plan import Injection

        return cls(completer, tuple(names), Injection(what, injected))


class Completable(FunctionComponent, Listed):
    """Base class of components with string arguments that can be completed: prompts and resource templates."""

    def __init__(
        self,
        function: Callable[..., Any],
        key: str,
        complete: Completers | None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        super().__init__(function, key, **options)
        self._complete = complete
        self._arguments: Arguments | None = None
        self._completers: dict[str, Completion] = {}

    @property
    def arguments(self) -> Arguments:
        """Validator of the arguments."""
        self.resolve()
        assert self._arguments is not None
        return self._arguments

    @property
    def completers(self) -> Mapping[str, Completion]:
        """Completions by argument name."""
        self.resolve()
        return self._completers

    @property
    def injections(self) -> tuple[Injection, ...]:
        """Dependency plans of the function and of the completion functions."""
        completers = self._completers.values()
        return (*super().injections, *(each.injection for each in completers if each.injection is not None))

    def build(self) -> None:
        """Build arguments and completions from the type hints."""
        self._completers = _completers_of(self, self.signature.parameters, self._complete)
        self._arguments = Arguments.of(self.signature)
        if self._arguments.mirrored:
            raise RegistrationError(
                f"{self.kind} {self.key!r}: only arguments of a tool are sent as headers. Remove Header(...)"
            )


def _completers_of(
    component: Component, parameters: Sequence[Parameter], given: Completers | None
) -> dict[str, Completion]:
    """Collect the completions of each parameter: `complete=`, `Complete(...)`, or the values of a Literal or Enum.

    Raises:
        RegistrationError: `complete=` names an unknown parameter, or a value cannot be used for completion.
    """
    found: dict[str, Completer] = {}
    for parameter in parameters:
        for mark in parameter.metadata:
            if isinstance(mark, Complete):
                found[parameter.name] = mark.function
        if parameter.name not in found and (choices := _choices(parameter.annotation)):
            found[parameter.name] = choices
    names = [parameter.name for parameter in parameters]
    for name, completer in (given or {}).items():
        if name not in names:
            raise RegistrationError(
                f"{component.kind} {component.key!r}: complete= has the unknown argument {name!r}. "
                f"The arguments are: {', '.join(names) or 'none'}"
            )
        found[name] = completer
    what = f"{component.kind} {component.key!r}: argument"
    return {name: Completion.of(f"{what} {name!r}", completer) for name, completer in found.items()}


def _choices(annotation: Any) -> list[str]:
    origin = typing.get_origin(annotation)
    if origin is Literal:
        values: Iterable[Any] = typing.get_args(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        values = [member.value for member in annotation]
    elif origin is not None:  # Annotated, Optional, a union or a list of choices
        return [choice for part in typing.get_args(annotation) for choice in _choices(part)]
    else:
        return []
    return [_text(value) for value in values if value is not None]


def _text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


async def complete(
    completion: Completion, value: str, arguments: Mapping[str, str], call: Call
) -> dict[str, Any]:
    """Return the `completion` member of a `CompleteResult`.

    Args:
        completion: Completion of the argument.
        value: What the user has typed.
        arguments: The arguments already filled in.
        call: The request.

    Raises:
        CallTimeoutError: The function took longer than the server's `Timeouts.call`, or else `TIMEOUT` seconds.
        TypeError: It did not return a list of strings.
        Exception: Raised by the function.
    """
    completer = completion.completer
    if callable(completer):
        limits = CallLimits(
            TIMEOUT if call.runtime.timeouts.call is None else call.runtime.timeouts.call, None
        )
        run = _run(completion, completer, (value, dict(arguments)), call)
        values: list[str] = await run_limited(run, call, limits)
        if len(values) > MOST_COUNTED:
            return {"values": values[:MOST], "hasMore": True}
    else:
        typed = value.casefold()
        values = [item for item in completer if typed in item.casefold()]
        # Sorting is stable: those that begin with it come first, in their order.
        values.sort(key=lambda item: not item.casefold().startswith(typed))
    return {"values": values[:MOST], "total": len(values), "hasMore": len(values) > MOST}


def _texts(outcome: Any) -> list[str]:
    if isinstance(outcome, str) or not hasattr(outcome, "__iter__"):
        raise TypeError(f"a completion function must return a list of strings, got {outcome!r}")
    values: Iterable[Any] = outcome
    return [_text(item) for item in islice(values, MOST_COUNTED + 1)]


async def _run(
    completion: Completion, completer: CompletionFunction, given: tuple[Any, ...], call: Call
) -> list[str]:
    kwargs = {name: value for name, value in zip(completion.names, given, strict=False) if name is not None}
    positional = given[: completion.names.count(None)]
    bound = functools.partial(completer, *positional, **kwargs)
    is_in_loop = inspect.iscoroutinefunction(completer)

    def work(**injected: Any) -> Any:  # where it runs, a generator runs as well
        outcome = bound(**injected)
        return outcome if inspect.isawaitable(outcome) else _texts(outcome)

    if completion.injection is not None:
        values: list[str] = await completion.injection.call(work, {}, call, _texts, is_in_loop=is_in_loop)
        return values
    return _texts(
        await finish_awaitable(work() if is_in_loop else await call.runtime.threads.run(work, {}, call))
    )

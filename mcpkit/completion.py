"""Completion of the arguments of prompts and resource templates (utilities/completion)."""

from __future__ import annotations

import enum
import functools
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from typing_extensions import Unpack

from .component import Component, ComponentOptions
from .errors import RegistrationError
from .execution import finish_awaitable
from .schema import Arguments

if TYPE_CHECKING:
    from .context import Context
    from .schema import Parameter

MOST: Final = 100
"""Values in one answer, as the specification has it."""

CompletionFunction = Callable[..., Iterable[str] | Awaitable[Iterable[str]]]
Completer = CompletionFunction | Sequence[str]
Completers = Mapping[str, Completer]


class Complete:
    """Marks an argument as completed by a function: `Annotated[str, Complete(cities)]`.

    Args:
        function: `fn(value, arguments)`, sync or async, returns the values that fit, best first;
            `value` is what has been typed, `arguments` those already filled in. `fn(value)` will
            do. A sequence of strings stands for those that contain what has been typed.
    """

    __slots__ = ("function",)

    def __init__(self, function: Completer) -> None:
        self.function = function


class Completable(Component):
    """A component whose arguments are texts that may be completed: a prompt or a resource template."""

    def __init__(
        self,
        function: Callable[..., Any],
        key: str,
        complete: Completers | None,
        **options: Unpack[ComponentOptions],
    ) -> None:
        super().__init__(function, key, **options)
        self._complete = complete
        self._arguments: Arguments | None = None
        self._completers: dict[str, Completer] = {}

    @property
    def arguments(self) -> Arguments:
        """The validator of its arguments."""
        self.resolve()
        assert self._arguments is not None
        return self._arguments

    @property
    def completers(self) -> Mapping[str, Completer]:
        """What completes each argument that can be completed."""
        self.resolve()
        return self._completers

    def build(self) -> None:
        """Build arguments and completers from the type hints."""
        self._completers = _completers_of(self, self.signature.parameters, self._complete)
        self._arguments = Arguments.of(self.signature)
        if self._arguments.mirrored:
            raise RegistrationError(
                f"{self.kind} {self.key!r}: only the arguments of a tool go into headers; remove Header(...)"
            )


def _completers_of(
    component: Component, parameters: Sequence[Parameter], given: Completers | None
) -> dict[str, Completer]:
    """Collect what completes each parameter: `complete=`, `Complete(...)`, or a Literal's or Enum's values.

    Raises:
        RegistrationError: `complete=` names a parameter that does not exist, or something cannot complete.
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
                f"{component.kind} {component.key!r}: complete= names {name!r}, "
                f"but the arguments are {', '.join(names) or 'none'}"
            )
        found[name] = completer
    for name, completer in found.items():
        _check_completer(f"{component.kind} {component.key!r}: argument {name!r}", completer)
    return found


def _check_completer(what: str, completer: Any) -> None:
    if callable(completer):
        count = _parameter_count(completer)
        if count > len(("value", "arguments")):
            raise RegistrationError(
                f"{what}: what completes it is called as fn(value, arguments), but takes {count} parameters"
            )
    elif isinstance(completer, str) or not hasattr(completer, "__iter__"):
        raise RegistrationError(
            f"{what}: it is completed by a list of strings or a function, not by {completer!r}"
        )


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
    completer: Completer, value: str, arguments: Mapping[str, str], ctx: Context[Any]
) -> dict[str, Any]:
    """Return the `completion` member of a `CompleteResult`.

    Args:
        completer: A function, or all values there are.
        value: What has been typed.
        arguments: The arguments already filled in.
        ctx: The request.
    """
    if callable(completer):
        bound = functools.partial(completer, *(value, dict(arguments))[: _parameter_count(completer)])
        outcome: Any
        if inspect.iscoroutinefunction(completer):
            outcome = await finish_awaitable(bound())
        else:
            outcome = await finish_awaitable(await ctx.server.threads.run(bound, {}))
        values = [_text(item) for item in _listed(outcome)]
    else:
        typed = value.casefold()
        values = [item for item in completer if typed in item.casefold()]
        # Sorting is stable: those that begin with it come first, in their order.
        values.sort(key=lambda item: not item.casefold().startswith(typed))
    return {"values": values[:MOST], "total": len(values), "hasMore": len(values) > MOST}


def _listed(outcome: Any) -> Iterable[Any]:
    if isinstance(outcome, str) or not hasattr(outcome, "__iter__"):
        raise TypeError(f"what completes an argument returns a list of strings, not {outcome!r}")
    values: Iterable[Any] = outcome
    return values


def _parameter_count(function: Callable[..., object]) -> int:
    return len(inspect.signature(function).parameters)

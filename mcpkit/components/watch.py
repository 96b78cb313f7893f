"""Checks of `watch=` functions and their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Collection

from .._utils.errors import RegistrationError
from .injection.principal import parameters_of, takes_principal
from .options import WatchFunction


class Watched:
    """Parameters of a `watch=` function.

    Attributes:
        variables: Variables of the URI template that it takes. Without any, it watches all URIs at once.
        principal: Parameter that receives the subscribed principal; it then runs once for each. None runs it for all.
    """

    __slots__ = ("principal", "variables")

    def __init__(self, variables: tuple[str, ...] = (), principal: str | None = None) -> None:
        self.variables = variables
        self.principal = principal


def watched(what: str, watch: WatchFunction | None, variables: Collection[str]) -> Watched:
    """Return the parameters of a `watch=` function.

    Args:
        what: Component, for messages.
        watch: The function, or None.
        variables: Names of the template's variables; empty for a fixed URI.

    Raises:
        RegistrationError: It is not an async generator function, or has a parameter without a value.
    """
    if watch is None:
        return Watched()
    if not inspect.isasyncgenfunction(watch):
        raise RegistrationError(
            f"{what}: watch= needs an async generator function: `async def` with a `yield` at each update"
        )
    parameters = parameters_of(watch)
    principal = next((p.name for p in parameters if takes_principal(p, variables)), None)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return Watched(tuple(name for name in variables if name != principal), principal)
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    taken = tuple(p.name for p in named if p.name in variables and p.name != principal)
    for parameter in parameters:
        is_required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        if is_required and parameter.name not in taken and parameter.name != principal:
            known = f"; its variables are {', '.join(variables)}" if variables else ""
            raise RegistrationError(
                f"{what}: no value for the parameter {parameter.name!r} of watch={known}. Remove it, or annotate it "
                "as `Principal` for the subscribed user"
            )
    return Watched(taken, principal)

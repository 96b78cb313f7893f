"""The parameter of a function that receives the principal of a request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from ..._utils.errors import RegistrationError
from ...identity.principal import Principal


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, with evaluated annotations if that is possible now."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception:  # noqa: BLE001 - whatever an annotation does
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
    return _is_principal(parameter.annotation)


def entries_parameter(what: str, entries: Any) -> str | None:
    """Return the parameter of `list_entries=` that receives the principal, or None.

    Args:
        what: Component, for messages.
        entries: The function.

    Raises:
        RegistrationError: It is not a function, or `async`, or has another required parameter.
    """
    if not callable(entries) or inspect.iscoroutinefunction(entries):
        raise RegistrationError(
            f"{what}: list_entries= must be a function that is not async, as it is called in a worker thread; "
            f"got {entries!r}"
        )
    parameters = parameters_of(entries)
    found = [each.name for each in parameters if takes_principal(each)]
    required = [
        each
        for each in parameters
        if each.default is each.empty and each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
    ]
    names = [each.name for each in required]
    is_untyped = len(required) == 1 and required[0].annotation is inspect.Parameter.empty
    if not found and is_untyped and required[0].kind is not inspect.Parameter.POSITIONAL_ONLY:
        return names[0]
    if missing := [name for name in names if name not in found[:1]]:
        raise RegistrationError(
            f"{what}: no value for the parameter {missing[0]!r} of list_entries=. "
            "It takes no parameter, or the principal: `def entries(user: Principal)`"
        )
    return found[0] if found else None


def leaves(annotation: object) -> Iterator[Any]:
    """Yield the types of a union without metadata, or the type itself."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated or origin is Union or origin is UnionType:
        for part in arguments[:1] if origin is Annotated else arguments:
            yield from leaves(part)
    else:
        yield annotation


def _is_principal(annotation: object) -> bool:
    return any(
        issubclass(leaf, Principal)
        if isinstance(leaf, type)
        else isinstance(leaf, str)
        and leaf.rpartition(".")[2] == "Principal"  # which could not be evaluated yet
        for leaf in leaves(annotation)
    )

"""Parameters of functions that clients do not see: the Context, the principal, and those with a marker.

The markers themselves are in dependencies.py, which few servers load.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from .._utils.exceptions import RegistrationError
from ..identity.principal import Principal
from ..requests.call import CallContext
from ..schema.signature import empty

M = TypeVar("M", bound=Callable[..., Any])


class Hidden:
    """Base class of markers of parameters that clients do not see, as default value or in `Annotated`."""


_MARKING: list[Callable[..., Any]] = []


def marking(function: M) -> M:
    """Record a function that returns a marker, to detect the function itself in an annotation."""
    _MARKING.append(function)
    return function


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

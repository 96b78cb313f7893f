"""Attributes that `fastmcp` has and `mcpkit.compat` does not: access raises an error with the alternative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NoReturn

OTHERWISE = 'write this part for mcpkit, see "Servers of other SDKs" in its documentation'


class Refusing(type):
    """Metaclass of classes that replace those of `fastmcp`."""

    refused: Mapping[str, str]

    def __getattr__(cls, name: str) -> NoReturn:
        raise _refusal(f"type object {cls.__name__!r}", name, cls)


class Refuses(metaclass=Refusing):
    """Base class of classes that replace those of `fastmcp`.

    Attributes:
        refused: Alternatives to missing attributes.
    """

    __slots__ = ()

    refused: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> NoReturn:
        raise _refusal(f"{type(self).__name__!r} object", name, type(self))


def check_positional(what: str, given: tuple[object, ...], names: str) -> None:
    """Check that arguments that `fastmcp` 4 takes by name only are not passed by position.

    Args:
        what: The function.
        given: The arguments.
        names: Names of arguments that versions before 4 took there.

    Raises:
        TypeError: There are such arguments.
    """
    if given:
        raise TypeError(
            f"{what} takes these arguments only by name, as in fastmcp 4. Pass {names} and the others by name"
        )


def _refusal(what: str, name: str, owner: Refusing) -> AttributeError:
    cure = owner.refused.get(name) or ("" if name.startswith("_") else OTHERWISE)
    where = f" in mcpkit.compat. Instead, {cure}" if cure else ""
    return AttributeError(f"{what} has no attribute {name!r}{where}", name=name, obj=owner)

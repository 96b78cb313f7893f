"""What authors have said that the values of their classes, and of other people's, are in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .described import Described


class JsonType(NamedTuple):
    """What the values of a class are in JSON.

    Args:
        cls: The class.
        form: Returns schema and validator of the data. It raises RegistrationError where JSON has no form for the
            type that was given as the schema, and UnresolvedHint where that needs a name that is not defined yet.
        encode: Makes data of a value.
        decode: Makes a value of data that fits the schema; None for a class that clients only get.
    """

    cls: type
    form: Callable[[], Described]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any] | None


_declared: dict[type, JsonType] = {}


def declare(own: JsonType) -> None:
    """Keep what was said of a class."""
    from ..content import foreign  # which most servers do not need

    _declared[own.cls] = own
    foreign.declare(own.cls, own.encode)


def declared(cls: Any) -> JsonType | None:
    """Return what was said of exactly this class."""
    return _declared.get(cls)

"""Registered JSON forms of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..content.third_party import declare_encoder
from .described import Described


class JsonType(NamedTuple):
    """JSON form of a class.

    Args:
        cls: The class.
        form: Returns schema and validator of the data. It raises RegistrationError if the type given as schema has no
            JSON form, and UnresolvedHint if it needs a name that is not defined yet.
        encode: Returns the data of a value.
        decode: Returns the value for data that match the schema; None for a class that is only used in results.
    """

    cls: type
    form: Callable[[], Described]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any] | None


_declared: dict[type, JsonType] = {}


def declare(own: JsonType) -> None:
    """Register the JSON form of a class."""
    _declared[own.cls] = own
    declare_encoder(own.cls, own.encode)


def declared(cls: Any) -> JsonType | None:
    """Return the registered JSON form of exactly this class, or None."""
    return _declared.get(cls)

"""A type as both sides see it: the JSON Schema that clients read, and the validator that accepts the same values."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic_core import CoreSchema

from ..protocol.types import Json

Mode = Literal["validation", "serialization"]


class Described:
    """A type as both sides see it.

    Args:
        schema: What clients read.
        core: What accepts the same values, and converts them.
        output: What serialises a Python value of the type; None where JSON says it all.
        is_plain: Whether the JSON value is the Python value, with nothing to convert either way.
        definitions: What `$ref`s in the schema refer to: types that contain themselves.
    """

    __slots__ = ("core", "definitions", "is_plain", "output", "schema")

    def __init__(
        self,
        schema: Json,
        core: CoreSchema,
        output: CoreSchema | None = None,
        is_plain: bool = False,
        definitions: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.schema = schema
        self.core = core
        self.output = output
        self.is_plain = is_plain
        self.definitions = definitions

    def but(self, **members: Any) -> Described:
        """Return the same with other members."""
        return Described(**{name: getattr(self, name) for name in self.__slots__} | members)


class NotInTable(Exception):  # noqa: N818 - a signal between two modules, not an error
    """The table does not know the type."""


mode: Final[ContextVar[Mode]] = ContextVar("mode", default="validation")
"""Whether values of what is described now come in or go out."""


def is_incoming() -> bool:
    """Tell whether what is described now comes in, and does not go out."""
    return mode.get() == "validation"

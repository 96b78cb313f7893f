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
    """A type with its JSON Schema, validator and serializer.

    Args:
        schema: JSON Schema for clients.
        core: Validator that accepts and converts the same values.
        output: Serializer of Python values; None if JSON values need none.
        is_plain: Whether JSON value and Python value are the same.
        definitions: Targets of `$ref` in the schema, for recursive types.
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
    """Return whether the current schema is for arguments, not for results."""
    return mode.get() == "validation"

"""Aliases of pydantic's `Field`: names of arguments on the wire that differ from the names of parameters."""

from __future__ import annotations

from typing import Annotated, Any

from ..common.errors import RegistrationError

_OF_FIELDS = frozenset(
    {"alias", "alias_priority", "validation_alias", "serialization_alias", "default_factory", "repr"}
)

# Subscribed with what is only known at run time, which no type checker follows.
_ANNOTATED: Any = Annotated


def published_name(name: str, alias: Any) -> str:
    """Return the name of an argument on the wire: the first alias that is a single name.

    Args:
        name: The name of the parameter.
        alias: A string, an `AliasPath` or an `AliasChoices`.

    Raises:
        RegistrationError: Every alias is a path into another value, which is not an argument.
    """
    for choice in getattr(alias, "choices", [alias]):
        path = getattr(choice, "path", [choice])
        if len(path) == 1 and isinstance(path[0], str):
            return path[0]
    raise RegistrationError(
        f"argument {name!r}: {alias!r} reads inside another argument, which a JSON Schema cannot describe. "
        "Use an alias that is a single name"
    )


def as_type(annotation: Any) -> Any:
    """Return an `Annotated` type without what only a field has: pydantic would warn that it has no effect."""
    parts: list[Any] = [annotation.__origin__]
    for item in annotation.__metadata__:
        if not hasattr(item, "validation_alias"):
            parts.append(item)
            continue
        from pydantic import Field
        from pydantic_core import PydanticUndefined

        written = item.asdict()
        attributes = {
            key: value
            for key, value in written["attributes"].items()
            if key not in _OF_FIELDS and value is not None and value is not PydanticUndefined
        }
        parts += [*written["metadata"], Field(**attributes)]
    return _ANNOTATED[tuple(parts)]

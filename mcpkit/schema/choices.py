"""Long lists of choices in a JSON Schema of the author's: looked up, not compared with a value one by one."""

from __future__ import annotations

from typing import Any

from ..protocol.jsonrpc import is_array, is_object
from ..protocol.types import Json
from .equality import identity
from .references import replaced

KEYWORD = "mcpkit:enum"
"""The keyword that stands for `enum` where there are many choices."""

_MANY = 100
"""From how many choices on looking one up is faster, although it takes a call of Python."""


class Choices:
    """The values of one `enum`, as jsonschema-rs asks for those of a keyword that it does not know.

    Args:
        parent: The schema that has it.
        values: The choices.
        path: Where it is.
    """

    def __init__(self, parent: Json, values: list[Any], path: list[Any]) -> None:
        self._known = frozenset(map(identity, values))

    def validate(self, value: Any) -> None:
        """Raise ValueError where a value is none of the choices."""
        if identity(value) not in self._known:
            raise ValueError("not one of the choices")


def looked_up(schema: Any) -> Any:
    """Return a JSON Schema in which each long `enum` is a `KEYWORD`; all parts stay in their places."""
    if not is_object(schema):
        return schema
    result = replaced(schema, lambda _, inner: looked_up(inner))
    choices = schema.get("enum")
    if is_array(choices) and len(choices) >= _MANY:
        result[KEYWORD] = result.pop("enum")
    return result

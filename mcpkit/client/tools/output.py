"""What tools answer, held against their `outputSchema` (server/tools, "Output Schema")."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pydantic_core import from_json, to_json

from ...common.errors import Problem
from ...protocol.types import Json
from .schemas import ServerSchema, UnusableSchemaError

_LONGEST: Final = 64 * 1024
"""Bytes of a schema that is kept ready for others that are the same."""


class Output:
    """What the results of a tool are held against.

    Args:
        schema: Its `outputSchema`.

    Raises:
        UnusableSchemaError: Nothing can be held against it.
    """

    def __init__(self, schema: object) -> None:
        text = to_json(schema)
        self._schema = _compiled(text) if len(text) <= _LONGEST else ServerSchema(schema)

    def problems(self, result: Json) -> list[Problem]:
        """Return what is wrong with a result.

        Args:
            result: All members of the result.
        """
        if "structuredContent" not in result:
            return [Problem("", "structured content is missing")]
        return self._schema.problems(result["structuredContent"])


@lru_cache(maxsize=256)
def _compiled(text: bytes) -> ServerSchema:
    return ServerSchema(from_json(text))


def output_of(tool: Json) -> Output | UnusableSchemaError:
    """Return what the results of a tool are held against; or why nothing can be.

    Args:
        tool: The tool as it is listed; it has an `outputSchema`.
    """
    try:
        return Output(tool["outputSchema"])
    except UnusableSchemaError as error:
        return error

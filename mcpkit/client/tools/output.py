"""Validates results of tools against their `outputSchema` (server/tools, "Output Schema")."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pydantic_core import from_json, to_json

from ..._utils.exceptions import Problem
from ...protocol.jsonrpc import Json
from .schemas import ServerSchema, UnusableSchemaError

_LONGEST: Final = 64 * 1024
"""The most bytes of a schema whose validator is cached."""


class Output:
    """Validator of the results of a tool.

    Args:
        schema: Its `outputSchema`.

    Raises:
        UnusableSchemaError: The schema cannot be used for validation.
    """

    def __init__(self, schema: object) -> None:
        text = to_json(schema)
        self._schema = _compiled(text) if len(text) <= _LONGEST else ServerSchema(schema)

    def problems(self, result: Json) -> list[Problem]:
        """Return the validation errors of a result.

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
    """Return the validator of the results of a tool, or the error if there can be none.

    Args:
        tool: The tool, as the server lists it. It has an `outputSchema`.
    """
    try:
        return Output(tool["outputSchema"])
    except UnusableSchemaError as error:
        return error

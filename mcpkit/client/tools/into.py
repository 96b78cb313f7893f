"""Converts the result of a tool call to a Python type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, get_origin

from pydantic_core import SchemaValidator, ValidationError, from_json

from ..._utils.exceptions import ArgumentsError, ToolError
from ...protocol.jsonrpc import Json, is_object
from ...schema.arguments import from_validator
from ...schema.fast_path_for_builtin_types import describe
from ...schema.validation_errors import problems
from ...schema.value_validators import validator
from ..link.errors import InvalidResultError
from ..link.results import CallResult

_WRAPPED: Final = {"result"}
"""The member that servers wrap a result in that is not an object, for revisions before 2026-07-28."""


def read_into(result: CallResult, into: Any, name: str) -> Any:
    """Convert the result of a tool to a type: its structured content, else its text as JSON or as a string.

    A result that the server has wrapped in `{"result": ...}` is unwrapped. Members unknown to the type are ignored.

    Args:
        result: The result.
        into: The type: any class or type hint that a tool's argument may have.
        name: The name of the tool.

    Raises:
        ToolError: The tool failed.
        InvalidResultError: The result does not fit the type; the message names the place.
        RegistrationError: The type has no JSON form.
    """
    if result.is_error:
        raise ToolError(result.error_text)
    try:
        hash(into)
    except TypeError:  # such as of an `Annotated` with a list
        reads, schema = _reader.__wrapped__(into)
    else:
        reads, schema = _reader(into)
    refused: dict[bool, tuple[Any, ValidationError]] = {}
    for value, is_wrapped in _values(result, into, schema):
        extra: Any = "forbid" if is_wrapped else None
        try:
            return reads.validate_python(value, by_alias=True, by_name=False, extra=extra)
        except ValidationError as error:
            refused.setdefault(is_wrapped, (value, error))
    if not refused:
        raise InvalidResultError(f"the result of {name} contains neither structured content nor text", result)
    value, first = refused[False]
    found = problems(schema, value) or from_validator(first, value, schema)
    is_class = isinstance(into, type) and get_origin(into) is None
    shown = into.__name__ if is_class else str(into).replace("typing.", "")
    lines = [f"the result of {name} cannot be read as {shown}:", str(ArgumentsError(found))]
    raise InvalidResultError("\n".join(lines), result)


@lru_cache(maxsize=256)
def _reader(into: Any) -> tuple[SchemaValidator, Json]:
    described = describe(into)
    return validator(described.core), {**described.schema, "$defs": dict(described.definitions)}


def _values(result: CallResult, into: Any, schema: Json) -> Iterator[tuple[Any, bool]]:
    """Yield candidate values of a result, and whether each is still wrapped and so must have known members only.

    If none of them fits, the error is about the first that is not wrapped.
    """
    if "structuredContent" in result.raw:
        structured = result.structured_content
        if (
            is_object(structured)
            and structured.keys() == _WRAPPED
            and "result" not in schema.get("properties", ())
        ):
            yield structured, True
            yield structured["result"], False
        else:
            yield structured, False
    elif any(block.get("type") == "text" for block in result.content):
        if into is not str:
            yield from ((value, False) for value in _parsed(result.text))
        yield result.text, False


def _parsed(text: str) -> list[Any]:
    """Return the JSON value of a text in a list, or an empty list if the text is not JSON."""
    try:
        return [from_json(text, allow_inf_nan=False)]
    except ValueError:
        return []

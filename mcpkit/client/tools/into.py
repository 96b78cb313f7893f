"""The result of a call as a value of a type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, get_origin

from pydantic_core import SchemaValidator, ValidationError, from_json

from ...common.built import validator
from ...common.errors import ArgumentsError, ToolError
from ...protocol.jsonrpc import is_object
from ...protocol.types import Json
from ...schema import hints
from ...schema.arguments import from_validator
from ...schema.problems import problems
from ..link.errors import InvalidResultError
from ..link.results import CallResult

_WRAPPED: Final = {"result"}
"""What servers put round a result that is no object, as revisions before 2026-07-28 want one."""


def read_into(result: CallResult, into: Any, name: str) -> Any:
    """Return what a tool has answered as a value of a type: its structured content, else its text as JSON or as it is.

    A result that a server has wrapped, as it was no object, is unwrapped. Members that the type does not know are left
    out.

    Args:
        result: The result.
        into: The type: a class or type hint that arguments of tools may have, too.
        name: The tool's name.

    Raises:
        ToolError: The tool could not do what it was asked.
        InvalidResultError: The result does not fit the type; the message says where.
        RegistrationError: The type has no form in JSON.
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
    described = hints.describe(into)
    return validator(described.core), {**described.schema, "$defs": dict(described.definitions)}


def _values(result: CallResult, into: Any, schema: Json) -> Iterator[tuple[Any, bool]]:
    """Yield what a result may be read from, and whether it may be wrapped, and so must have no members but those known.

    Of what does not fit, the first that is not wrapped is what people are told of.
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
    """Return the value that a text is the JSON of, if it is any."""
    try:
        return [from_json(text, allow_inf_nan=False)]
    except ValueError:
        return []

"""Conversions of tool calls: arguments to HTTP headers, and results to Python types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, get_origin

from pydantic_core import SchemaValidator, ValidationError, from_json

from ..._utils.exceptions import ArgumentsError, RegistrationError, ToolError
from ...protocol.jsonrpc import Json, encode, is_object
from ...protocol.objects import KEYWORD, MirroredParameter
from ...schema.argument_validation_and_repair import from_validator, mirrored
from ...schema.fast_path_for_builtin_types import describe
from ...schema.value_validators import validator
from ..call_results import CallResult, InvalidResultError

# Arguments that are repeated in headers, since 2026-07-28
# (basic/transports/streamable-http, "Custom Headers from Tool Parameters")

_KEYWORD: Final = KEYWORD.encode()
_LARGEST: Final = 2**53 - 1
"""Larger integers are not exact in JavaScript, so the specification leaves them out of headers."""


def header_parameters(tool: Json) -> tuple[MirroredParameter, ...] | RegistrationError:
    """Return the arguments of a tool that are repeated in headers, or the error of an invalid tool.

    Args:
        tool: The tool, as the server lists it.
    """
    schema: object = tool.get("inputSchema")
    if not is_object(schema) or _KEYWORD not in encode(schema):
        return ()
    try:
        return mirrored(f"tool {tool.get('name')!r:.100}", schema)
    except RegistrationError as error:
        return error


def argument_headers(parameters: Sequence[MirroredParameter], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that repeat the arguments of a call, without those that are null or absent.

    Args:
        parameters: The arguments that the tool requires in headers.
        arguments: The arguments.

    Raises:
        ValueError: An integer is too large for a header.
    """
    headers: dict[str, str] = {}
    for each in parameters:
        header = each.header.decode()
        value: Any = dict(arguments)
        for key in each.path:
            value = value.get(key) if is_object(value) else None
        if isinstance(value, bool):
            headers[header] = "true" if value else "false"
        elif isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
            if abs(value) > _LARGEST:
                raise ValueError(
                    f"the argument {'.'.join(each.path)} is also sent in a header, which only allows "
                    f"integers from -(2**53 - 1) to 2**53 - 1, got {value}"
                )
            headers[header] = str(int(value))
        elif isinstance(value, str):
            headers[header] = value
    return headers


# Results as Python types

_WRAPPED: Final = {"result"}
"""The member in which servers wrap a result that is not an object, for versions before 2026-07-28."""


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
        type_validator, schema = _validator.__wrapped__(into)
    else:
        type_validator, schema = _validator(into)
    errors: dict[bool, tuple[Any, ValidationError]] = {}
    for value, is_wrapped in _candidates(result, into, schema):
        extra: Any = "forbid" if is_wrapped else None
        try:
            return type_validator.validate_python(value, by_alias=True, by_name=False, extra=extra)
        except ValidationError as error:
            errors.setdefault(is_wrapped, (value, error))
    if not errors:
        raise InvalidResultError(f"the result of {name} contains neither structured content nor text", result)

    from ...schema.validation_errors import problems

    value, first = errors[False]
    found = problems(schema, value) or from_validator(first, value, schema)
    is_class = isinstance(into, type) and get_origin(into) is None
    shown = into.__name__ if is_class else str(into).replace("typing.", "")
    lines = [f"the result of {name} cannot be read as {shown}:", str(ArgumentsError(found))]
    raise InvalidResultError("\n".join(lines), result)


@lru_cache(maxsize=256)
def _validator(into: Any) -> tuple[SchemaValidator, Json]:
    described = describe(into)
    return validator(described.core), {**described.schema, "$defs": dict(described.definitions)}


def _candidates(result: CallResult, into: Any, schema: Json) -> Iterator[tuple[Any, bool]]:
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
            with suppress(ValueError):  # the text is not JSON
                yield from_json(result.text, allow_inf_nan=False), False
        yield result.text, False

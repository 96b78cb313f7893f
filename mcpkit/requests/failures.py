"""Conversion of exceptions to errors on the wire: the error table of the architecture page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any, cast

from .._utils.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    ArgumentsError,
    CallTimeoutError,
    HandlerError,
    InputRequired,
    InsufficientScopeError,
    MissingCapabilityError,
    OutputError,
    ProcessEndedError,
    ProtocolError,
    ResourceNotFoundError,
    said_by,
)
from ..protocol import jsonrpc
from ..protocol.types import Json
from .call import Call

logger = logging.getLogger(__name__)

_SILENT = "The request failed without an error message."
_UNSAYABLE = "its error message cannot be read"


def error_response(call: Call, error: BaseException) -> bytes:
    """Return the error response for an exception. An unexpected exception is logged with a reference."""
    try:
        dialogue = call.dialogue
        if dialogue is not None and is_input_required(error) and (result := dialogue.result()) is not None:
            return _result(call, result)
        if call.method == "tools/call" and isinstance(error, asyncio.CancelledError):
            return _result(call, tool_error(call, error))  # its function has cancelled its own task
        return jsonrpc.error(call.request_id, _problem(call, error))
    except Exception as unsayable:  # noqa: BLE001 - of the author's class or its `data`; every request is answered
        return jsonrpc.error(call.request_id, ProtocolError(INTERNAL_ERROR, internal(call, unsayable)))


def is_input_required(error: BaseException) -> bool:
    """Return True if an exception is `InputRequired`, or a group of nothing else."""
    if isinstance(error, InputRequired):
        return True
    inner = _members(error)
    return inner is not None and all(map(is_input_required, inner))


def spoken(error: BaseException) -> BaseException:
    """Return the exception of a group, as task groups raise it, that the client receives.

    Returns:
        The first exception with a text for the client, if the group has only such exceptions and `InputRequired`; else
        the error itself.
    """
    if _members(error) is None:
        return error
    leaves = list(_leaves(error))
    told = [leaf for leaf in leaves if isinstance(leaf, (HandlerError, ProtocolError))]
    asking = [leaf for leaf in leaves if isinstance(leaf, InputRequired)]
    return told[0] if told and len(told) + len(asking) == len(leaves) else error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    inner = _members(error)
    if inner is None:
        yield error
    else:
        for each in inner:
            yield from _leaves(each)


def _members(error: BaseException) -> tuple[BaseException, ...] | None:
    """Return the exceptions of a group, never an empty list; None if it is not a group.

    A group is recognized by its attribute: Python 3.10 has no class for it, and other classes may have such an
    attribute.
    """
    inner: Any = getattr(error, "exceptions", None)
    if not isinstance(inner, tuple) or not inner:
        return None
    members = cast("Sequence[Any]", inner)
    return tuple(members) if all(isinstance(each, BaseException) for each in members) else None


def tool_error(call: Call, error: BaseException) -> dict[str, Any]:
    """Return the `CallToolResult` for an exception in a tool, which the model reads.

    The exception is stored in the call for middleware.
    """
    error = _explained(call, error)
    call.exception = single(error)
    said = said_by(error) if isinstance(error, HandlerError) else None
    if said is not None:
        text = readable(said) or "The tool failed without an error message."
    elif isinstance(error, OutputError):
        text = _unsent(call, error)
    else:
        text = internal(call, error)
    result: Json = {"content": [{"type": "text", "text": text}], "isError": True}
    if isinstance(error, InsufficientScopeError):
        result["_meta"] = error.members
    return result


def single(error: BaseException) -> BaseException:
    """Return the exception in a group that has no other, as a task group raises it; else the error itself."""
    while (inner := _members(error)) is not None and len(inner) == 1:
        error = inner[0]
    return error


def is_masked(error: BaseException) -> bool:
    """Return True if the client gets a reference to the log in place of the text of an exception."""
    if isinstance(error, HandlerError):
        return said_by(error) is None
    return not isinstance(error, (OutputError, ProtocolError))


def is_unmeant(error: BaseException) -> bool:
    """Return True if an exception is a fault that a developer should examine, and not a deliberate response."""
    return is_masked(error) or isinstance(error, (CallTimeoutError, OutputError, ProcessEndedError))


def _explained(call: Call, error: BaseException) -> BaseException:
    """Pass an unexpected exception to the error hooks of the server, and return the exception for the client."""
    return call.runtime.explain(call, error) if is_unmeant(error) else error


def is_protocol_error(call: Call, error: BaseException) -> bool:
    """Return True if an exception of a tool becomes a response of its own in place of a tool result."""
    if call.dialogue is not None and call.dialogue.has_rounds and is_input_required(error):
        return True
    return isinstance(error, MissingCapabilityError) and call.era == "stateless"


def internal(call: Call, error: BaseException) -> str:
    """Log an exception with its traceback, and return the text for the client.

    The text contains the reference of the log entry. With `mask_error_details=False`, for development, it contains the
    type and the text of the exception too. The traceback is not sent, because it reveals internals of the server.
    """
    ref = ref_of(call)
    logger.error("%s%s failed (ref %s)", call.method, _about(call), ref, exc_info=error)
    if call.runtime.mask_error_details:
        return f"Internal error (ref {ref})"
    import traceback

    shown = "".join(traceback.format_exception_only(error)).strip()
    return f"{readable(shown)} (ref {ref})"


def _about(call: Call) -> str:
    what = call.params.get("name") or call.params.get("uri") or call.params.get("ref")
    return f" {what!r}"[:200] if what else ""


def _unsent(call: Call, error: OutputError) -> str:
    """Log that a function has run but its result cannot be sent, and return the error text for the client."""
    ran = _RAN.get(call.method, "the method ran")
    text = readable(f"{ran}, but {error}")
    cause = error.__cause__
    if cause is not None and not call.runtime.mask_error_details:
        text += f" ({type(cause).__name__}: {readable(said_by(cause) or _UNSAYABLE)})"
    logger.error("%s%s: %s", call.method, _about(call), text, exc_info=error.__cause__)
    return text


_RAN = {
    "tools/call": "the tool ran",
    "resources/read": "the resource was read",
    "prompts/get": "the prompt was made",
}


def ref_of(call: Call) -> str:
    """Return the reference of a request's failure in the log, for clients and traces."""
    if call.ref is None:
        import secrets

        call.ref = secrets.token_hex(4)
    return call.ref


def code_of(call: Call, error: BaseException) -> int:
    """Return the JSON-RPC error code of an exception, if it becomes an error."""
    if isinstance(error, ProtocolError):
        return error.code
    if isinstance(error, ResourceNotFoundError):
        return call.envelope.not_found_code
    if isinstance(error, MissingCapabilityError):
        return call.envelope.missing_capability_code
    if isinstance(error, InsufficientScopeError):
        return INVALID_REQUEST
    return INVALID_PARAMS if isinstance(error, ArgumentsError) else INTERNAL_ERROR


def not_found(call: Call, uri: str) -> ProtocolError:
    """Return the error for a resource that does not exist: its code depends on the era."""
    uri = readable(uri)
    return ProtocolError(call.envelope.not_found_code, f"Resource not found: {uri[:200]}", {"uri": uri})


def readable(text: str) -> str:
    """Return a text that UTF-8 can carry: half of a surrogate pair becomes `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _result(call: Call, result: dict[str, Any]) -> bytes:
    return jsonrpc.result(call.request_id, call.envelope.render(result, call.runtime.identity, None))


def _problem(call: Call, error: BaseException) -> ProtocolError:
    error = _explained(call, error)
    if isinstance(error, ProtocolError):
        return ProtocolError(error.code, readable(error.message) or _SILENT, error.data)
    if isinstance(error, ResourceNotFoundError):
        return not_found(call, error.uri if error.uri is not None else str(call.params.get("uri", "")))
    code = code_of(call, error)
    said = said_by(error) if isinstance(error, HandlerError) else None
    if said is not None:
        data: Json | None = None
        if isinstance(error, MissingCapabilityError):
            data = {"requiredCapabilities": error.required}
        elif isinstance(error, InsufficientScopeError):
            data = error.members
        return ProtocolError(code, readable(said) or _SILENT, data)
    return ProtocolError(
        code, _unsent(call, error) if isinstance(error, OutputError) else internal(call, error)
    )

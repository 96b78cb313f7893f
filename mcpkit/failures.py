"""What an exception becomes on the wire: the error table of the architecture page, in code."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from .error_hooks import Failure
from .errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ArgumentsError,
    CallTimeoutError,
    HandlerError,
    InputRequired,
    MissingCapabilityError,
    OutputError,
    ProcessEndedError,
    ProtocolError,
    ResourceNotFoundError,
    said_by,
)
from .protocol import jsonrpc

if TYPE_CHECKING:
    from .context import Context

logger = logging.getLogger("mcpkit")

_SILENT: Final = "The request failed, and its handler did not say why."
_UNSAYABLE: Final = "its text cannot be read"


def error_response(ctx: Context[Any], error: BaseException) -> bytes:
    """Return the error response that an exception becomes; what is nobody's text is logged under a ref."""
    try:
        if ctx._rounds is not None and is_input_required(error):
            return _result(ctx, ctx._rounds.result())
        if ctx.method == "tools/call" and isinstance(error, asyncio.CancelledError):
            return _result(ctx, tool_error(ctx, error))  # its function has cancelled its own task
        return jsonrpc.error(ctx.request_id, _problem(ctx, error))
    except Exception as unsayable:  # noqa: BLE001 - of the author's class or its `data`; every request is answered
        return jsonrpc.error(ctx.request_id, ProtocolError(INTERNAL_ERROR, internal(ctx, unsayable)))


def is_input_required(error: BaseException) -> bool:
    """Say whether a handler has only ended to ask: the signal itself, or a group of nothing else."""
    if isinstance(error, InputRequired):
        return True
    inner = _members(error)
    return inner is not None and all(map(is_input_required, inner))


def spoken(error: BaseException) -> BaseException:
    """Return what a group of exceptions, as task groups raise them, has to say to the client.

    Returns:
        The first of its exceptions that is for the client, where nothing but such, and questions, are in it;
        else the error itself.
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
    """Return what is in a group, which are never none; None where it is no group.

    The class is not asked for: Python 3.10 has none, and others may have attributes of this name.
    """
    inner: Any = getattr(error, "exceptions", None)
    if not isinstance(inner, tuple) or not inner:
        return None
    members = cast("Sequence[Any]", inner)
    return tuple(members) if all(isinstance(each, BaseException) for each in members) else None


def tool_error(ctx: Context[Any], error: BaseException) -> dict[str, Any]:
    """Return the `CallToolResult` that an exception in a tool becomes, for the model to read.

    Middleware finds the exception in `ctx`, from where it takes it.
    """
    error = _explained(ctx, error)
    ctx._exception = single(error)
    said = said_by(error) if isinstance(error, HandlerError) else None
    if said is not None:
        text = readable(said) or "The tool failed, and did not say why."
    elif isinstance(error, OutputError):
        text = _unsent(ctx, error)
    else:
        text = internal(ctx, error)
    return {"content": [{"type": "text", "text": text}], "isError": True}


def single(error: BaseException) -> BaseException:
    """Return the exception in a group that has no other, as a task group raises it; else the error itself."""
    while (inner := _members(error)) is not None and len(inner) == 1:
        error = inner[0]
    return error


def is_masked(error: BaseException) -> bool:
    """Say whether an exception says nothing that a client may read, so that it has a reference to the log instead."""
    if isinstance(error, HandlerError):
        return said_by(error) is None
    return not isinstance(error, (OutputError, ProtocolError))


def is_unmeant(error: BaseException) -> bool:
    """Say whether an exception is no answer of anybody's, but what somebody should look into."""
    return is_masked(error) or isinstance(error, (CallTimeoutError, OutputError, ProcessEndedError))


def _explained(ctx: Context[Any], error: BaseException) -> BaseException:
    """Tell the author's hooks of what nobody has meant to happen; return what the client is to be told of."""
    hooks = ctx.server.on_error
    if not hooks.hooks or not is_unmeant(error):
        return error
    told = hooks.explained(Failure(ctx, single(error), ref_of(ctx) if is_masked(error) else None))
    return error if told is None else told


def is_protocol_error(ctx: Context[Any], error: BaseException) -> bool:
    """Say whether an exception in a tool is no result but an answer of its own, that tells the client what to do."""
    if ctx._rounds is not None and is_input_required(error):
        return True
    return isinstance(error, MissingCapabilityError) and ctx.era == "stateless"


def internal(ctx: Context[Any], error: BaseException) -> str:
    """Log an exception with its traceback, and return the text for the client.

    It names the log entry and nothing else, unless the server shows errors, for development: then it has
    type and text of the exception. The traceback stays here: it tells about the server, not about the call.
    """
    ref = ref_of(ctx)
    logger.error("%s%s failed (ref %s)", ctx.method, _about(ctx), ref, exc_info=error)
    if ctx.server.mask_errors:
        return f"Internal error (ref {ref})"
    import traceback

    shown = "".join(traceback.format_exception_only(error)).strip()
    return f"{readable(shown)} (ref {ref})"


def _about(ctx: Context[Any]) -> str:
    what = ctx.params.get("name") or ctx.params.get("uri") or ctx.params.get("ref")
    return f" {what!r}"[:200] if what else ""


def _unsent(ctx: Context[Any], error: OutputError) -> str:
    """Log that a function has run, but its result cannot be sent, and return the same for the client."""
    ran = _RAN.get(ctx.method, "the method ran")
    text = readable(f"{ran}, but {error}")
    cause = error.__cause__
    if cause is not None and not ctx.server.mask_errors:
        text += f" ({type(cause).__name__}: {readable(said_by(cause) or _UNSAYABLE)})"
    logger.error("%s%s: %s", ctx.method, _about(ctx), text, exc_info=error.__cause__)
    return text


_RAN = {
    "tools/call": "the tool ran",
    "resources/read": "the resource was read",
    "prompts/get": "the prompt was made",
}


def ref_of(ctx: Context[Any]) -> str:
    """Return what names the log entries of a request's failure, for clients and traces."""
    if ctx._ref is None:
        import secrets

        ctx._ref = secrets.token_hex(4)
    return ctx._ref


def code_of(ctx: Context[Any], error: BaseException) -> int:
    """Return the JSON-RPC error code that an exception becomes, where it becomes an error."""
    if isinstance(error, ProtocolError):
        return error.code
    if isinstance(error, ResourceNotFoundError):
        return ctx._envelope.not_found_code
    if isinstance(error, MissingCapabilityError):
        return ctx._envelope.missing_capability_code
    return INVALID_PARAMS if isinstance(error, ArgumentsError) else INTERNAL_ERROR


def not_found(ctx: Context[Any], uri: str) -> ProtocolError:
    """Return the error for a resource that does not exist: its code depends on the era."""
    uri = readable(uri)
    return ProtocolError(ctx._envelope.not_found_code, f"Resource not found: {uri[:200]}", {"uri": uri})


def readable(text: str) -> str:
    """Return a text that UTF-8 can carry: half of a surrogate pair becomes `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _result(ctx: Context[Any], result: dict[str, Any]) -> bytes:
    return jsonrpc.result(ctx.request_id, ctx._envelope.render(result, ctx.server._declared.identity, None))


def _problem(ctx: Context[Any], error: BaseException) -> ProtocolError:
    error = _explained(ctx, error)
    if isinstance(error, ProtocolError):
        return ProtocolError(error.code, readable(error.message) or _SILENT, error.data)
    if isinstance(error, ResourceNotFoundError):
        return not_found(ctx, error.uri if error.uri is not None else str(ctx.params.get("uri", "")))
    code = code_of(ctx, error)
    said = said_by(error) if isinstance(error, HandlerError) else None
    if said is not None:
        data = {"requiredCapabilities": error.required} if isinstance(error, MissingCapabilityError) else None
        return ProtocolError(code, readable(said) or _SILENT, data)
    return ProtocolError(
        code, _unsent(ctx, error) if isinstance(error, OutputError) else internal(ctx, error)
    )

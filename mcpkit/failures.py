"""What an exception becomes on the wire: the error table of the architecture page, in code."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from .errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ArgumentsError,
    HandlerError,
    MissingCapabilityError,
    ProtocolError,
    ResourceNotFoundError,
)
from .protocol import jsonrpc

if TYPE_CHECKING:
    from .context import Context

logger = logging.getLogger("mcpkit")


def error_response(ctx: Context[Any], error: BaseException) -> bytes:
    """Return the error response that an exception becomes; what is nobody's text is logged under a ref."""
    try:
        return jsonrpc.error(ctx.request_id, _problem(ctx, error))
    except ValueError as unencodable:  # the author's `data` has no JSON form
        return jsonrpc.error(ctx.request_id, ProtocolError(INTERNAL_ERROR, internal(ctx, unencodable)))


def tool_error(ctx: Context[Any], error: BaseException) -> dict[str, Any]:
    """Return the `CallToolResult` that an exception in a tool becomes, for the model to read."""
    if isinstance(error, HandlerError):
        text = readable(str(error)) or "The tool failed, and did not say why."
    else:
        text = internal(ctx, error)
    return {"content": [{"type": "text", "text": text}], "isError": True}


def is_protocol_error(ctx: Context[Any], error: BaseException) -> bool:
    """Say whether an exception in a tool is no result but an error, whose code tells the client what to do."""
    return isinstance(error, MissingCapabilityError) and ctx.era == "stateless"


def internal(ctx: Context[Any], error: BaseException) -> str:
    """Log an exception with its traceback, and return the text that names the log entry and nothing else."""
    import secrets

    ref = secrets.token_hex(4)
    what = ctx.params.get("name") or ctx.params.get("uri") or ctx.params.get("ref") or ""
    logger.error("%s %.200r failed (ref %s)", ctx.method, what, ref, exc_info=error)
    return f"Internal error (ref {ref})"


def not_found(ctx: Context[Any], uri: str) -> ProtocolError:
    """Return the error for a resource that does not exist: its code depends on the era."""
    uri = readable(uri)
    return ProtocolError(ctx._envelope.not_found_code, f"Resource not found: {uri[:200]}", {"uri": uri})


def readable(text: str) -> str:
    """Return a text that UTF-8 can carry: half of a surrogate pair becomes `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _problem(ctx: Context[Any], error: BaseException) -> ProtocolError:
    if isinstance(error, ProtocolError):
        return ProtocolError(error.code, readable(error.message), error.data)
    if isinstance(error, ResourceNotFoundError):
        return not_found(ctx, error.uri if error.uri is not None else str(ctx.params.get("uri", "")))
    if isinstance(error, MissingCapabilityError):
        code = ctx._envelope.missing_capability_code
        return ProtocolError(code, str(error), {"requiredCapabilities": error.required})
    if isinstance(error, ArgumentsError):
        return ProtocolError(INVALID_PARAMS, readable(str(error)))
    if isinstance(error, HandlerError):
        return ProtocolError(INTERNAL_ERROR, readable(str(error)))
    return ProtocolError(INTERNAL_ERROR, internal(ctx, error))

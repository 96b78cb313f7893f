"""Limit for the size of tool results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._utils.exceptions import ToolError
from .base import CallNext, Request, Result

_MOST_NAMES = 10


class SizeLimit:
    """Replaces tool results that are too large for a model by an error with advice.

    Only results of `tools/call` are limited, and not those of extensions or task handles.

    Args:
        max_bytes: Maximum size of a result as JSON, in bytes.
        advice: Sentence for the model with the next step. None advises to request less data, and lists the
            arguments of the tool.

    Raises:
        ValueError: `max_bytes` is below 1.
    """

    def __init__(self, max_bytes: int, *, advice: str | None = None) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be a number of bytes above 0, got {max_bytes!r}")
        self.max_bytes = max_bytes
        self._advice = advice

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Process the request and check the size of its result.

        Raises:
            ToolError: The result is too large.
        """
        result = await call_next(request)
        if request.method != "tools/call" or (size := len(result.rendered())) <= self.max_bytes:
            return result
        if result.type != "complete":  # a task's handle, or an extension's, which a program reads
            return result
        advice = self._advice if self._advice is not None else _advice(request)
        raise ToolError(
            f"The result is too large: it has {size:,} bytes, and the limit is {self.max_bytes:,}. {advice}"
        )


def _advice(request: Request) -> str:
    tool = request.ctx.server.catalog.tools.get(str(request.target))
    if tool is None:  # a provider's
        return "Request less data."
    properties: Mapping[str, Any] = tool.schemas(request.ctx.protocol_version)[0].get("properties", {})
    if not properties:
        return "The tool has no arguments to limit its result. Do without it."
    names = ", ".join(list(properties)[:_MOST_NAMES])
    return f"Request less data with its arguments: {names}"

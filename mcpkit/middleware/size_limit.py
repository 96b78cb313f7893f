"""Results of tools that are too large for a model to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..common.errors import ToolError
from .base import CallNext, Request, Result

_MOST_NAMES = 10


class SizeLimit:
    """Puts an error that the model can act on in the place of a tool's result that is too large.

    Other results pass: who reads those is a program.

    Args:
        max_bytes: Bytes that a result may have, as JSON and with all that belongs to it.
        advice: What the model is to do instead, a sentence; by default it is to ask for less with the
            arguments that the tool has.

    Raises:
        ValueError: `max_bytes` is no number above 0.
    """

    def __init__(self, max_bytes: int, *, advice: str | None = None) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be a number of bytes above 0, got {max_bytes!r}")
        self.max_bytes = max_bytes
        self._advice = advice

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Pass the request on, and look at the size of its result.

        Raises:
            ToolError: It is too large.
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
    tool = request.ctx.server.tools.get(str(request.target))
    if tool is None:  # a provider's
        return "Request less data."
    properties: Mapping[str, Any] = tool.schemas(request.ctx.protocol_version)[0].get("properties", {})
    if not properties:
        return "The tool has no arguments to limit its result. Do without it."
    names = ", ".join(list(properties)[:_MOST_NAMES])
    return f"Request less data with its arguments: {names}"

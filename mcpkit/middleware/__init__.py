"""Middleware for requests: ready-made classes, and the types for functions of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.base import TaskMeter
    from .access_log import AccessLog
    from .base import CallNext, CallTool, DetachedCall, Request, Result, ToolCall, ToolCallResult
    from .limits import RateLimit, RateLimitError, SizeLimit
    from .telemetry import Telemetry
    from .timing import RequestTiming, Timing
else:
    from .._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            "..storage.base": "TaskMeter",
            ".access_log": "AccessLog",
            ".base": "CallNext CallTool DetachedCall Request Result ToolCall ToolCallResult",
            ".limits": "RateLimit RateLimitError SizeLimit",
            ".telemetry": "Telemetry",
            ".timing": "RequestTiming Timing",
        },
    )

__all__ = [
    "AccessLog",
    "CallNext",
    "CallTool",
    "DetachedCall",
    "RateLimit",
    "RateLimitError",
    "Request",
    "RequestTiming",
    "Result",
    "SizeLimit",
    "TaskMeter",
    "Telemetry",
    "Timing",
    "ToolCall",
    "ToolCallResult",
]

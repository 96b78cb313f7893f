"""Middleware for requests: ready-made classes, and the types for functions of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.base import TaskMeter
    from .access_log_and_telemetry import AccessLog, RequestTiming, Telemetry, Timing
    from .base import CallNext, CallTool, DetachedCall, Request, Result, ToolCall, ToolCallResult
    from .rate_and_size_limits import RateLimit, RateLimitError, SizeLimit
else:
    from .._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            "..storage.base": "TaskMeter",
            ".access_log_and_telemetry": "AccessLog RequestTiming Telemetry Timing",
            ".base": "CallNext CallTool DetachedCall Request Result ToolCall ToolCallResult",
            ".rate_and_size_limits": "RateLimit RateLimitError SizeLimit",
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

"""Middleware that is ready to use: `server.middleware(AccessLog())`."""

from __future__ import annotations

from ..state.task_meter import TaskMeter
from .access_log import AccessLog
from .rate_limit import RateLimit, RateLimitError
from .size_limit import SizeLimit
from .telemetry import Telemetry
from .timing import Timed, Timing

__all__ = [
    "AccessLog",
    "RateLimit",
    "RateLimitError",
    "SizeLimit",
    "TaskMeter",
    "Telemetry",
    "Timed",
    "Timing",
]

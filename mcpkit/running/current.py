"""The request that is being served, known to all that runs for it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

current: Final[ContextVar[Any]] = ContextVar("mcpkit.context")
"""The `Context` of the request; not set where none is being served, as in a worker process."""

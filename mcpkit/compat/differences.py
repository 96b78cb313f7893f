"""What is otherwise here than in the SDK that a server was written for: said once for each process."""

from __future__ import annotations

import logging

logger = logging.getLogger("mcpkit.compat")

_said: set[str] = set()


def differs(key: str, text: str) -> None:
    """Warn that something is otherwise here, unless that has been said.

    Args:
        key: What tells this difference from others.
        text: What is otherwise, and what to do about it.
    """
    if key not in _said:
        _said.add(key)
        logger.warning("%s", text)

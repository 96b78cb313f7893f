"""What a server's process writes to standard error: shown, but not twice where it does not start."""

from __future__ import annotations

import asyncio
from typing import Final

from .written import remark

_TIMEOUT: Final = 3.0
"""Seconds after which what has been written is shown, though the server has not answered: it may be at work."""


class LastWords:
    """Keeps lines until the server has answered; an error that says why it has not has the last of them."""

    def __init__(self) -> None:
        self._kept: list[str] | None = []
        self._timer: asyncio.TimerHandle | None = None

    def line(self, line: str) -> None:
        """Take a line."""
        if self._kept is None:
            remark(line)
            return
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TIMEOUT, self.pass_on)
        self._kept.append(line)

    def pass_on(self) -> None:
        """Show what has been kept, and all that follows."""
        if self._timer is not None:
            self._timer.cancel()
        kept, self._kept = self._kept or [], None
        for line in kept:
            remark(line)

"""How far a server is: a bar at a terminal; lines elsewhere, where they are asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .written import printable, remark, remarks

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressShown:
    """Shows progress on standard error.

    Args:
        is_verbose: Whether there are lines where there is no terminal.
    """

    def __init__(self, *, is_verbose: bool) -> None:
        self._is_verbose = is_verbose
        self._bar: tuple[Progress, TaskID] | None = None
        self._said = ""

    def say(self, text: str) -> None:
        """Show what a task says of itself, where that is something new."""
        if text and text != self._said and (self._is_verbose or sys.stderr.isatty()):
            remark(text)
        self._said = text

    def tell(self, done: float, total: float | None, message: str | None) -> None:
        """Show how much is done, of how much, and a text."""
        text = f"{done:g}{'' if total is None else f'/{total:g}'}{f' {message}' if message else ''}"
        if sys.stderr.isatty():
            self._draw(done, total, printable(text))
        elif self._is_verbose:
            remark(f"progress: {text}")

    def _draw(self, done: float, total: float | None, text: str) -> None:
        if self._bar is None:
            console = remarks()  # which says what is missing, where rich is
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(), TextColumn("{task.description}", markup=False))
            progress = Progress(*columns, console=console, transient=True)
            self._bar = progress, progress.add_task("", total=total)
            progress.start()
        progress, task = self._bar
        progress.update(task, completed=done, total=total, description=text, refresh=True)

    def close(self) -> None:
        """Take the bar away; it comes again with the next progress."""
        if self._bar is not None:
            (progress, _), self._bar = self._bar, None
            progress.stop()

"""Lines that the user types at a terminal, waited for without holding up the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from ..console import write_stderr

_LONGEST: Final = 64 * 1024
"""Bytes of a line."""


class Terminal:
    """The terminal that the command was started at."""

    @property
    def is_there(self) -> bool:
        """Whether somebody can be asked."""
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    async def line(self, prompt: str) -> str | None:
        """Ask for a line.

        Args:
            prompt: What is asked; the cursor stays behind it.

        Returns:
            The line without its end; None for an end of the input (Ctrl+D).

        Raises:
            KeyboardInterrupt: The user has pressed Ctrl+C.
        """
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[bytes | None] = loop.create_future()

        def take(line: bytes | None) -> None:
            if not typed.done():
                typed.set_result(line)

        with _interrupting(loop, take), _reading(loop, take):
            sys.stderr.write(prompt)
            sys.stderr.flush()
            line = await typed
        if line is None:
            sys.stderr.write("\n")
            raise KeyboardInterrupt
        if not line:
            sys.stderr.write("\n")
            return None
        return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r\n")

    async def yes(self, question: str) -> bool:
        """Ask a question that is answered by y or n; an end of the input is a no."""
        while True:
            line = await self.line(f"{question} [y/n] ")
            if line is None:
                return False
            if line.strip().casefold() in ("y", "yes", "n", "no"):
                return line.strip().casefold().startswith("y")
            write_stderr("  enter y or n")


@contextmanager
def _interrupting(loop: asyncio.AbstractEventLoop, take: Callable[[bytes | None], None]) -> Generator[None]:
    """Have Ctrl+C end the question, and nothing else."""

    def interrupt(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(take, None)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _reading(loop: asyncio.AbstractEventLoop, take: Callable[[bytes | None], None]) -> Generator[None]:
    descriptor = sys.stdin.fileno()
    if os.name == "nt":  # whose event loops do not wait for consoles

        def read() -> None:
            line = os.read(descriptor, _LONGEST)
            loop.call_soon_threadsafe(take, line)

        threading.Thread(target=read, name="mcpkit-terminal", daemon=True).start()
        yield
        return
    loop.add_reader(descriptor, lambda: take(os.read(descriptor, _LONGEST)))
    try:
        yield
    finally:
        loop.remove_reader(descriptor)

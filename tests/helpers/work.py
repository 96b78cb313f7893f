"""What tools wait for and tell, so that a test knows how far they are."""

from __future__ import annotations

import asyncio
import threading


class Work:
    """Work that begins, waits and ends in the sight of a test.

    Attributes:
        started: Set when it begins to wait.
        gate: What it waits for; the test opens it.
        cancelled: Set when it is cancelled as it waits.
        done: Set when it has passed the gate.
        released: What work in a thread waits for.
        failure: What was raised to it.
    """

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.done = asyncio.Event()
        self.released = threading.Event()
        self.failure: BaseException | None = None

    async def wait(self) -> None:
        """Wait for the gate, and say what comes of it."""
        self.started.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        self.done.set()

"""Checks that code runs in the event loop, and the process, that it belongs to."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from .current import running_loop


def require_loop(what: str, instead: str = "") -> asyncio.AbstractEventLoop:
    """Return the running asyncio event loop of this thread.

    Args:
        what: The call that needs it, for the message.
        instead: An alternative that needs none, for the message.

    Raises:
        RuntimeError: None is running; the message contains the correction.
    """
    loop = running_loop()
    if loop is not None:
        return loop
    if is_trio_running():
        raise RuntimeError(
            f"{what} needs an asyncio event loop, and this is a trio loop. Start the program with asyncio.run(main()), "
            f"in tests with anyio's pytest plugin let the fixture anyio_backend return 'asyncio'{instead and ', '}"
            f"{instead}"
        )
    raise RuntimeError(
        f"{what} needs an asyncio event loop, and none runs in this thread. Call it from asyncio.run(main()). In a "
        "process that was forked within a loop, start another process instead, for example with the 'spawn' "
        "method of multiprocessing"
    )


def refuse_loop(what: str, instead: str) -> None:
    """Check that no event loop is running in this thread, which a blocking function would block.

    Args:
        what: The function, for the message.
        instead: The alternative in an asyncio event loop.

    Raises:
        RuntimeError: An event loop of asyncio or trio is running.
    """
    if running_loop() is not None:
        raise RuntimeError(f"{what}, and an event loop is running in this thread: {instead}")
    if is_trio_running():
        raise RuntimeError(
            f"{what}, and a trio loop runs in this thread, which it would block. Call it in a thread with "
            "`await trio.to_thread.run_sync(function)`, or from code that is not async"
        )


def is_trio_running() -> bool:
    """Return True in a task of trio."""
    lowlevel: Any = getattr(sys.modules.get("trio"), "lowlevel", None)
    if lowlevel is None:
        return False
    try:
        lowlevel.current_task()
    except RuntimeError:
        return False
    return True


class Home:
    """The event loop and the process of an open object.

    Args:
        what: Name of the object for messages, such as "the client".
        instead: Correction for use in another event loop.
    """

    __slots__ = ("_instead", "_loop", "_process", "_what")

    def __init__(self, what: str, instead: str) -> None:
        self._what = what
        self._instead = instead
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def settle(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Set the event loop, in this process; None after the object was closed."""
        self._loop = loop
        self._process = os.getpid()

    @property
    def is_lost(self) -> bool:
        """True if the object is unusable: its event loop was closed, or this process was forked since."""
        return self._loop is not None and (self._process != os.getpid() or self._loop.is_closed())

    def here(self) -> asyncio.AbstractEventLoop:
        """Return its event loop, which must be running here.

        Raises:
            RuntimeError: It is not.
        """
        loop = running_loop()
        if loop is None or loop is not self._loop:
            self.check()
            return require_loop(self._what)
        return loop

    def check(self, *, is_leaving: bool = False) -> None:
        """Check that its event loop is running here, if it has one.

        Args:
            is_leaving: Whether the object is being closed, which is possible if it is lost.

        Raises:
            RuntimeError: It is not running here; the message contains the correction.
        """
        if self._loop is None or running_loop() is self._loop or (is_leaving and self.is_lost):
            return
        if self._process != os.getpid():
            raise RuntimeError(
                f"{self._what} was opened by the parent process before a fork, and only works there. "
                "Create another one in this process"
            )
        if self.is_lost:
            raise RuntimeError(
                f"{self._what} was opened in an event loop that is closed by now. Create another one, and open, "
                "use and close it within one asyncio.run(main())"
            )
        raise RuntimeError(
            f"{self._what} is open in another event loop, and only works there: {self._instead}"
        )

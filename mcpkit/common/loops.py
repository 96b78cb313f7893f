"""Checks that code runs in the event loop, and the process, that it belongs to."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from .current import running_loop


def require_loop(what: str, instead: str = "") -> asyncio.AbstractEventLoop:
    """Return the event loop of asyncio that runs in this thread.

    Args:
        what: What needs it, for the message.
        instead: What needs none, for the message.

    Raises:
        RuntimeError: None runs; the message gives what to write instead.
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
    """Check that nothing runs in this thread that a function which waits would hold up.

    Args:
        what: The function, for the message.
        instead: What to write in an event loop of asyncio.

    Raises:
        RuntimeError: An event loop of asyncio or trio runs here.
    """
    if running_loop() is not None:
        raise RuntimeError(f"{what}, and an event loop is running in this thread: {instead}")
    if is_trio_running():
        raise RuntimeError(
            f"{what}, and a trio loop runs in this thread, which it would block. Call it in a thread with "
            "`await trio.to_thread.run_sync(function)`, or from code that is not async"
        )


def is_trio_running() -> bool:
    """Return whether this is called from a task of trio."""
    lowlevel: Any = getattr(sys.modules.get("trio"), "lowlevel", None)
    if lowlevel is None:
        return False
    try:
        lowlevel.current_task()
    except RuntimeError:
        return False
    return True


class Home:
    """The event loop and the process that something open belongs to.

    Args:
        what: Its name, for messages: such as "the client".
        instead: What to write where it is used elsewhere.
    """

    __slots__ = ("_instead", "_loop", "_process", "_what")

    def __init__(self, what: str, instead: str) -> None:
        self._what = what
        self._instead = instead
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def settle(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Let it belong to an event loop of this process, or to none, once it is closed."""
        self._loop = loop
        self._process = os.getpid()

    @property
    def is_lost(self) -> bool:
        """True if the object is unusable: its event loop was closed, or this process was forked since."""
        return self._loop is not None and (self._process != os.getpid() or self._loop.is_closed())

    def here(self) -> asyncio.AbstractEventLoop:
        """Return its event loop, which runs here.

        Raises:
            RuntimeError: It does not.
        """
        loop = running_loop()
        if loop is None or loop is not self._loop:
            self.check()
            return require_loop(self._what)
        return loop

    def check(self, *, is_leaving: bool = False) -> None:
        """Check that its event loop runs here, if it belongs to one.

        Args:
            is_leaving: Whether it is to be closed, for which it need not run if it is lost.

        Raises:
            RuntimeError: It does not run here; the message gives what to write instead.
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

"""A program at a terminal, whose keys a test presses and whose screen it reads; not on Windows."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

PATIENCE = 60.0
"""Seconds until a test gives up on what must be shown."""


class PseudoTerminal:
    """A terminal of 100 columns with a program.

    Args:
        command: The program and its arguments.
        env: More variables for it.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl+C reaches it
            env={**os.environ, "TERM": "xterm-256color", **env},
        )
        os.close(slave)
        self.screen = ""
        self._seen = 0

    def shows(self, text: str) -> str:
        """Wait until a text is shown after what was waited for before, and return all that came until then."""
        deadline = time.monotonic() + PATIENCE
        while (place := self.screen.find(text, self._seen)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} is not shown, but {self.screen[self._seen :]!r}")
        before, self._seen = self.screen[self._seen : place], place + len(text)
        return before

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def end(self) -> int:
        """Wait for the end of the program, and return its status."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """Take the terminal away."""
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return False
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # the last of its programs has ended
            return False
        self.screen += chunk.decode(errors="replace").replace("\r\n", "\n")
        return bool(chunk)


@contextmanager
def at_terminal(*command: str, **env: str) -> Iterator[PseudoTerminal]:
    """Start a program at a terminal of its own."""
    terminal = PseudoTerminal(command, env)
    try:
        yield terminal
    finally:
        terminal.close()

"""Terminals of tmux, in which programs are used as people use them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 120.0


def until(condition: Callable[[], object], what: Callable[[], str], patience: float = PATIENCE) -> None:
    """Wait until something is so; after some seconds without it, fail with what is so instead."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


class Terminal:
    """A terminal in which one program runs.

    Args:
        tmux: The program, and where it listens.
        name: The name of the session.
    """

    def __init__(self, tmux: list[str], name: str) -> None:
        self._tmux = tmux
        self._name = name

    @property
    def screen(self) -> str:
        """What is on the screen."""
        return self._run("capture-pane", "-p", "-t", self._name)

    @property
    def process(self) -> int:
        """The process that runs in it."""
        return int(self._run("display-message", "-p", "-t", self._name, "#{pane_pid}"))

    def wait_for(self, text: str) -> None:
        """Wait until a text is on the screen."""
        until(lambda: text in self.screen, lambda: f"no {text!r} on the screen:\n{self.screen}")

    def type(self, text: str) -> None:
        """Type a line, without its end, and wait until it is on the screen."""
        self._run("send-keys", "-t", self._name, "-l", text)
        self.wait_for(text)

    def enter(self) -> None:
        """End a line."""
        self._run("send-keys", "-t", self._name, "Enter")

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, encoding="utf-8", timeout=30)
        assert done.returncode == 0, f"tmux {arguments[0]}: {done.stderr}"
        return done.stdout


class Terminals:
    """Terminals that are shown by one tmux, which is nobody else's."""

    def __init__(self, tmux: list[str]) -> None:
        self._tmux = tmux

    def open(
        self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> Terminal:
        """Start a program in a terminal of its own, with this environment and no other."""
        variables = [f"{key}={value}" for key, value in environment.items()]
        line = shlex.join(["exec", "env", "-i", "TERM=tmux-256color", *variables, *command])
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-s", name, "-x", "180", "-y", "50", "-c", str(folder), line],
            check=True,
            timeout=30,
        )
        return Terminal(self._tmux, name)


@contextmanager
def terminals(folder: Path) -> Iterator[Terminals]:
    """Open terminals until the end of the block, where the programs in them are hung up on."""
    program = shutil.which("tmux")
    assert program is not None, "there is no tmux: apt-get install tmux"
    tmux = [program, "-S", str(folder / "tmux"), "-f", "/dev/null"]
    try:
        yield Terminals(tmux)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, timeout=30)

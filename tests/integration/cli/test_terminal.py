"""Commands at a pseudo-terminal: forms, progress bar, interrupts."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from tests.integration.cli.workbench_server import ended

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are POSIX's", allow_module_level=True)

import fcntl  # isort: skip
import pty  # isort: skip
import struct  # isort: skip
import termios  # isort: skip

DEFAULT_TIMEOUT = 60.0


class PseudoTerminal:
    """A terminal of 100 columns with a program.

    Args:
        command: The program and its arguments.
        env: More variables for it.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
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
        deadline = time.monotonic() + DEFAULT_TIMEOUT
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
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        while self._read(deadline):
            pass
        return self.process.wait(DEFAULT_TIMEOUT)

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
def mcpkit(*arguments: str, **env: str) -> Iterator[PseudoTerminal]:
    """Start a command at a terminal of its own."""
    terminal = PseudoTerminal([sys.executable, "-m", "mcpkit", *arguments], env)
    try:
        yield terminal
    finally:
        terminal.close()


def test_terminal_form_is_filled_field_by_field(url: str, revision: str) -> None:
    with mcpkit("call", url, "plan", "--revision", revision) as terminal:
        terminal.shows("workbench requests: Where shall it go?\n(Ctrl+D declines, Ctrl+C cancels)\n")
        for text, keys in (
            ("City (string, at least 2 characters): Where to\ncity> ", ""),
            ("a value is required\ncity> ", "X"),
            ("expected a string of at least 2 characters", None),
            ("city> ", "Tromsø"),
            ("days (integer, optional, at least 1, at most 30)\ndays [3]> ", "50"),
            ("expected an integer from 1 to 30, got 50\ndays [3]> ", ""),
            ("  1  museums\n  2  food\nstyle [food]> ", "7"),
            ("must be one of museums, food\nstyle [food]> ", "1"),
            ("is_paid> ", "y"),
        ):
            terminal.shows(text)
            if keys is not None:
                terminal.press(f"{keys}\n")
        assert terminal.end() == 0
    assert json.loads(terminal.screen.splitlines()[-1]) == {
        "city": "Tromsø",
        "days": 3,
        "style": "museums",
        "is_paid": True,
    }


def test_terminal_end_of_input_declines_and_interrupt_cancels(url: str) -> None:
    with mcpkit("call", url, "plan", "--answer", "city=Oslo") as terminal:
        terminal.shows("days [3]> ")
        terminal.press("\x04")
        terminal.shows("no trip: decline\n")
        assert terminal.end() == 0
    with mcpkit("call", url, "plan") as terminal:
        terminal.shows("city> ")
        terminal.press("\x03")
        terminal.shows("no trip: cancel\n")
        assert terminal.end() == 130


def test_terminal_interrupt_cancels_call_and_task(url: str, revision: str) -> None:
    with mcpkit("call", url, "wait", "--revision", revision) as terminal:
        terminal.shows("1/2 waiting")
        terminal.press("\x03")
        assert terminal.end() == 130
    assert "Traceback" not in terminal.screen
    ended.clear()
    with mcpkit("call", url, "wait_long", "--revision", revision) as terminal:
        terminal.shows("waiting long")
        terminal.press("\x03")
        assert terminal.end() == 130
    assert ended.wait(DEFAULT_TIMEOUT)
    assert "Traceback" not in terminal.screen


def test_terminal_listen_prints_changes_until_interrupt(url: str) -> None:
    with mcpkit("listen", url, "note://hello", "--json") as listening:
        listening.shows("listening (revision 2026-07-28). Press Ctrl+C to stop\n")
        with mcpkit("call", url, "change") as changing:
            assert changing.end() == 0
        listening.shows('{"kind": "resource", "uri": "note://hello"}\n')
        listening.press("\x03")
        assert listening.end() == 130
    assert "Traceback" not in listening.screen


def test_terminal_url_elicitation_opens_browser_after_consent(url: str) -> None:
    with mcpkit("call", url, "pay", BROWSER="echo opened %s") as terminal:
        terminal.shows("It wants you to open a page at pay.example.com:\n  https://pay.example.com/7\n")
        terminal.shows("Open it in the browser? [y/n] ")
        terminal.press("what\n")
        terminal.shows("enter y or n\nOpen it in the browser? [y/n] ")
        terminal.press("y\n")
        terminal.shows("opened https://pay.example.com/7\n")
        terminal.shows("paid\n")
        assert terminal.end() == 0


def test_terminal_receives_no_bytes(url: str) -> None:
    with mcpkit("read", url, "picture://pixel") as terminal:
        assert terminal.end() == 1
    assert "picture://pixel is binary (image/png, 69 bytes). Save it with --out" in terminal.screen

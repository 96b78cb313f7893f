"""Hosts as programs: commands, environments, terminals with sessions that stay open."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType

from models import Obeying, Step

from tests.helpers.node import node_search_path

PACKAGES = Path(__file__).parents[2] / ".hosts" / "node_modules"


TIME_OUT = 120.0


NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


Finished = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Host:
    """A program that people add servers to.

    Attributes:
        package: Its package on npm.
        script: What Node runs, inside the package.
        before_command: What stands before the command of a server, so that its options are not the host's.
        check: Its command that connects to every server.
        has_connected: Whether it says that it did.
        log_in: How it is started in a terminal to log in to a server.
        ask: How it is asked something for which it calls a tool.
        settings: The environment in which its model is the one at `{model}`.
    """

    name: str
    package: str
    script: str
    before_command: list[str]
    check: list[str]
    has_connected: Callable[[Finished], bool]
    log_in: list[str]
    ask: list[str]
    settings: Mapping[str, str]

    @property
    def version(self) -> str:
        """The version that is installed."""
        return json.loads((PACKAGES / self.package / "package.json").read_text("utf-8"))["version"]

    def environment(self, home: str) -> dict[str, str]:
        """The environment of its commands, which holds nothing of this machine's user."""
        return {
            "PATH": node_search_path(),
            "HOME": home,
            "USERPROFILE": home,
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def command(self, *arguments: str) -> list[str]:
        """One of its commands."""
        return ["node", str(PACKAGES / self.package / self.script), *arguments]

    def run(self, home: str, *arguments: str, settings: Mapping[str, str] = NO_SETTINGS) -> Finished:
        """Run one of its commands, with more of an environment."""
        return subprocess.run(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=self.environment(home) | dict(settings),
            encoding="utf-8",
            timeout=TIME_OUT,
        )

    def connects(self, transport: str, target: list[str]) -> tuple[bool, str]:
        """Add the server to a fresh home and connect to it; say whether that worked, and what the host said."""
        with tempfile.TemporaryDirectory(prefix="host-") as home:
            words = [*self.before_command, *target] if transport == "stdio" else target
            added = self.run(home, "mcp", "add", "--transport", transport, "weather", *words)
            if added.returncode != 0:
                return False, added.stdout
            checked = self.run(home, *self.check)
            return self.has_connected(checked), added.stdout + checked.stdout


DEFAULT_TIMEOUT = 120.0


def until(
    condition: Callable[[], object], what: Callable[[], str], patience: float = DEFAULT_TIMEOUT
) -> None:
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


_NUMBERS = count(1)


@dataclass(frozen=True)
class Sat:
    """How a host is used in a terminal.

    Attributes:
        known_as: What `mcpkit install` calls it.
        host: The program.
        file: Its file, from the home of its user.
        settings: What is in that file before, with `{folder}` for the folder of the project.
        start: Its arguments for a session in which the tools of the server may be called.
        environment: More of its environment; the model is at `{model}`.
        is_ready: What is on its screen when it takes orders.
        check: Its command that connects to every server.
        connected: What it says then, as a regular expression.
        lists_again: Whether it lists tools again when it is told that they have changed.
    """

    known_as: str
    host: Host
    file: str
    settings: str
    start: list[str]
    environment: Mapping[str, str]
    is_ready: str
    check: list[str]
    connected: str
    lists_again: bool


class Seat:
    """A session of a host in a terminal.

    Args:
        sat: How the host is used.
        model: What it is told.
        terminal: Where it is.
    """

    def __init__(self, sat: Sat, model: Obeying, terminal: Terminal) -> None:
        self.sat = sat
        self._model = model
        self._terminal = terminal
        terminal.wait_for(sat.is_ready)

    def server(self, command: str, other_than: int | None = None) -> int:
        """Return the one process below the host's that was started by a command, when it is another than before."""
        found: list[int] = []

        def is_one() -> bool:
            found[:] = below(self._terminal.process, command)
            return len(found) == 1 and found[0] != other_than

        until(is_one, lambda: f"{self.sat.host.name}: the processes of {command} are {found}")
        return found[0]

    def order(self, tool: str, arguments: Mapping[str, object]) -> Step:
        """Tell the model to call a tool; return what came of it when it has said its last word."""
        number = next(_NUMBERS)
        self._terminal.type(f"Step {number}: call {tool} with {json.dumps(arguments)}")
        self._terminal.enter()
        until(
            lambda: number in self._model.steps and self._model.steps[number].is_over.wait(1),
            lambda: f"{self.sat.host.name} has not done step {number}:\n{self._terminal.screen}",
        )
        self._terminal.wait_for(f"End of step {number}.")
        return self._model.steps[number]

    def order_until(
        self, tool: str, arguments: Mapping[str, object], is_done: Callable[[str], bool]
    ) -> tuple[str, int]:
        """Give an order until its last result is as it should be; return that, and how often it was given.

        An edit takes a moment until it is there.
        """
        last, times = "", 0

        def done() -> bool:
            nonlocal last, times
            times += 1
            last = "".join(self.order(tool, arguments).results[-1:])
            return is_done(last)

        until(done, lambda: f"{self.sat.host.name}: {tool} still answers {last!r}", DEFAULT_TIMEOUT / 2)
        return last, times


def processes() -> Iterator[tuple[int, int, str]]:
    """Yield the processes of this machine: each one's number, its parent's, and its command."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, encoding="utf-8", check=True
    )
    for line in listed.stdout.splitlines():
        number, parent, command = line.split(None, 2)
        yield int(number), int(parent), command


def below(ancestor: int, part: str) -> list[int]:
    """Return the processes that descend from another, and have these words in their command."""
    known = {number: (parent, command) for number, parent, command in processes()}

    def descends(number: int) -> bool:
        while number in known and number != ancestor:
            number = known[number][0]
        return number == ancestor

    return [number for number, (_, command) in known.items() if part in command and descends(number)]


def sit_down(sat: Sat, at: Terminals, home: Path, project: Path, model: Obeying, url: str) -> Seat:
    """Start a session of a host in the folder of a project."""
    environment = sat.host.environment(str(home)) | {
        name: value.format(model=url) for name, value in sat.environment.items()
    }
    return Seat(sat, model, at.open(sat.known_as, sat.host.command(*sat.start), project, environment))

"""Hosts that somebody sits at: in a terminal, with a session that stays open while the server is edited."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from host import Host
from obeying import Obeying, Step
from terminals import PATIENCE, Terminal, Terminals, until

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

        until(done, lambda: f"{self.sat.host.name}: {tool} still answers {last!r}", PATIENCE / 2)
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

"""Hosts as programs: their commands and environments."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.helpers.node import node_search_path

PACKAGES = Path(__file__).parents[2] / ".hosts" / "node_modules"


TIME_OUT = 120.0


NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


Finished = subprocess.CompletedProcess[str]


def run(command: list[str], home: str, environment: dict[str, str]) -> Finished:
    """Run a command to its end; its standard error is part of its output."""
    pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(command, **pipes, cwd=home, env=environment, encoding="utf-8", timeout=TIME_OUT)


@dataclass(frozen=True)
class Host:
    """A program that people add servers to.

    Attributes:
        package: Its package on npm.
        script: What Node runs, inside the package.
        before_command: What stands before the command of a server, so that its options are not the host's.
        check: Its command that connects to every server.
        has_connected: Reads from its output whether it connected.
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
            "PATH": node_search_path(), "HOME": home, "USERPROFILE": home, "LANG": "C.UTF-8", "NO_COLOR": "1",
            "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip

    def command(self, *arguments: str) -> list[str]:
        """One of its commands."""
        return ["node", str(PACKAGES / self.package / self.script), *arguments]

    def run(self, home: str, *arguments: str, settings: Mapping[str, str] = NO_SETTINGS) -> Finished:
        """Run one of its commands, with more of an environment."""
        return run(self.command(*arguments), home, self.environment(home) | dict(settings))

    def connects(self, transport: str, target: list[str]) -> tuple[bool, str]:
        """Add the server to a fresh home and connect to it; return whether that worked, and the output."""
        with tempfile.TemporaryDirectory(prefix="host-") as home:
            words = [*self.before_command, *target] if transport == "stdio" else target
            added = self.run(home, "mcp", "add", "--transport", transport, "weather", *words)
            if added.returncode != 0:
                return False, added.stdout
            checked = self.run(home, *self.check)
            return self.has_connected(checked), added.stdout + checked.stdout

"""Servers that `mcpkit install` gives to hosts, which connect to them, and that `mcpkit uninstall` takes away again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from host import TIME_OUT, Finished, Host

from mcpkit.cli.configurations.table import HOSTS as KNOWN

ROOT = Path(__file__).parents[2]
QODERCLI = ROOT / ".hosts" / "qoder-agent-sdk" / "lib"
SETTINGS = '{\n\t// as its user wrote it\n\t"mcpServers": {\n\t\t// none so far\n\t}\n}\n'
PLAIN = '{\n    "mcpServers": {},\n    "theme": "dark"\n}\n'


@dataclass(frozen=True)
class Qodercli:
    """The program that the SDK of Qoder brings, which lists servers without a login."""

    name: str = "Qoder CLI"

    @property
    def _program(self) -> Path:
        [program] = QODERCLI.glob("python3*/site-packages/qoder_agent_sdk/_bundled/qodercli")
        return program

    @property
    def version(self) -> str:
        """The version that is installed."""
        return self.run(tempfile.gettempdir(), "--version").stdout.strip()

    def environment(self, home: str) -> dict[str, str]:
        """The environment of its commands, which holds nothing of this machine's user."""
        return {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "NO_COLOR": "1"}

    def run(self, home: str, *arguments: str) -> Finished:
        """Run one of its commands."""
        return subprocess.run(
            [str(self._program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=self.environment(home),
            encoding="utf-8",
            timeout=TIME_OUT,
        )


def listed(finished: Finished) -> bool:
    """Qoder's program ends with 0 whatever it found, so its words count."""
    return re.search(r"^✓ weather: .* - Connected\b", finished.stdout, re.M) is not None


@dataclass(frozen=True)
class Given:
    """A host that gets the weather example by `mcpkit install`.

    Attributes:
        name: What it is called.
        known_as: What `mcpkit install` calls it.
        host: The program.
        settings: What its user has in its file.
        check: Its command that connects to every server.
        has_connected: Whether it says that it did.
    """

    known_as: str
    host: Host | Qodercli
    settings: str
    check: list[str]
    has_connected: Callable[[Finished], bool]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.host.name

    @property
    def version(self) -> str:
        """The version that is installed."""
        return self.host.version

    def connects(self, target: list[str]) -> tuple[bool, str]:
        """Give it the server in a fresh home, connect, and take it away again; say whether all came as it should."""
        with tempfile.TemporaryDirectory(prefix="host-", ignore_cleanup_errors=True) as home:
            file = Path(home, KNOWN[self.known_as].user.linux.removeprefix("~/"))
            file.parent.mkdir(exist_ok=True)
            file.write_text(self.settings)
            told = [self._mcpkit(home, "install", self.known_as, *target)]
            told.append(self._mcpkit(home, "uninstall", self.known_as, "weather"))
            if file.read_text() != self.settings:
                return False, f"not as before: {file.read_text()}"
            told.append(self._mcpkit(home, "install", self.known_as, *target))
            checked = self.host.run(home, *self.check)
            told.append(checked.stdout)
            told.append(
                self._mcpkit(home, "uninstall", self.known_as, "weather")
            )  # its file may have been written
            is_gone = "weather" not in file.read_text()
            return self.has_connected(checked) and is_gone, "\n".join(told)

    def _mcpkit(self, home: str, *arguments: str) -> str:
        finished = subprocess.run(
            [sys.executable, "-m", "mcpkit", *arguments],
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": home},
            capture_output=True,
            encoding="utf-8",
            timeout=TIME_OUT,
        )
        return finished.stdout + finished.stderr


def targets(origin: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield what the hosts are given: a file, a command and a URL."""
    file = folder / "server.py"
    yield "file", [str(file), "--name", "weather"]
    yield "command", [f"{sys.executable} {file} --sample", "--name", "weather"]
    yield "URL", [f"{origin}/mcp", "--name", "weather"]

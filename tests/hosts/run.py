"""Connect the hosts that people use to the weather example, each over every transport that it speaks.

Each starts in a home of its own, with nobody logged in. Ends with status 1 if one of them does not connect.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from node import node_search_path
from serving import serving

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / ".hosts" / "node_modules"
WEATHER = [sys.executable, str(ROOT / "examples" / "weather" / "server.py"), "--sample"]
TIME_OUT = 120.0

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
    """

    name: str
    package: str
    script: str
    before_command: list[str]
    check: list[str]
    has_connected: Callable[[Finished], bool]

    @property
    def version(self) -> str:
        """The version that is installed."""
        return json.loads((PACKAGES / self.package / "package.json").read_text("utf-8"))["version"]

    def run(self, home: str, *arguments: str) -> Finished:
        """Run one of its commands, with an environment that holds nothing of this machine's user."""
        environment = {
            "PATH": node_search_path(),
            "HOME": home,
            "USERPROFILE": home,
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        return subprocess.run(
            ["node", str(PACKAGES / self.package / self.script), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=environment,
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


def reconnected(finished: Finished) -> bool:
    """Qwen Code ends with a status of its own where a server could not be reached."""
    return finished.returncode == 0 and "✓ weather" in finished.stdout


def listed_as_connected(finished: Finished) -> bool:
    """Claude Code ends with 0 whatever it found, so its words count."""
    return (
        finished.returncode == 0 and re.search(r"^weather: .*✔ Connected$", finished.stdout, re.M) is not None
    )


HOSTS = [
    Host(
        "Qwen Code",
        "@qwen-code/qwen-code",
        script="cli-entry.js",
        before_command=[],
        check=["mcp", "reconnect", "--all"],
        has_connected=reconnected,
    ),
    Host(
        "Claude Code",
        "@anthropic-ai/claude-code",
        script="cli-wrapper.cjs",
        before_command=["--"],
        check=["mcp", "list"],
        has_connected=listed_as_connected,
    ),
]


def ways(origin: str) -> Iterator[tuple[str, list[str]]]:
    """Each transport, with the command or the URL that the hosts are given."""
    yield "stdio", WEATHER
    yield "http", [f"{origin}/mcp"]
    yield "sse", [f"{origin}/sse"]


def main() -> int:
    """Try each host in each way and print a line for it."""
    failures: list[str] = []
    print(f"{'host':12} {'version':9} {'transport':9} {'outcome':13} seconds")
    with serving([*WEATHER, "--http", "0"]) as served:
        for host in HOSTS:
            for transport, target in ways(served.origin):
                begin = time.monotonic()
                is_connected, said = host.connects(transport, target)
                seconds = time.monotonic() - begin
                outcome = "connected" if is_connected else "NOT CONNECTED"
                print(f"{host.name:12} {host.version:9} {transport:9} {outcome:13} {seconds:7.1f}")
                if not is_connected:
                    failures.append(f"{host.name} over {transport}:\n{said}")
    print(*failures, sep="\n", end="")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

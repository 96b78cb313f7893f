"""Connect the hosts that people use to the weather example, each over every transport that it speaks.

Then give it to them by `mcpkit install`, and connect them again.

Then let them log in to protected servers and call a tool of theirs, where there is a browser; and let agents call tools
of servers in their own process. Each starts in a home of its own, without a login. Ends with status 1 if one of
them does not connect, does not log in, or does not call.
"""

import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import installed
import pytest
from agents import ClaudeSdk
from host import Finished, Host

from tests.helpers.browser import browsing
from tests.helpers.serving import serving

ROOT = Path(__file__).parents[2]
WEATHER = [sys.executable, str(ROOT / "examples" / "weather" / "server.py"), "--sample"]


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
        log_in=["--auth-type", "openai", "--prompt-interactive", "Say something."],
        ask=["--auth-type", "openai", "--yolo", "--prompt", "Who am I?"],
        # It opens a browser only where it takes there to be a display.
        settings={
            "OPENAI_BASE_URL": "{model}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "scripted",
            "DISPLAY": ":0", "TERM": "xterm",
        },
    ),
    Host(
        "Claude Code",
        "@anthropic-ai/claude-code",
        script="cli-wrapper.cjs",
        before_command=["--"],
        check=["mcp", "list"],
        has_connected=listed_as_connected,
        log_in=["mcp", "login", "notes"],
        ask=["--print", "Who am I?", "--allowedTools", "mcp__notes__whoami"],
        settings={
            "ANTHROPIC_BASE_URL": "{model}",
            "ANTHROPIC_API_KEY": "none",
            "ENABLE_TOOL_SEARCH": "false",
            "TERM": "xterm",
        },
    ),
]  # fmt: skip


LOGINS = [("login", installed.at_a_provider), ("proxy", installed.by_a_proxy)]

INSTALLED = [
    installed.InstalledHost("qwen-code", HOSTS[0], installed.SETTINGS, HOSTS[0].check, reconnected),
    installed.InstalledHost("claude-code", HOSTS[1], installed.PLAIN, HOSTS[1].check, listed_as_connected),
    installed.InstalledHost(
        "qodercli", installed.Qodercli(), installed.SETTINGS, ["mcp", "list"], installed.listed
    ),
]


def ways(origin: str) -> Iterator[tuple[str, list[str]]]:
    """Each transport, with the command or the URL that the hosts are given."""
    yield "stdio", WEATHER
    yield "http", [f"{origin}/mcp"]
    yield "sse", [f"{origin}/sse"]


class Table:
    """The results, one line each.

    Attributes:
        failures: The output of hosts that failed.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []
        print(f"{'host':12} {'version':9} {'way':9} {'outcome':13} seconds")

    def add(self, host, way, goal, attempt) -> None:
        """Try something, and print whether the goal was reached."""
        begin = time.monotonic()
        is_reached, said = attempt()
        seconds = time.monotonic() - begin
        outcome = goal if is_reached else f"NOT {goal.upper()}"
        print(f"{host.name:12} {host.version:9} {way:9} {outcome:13} {seconds:7.1f}", flush=True)
        if not is_reached:
            self.failures.append(f"{host.name}, {way}:\n{said}")


def main() -> int:
    """Try each host in each way and print a line for it."""
    table = Table()
    with serving([*WEATHER, "--http", "0"]) as served:
        for host in HOSTS:
            for transport, target in ways(served.origin):
                table.add(host, transport, "connected", partial(host.connects, transport, target))
        for given in INSTALLED:
            for kind, target in installed.targets(served.origin, ROOT / "examples" / "weather"):
                table.add(given, kind, "installed", partial(given.connects, target))
    try:
        with browsing() as browser:
            for host in HOSTS:
                for way, protected in LOGINS:
                    table.add(host, way, "logged in", partial(installed.logs_in, host, browser, protected))
    except pytest.skip.Exception as reason:
        print(f"no logins: {reason}")
    table.add(agent := ClaudeSdk(), "sdk", "called", agent.calls)
    print(*table.failures, sep="\n", end="")
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())

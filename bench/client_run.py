"""Measures mcpkit's client beside its peers: `python bench/client_run.py`, or `make bench-client`; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environment
from contenders import PEERS, Contender
from figures import Figure, Outcome, Series, run
from report import plain, table
from web_client import WebServer

CLIENTS = Path(__file__).resolve().parent / "client_peers"
FIRST, LAST = 0, (os.cpu_count() or 1) - 1
IMPORTS = {
    "mcpkit": "from mcpkit import Client",
    "mcp": "from mcp import Client",
    "fastmcp": "from fastmcp import Client",
    "bare": "from httpx2 import AsyncClient",
}
TURN = {"calls": 300, "in flight": 640, "lists": 5}
"""How often a client does something when it has its turn."""


class ClientProcess:
    """A client in a process of its own, which runs the commands of its standard input and reports how long each took.

    Attributes:
        pid: The process.
        revision: The revision that it speaks with its server.
    """

    def __init__(self, contender: Contender, target: list[str]) -> None:
        self._process = subprocess.Popen(
            [contender.runtime, str(CLIENTS / f"{contender.module}.py"), *target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=os.environ | {"PYDANTIC_DISABLE_PLUGINS": "__all__"},
        )
        self.pid = self._process.pid
        self.revision: str = self._read()["revision"]

    def do(self, what: str, count: int) -> dict[str, float]:
        """Run a command `count` times; return the times and the memory that the client reports."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {count}\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client has ended with status {self._process.wait()}")
        report: dict[str, Any] = json.loads(line)
        return report

    def servers(self) -> list[int]:
        """Return the processes that it has started."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait(30)


@dataclass(frozen=True)
class Turns:
    """One command over a transport, which the clients run in turn.

    Attributes:
        transport: "stdio", where each has a server of its own, or "http", where one serves all.
        what: What they do.
        apart: Whether client and server have a core each.
        server: What is served: the module over HTTP, the kind of tools over stdio.
    """

    transport: str
    what: str
    apart: bool = False
    server: str = "basic"

    def open(self, contender: Contender, stack: ExitStack) -> ClientProcess:
        """Connect a client."""
        if self.transport == "stdio":
            target = [contender.runtime, str(PEERS / "mcpkit_server.py"), self.server]
        else:
            module = "mcpkit_500_tools" if self.server == "500" else "mcpkit_server"
            served = WebServer(Contender("mcpkit", contender.runtime, module), "load")
            stack.callback(served.close)
            served.connect().close()
            target = [f"http://{served.host}/mcp"]
        client = ClientProcess(contender, [self.transport, *target])
        stack.callback(client.close)
        pin(client.pid, LAST if self.apart else FIRST)
        for server in client.servers():
            pin(server, FIRST)
        client.do(self.what, TURN[self.what])
        SPOKEN[contender.name] = client.revision
        return client

    def sample(self, opened: ClientProcess) -> dict[str, float]:
        """Let it take its turn."""
        return opened.do(self.what, TURN[self.what])


SPOKEN: dict[str, str] = {}
"""Which revision each client has found out to speak."""


def pin(process: int, core: int) -> None:
    """Have all threads of a process run on a core."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), {core})


class Import:
    """A fresh process each time, which imports the client."""

    def open(self, contender: Contender, stack: ExitStack) -> list[str]:
        """Return the command of a process that imports it."""
        del stack
        code = (
            f"import time; begin = time.perf_counter(); {IMPORTS[contender.name]}; "
            "seconds = time.perf_counter() - begin; import sys; sys.path.insert(0, sys.argv[1]); "
            "import command_loop; command_loop.write({'wall': seconds, 'resident': command_loop.resident()})"
        )
        return [contender.runtime, "-c", code, str(CLIENTS)]

    def sample(self, opened: list[str]) -> dict[str, float]:
        """Import it once."""
        report = subprocess.run(opened, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
        sample: dict[str, float] = json.loads(report)
        return sample


def over(transport: str) -> list[Series]:
    """Return the figures over a transport."""

    def against(title: str, unit: str, *, with_bare: bool = True) -> list[Figure]:
        aim = 3 if transport == "stdio" else None
        figures = [
            Figure("wall", f"{transport}: {title}", unit, target=aim),
            Figure("wall", "... against fastmcp", unit, target=aim, against="fastmcp"),
            Figure("processor", "... processor time of the client", unit),
        ]
        if transport == "http" and with_bare:
            figures.append(Figure("wall", "... against a bare POST", unit, 1.2, "share", "bare"))
        return figures

    memory = [
        Figure("resident", f"{transport}: resident memory of the client after it", "MB", 0.5, "share"),
        Figure("resident", "... against fastmcp", "MB", 0.5, "share", "fastmcp"),
    ]

    def takes_part(contender: Contender) -> bool:
        return transport == "http" or contender.name != "bare"

    one = Series(
        f"{transport}: one after the other",
        Turns(transport, "calls"),
        [*against("a call, one after the other", "µs"), *memory],
        15,
        takes_part,
    )
    many = Series(
        f"{transport}: 64 in flight",
        Turns(transport, "in flight", apart=True),
        against("a call, 64 in flight", "µs"),
        15,
        takes_part,
    )
    lists = Series(
        f"{transport}: 500 tools",
        Turns(transport, "lists", server="500"),
        against("500 tools listed", "ms"),
        9,
        takes_part,
    )
    return [one, many, lists]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, help="at most so many samples of each figure (default: 9 to 15)"
    )
    parser.add_argument(
        "--only", action="append", help="only series with this in their name; may be repeated"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    options = parser.parse_args()
    python = environment.python_with_peers(sys.executable)
    everybody = [Contender(name, str(python), f"{name}_client") for name in IMPORTS]
    importing = Series(
        "import",
        Import(),
        [
            Figure("wall", "the client imported", "ms", target=3),
            Figure("wall", "... against fastmcp", "ms", target=3, against="fastmcp"),
            Figure("resident", "... resident memory then", "MB", 0.5, "share"),
        ],
        9,
    )
    outcomes: list[Outcome] = []
    for series in [*over("stdio"), *over("http"), importing]:
        if options.only is None or any(part in series.title for part in options.only):
            print(f"measuring {series.title} ...", file=sys.stderr)
            outcomes += run(series, everybody, options.rounds)
    versions = environment.versions(python, None)
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    print(f"\nCPython {python.parent.parent.name} on {platform.platform()}: {shown}")
    print(", ".join(f"{name} speaks {revision}" for name, revision in SPOKEN.items()), end="\n\n")
    print(table(outcomes, [each.name for each in everybody]))
    if options.json is not None:
        options.json.write_text(
            json.dumps({"versions": versions, "figures": plain(outcomes)}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()

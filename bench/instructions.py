"""How many instructions a server executes for one `tools/call` over HTTP, and how often its caches miss.

    python bench/instructions.py --only sessions --peer mcpkit

valgrind's callgrind counts them on a simulated processor, so that a busy machine changes nothing: two runs of the same
code differ by a few parts in ten thousand, where times differ by tenths. The counts tell which of two versions does
less; they are no times, and leave out the kernel. It needs Linux and valgrind (Debian's package of that name), and of
Python packages what `bench/run_http.py` needs. A server is some fifty times slower this way, so nothing is counted
before its caches are warm.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from client import FIRST_ID, HANDSHAKE, STATELESS
from contenders import Contender, web_contenders
from web_client import Calls, WebServer, read_answer

CONNECTIONS = 32  # as many as wrk keeps open for the load
UNCOUNTED = 40  # rounds of one call on each connection, after which Python has specialized its bytecode
WARMING = 10  # rounds that fill the simulated caches
ROUNDS = 40
MODES = {
    "stateless": (STATELESS, "sessions"),
    "sessions": (HANDSHAKE, "sessions"),
    "no sessions": (HANDSHAKE, "stateless"),
}
EVENTS = {
    "Ir": "instructions",
    "I1mr": "I1 misses",
    "D1m": "D1 misses",
    "LLm": "LL misses",
    "Bm": "mispredicted",
}


@dataclass(frozen=True)
class Counted(Contender):
    """A contender whose server runs under callgrind."""

    out: str = ""

    def web_argv(self, mode: str, descriptor: int) -> list[str]:
        valgrind = [
            "valgrind",
            "--tool=callgrind",
            "--cache-sim=yes",
            "--branch-sim=yes",
            "--instr-atstart=no",
            f"--callgrind-out-file={self.out}",
        ]
        return valgrind + super().web_argv(mode, descriptor)


def ask_all(calls: Calls, connections: list[socket.socket], first: int, rounds: int) -> int:
    """Make one call on each connection, all at once, and read the answers; so many times. Returns the next id."""
    for _ in range(rounds):
        for number, connection in enumerate(connections, first):
            connection.sendall(calls.request(number))
        for connection in connections:
            assert read_answer(connection).status == 200
        first += len(connections)
    return first


def tell(process: int, command: str) -> None:
    """Give callgrind in another process one of its commands."""
    subprocess.run(["vgdb", f"--pid={process}", *command.split()], check=True, capture_output=True)


def count(contender: Contender, title: str, out: Path) -> dict[str, float]:
    """Return the events of one call; `out` is where callgrind writes what `callgrind_annotate` reads."""
    revision, mode = MODES[title]
    counted = Counted(**{**vars(contender), "out": str(out)})
    with WebServer(counted, mode, {"PYTHONHASHSEED": "0"}) as server:
        sessions = CONNECTIONS if title == "sessions" and contender.name != "bare" else 0
        calls = Calls(server, revision, sessions)
        connections = [server.connect() for _ in range(CONNECTIONS)]
        number = ask_all(calls, connections, FIRST_ID, UNCOUNTED)
        tell(server.process.pid, "instrumentation on")
        number = ask_all(calls, connections, number, WARMING)
        tell(server.process.pid, "zero")
        ask_all(calls, connections, number, ROUNDS)
        tell(server.process.pid, "dump")
        for connection in connections:
            connection.close()
    return read(Path(f"{out}.1"))


def read(profile: Path) -> dict[str, float]:
    """Return the totals of a profile for each call."""
    lines = profile.read_text().splitlines()
    names = next(line for line in lines if line.startswith("events:")).split()[1:]
    values = next(line for line in lines if line.startswith(("totals:", "summary:"))).split()[1:]
    found = dict(zip(names, map(int, values), strict=False))
    found["D1m"] = found["D1mr"] + found["D1mw"]
    found["LLm"] = found["ILmr"] + found["DLmr"] + found["DLmw"]
    found["Bm"] = found["Bcm"] + found["Bim"]
    return {name: found[name] / (ROUNDS * CONNECTIONS) for name in EVENTS}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="runs the servers")
    parser.add_argument("--only", choices=list(MODES), action="append", help="a mode; all when not given")
    parser.add_argument("--peer", action="append", help="whom to count; mcpkit and bare when not given")
    parser.add_argument("--out", type=Path, help="a folder that keeps the profiles, for callgrind_annotate")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("no valgrind on PATH, which counts: `apt-get install valgrind` (Debian, Ubuntu)")
    peers = options.peer or ["mcpkit", "bare"]
    print(f"{'':24}" + "".join(f"{each:>14}" for each in EVENTS.values()))
    with tempfile.TemporaryDirectory() as folder:
        for title in options.only or MODES:
            for contender in web_contenders(options.python):
                if contender.name in peers:
                    out = (options.out or Path(folder)) / f"{contender.name}-{title.replace(' ', '-')}"
                    counts = "".join(f"{each:14,.0f}" for each in count(contender, title, out).values())
                    print(f"{title:14}{contender.name:10}{counts}", flush=True)


if __name__ == "__main__":
    main()

"""Counts the instructions and the memory of a server: of this checkout, and of another beside it.

    python bench/instructions.py --base ../other-checkout
    python bench/instructions.py --only "stdio stateless" --only start --out profiles

valgrind's callgrind counts the instructions, so that a busy machine changes nothing: two runs of the same code differ
by a few parts in a thousand, where times differ by tenths. The counts show which of two versions does less; they are
no times, and leave out the kernel. It needs Linux and valgrind (Debian's package of that name), and uvicorn with
httptools and uvloop for what goes over HTTP. A server is some fifty times slower this way.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from client import HANDSHAKE, INITIALIZE, STATELESS, Child
from ways import SERVERS, Memory, Pipes, Way, Web, environment

ROOT: Final = Path(__file__).resolve().parent.parent
UNCOUNTED: Final = 40  # calls after which Python has specialized its bytecode
ROUNDS: Final = 40
WORSE: Final = 1.03  # the ratio from which on a line is marked

WAYS: Final[dict[str, Callable[[Path, Sequence[str]], Way]]] = {
    "stdio handshake": lambda checkout, before: Pipes(checkout, before, HANDSHAKE),
    "stdio stateless": lambda checkout, before: Pipes(checkout, before, STATELESS),
    "HTTP session": lambda checkout, before: Web(checkout, before, HANDSHAKE),
    "HTTP stateless": lambda checkout, before: Web(checkout, before, STATELESS),
    "in memory handshake": lambda checkout, before: Memory(checkout, before, HANDSHAKE),
    "in memory stateless": lambda checkout, before: Memory(checkout, before, STATELESS),
}
STARTS: Final = {"start": "start.py", "start with an app": "start_app.py"}


def call(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments}


LINES: Final = {
    "int": call("add", a=1, b=2),
    "async": call("add_async", a=1, b=2),
    "dict": call("record", city="Oslo"),
    "model": call("mirror", point={"name": "here", "x": 1.5}),
    "text": call("echo", text="good morning"),
    "list": ("tools/list", {}),
    "resource": ("resources/read", {"uri": "counted://state"}),
}


def vgdb(process: int, command: str) -> None:
    """Give callgrind in another process one of its commands."""
    subprocess.run(["vgdb", f"--pid={process}", *command.split()], check=True, capture_output=True)


def callgrind(out: Path, *options: str) -> list[str]:
    """Return the command that runs another under callgrind, which writes its profiles to `out` and a number."""
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *options]


def instructions(profile: Path) -> int:
    """Return what was counted in a profile."""
    lines = profile.read_text().splitlines()
    return int(next(each for each in lines if each.startswith(("totals:", "summary:"))).split()[1])


def count_calls(title: str, checkout: Path, out: Path) -> Iterator[tuple[str, float]]:
    """Yield the instructions of one call for each line of a way."""
    way = WAYS[title](checkout, callgrind(out, "--instr-atstart=no"))
    with closing(way):
        for method, params in LINES.values():
            way.ask(method, params, UNCOUNTED)
        way.ask(*call("quiet"), 1)
        vgdb(way.process, "instrumentation on")
        for number, (name, (method, params)) in enumerate(LINES.items(), 1):
            result = way.ask(method, params, 2)
            assert not result.get("isError"), result
            vgdb(way.process, "zero")
            way.ask(method, params, ROUNDS)
            vgdb(way.process, "dump")
            yield f"{title}, {name}", instructions(Path(f"{out}.{number}")) / ROUNDS


def count_start(title: str, checkout: Path, out: Path) -> float:
    """Return the instructions from the start of the process to its first answer."""
    os.environ.update(environment(checkout))
    with Child([sys.executable, str(SERVERS / STARTS[title])]) as child:  # compiles what is not yet
        child.ask(INITIALIZE)
    with Child([*callgrind(out), sys.executable, str(SERVERS / STARTS[title])]) as child:
        child.ask(INITIALIZE)
        vgdb(child.process.pid, "dump")
    return instructions(Path(f"{out}.1"))


def trace_calls(title: str, checkout: Path) -> Iterator[tuple[str, float]]:
    """Yield the most bytes that one call takes, for each line of a way."""
    with closing(WAYS[title](checkout, [])) as way:
        for name, (method, params) in LINES.items():
            way.ask(*call("trace"), 1)
            way.ask(method, params, UNCOUNTED)
            found: list[float] = []
            for _ in range(3):  # of which the least is the call alone
                way.ask(*call("trace"), 1)
                way.ask(method, params, 1)
                found.append(float(way.ask(*call("traced"), 1)["content"][0]["text"]))
            yield f"{title}, {name}", min(found)


def resident(title: str, checkout: Path) -> float:
    """Return the resident memory of a server that has answered `initialize`, in KiB: the least of five starts."""
    os.environ.update(environment(checkout))
    found: list[int] = []
    for _ in range(5):
        with Child([sys.executable, str(SERVERS / STARTS[title])]) as child:
            child.ask(INITIALIZE)
            found.append(child.memory()[1])
    return min(found)


def is_selected(title: str, only: Sequence[str] | None) -> bool:
    return only is None or any(part in title for part in only)


def measurements(
    only: Sequence[str] | None, checkouts: Sequence[Path], folder: Path
) -> Iterator[tuple[str, str, list[float]]]:
    """Yield each line: its title, its unit, and what was counted in each of the checkouts."""
    for title in [each for each in WAYS if is_selected(each, only)]:
        for unit, count in (
            ("instructions", lambda place, out: count_calls(title, place, out)),  # noqa: B023 - used at once
            ("bytes at most", lambda place, out: trace_calls(title, place)),  # noqa: B023
        ):
            outs = [folder / f"{title.replace(' ', '-')}-{number}" for number in range(len(checkouts))]
            found = [dict(count(place, out)) for place, out in zip(checkouts, outs, strict=True)]
            for name in found[0]:
                yield name, unit, [each[name] for each in found]
    for title in [each for each in STARTS if is_selected(each, only)]:
        outs = [folder / f"{title.replace(' ', '-')}-{number}" for number in range(len(checkouts))]
        counts = [float(count_start(title, place, out)) for place, out in zip(checkouts, outs, strict=True)]
        yield title, "instructions", counts
        yield title, "KiB resident", [resident(title, place) for place in checkouts]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkout", type=Path, default=ROOT, help="what is counted; where this file lies")
    parser.add_argument("--base", type=Path, help="another checkout, which it is compared with")
    parser.add_argument("--only", action="append", help="ways with this in their name; may be repeated")
    parser.add_argument("--out", type=Path, help="a folder that keeps the profiles, for callgrind_annotate")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("no valgrind on PATH, which counts: `apt-get install valgrind` (Debian, Ubuntu)")
    checkouts = [each.resolve() for each in (options.checkout, options.base) if each is not None]
    print(f"{'':32}{'':16}{'here':>14}" + (f"{'base':>14}{'ratio':>8}" if options.base else ""), flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, unit, counts in measurements(options.only, checkouts, options.out or Path(folder)):
            row = f"{name:32}{unit:16}" + "".join(f"{each:14,.0f}" for each in counts)
            if len(counts) > 1:
                ratio = counts[0] / counts[1]
                row += f"{ratio:8.3f}" + (" worse" if ratio > WORSE else "")
            print(row, flush=True)


if __name__ == "__main__":
    main()

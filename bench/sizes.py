"""Measures large arguments and results: `python bench/sizes.py`. See README.md."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Final

from client import HANDSHAKE, INITIALIZE, INITIALIZED, Child, requests
from ways import Served, environment
from web_client import WebServer, processor_time

LARGE: Final = Path(__file__).resolve().parent / "large"
sys.path.insert(0, str(LARGE))

import payloads  # noqa: E402 - it lies beside the servers

PEERS: Final = ("mcpkit", "mcp", "loop")
SIZES: Final = {"10 KB": 10_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
CALLS: Final = {"10 KB": 200, "1 MB": 8, "10 MB": 1}
ROUNDS: Final = 9
MOST_OF_LOOP: Final = {"stdio": 1.3, "HTTP": 1.5}
MOST_OF_MCP: Final = {"10 KB": 0.5, "1 MB": 1.0, "10 MB": 1.0}

Ask = Callable[[bytes], bytes]


class Peer:
    """A running server: how it is asked, and its process."""

    def __init__(self, name: str, way: str, stack: ExitStack) -> None:
        command = [sys.executable, str(LARGE / (f"{name}.py" if name == "loop" else f"{name}_server.py"))]
        self.ask: Ask
        if way == "stdio":
            child = stack.enter_context(Child([*command, "stdio"]))
            child.ask(INITIALIZE)
            child.notify(INITIALIZED)
            self.process = child.process.pid
            self.ask = child.ask
        else:
            served = Served(name, sys.executable, None, command=(*command, "http"))
            server = stack.enter_context(WebServer(served, ""))
            headers = server.handshake()
            self.process = server.process.pid
            self.ask = lambda body: server.post(body, headers).body

    def takes(self, params: dict[str, Any]) -> bool:
        """Return whether it answers a call at all: a body may be too long for it."""
        return b'"result"' in self.ask(requests("tools/call", params, 1, HANDSHAKE)[0])[:100]

    def sample(self, params: dict[str, Any], count: int) -> float:
        """Return the seconds of a processor that one call takes."""
        messages = requests("tools/call", params, count, HANDSHAKE)
        before = processor_time(self.process)
        for request in messages:
            answer = self.ask(request)
        spent = processor_time(self.process) - before
        result = json.loads(answer)["result"]
        assert not result.get("isError"), result
        return spent / count


def params_of(direction: str, kind: str, size: int) -> dict[str, Any]:
    """Return the params of a call that takes or gives a payload."""
    if direction == "in":
        return {"name": "take", "arguments": {"text": payloads.text(kind, size)}}
    if kind == "base64":
        return {"name": "give_image", "arguments": {"size": size}}
    return {"name": "give", "arguments": {"kind": kind, "size": size}}


def measure(way: str, direction: str, kind: str, size: str, peers: dict[str, Peer], rounds: int) -> str:
    """Return the row of one payload: milliseconds of each peer, and the ratios taken in each round."""
    params = params_of(direction, kind, SIZES[size])
    samples: dict[str, list[float]] = {name: [] for name, peer in peers.items() if peer.takes(params)}
    for number in range(rounds):
        for name in samples if number % 2 == 0 else reversed(samples):
            samples[name].append(peers[name].sample(params, CALLS[size]))
    cells = [f"{way}, {direction}, {kind}, {size}"]
    cells += [f"{median(samples[name]) * 1e3:.3g}" if name in samples else "refused" for name in peers]
    limit = {"mcp": MOST_OF_MCP[size], "loop": MOST_OF_LOOP[way] if size != "10 KB" else None}
    cells += [ratio_to(samples["mcpkit"], samples.get(name, ()), limit[name]) for name in list(peers)[1:]]
    return "| " + " | ".join(cells) + " |"


def ratio_to(ours: Sequence[float], theirs: Sequence[float], limit: float | None) -> str:
    """Return the median of the ratios, round by round, and the limit of it."""
    if not theirs:
        return "-"
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    if limit is None:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} (≤ {limit:g}{'' if ratio <= limit else ': **no**'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="rows with this in their name; may be repeated")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="samples of each (%(default)s)")
    parser.add_argument("--without", choices=PEERS[1:], action="append", default=[], help="leave one out")
    parser.add_argument(
        "--checkout", type=Path, default=LARGE.parent.parent, help="the checkout that is measured"
    )
    options = parser.parse_args()
    os.environ.update(environment(options.checkout.resolve()))
    names = [name for name in PEERS if name not in options.without]
    ratios = [f"of {name}" for name in names[1:]]
    print("| processor time, ms | " + " | ".join([*names, *ratios]) + " |")
    print("| --- " * (1 + len(names) + len(ratios)) + "|", flush=True)
    for way in MOST_OF_LOOP:
        rows = [
            (direction, kind, size)
            for direction, kind, size in product(("in", "out"), payloads.KINDS, SIZES)
            if options.only is None
            or any(part in f"{way}, {direction}, {kind}, {size}" for part in options.only)
        ]
        if rows:
            with ExitStack() as stack:
                peers = {name: Peer(name, way, stack) for name in names}
                for direction, kind, size in rows:
                    print(measure(way, direction, kind, size, peers, options.rounds), flush=True)


if __name__ == "__main__":
    main()

"""The figures: what is sampled of which library, in which order, and the target that mcpkit has for each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from client import HANDSHAKE, STATELESS
from contenders import Contender
from probes import Frames, InMemory, Launch, PipeCalls, PipeLists, Probe, Register


@dataclass(frozen=True)
class Figure:
    """One row. `kind` is the kind of `target`: a share of a peer's cost, times faster than the peer, or a limit."""

    key: str
    title: str
    unit: str = "µs"
    target: float | None = None
    kind: Literal["share", "times", "limit"] = "times"
    against: str = "mcp"


@dataclass(frozen=True)
class Series:
    """Figures that come from the same probe, and who can take part in it."""

    title: str
    probe: Probe
    figures: Sequence[Figure]
    rounds: int
    takes_part: Callable[[Contender], bool] = lambda contender: True


@dataclass
class Outcome:
    """The samples of one figure, round by round, for each contender by name."""

    figure: Figure
    samples: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def typical(self, name: str) -> float | None:
        values = self.samples.get(name)
        return median(values) if values else None

    def ratios(self) -> list[float]:
        """Return mcpkit against the figure's peer pair by pair, in the sense of the figure's kind."""
        peer = self.samples.get(self.figure.against, [])
        pairs = zip(self.samples.get("mcpkit", []), peer, strict=False)
        return [theirs / ours if self.figure.kind == "times" else ours / theirs for ours, theirs in pairs]

    def reached(self) -> bool | None:
        ratios = self.ratios()
        ours = self.typical("mcpkit")
        if self.figure.target is None or ours is None or not ratios:
            return None
        if self.figure.kind == "limit":
            return ours <= self.figure.target
        if self.figure.kind == "share":
            return median(ratios) <= self.figure.target
        return median(ratios) >= self.figure.target

    def ahead(self) -> list[str]:
        """Return the names of those that did better than mcpkit."""
        ours = self.typical("mcpkit")
        if ours is None:
            return []
        return [name for name in self.samples if name != "mcpkit" and (self.typical(name) or ours) < ours]


def every_series() -> list[Series]:
    def calls(kind: str, tool: str, revision: str, *, targets: bool) -> Series:
        about = {"add": "async tool", "add_sync": "sync tool", "add_structured": "structured result"}[tool]
        return Series(
            f"stdio calls, {tool}, {revision}",
            PipeCalls(kind, tool, revision),
            [
                Figure(
                    "one core", f"stdio call, sequential, {about}, {revision}", target=10 if targets else None
                ),
                Figure("two cores", "... client and server on a core each", target=10 if targets else None),
                Figure(
                    "in flight",
                    f"stdio call, 64 in flight, {about}, {revision}",
                    target=18 if targets else None,
                ),
            ],
            rounds=11 if targets else 5,
            takes_part=lambda each: kind in each.kinds and revision in each.revisions and served(each, tool),
        )

    def served(contender: Contender, tool: str) -> bool:
        return tool == "add" or "structured" in contender.kinds

    def memory_calls(revision: str) -> Series:
        return Series(
            f"in-memory calls, {revision}",
            InMemory("calls", revision),
            [Figure("in memory", f"in-memory client call, {revision}", target=10)],
            rounds=15,
            takes_part=lambda each: each.in_memory and revision in each.revisions,
        )

    def lists(revision: str) -> list[Series]:
        return [
            Series(
                f"stdio tools/list of 500, {revision}",
                PipeLists(revision),
                [
                    Figure("one core", f"`tools/list` of 500, stdio, {revision}", "ms", target=50),
                    Figure("two cores", "... client and server on a core each", "ms", target=50),
                    Figure("bytes", f"... its size, {revision}", "KB", kind="share"),
                ],
                rounds=7,
                takes_part=lambda each: "500" in each.kinds and revision in each.revisions,
            ),
            Series(
                f"in-memory tools/list of 500, {revision}",
                InMemory("lists", revision),
                [Figure("in memory", f"`tools/list` of 500, in memory, {revision}", "ms", target=50)],
                rounds=7,
                takes_part=lambda each: each.in_memory and revision in each.revisions,
            ),
        ]

    return [
        Series(
            "launch",
            Launch(),
            [
                Figure("start", "process start to `initialize` answered", "ms", target=0.35, kind="share"),
                Figure("resident", "resident memory after `tools/list`", "MB", target=0.6, kind="share"),
                Figure("peak", "... its peak until then", "MB", kind="share"),
            ],
            rounds=7,
        ),
        calls("basic", "add", HANDSHAKE, targets=True),
        calls("basic", "add", STATELESS, targets=True),
        calls("basic", "add_sync", HANDSHAKE, targets=False),
        calls("structured", "add_structured", HANDSHAKE, targets=False),
        memory_calls(HANDSHAKE),
        memory_calls(STATELESS),
        Series(
            "registration",
            Register(),
            [Figure("register", "registering 500 documented tools", "ms", target=0.5, kind="share")],
            rounds=7,
            takes_part=lambda each: each.in_memory,
        ),
        *lists(HANDSHAKE),
        *lists(STATELESS),
        Series(
            "frames",
            Frames(),
            [
                Figure(
                    "add", "frames from decode to the function, async tool", "frames", target=10, kind="limit"
                ),
                Figure(
                    "add_sync",
                    "frames from decode to the function, sync tool",
                    "frames",
                    target=10,
                    kind="limit",
                ),
            ],
            rounds=1,
            takes_part=lambda each: each.in_memory,
        ),
    ]


def run(series: Series, everybody: Sequence[Contender], rounds: int | None) -> list[Outcome]:
    """Sample all in turn, round after round, so that what disturbs the machine disturbs all alike.

    The order turns around every other round: A B, B A, A B. A contender that fails is left out of the later
    rounds, and what it said is kept.
    """
    outcomes = [Outcome(figure) for figure in series.figures]

    def failed(contender: Contender, error: Exception) -> None:
        print(f"{series.title}: {contender.name} failed: {error}", file=sys.stderr)
        for outcome in outcomes:
            outcome.failures[contender.name] = str(error)

    with ExitStack() as stack:
        opened: list[tuple[Contender, object]] = []
        for contender in filter(series.takes_part, everybody):
            try:
                opened.append((contender, series.probe.open(contender, stack)))
            except Exception as error:
                failed(contender, error)
        for number in range(min(rounds or series.rounds, series.rounds)):
            for contender, handle in opened if number % 2 == 0 else opened[::-1]:
                if contender.name in outcomes[0].failures:
                    continue
                try:
                    sample = series.probe.sample(handle)
                except Exception as error:
                    failed(contender, error)
                    continue
                for outcome in outcomes:
                    outcome.samples.setdefault(contender.name, []).append(sample[outcome.figure.key])
    return outcomes

"""The probes: each opens its contenders, and takes one sample of one of them at a time."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import workload
from client import HANDSHAKE, INITIALIZE, INITIALIZED, Child, requests, results
from contenders import Contender

DEFAULT_TIMEOUT = 60.0  # seconds that a server gets for one sample before it is stopped
SAMPLE = 0.2  # seconds that one sample should take, where calls are counted
WINDOW = 64

Sample = dict[str, float]


class Probe(Protocol):
    """`sample` returns figure name to cost (seconds, or KiB); `stack` closes what `open` has opened."""

    def open(self, contender: Contender, stack: ExitStack) -> Any: ...

    def sample(self, opened: Any) -> Sample: ...


def answer(child: Child, request: bytes) -> dict[str, Any]:
    return results([child.ask(request)], 1)[0]


class Launch:
    """A fresh process each time: start to `initialize` answered, then memory once it has listed its tools."""

    def open(self, contender: Contender, stack: ExitStack) -> list[str]:
        del stack
        return contender.argv("basic")

    def sample(self, opened: list[str]) -> Sample:
        with Child(opened) as child, child.deadline(DEFAULT_TIMEOUT):
            reply = json.loads(child.ask(INITIALIZE))
            started = time.perf_counter() - child.started
            assert reply["result"]["protocolVersion"] == HANDSHAKE, reply
            child.notify(INITIALIZED)
            assert answer(child, requests("tools/list", {}, 1, HANDSHAKE)[0])["tools"]
            resident, peak = child.memory()
        return {"start": started, "resident": resident, "peak": peak}


class PipeCalls:
    """`tools/call` over stdio: one after the other, and with 64 in flight.

    Of two that take turns only one ever runs. On two cores each turn also wakes an idle core, which can take the
    machine longer than the server needs for the call; so both placements are measured. With 64 in flight client
    and server have a core each.
    """

    def __init__(self, kind: str, tool: str, revision: str) -> None:
        self.kind, self.tool, self.revision = kind, tool, revision

    def open(self, contender: Contender, stack: ExitStack) -> tuple[Child, int]:
        child = opened_child(contender, self.kind, self.revision, stack)
        with child.deadline(DEFAULT_TIMEOUT):
            self._verify(answer(child, self._requests(1)[0]))
            begin = time.perf_counter()
            while time.perf_counter() - begin < 1.0:  # warm: node compiles what is hot, caches fill
                seconds, _ = child.concurrent(self._requests(WINDOW * 2), WINDOW)
        return child, max(WINDOW * 2, int(SAMPLE / (seconds / (WINDOW * 2))))

    def sample(self, opened: tuple[Child, int]) -> Sample:
        child, count = opened
        wanted = self._requests(count)
        few = wanted[: max(100, count // 2)]
        with child.deadline(DEFAULT_TIMEOUT):
            with child.pinned(one_core=True):
                together = child.sequential(few)
            with child.pinned(one_core=False):
                apart = child.sequential(few)
                concurrent = child.concurrent(wanted, WINDOW)
        for _, answers in (together, apart, concurrent):
            for result in results(answers, len(answers)):
                self._verify(result)
        taken = {"one core": together, "two cores": apart, "in flight": concurrent}
        return {key: seconds / len(answers) for key, (seconds, answers) in taken.items()}

    def _requests(self, count: int) -> list[bytes]:
        return requests(
            "tools/call", {"name": self.tool, "arguments": workload.ARGUMENTS}, count, self.revision
        )

    def _verify(self, result: dict[str, Any]) -> None:
        text = result["content"][0]["text"]
        if self.kind == "structured":
            right = result["structuredContent"] == workload.STRUCTURED == json.loads(text)
        else:
            right = text == workload.TEXT and "structuredContent" not in result
        if not right or result.get("isError"):
            raise AssertionError(f"wrong answer: {result}")


class PipeLists:
    """`tools/list` of 500 over stdio; a server that insists on pages is asked for every page."""

    TOOLS = 500

    def __init__(self, revision: str) -> None:
        self.revision = revision

    def open(self, contender: Contender, stack: ExitStack) -> tuple[Child, list[bytes], int]:
        child = opened_child(contender, str(self.TOOLS), self.revision, stack)
        pages: list[bytes] = []
        names: list[str] = []
        params: dict[str, Any] = {}
        with child.deadline(DEFAULT_TIMEOUT):
            while True:
                page = requests("tools/list", params, 1, self.revision)[0]
                pages.append(page)
                result = answer(child, page)
                names += [tool["name"] for tool in result["tools"]]
                self._verify(result["tools"])
                if "nextCursor" not in result:
                    break
                params = {"cursor": result["nextCursor"]}
            assert names == [f"tool_{n:03d}" for n in range(self.TOOLS)], names[:3]
            seconds, _ = child.sequential(pages * 5)
        return child, pages, min(200, max(3, int(SAMPLE / (seconds / 5))))

    def sample(self, opened: tuple[Child, list[bytes], int]) -> Sample:
        child, pages, count = opened
        with child.deadline(DEFAULT_TIMEOUT):
            with child.pinned(one_core=True):
                together, answers = child.sequential(pages * count)
            with child.pinned(one_core=False):
                apart, again = child.sequential(pages * count)
        lengths = [len(each) for each in answers]
        # The pages were verified when opened; the same bytes are expected again and again.
        assert lengths == lengths[: len(pages)] * count == [len(each) for each in again]
        size = float(sum(lengths[: len(pages)]))
        return {"one core": together / count, "two cores": apart / count, "bytes": size}

    def _verify(self, tools: Sequence[dict[str, Any]]) -> None:
        for tool in tools:
            assert tool["description"].startswith("Search collection"), tool
            assert list(tool["inputSchema"]["properties"]) == [
                "query",
                "limit",
                "threshold",
                "tags",
                "order",
            ], tool


class InMemory:
    """The library's own in-memory client, in the server's process: calls one after the other, or lists."""

    def __init__(self, figure: str, revision: str) -> None:
        self.figure, self.revision = figure, revision

    def open(self, contender: Contender, stack: ExitStack) -> tuple[Any, int]:
        tools = PipeLists.TOOLS if self.figure == "lists" else 0
        argv = [contender.runtime, str(Path(__file__).parent / "inprocess.py")]
        worker = subprocess.Popen(
            [*argv, str(contender.module), "serve", self.revision, str(tools)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.enter_context(worker)
        assert worker.stdin is not None
        stack.callback(worker.stdin.close)
        assert worker.stdout is not None
        if not (ready := worker.stdout.readline()):
            assert worker.stderr is not None
            raise AssertionError(worker.stderr.read()[-2000:])
        assert json.loads(ready) == "ready"
        trial = 5 if tools else 300
        seconds = self._ask(worker, self.figure, trial)
        return worker, max(trial, int(SAMPLE / (seconds / trial)))

    def sample(self, opened: tuple[Any, int]) -> Sample:
        worker, count = opened
        return {"in memory": self._ask(worker, self.figure, count) / count}

    def _ask(self, worker: Any, figure: str, count: int) -> float:
        print(json.dumps({"figure": figure, "count": count}), file=worker.stdin, flush=True)
        return float(json.loads(worker.stdout.readline()))


class Register:
    """500 documented functions given to the decorator in a fresh process; the library is imported before."""

    def open(self, contender: Contender, stack: ExitStack) -> list[str]:
        del stack
        program = str(Path(__file__).parent / "inprocess.py")
        return [
            contender.runtime,
            program,
            str(contender.module),
            "register",
            HANDSHAKE,
            str(PipeLists.TOOLS),
        ]

    def sample(self, opened: list[str]) -> Sample:
        done = subprocess.run(opened, check=False, capture_output=True, text=True, timeout=DEFAULT_TIMEOUT)
        if done.returncode:
            raise AssertionError(done.stderr[-2000:])
        return {"register": float(done.stdout)}


class Frames:
    """The frames of the framework that a call passes on its way to the tool; `frames.py` defines what counts."""

    def open(self, contender: Contender, stack: ExitStack) -> list[str]:
        del stack
        return [contender.runtime, str(Path(__file__).parent / "frames.py"), str(contender.module)]

    def sample(self, opened: list[str]) -> Sample:
        tools = (
            "add",
            "add_sync",
            "add",
            "add_sync",
        )  # the first call of each does what is done once
        with Child(opened) as child, child.deadline(DEFAULT_TIMEOUT):
            child.ask(INITIALIZE)
            child.notify(INITIALIZED)
            for tool in tools:
                time.sleep(0.4)  # what tells one call from the next is that nothing happens between them
                answer(
                    child,
                    requests("tools/call", {"name": tool, "arguments": workload.ARGUMENTS}, 1, HANDSHAKE)[0],
                )
        told = [json.loads(each)["frames"] for each in child.errors if each.startswith(b'{"frames"')]
        return dict(zip(tools, map(float, told), strict=True))


def opened_child(contender: Contender, kind: str, revision: str, stack: ExitStack) -> Child:
    child = stack.enter_context(Child(contender.argv(kind)))
    if revision == HANDSHAKE:
        with child.deadline(DEFAULT_TIMEOUT):
            assert json.loads(child.ask(INITIALIZE))["result"]["protocolVersion"] == HANDSHAKE
        child.notify(INITIALIZED)
    return child


def own_cost(rounds: int) -> Sample:
    """Return what a call costs when `cat` is the server: the client and the two pipes."""
    with Child(["cat"]) as child, child.deadline(DEFAULT_TIMEOUT):
        wanted = requests("tools/call", {"name": "add", "arguments": workload.ARGUMENTS}, 5000, HANDSHAKE)
        child.concurrent(wanted, WINDOW)
        with child.pinned(one_core=True):
            together = [child.sequential(wanted)[0] / len(wanted) for _ in range(rounds)]
        with child.pinned(one_core=False):
            apart = [child.sequential(wanted)[0] / len(wanted) for _ in range(rounds)]
            concurrent = [child.concurrent(wanted, WINDOW)[0] / len(wanted) for _ in range(rounds)]
    return {"one core": median(together), "two cores": median(apart), "in flight": median(concurrent)}

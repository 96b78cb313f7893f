"""Measures how tasks scale with workers: `make bench-tasks`, or with `ARGS="--engine sqlite"`.

Each round makes the tasks first, while the workers are up and do not know the tool yet. Then all of them get to know it
at once, and the clock runs from there to the end of the last task. What is counted is what the functions wrote down.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tasks_server import add_tool, make_server

from mcpkit.testing import connect
from tests.helpers.redis_server import RedisServer

HERE = Path(__file__).parent
TASKS = "io.modelcontextprotocol/tasks"
SLOTS = 8
WAIT = 0.1


class Round(NamedTuple):
    """The outcome of one round.

    Attributes:
        seconds: From the word to the end of the last task.
        processor: Milliseconds of processor time of the workers for each task.
        commands: What Redis did for each task from the word on, by command.
        share: The share of the tasks that the busiest worker ran.
    """

    seconds: float
    processor: float
    commands: dict[str, float]
    share: float


async def make(shared: str, count: int) -> None:
    """Make the tasks."""
    server = make_server(shared)
    add_tool(server)
    async with connect(server, capabilities={"extensions": {TASKS: {}}}) as client:
        for first in range(0, count, 50):
            await asyncio.gather(
                *[
                    client.request(
                        "tools/call", {"name": "wait", "arguments": {"seconds": WAIT, "number": number}}
                    )
                    for number in range(first, min(first + 50, count))
                ]
            )


def started(folder: Path, shared: str) -> subprocess.Popen[bytes]:
    """Start a worker, and wait until it is ready."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "mcpkit", "worker", "tasks_server:server", "--slots", str(SLOTS)],
        cwd=HERE,
        env=os.environ
        | {
            "BENCH_SHARED": shared,
            "BENCH_GO": str(folder / "go"),
            "BENCH_LEDGER": str(folder / "ledger"),
            "PYTHONPATH": str(HERE.parent),
        },
        stderr=subprocess.PIPE,
    )
    assert worker.stderr is not None
    said = b""
    for line in worker.stderr:
        said += line
        if b"is ready" in line:
            return worker
    raise RuntimeError(said.decode())


def processor_time(worker: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(engine: str, workers: int, count: int) -> Round:
    """Run one round with so many workers."""
    folder = Path(tempfile.mkdtemp(prefix="mcpkit-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        redis = None if engine == "sqlite" else stack.enter_context(RedisServer(folder / "redis"))
        shared = str(folder / "bench.db") if redis is None else redis.url
        (folder / "ledger").touch()
        processes = [started(folder, shared) for _ in range(workers)]
        for each in processes:
            stack.callback(each.wait)
            stack.callback(each.kill)
        asyncio.run(make(shared, count))
        before = {} if redis is None else redis.calls()
        spent = [processor_time(each) for each in processes]
        began = time.monotonic()
        (folder / "go").touch()
        while (folder / "ledger").read_bytes().count(b"\n") < count:
            time.sleep(0.05)
        after = {} if redis is None else redis.calls()
        spent = [processor_time(each) - was for each, was in zip(processes, spent, strict=True)]
        lines = [line.split() for line in (folder / "ledger").read_text().splitlines()]
        assert sorted(int(number) for *_, number in lines) == list(range(count)), "each has run once"
        by = Counter(process for process, *_ in lines)
        return Round(
            max(float(ended) for _, _, ended, _ in lines) - began,
            1000 * sum(spent) / count,
            {name: (calls - before.get(name, 0)) / count for name, calls in after.items()},
            max(by.values()) / count,
        )


def main() -> None:
    """Print what rounds with one, two and four workers come to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=["redis", "sqlite"], default="redis")
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    rounds: dict[int, list[Round]] = {1: [], 2: [], 4: []}
    for _ in range(given.rounds):
        for workers, done in rounds.items():
            done.append(run(given.engine, workers, given.tasks))
            seconds, processor, commands, share = done[-1]
            print(
                f"{workers} workers: {seconds:6.2f} s, {given.tasks / seconds:6.1f} tasks/s, "
                f"{given.tasks / seconds / (workers * SLOTS / WAIT):4.0%} of what the slots could, "
                f"{processor:.2f} ms of processor time a task, busiest worker {share:.0%}"
            )
            if commands:
                often = sorted(commands.items(), key=lambda each: -each[1])[:8]
                print("   commands a task:", ", ".join(f"{name} {number:.2f}" for name, number in often))
    one = statistics.median(each.seconds for each in rounds[1])
    for workers in (2, 4):
        many = statistics.median(each.seconds for each in rounds[workers])
        print(f"1 to {workers} workers: {one / many:.2f} times")


if __name__ == "__main__":
    main()

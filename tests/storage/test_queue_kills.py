"""Jobs in a file, and processes that are killed while they make thousands of them: what was acknowledged holds."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit import Sqlite

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal"),
    pytest.mark.slow,
]

PROGRAM = """
import asyncio, itertools, os, sys
from mcpkit import Sqlite

shared = Sqlite(sys.argv[1])
name = sys.argv[2]

def acknowledge(*words):
    os.write(1, (" ".join(words) + chr(10)).encode())  # so little is written whole or not at all

async def work(number):
    for turn in itertools.count():
        key = f"s/{name}/{number}/{turn}"
        assert await shared.add(key, b"open", queue="s/q", owner=name, most=10**6, most_of_owner=10**6) == "added"
        acknowledge("added", key)
        for job in (await shared.take(["s/q"], most=2, lease=60)).jobs:
            acknowledge("taken", job.key, str(job.fence))
            begun = await shared.change(job.key, b"begun", version=job.version, fence=job.fence)
            assert begun is not None
            end = f"{name}/{number}/{turn}"
            if turn % 5 == 0:
                continue  # it is left to who comes next
            if await shared.change(job.key, end.encode(), version=begun, fence=job.fence, keep=10**6) is not None:
                acknowledge("ended", job.key, end)

async def main():
    await asyncio.gather(*map(work, range(4)))

asyncio.run(main())
"""

ROUNDS = 4
PROCESSES = 3
IN_EACH = 600
"""Acknowledgements of one process after which it is killed, about."""


async def run_until_killed(path: Path, name: str, count: int) -> list[list[str]]:
    """Return what a process has acknowledged up to its end, which comes by SIGKILL after some acknowledgements."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(path), name, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    lines: list[bytes] = []
    while line := await process.stdout.readline():
        lines.append(line)
        if len(lines) == count:
            process.kill()
    assert await process.wait() == -signal.SIGKILL
    return [line.decode().split() for line in lines]


async def test_what_was_acknowledged_is_there_and_has_one_end(path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # shown where it fails
    chance = random.Random(seed)
    added: set[str] = set()
    taken: dict[str, list[int]] = {}
    ends: dict[str, str] = {}
    for turn in range(ROUNDS):
        said = await asyncio.wait_for(
            asyncio.gather(
                *(
                    run_until_killed(path, f"{turn}-{each}", chance.randrange(IN_EACH // 2, 2 * IN_EACH))
                    for each in range(PROCESSES)
                )
            ),
            120,
        )
        for what, key, *more in (words for lines in said for words in lines):
            if what == "added":
                added.add(key)
            elif what == "taken":
                taken.setdefault(key, []).append(int(more[0]))
            else:
                assert key not in ends, f"{key} has two ends"
                ends[key] = more[0]
    assert len(added) > 1000
    assert len(ends) > 500
    assert all(len(set(fences)) == len(fences) for fences in taken.values())
    with closing(Sqlite(path)) as shared:
        for key in added:
            job = await shared.look(key)
            assert job is not None, f"{key} was lost"
            assert job.fence >= max(taken.get(key, [0]))
            if key in ends:
                assert job.value.decode() == ends[key]
    # Whatever was left in the hands of the dead comes to the next when its lease is over, and ends.
    with closing(Sqlite(path, clock=lambda: time.time() + 60)) as later:
        while jobs := (await later.take(["s/q"], most=500, lease=600)).jobs:
            for job in jobs:
                assert job.key not in ends
                assert await later.change(job.key, b"last", version=job.version, fence=job.fence, keep=600)
        assert await later.waiting("s") == []
        for key in added - set(ends):
            job = await later.look(key)
            assert job is not None
            assert job.value != b"open"

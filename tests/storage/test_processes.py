"""Several processes that share a file: what they change at once, when one is killed, and when they fork."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Sqlite
from mcpkit.state.keys import Keys
from mcpkit.state.sealed import Sealed
from tests.helpers.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals, and no fork"),
    pytest.mark.slow,
]

PROGRAM = """
import asyncio, json, os, sys
from mcpkit import Sqlite

shared = Sqlite(sys.argv[1])
name = sys.argv[3]

async def add(key):
    while True:
        stored = await shared.get(key)
        value = b"0" if stored is None else stored.value
        version = None if stored is None else stored.version
        if await shared.put(key, str(int(value) + 1).encode(), version=version, ttl=600) is not None:
            return

async def count(turns):
    for turn in range(turns):
        await add("count")
        await shared.write("fields", {f"{name}-{turn}": "x", "shared": name}, 600)
    return turns

async def claim(turns):
    return [turn for turn in range(turns) if await shared.claim(f"claim-{turn}", 600)]

async def spend(turns):
    waits = await asyncio.gather(*(shared.spend("a", every=3600, burst=100) for _ in range(turns)))
    return waits.count(0.0)

async def publish(turns):
    for turn in range(turns):
        await shared.publish("t", f"{name} {turn}")
    return turns

async def for_ever(turns):
    print("ready", flush=True)
    while True:
        await asyncio.gather(add("count"), shared.write("fields", {name: "x" * 500}, 600), shared.publish("t", name))

print(json.dumps(asyncio.run(globals()[sys.argv[2]](int(sys.argv[4])))))
"""

FORKS = """
import asyncio, json, os, sys
from mcpkit import Sqlite

shared = Sqlite(sys.argv[1])
heard = []
leave = shared.subscribe("t", heard.append)

async def work(name):
    await shared.write("fields", {name: "1"}, 600)
    await shared.publish("t", name)
    return dict(await shared.read("fields"))

def opened():
    return sum("shared.db" in os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")
               if os.path.islink(f"/proc/self/fd/{each}"))

asyncio.run(work("parent"))
for number in range(3):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        inherited, known = opened(), list(heard)
        leave()
        own = []
        shared.subscribe("t", own.append)
        fields = asyncio.run(work(f"child {number}"))
        while not own:
            pass
        os.write(writing, json.dumps([inherited, fields, own]).encode())
        sys.exit(0)  # with all that the interpreter does at its end
    assert os.waitpid(child, 0)[1] == 0
    print(os.read(reading, 10_000).decode())
    asyncio.run(work("parent"))
while len(heard) < 7:
    pass
leave()
print(json.dumps([sorted(asyncio.run(work("end"))), heard]))
"""


def command(path: Path, what: str, name: str, turns: int) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(path), what, name, str(turns)]


async def run(path: Path, what: str, turns: int, processes: int = 3) -> list[Any]:
    """Have several processes do the same at once, and return what each of them prints."""
    running = [
        await asyncio.create_subprocess_exec(
            *command(path, what, f"process-{number}", turns), stdout=asyncio.subprocess.PIPE
        )
        for number in range(processes)
    ]
    outputs = await asyncio.wait_for(asyncio.gather(*(each.communicate() for each in running)), 60)
    assert [each.returncode for each in running] == [0] * processes
    return [json.loads(output) for output, _ in outputs]


async def test_no_change_is_lost(shared: Sqlite) -> None:
    await run(shared.path, "count", 60)
    stored = await shared.get("count")
    assert stored is not None
    assert stored.value == b"180"
    assert len(await shared.read("fields")) == 181


async def test_of_all_who_claim_one_has_it(shared: Sqlite) -> None:
    claimed = await run(shared.path, "claim", 100)
    assert sorted(each for own in claimed for each in own) == list(range(100))


async def test_of_a_thousand_who_spend_exactly_the_burst_passes(shared: Sqlite) -> None:
    assert sum(await run(shared.path, "spend", 250, processes=4)) == 100


async def test_each_message_is_heard_once_in_the_order_of_its_publisher(shared: Sqlite) -> None:
    heard: list[str] = []
    leave = shared.subscribe("t", heard.append)
    await run(shared.path, "publish", 200)
    await until(lambda: len(heard) == 600)
    for number in range(3):
        own = [message for message in heard if message.startswith(f"process-{number} ")]
        assert own == [f"process-{number} {turn}" for turn in range(200)]
    leave()


async def test_a_writer_that_is_killed_holds_up_nobody_and_breaks_nothing(shared: Sqlite) -> None:
    heard: list[str] = []
    leave = shared.subscribe("t", heard.append)
    for turn in range(3):
        with ExitStack() as stack:
            writers = [
                stack.enter_context(
                    subprocess.Popen(command(shared.path, "for_ever", name, 0), stdout=subprocess.PIPE)
                )
                for name in ("one", "two")
            ]
            for writer in writers:
                assert writer.stdout is not None
                assert await asyncio.to_thread(writer.stdout.readline) == b"ready\n"
            before = len(heard)
            await until(lambda before=before: len(heard) > before + 50)
            for writer in writers:
                writer.send_signal(signal.SIGKILL)
        assert await shared.claim(f"claim {turn}", 60)
        version = await shared.put(f"value {turn}", b"1", version=None, ttl=60)
        assert await shared.get(f"value {turn}") == (b"1", version)
        assert (await shared.read("fields")).keys() <= {"one", "two"}
    leave()
    with closing(sqlite3.connect(shared.path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it looks at what /proc says")
async def test_a_forked_process_has_connections_and_listeners_of_its_own(shared: Sqlite) -> None:
    output = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, str(shared.path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    *children, end = map(json.loads, output.stdout.splitlines())
    for number, (inherited, fields, heard) in enumerate(children):
        assert inherited == 0
        assert fields.keys() == {"parent", *(f"child {each}" for each in range(number + 1))}
        assert heard == [f"child {number}"]
    fields, heard = end
    assert fields == ["child 0", "child 1", "child 2", "end", "parent"]
    assert heard == ["parent", "child 0", "parent", "child 1", "parent", "child 2", "parent"]
    assert output.stderr == ""
    with closing(sqlite3.connect(shared.path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# Another secret

ROTATE = """
import asyncio, json, sys
from mcpkit import Sqlite
from mcpkit.state.keys import Keys
from mcpkit.state.sealed import Sealed

async def main(path, secrets, name):
    records = Sealed(Sqlite(path), Keys(json.loads(secrets), "notes"), "grants")
    found = {key: (await records.get(key) or [None])[0] for key in ("one", "two", "old", "both", "new")}
    assert await records.unreadable() == 0
    for key in ("one", "two"):  # those that both change
        for _ in range(20):
            while True:
                value, version = await records.get(key) or ({}, None)
                value = {**value, name: value.get(name, 0) + 1}
                if await records.put(key, value, version=version, ttl=600) is not None:
                    break
    return found

print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
"""
OLD, NEW = "the old secret of the notes", "the new secret of the notes"


async def test_a_secret_is_replaced_and_no_record_is_lost(shared: Sqlite) -> None:
    async def step(name: str, *secrets: str) -> list[dict[str, Any]]:
        """Let two processes serve under secrets, after one that leaves a record of the step."""
        await Sealed(shared, Keys(secrets, "notes"), "grants").put(
            name, {"step": name}, version=None, ttl=600
        )
        running = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", ROTATE, str(shared.path), json.dumps(secrets), f"{name}-{number}"),
                stdout=asyncio.subprocess.PIPE,
            )
            for number in range(2)
        ]
        outputs = await asyncio.wait_for(asyncio.gather(*(each.communicate() for each in running)), 60)
        return [json.loads(output) for output, _ in outputs]

    for name, secrets in {"old": (OLD,), "both": (NEW, OLD), "new": (NEW,)}.items():
        found = await step(name, *secrets)
    assert all(each[name] == {"step": name} for each in found for name in ("old", "both", "new"))
    last = Sealed(shared, Keys(NEW, "notes"), "grants")
    for key in ("one", "two"):
        record = await last.get(key)
        assert record is not None
        assert record[0] == {f"{name}-{number}": 20 for name in ("old", "both", "new") for number in range(2)}

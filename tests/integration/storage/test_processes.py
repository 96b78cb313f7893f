"""Storage shared by processes: concurrent changes, killed processes, forks and open resources."""

import asyncio
import gc
import json
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn.server  # noqa: F401  # the app looks for servers of uvicorn where it is loaded

from mcpkit import HttpOptions, Server, Task, Timeouts
from mcpkit.middleware import RateLimit
from mcpkit.storage import Sqlite
from tests.helpers.engines import ENGINES, Engine, close, make_engine
from tests.helpers.processes import open_resources
from tests.helpers.raw_client import serving
from tests.helpers.redis_server import common_server
from tests.helpers.task_client import KNOWS_TASKS
from tests.helpers.waiting import until

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, forks and sends signals"),
    pytest.mark.long,
]


# Records, claims and messages

PROGRAM = """
import asyncio, sys
from mcpkit.storage import Sqlite

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

async def for_ever(turns):
    while True:
        await asyncio.gather(add("count"), shared.write("fields", {name: "x" * 500}, 600), shared.publish("t", name))

asyncio.run(globals()[sys.argv[2]](int(sys.argv[4])))
"""


def command(path: Path, what: str, name: str, turns: int) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(path), what, name, str(turns)]


async def test_concurrent_changes_of_processes_are_not_lost(shared: Sqlite) -> None:
    commands = [command(shared.path, "count", f"process-{number}", 60) for number in range(3)]
    running = [await asyncio.create_subprocess_exec(*each) for each in commands]
    assert await asyncio.wait_for(asyncio.gather(*(each.wait() for each in running)), 60) == [0] * 3
    stored = await shared.get("count")
    assert stored is not None
    assert stored.value == b"180"
    assert len(await shared.read("fields")) == 181


async def test_killed_writer_leaves_a_usable_file(shared: Sqlite) -> None:
    messages: list[str] = []
    leave = shared.subscribe("t", messages.append)
    for turn in range(2):
        commands = [command(shared.path, "for_ever", name, 0) for name in ("one", "two")]
        writers = [await asyncio.create_subprocess_exec(*each) for each in commands]
        before = len(messages)
        await until(
            lambda before=before: len(messages) > before + 50 and {*messages[before:]} == {"one", "two"}
        )
        for writer in writers:
            writer.kill()
            await writer.wait()
        assert await shared.claim(f"claim {turn}", 60)
        version = await shared.put(f"value {turn}", b"1", version=None, ttl=60)
        assert await shared.get(f"value {turn}") == (b"1", version)
        assert (await shared.read("fields")).keys() <= {"one", "two"}
    leave()
    with closing(sqlite3.connect(shared.path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


FORKS = """
import asyncio, json, os, sys
from mcpkit.storage import Redis, Sqlite

shared = ENGINE
heard = []
leave = shared.subscribe("t", heard.append)

async def work(name):
    await shared.write("fields", {name: "1"}, 600)
    await shared.publish("t", name)
    return dict(await shared.read("fields"))

def opened():
    files = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
    return sum("shared.db" in os.readlink(file) for file in files if os.path.islink(file))
asyncio.run(work("parent"))
for number in range(3):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        inherited = opened()
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
print(json.dumps([sorted(asyncio.run(work("end"))), heard[:7]]))
"""


@pytest.mark.parametrize("name", ["sqlite", "redis"])
async def test_forked_process_has_connections_and_listeners_of_its_own(name: str, tmp_path: Path) -> None:
    redis = f"Redis({common_server().url!r}, prefix='forks-{tmp_path.name}:')" if name == "redis" else ""
    engine = redis or f"Sqlite({str(tmp_path / 'shared.db')!r})"
    output = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS.replace("ENGINE", engine)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    *children, end = map(json.loads, output.stdout.splitlines())
    for number, (inherited, fields, messages) in enumerate(children):
        assert inherited == 0
        assert fields.keys() == {"parent", *(f"child {each}" for each in range(number + 1))}
        assert messages == [f"child {number}"]
    fields, messages = end
    assert fields == ["child 0", "child 1", "child 2", "end", "parent"]
    assert messages == ["parent", "child 0", "parent", "child 1", "parent", "child 2", "parent"]
    assert output.stderr == ""


# Resources


def own_resources() -> set[str]:
    """Return the descriptors and child processes of this process, and the threads of mcpkit."""
    return {
        each
        for each in open_resources()
        if not each.startswith("thread ") or each.startswith("thread mcpkit")
    }


async def serve_once(engine: Engine, folder: Path) -> None:
    """Serve with an engine for a while: a session that listens, a stateless listener, a limited call, a probe."""
    server = Server("serve_once", secret_key="a secret of sixteen and more", storage=engine)
    server.middleware(RateLimit(1000, burst=1000))
    runtime, calls = server.engine.runtime, []

    @server.tool(task=Task(rerun="safe") if hasattr(engine, "take") else None)
    async def work() -> str:
        calls.append(True)
        return "done"

    http, timeouts = HttpOptions(readiness_path="/health"), Timeouts(shutdown=5)
    async with serving(server, folder, http=http, timeouts=timeouts) as client:
        session = await client.initialize()
        stream = session.listen()
        assert await stream.event() is not None
        assert (await session.call_tool("work").whole()).status == 200
        meta = {"io.modelcontextprotocol/clientCapabilities": KNOWS_TASKS}
        answer = client.ask("tools/call", {"name": "work", "arguments": {}}, meta=meta)
        assert (await answer.whole()).status == 200
        assert (await client.open("GET", "/health").whole()).status == 200
        await until(lambda: len(calls) == 2 and not runtime.running.taken)


@pytest.mark.parametrize("way", ["closed", "forgotten"])
@pytest.mark.parametrize("name", ENGINES)
async def test_closed_or_collected_engines_leave_no_resources(name, way, tmp_path, schema_dir) -> None:
    close(make_engine(name, tmp_path))
    before = own_resources()
    for turn in range(4):
        engine: Any = make_engine(name, tmp_path / str(turn) if name == "sqlite" else tmp_path)
        (tmp_path / str(turn)).mkdir()
        await serve_once(engine, schema_dir)
        if way == "closed":
            close(engine)
        del engine
    with suppress(AssertionError):
        await until(lambda: gc.collect() >= 0 and own_resources() <= before)
    assert own_resources() - before == set()

"""What an engine opens can be closed: threads, files and connections, however often servers begin and end with it."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import uvicorn.server  # noqa: F401  # the app looks for servers of uvicorn where it is loaded

from mcpkit import Redis, Server, Task
from mcpkit.middlewares import RateLimit
from tests.helpers.engines import ENGINES, Engine, close, make_engine
from tests.helpers.raw_client import serving
from tests.helpers.redis_server import RedisServer
from tests.helpers.task_client import KNOWS_TASKS
from tests.helpers.waiting import PATIENCE, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it looks at what /proc says"),
    pytest.mark.slow,
]

ROUNDS = 12


def opened() -> Counter[str]:
    """Return what is open in this process: threads of mcpkit's, and files and sockets."""
    found = Counter(each.name for each in threading.enumerate() if each.name.startswith("mcpkit"))
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # that of the look itself
            continue
        found[target.split(":")[0] if target.startswith(("socket", "pipe", "anon")) else target] += 1
    return found


async def becomes(wanted: Counter[str]) -> None:
    """Wait until no more is open than this."""
    deadline = time.monotonic() + PATIENCE
    while more := opened() - wanted:
        assert time.monotonic() < deadline, f"still open: {more}"
        gc.collect()
        await asyncio.sleep(0.01)


async def used(engine: Engine, folder: Path) -> None:
    """Serve with an engine for a while: a session that listens, a stateless listener, a limited call, a probe."""
    server = Server("used", secret="a secret of sixteen and more", shared=engine)
    server.middleware(RateLimit(1000, burst=1000))
    runtime, worked = server.engine.runtime, []

    @server.tool(task=Task(rerun="safe") if hasattr(engine, "take") else None)
    async def work() -> str:
        worked.append(True)
        return "done"

    async with serving(server, folder, health="/health", grace=5) as client:
        session = await client.initialize()
        stream = session.listen()
        assert await stream.event() is not None
        assert (await session.call("work").whole()).status == 200
        meta = {"io.modelcontextprotocol/clientCapabilities": KNOWS_TASKS}
        assert (
            await client.ask("tools/call", {"name": "work", "arguments": {}}, meta=meta).whole()
        ).status == 200
        assert (await client.open("GET", "/health").whole()).status == 200
        await until(lambda: len(worked) == 2 and not runtime.running.taken)


@pytest.mark.parametrize("name", ENGINES)
async def test_rounds_with_one_engine_open_no_more_than_the_first(
    name: str, tmp_path: Path, schema_dir: Path
) -> None:
    engine = make_engine(name, tmp_path)
    before = opened()
    await used(engine, schema_dir)
    pool = (
        Counter({"socket": 2 * 16}) if name == "redis" else Counter()
    )  # on this side, and of what there is at once
    first = opened() + pool
    for _ in range(3 * ROUNDS if name == "redis" else ROUNDS):
        await used(engine, schema_dir)
    await becomes(first)
    close(engine)
    await becomes(before)


@pytest.mark.parametrize("way", ["closed", "forgotten"])
@pytest.mark.parametrize("name", ENGINES)
async def test_rounds_with_an_engine_each_leave_nothing(
    name: str, way: str, tmp_path: Path, schema_dir: Path
) -> None:
    close(make_engine(name, tmp_path))
    before = opened()
    for turn in range(ROUNDS):
        engine: Any = make_engine(name, tmp_path / str(turn) if name == "sqlite" else tmp_path)
        (tmp_path / str(turn)).mkdir()
        await used(engine, schema_dir)
        if way == "closed":
            close(engine)
        del engine
    await becomes(before)


async def test_redis_sees_no_connection_any_more(tmp_path: Path, schema_dir: Path) -> None:
    with RedisServer(tmp_path) as redis:
        for _ in range(3):
            with closing(Redis(redis.url)) as shared:
                await used(shared, schema_dir)
                assert len(redis.ask("CLIENT", "LIST").splitlines()) > 1
        deadline = time.monotonic() + PATIENCE
        while len(redis.ask("CLIENT", "LIST").splitlines()) > 1:  # its own
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

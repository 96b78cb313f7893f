"""The engines that servers share, for tests that hold for all of them, and calls of theirs where no event loop runs."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from mcpkit import Broker, Memory, Redis, Sqlite, Store, Stored
from mcpkit.state.sqlite import _tidy
from tests.helpers.redis_server import Dated, common_server, kept
from tests.helpers.waiting import PATIENCE

T = TypeVar("T")

ENGINES = ["memory", "sqlite", "redis"]


class _Loop:
    """An event loop, closed when nobody has it any more."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def __del__(self) -> None:
        self.loop.close()


class _Here(threading.local):
    """What each thread has one of."""

    def __init__(self) -> None:
        self.held = _Loop()


_here = _Here()


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in an event loop of this thread."""
    return _here.held.loop.run_until_complete(coroutine)


def read(engine: Broker, key: str) -> dict[str, str]:
    return dict(done(engine.read(key)))


def write(engine: Broker, key: str, changes: Mapping[str, str | None], ttl: float = 60) -> None:
    done(engine.write(key, changes, ttl))


def claim(engine: Broker, key: str, ttl: float = 60) -> bool:
    return done(engine.claim(key, ttl))


def get(engine: Store, key: str) -> Stored | None:
    return done(engine.get(key))


def put(
    engine: Store, key: str, value: bytes = b"", version: str | None = None, ttl: float = 60
) -> str | None:
    return done(engine.put(key, value, version=version, ttl=ttl))


def delete(engine: Store, key: str, version: str) -> bool:
    return done(engine.delete(key, version=version))


Engine = Memory | Sqlite | Redis


def make_engine(name: str, folder: Path, clock: Callable[[], float] | None = None) -> Engine:
    """Make an engine; those of one folder share what they keep, which is nothing at first."""
    options = {} if clock is None else {"clock": clock}
    if name == "redis":
        url, prefix = common_server().url, f"{sha256(str(folder).encode()).hexdigest()[:16]}:"
        return Redis(url, prefix=prefix) if clock is None else Dated(url, prefix, clock)
    return Memory(**options) if name == "memory" else Sqlite(folder / "shared.db", **options)


def close(engine: Engine) -> None:
    if not isinstance(engine, Memory):
        engine.close()


def size(engine: Engine) -> int:
    """Count what an engine keeps, once it has swept what has expired."""
    if isinstance(engine, Memory):
        engine.sweep()
        return len(engine)
    if isinstance(engine, Redis):
        return done(kept(engine))

    def count(connection: sqlite3.Connection) -> int:
        _tidy(engine._clock, connection)
        tables = ("records", "claims", "stored", "jobs")
        return sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)

    return done(engine._database.run(count))


def eventually(condition: Callable[[], object]) -> None:
    """Wait until something is so; half a minute without it is a failure."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        time.sleep(0.001)

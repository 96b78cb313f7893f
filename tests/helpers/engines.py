"""Storage engines for tests: one of each kind, engines that fail or lose messages, and calls without an event loop."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

from mcpkit import Server
from mcpkit.storage import Memory, PubSub, Redis, Sqlite, Store, StoredValue
from mcpkit.storage.jobs_and_heartbeats import Added, Job, LeasedJobs, Queue
from mcpkit.storage.sqlite import _delete_expired
from tests.helpers.pipe import settle
from tests.helpers.raw_client import Client, lifespan
from tests.helpers.redis_server import Dated, common_server, count_records
from tests.helpers.serving import AT_ONCE, app_of

T = TypeVar("T")

ENGINES = ["memory", "sqlite", "redis"]


class _Loop:
    """An event loop, closed with its thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def __del__(self) -> None:
        self.loop.close()


class _Here(threading.local):
    def __init__(self) -> None:
        self.held = _Loop()


_here = _Here()


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in an event loop of this thread."""
    return _here.held.loop.run_until_complete(coroutine)


def read(engine: PubSub, key: str) -> dict[str, str]:
    return dict(done(engine.read(key)))


def write(engine: PubSub, key: str, changes: Mapping[str, str | None], ttl: float = 60) -> None:
    done(engine.write(key, changes, ttl))


def claim(engine: PubSub, key: str, ttl: float = 60) -> bool:
    return done(engine.claim(key, ttl))


def get(engine: Store, key: str) -> StoredValue | None:
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
        return done(count_records(engine))

    def count(connection: sqlite3.Connection) -> int:
        _delete_expired(connection, engine._clock())
        tables = ("records", "claims", "stored", "jobs")
        return sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)

    return done(engine._database.run(count))


THREADS = 8


def in_threads(work: Callable[[int], None]) -> None:
    """Run `work(number)` in THREADS threads that start together; raise what any of them raises."""
    gate = threading.Barrier(THREADS)

    def run(number: int) -> None:
        gate.wait()
        work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))


LINE = "s/task/a"


def add(
    queue: Queue, key: str, value: bytes = b"", *, line: str = LINE, owner: str = "", **limits: int
) -> Added:
    limits = {"max_open": 1000, "max_open_per_owner": 1000, **limits}
    return done(queue.add(key, value, queue=line, owner=owner, **limits))


def get_job(queue: Queue, key: str) -> Job:
    """Return a job that is there."""
    job = done(queue.get_job(key))
    assert job is not None
    return job


def change(queue: Queue, job: Job, value: bytes = b"changed", **options: Any) -> str | None:
    """Change a job that is as it is given."""
    return done(queue.change(job.key, value, version=job.version, **options))


def take(queue: Queue, *lines: str, limit: int = 100, lease: float = 30, ready_for: float = 0) -> LeasedJobs:
    return done(queue.take(lines or (LINE,), limit=limit, lease=lease, ready_for=ready_for))


def keys(queue: Queue, *lines: str, **options: Any) -> list[str]:
    """Take jobs, and return their keys."""
    return [job.key for job in take(queue, *lines, **options).jobs]


def take_one(queue: Queue, lease: float = 30) -> Job:
    """Take the one job that is ready."""
    (job,) = take(queue, lease=lease).jobs
    return job


def renew(queue: Queue, leases: Mapping[str, tuple[int, float]]) -> set[str]:
    return done(queue.renew(leases))


def owned(queue: Queue, owner: str, *, server: str = "s", after: str = "", limit: int = 100) -> list[str]:
    return [job.key for job in done(queue.list_jobs(owner, server=server, after=after, limit=limit))]


class LossyMemory(Memory):
    """Within one process.

    Attributes:
        loses_messages: Whether what is published now is lost.
    """

    loses_messages = False

    def __init__(self) -> None:
        super().__init__()
        self._missed: dict[object, Callable[[], None]] = {}

    async def publish(self, topic: str, message: str) -> None:
        """Notify the listeners, unless messages are lost."""
        if not self.loses_messages:
            await super().publish(topic, message)

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Subscribe, and keep the function that reports a gap."""
        key, end = object(), super().subscribe(topic, listener, missed)
        if missed is not None:
            self._missed[key] = missed

        def unsubscribe() -> None:
            self._missed.pop(key, None)
            end()

        return unsubscribe

    def report_gap(self) -> None:
        """Stop losing messages, and report the gap."""
        self.loses_messages = False
        for missed in tuple(self._missed.values()):
            missed()


When = Literal["before", "after"]
"""Whether what fails has been done: the reply may be what was lost."""

CALLS = (
    *("add", "get_job", "change", "take", "renew", "list_jobs", "list_queues"),
    *("listening", "read", "write", "claim"),
)


class FailingMemory(Memory):
    """Within one process.

    Args:
        number: Which call fails, from 1; 0 for none.
        when: Before it is done, or after.
        clock: The clock of the engine.

    Attributes:
        called: The names of what has been called.
    """

    def __init__(
        self, number: int, when: When = "before", clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self.called: list[str] = []
        self._number = number
        self._when = when
        self._lock = threading.Lock()
        for name in CALLS:
            setattr(self, name, self._counted(name, getattr(self, name)))

    def _counted(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            with self._lock:
                self.called.append(name)
                is_refused = len(self.called) == self._number
            if is_refused and self._when == "before":
                raise OSError("it is away")
            result = await method(*args, **options)
            if is_refused:
                raise OSError("its reply is lost")
            return result

        return call


REPLICAS = 3


@contextmanager
def engines(name: str, folder: Path, count: int = REPLICAS) -> Iterator[list[Engine]]:
    """Make an engine for each replica; in memory it can only be the same one."""
    made = [make_engine(name, folder)]
    for _ in range(count - 1):
        made.append(made[0] if isinstance(made[0], Memory) else make_engine(name, folder))
    yield made
    for each in made:
        close(each)


@asynccontextmanager
async def replicas(servers: Sequence[Server], folder: Path) -> AsyncIterator[list[Client]]:
    """Serve all of them, and give a client of each; when they have been shut down, nothing may be left.

    Args:
        servers: The servers.
        folder: Where the schemas are.
    """
    before = asyncio.all_tasks()
    clients = [Client(app_of(server, timeouts=AT_ONCE), folder) for server in servers]
    async with AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(lifespan(client.app))
        try:
            yield clients
        finally:
            for client in clients:
                await client.aclose()
    await settle()
    assert asyncio.all_tasks() - before == set()

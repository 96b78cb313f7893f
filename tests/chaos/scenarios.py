"""Scenarios of the cluster: each returns figures, or raises FaultError with what the ledgers show."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

from tests.chaos import raw_client
from tests.chaos.cluster import Cluster, Line
from tests.chaos.raw_client import ENDED, Client, ResponseError, Session, Stream, UnavailableError, end
from tests.helpers.processes import DEFAULT_TIMEOUT
from tests.helpers.redis_server import RedisServer

LEASE = {"LEASE": 2}
TOOLS = ("works",) * 7 + ("works_in_thread",) * 2 + ("risks",) * 4 + ("risks_and_asks",) * 3 + ("steps",) * 4
RESOURCES = ("anvil", "bench", "clamp")


class FaultError(AssertionError):
    """The faults of a run."""


@asynccontextmanager
async def judged(cluster: Cluster, seed: int) -> AsyncIterator[tuple[Cluster, list[str]]]:
    """Start a cluster, and raise the faults that the scenario appends to the list."""
    print(f"{cluster.folder.name}: seed {seed}", flush=True)
    faults: list[str] = []
    async with cluster:
        yield cluster, faults
        faults += [f"ended by itself: {each.name}" for each in cluster.servers if each.has_ended]
        if faults:
            kinds = dict(Counter(each.split(":")[0] for each in faults))
            raise FaultError("\n".join([f"{len(faults)} faults with seed {seed}: {kinds}", *faults[:20]]))


# Faults in the ledgers


def task_faults(responses: list[Line], effects: list[Line]) -> list[str]:
    """Return what the server acknowledged and did not do, changed after its end, or did too often."""
    ids: dict[str, set[str]] = defaultdict(set)
    ends: dict[str, list[Any]] = defaultdict(list)
    tools: dict[str, str] = {}
    faults: list[str] = []
    for line in responses:
        if line["what"] == "created":
            ids[line["key"]].add(line["id"])
            tools[line["key"]] = line["tool"]
        elif line["what"] == "error":
            faults.append(
                f"{'lost' if line['code'] == raw_client.UNKNOWN else 'error'}: {line['id']}: {line['error']}"
            )
        elif line["what"] == "seen":
            ignored = {"_meta", "pollIntervalMs"}
            task = {name: each for name, each in line["task"].items() if name not in ignored}
            if task["status"] in ENDED:
                ends[line["id"]].append(task)
            elif ends[line["id"]]:
                faults.append(f"continued after its end: {line['id']} is {task['status']}")
    done = Counter(line["key"] for line in effects if line["what"] == "effect")
    for key, several in ids.items():
        if len(several) > 1:
            faults.append(f"created twice: {key} is {sorted(several)}")
        is_once = tools[key].startswith("risks")
        if is_once and done[key] > 1:
            faults.append(f"done {done[key]} times: {key}")
        for id_ in several:
            if not ends[id_]:
                faults.append(f"without an end: {id_}")
                continue
            first, *others = ends[id_]
            faults += [f"changed its end: {id_} was {first}, then {each}" for each in others if each != first]
            if first["status"] == "completed" and tools[key] != "steps" and not done[key]:
                faults.append(f"completed and not done: {key}")
            if first["status"] == "failed" and not (
                is_once and first["error"]["code"] == raw_client.INTERNAL_ERROR
            ):
                faults.append(f"failed: {key}: {first['error']}")
    committed: dict[tuple[str, str], str] = {}
    for line in effects:
        step = (line.get("call", ""), line.get("name", ""))
        if line["what"] == "ran" and step in committed:
            faults.append(f"once repeated: {step} in attempt {line['attempt']}")
        elif line["what"] == "once" and committed.setdefault(step, line["value"]) != line["value"]:
            faults.append(f"once with another value: {step} in attempt {line['attempt']}")
    return faults


def change_faults(responses: Iterable[Line]) -> list[str]:
    """Return the subscribers that do not know the last change of a resource."""
    versions: dict[str, int] = {}
    known: dict[tuple[str, str], int] = {}
    for line in responses:
        if line["what"] == "touched":
            versions[line["name"]] = max(versions.get(line["name"], 0), line["version"])
        elif line["what"] == "read":
            known[line["subscriber"], line["name"]] = line["version"]
    return [
        f"missed change: {subscriber} knows {name} in version {version} of {versions[name]}"
        for (subscriber, name), version in sorted(known.items())
        if version < versions.get(name, 0)
    ]


# Clients


class TaskDriver:
    """Creates tasks, follows each to its end at any replica, and writes each response to the ledger."""

    def __init__(self, cluster: Cluster, draw: Random) -> None:
        self.cluster = cluster
        self.draw = draw
        self.client = Client(cluster.url)
        self.created: list[str] = []
        self._last_progress = time.monotonic()

    async def run(self, tool: str, key: str, **arguments: object) -> None:
        await self.follow(await self.create(tool, key, **arguments))

    async def create(self, tool: str, key: str, **arguments: object) -> str:
        """Create a task, and repeat the request with the same idempotency key until it is acknowledged."""
        meta = {"mcpkit/idempotencyKey": key}
        params = {"name": tool, "arguments": {"key": key, **arguments}, "_meta": meta}
        while (task := await self._ask("tools/call", params)) is None:
            pass
        self._write("created", id=task["taskId"], key=key, tool=tool)
        self.created.append(task["taskId"])
        return self.created[-1]

    async def follow(self, id_: str) -> None:
        """Poll a task until it has ended, answer its questions, and look at it twice more."""
        known: Any = None
        left = 3
        while left:
            task = await self._ask("tasks/get", {"taskId": id_})
            if task is not None and (task != known or task["status"] in ENDED):
                known = task
                self._write("seen", id=id_, task=task)
                left -= task["status"] in ENDED
            if task is not None and task["status"] == "input_required":
                accepted = {"action": "accept", "content": {"value": True}}
                responses = {key: {**accepted} for key in task["inputRequests"]}
                await self._ask("tasks/update", {"taskId": id_, "inputResponses": responses})
            await asyncio.sleep(self.draw.uniform(0.2, 0.5))

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if time.monotonic() > self._last_progress + DEFAULT_TIMEOUT:
            raise FaultError(f"no progress within {DEFAULT_TIMEOUT} s")
        try:
            return await self.client.ask(method, params, self.draw.choice(self.cluster.replicas).url)
        except UnavailableError:
            await asyncio.sleep(0.05)
        except ResponseError as error:
            if error.status != 503:
                id_ = params.get("taskId")
                self._write("error", id=id_, code=error.code, error=str(error))
            await asyncio.sleep(0.2)
        return None

    def _write(self, what: str, **more: object) -> None:
        self._last_progress = time.monotonic()
        self.cluster.responses.write(what, **more)

    def start(self, tool: str, key: str, **arguments: object) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.run(tool, key, **arguments))


class Subscriber:
    """Subscribes to resources at one replica, with or without a session, and reads what has changed."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.name = f"subscriber-{number}"
        self.known: dict[str, int] = {}
        self._url = cluster.replicas[number // 2 % len(cluster.replicas)].url
        self._has_session = bool(number % 2)

    async def run(self) -> None:
        while True:
            with suppress(UnavailableError, ResponseError):
                await (self._listen_in_session() if self._has_session else self._listen())
            await asyncio.sleep(0.1)

    async def _listen(self) -> None:
        client = Client(self._url)
        filters = {"notifications": {"resourceSubscriptions": [f"thing://{name}" for name in RESOURCES]}}
        async with client.open("subscriptions/listen", filters) as (stream, _):
            await stream.until(lambda each: "method" in each)  # the acknowledgement
            await self._read_changes(client, stream)

    async def _listen_in_session(self) -> None:
        session = Session(self._url)
        await session.initialize()
        async with session.listen() as stream:
            for name in RESOURCES:
                await session.ask("resources/subscribe", {"uri": f"thing://{name}"})
            await self._read_changes(session, stream)

    async def _read_changes(self, client: Client, stream: Stream) -> None:
        for name in RESOURCES:
            await self._read(client, name)
        while True:
            message = await stream.wait()
            if message.get("method") == "notifications/resources/updated":
                await self._read(client, message["params"]["uri"].removeprefix("thing://"))

    async def _read(self, client: Client, name: str) -> None:
        result = await client.ask("resources/read", {"uri": f"thing://{name}"})
        self.known[name] = int(result["contents"][0]["text"])
        self.cluster.responses.write("read", subscriber=self.name, name=name, version=self.known[name])


# Scenarios


async def kills(seed: int, tasks: int, kills: int) -> dict[str, int]:
    """Tasks of all kinds, while replicas and workers are killed."""
    async with judged(Cluster("kills", settings=LEASE), seed) as (cluster, faults):
        draw = Random(seed)
        driver, running = TaskDriver(cluster, draw), []
        for number in range(tasks):
            tool = draw.choice(TOOLS)
            running.append(driver.start(tool, f"{tool}-{number}", seconds=draw.choice((0.05, 0.3, 1.0))))
            if (number + 1) * kills // tasks > number * kills // tasks:
                await asyncio.sleep(draw.uniform(0, 0.3))
                await cluster.restart(draw.choice(cluster.servers))
        await asyncio.gather(*running)
        effects = cluster.effects.lines()
        faults += task_faults(cluster.responses.lines(), effects)
        reruns = sum(line["attempt"] > 1 for line in effects if line["what"] == "effect")
        return {"tasks": len(driver.created), "reruns": reruns}


async def paused_worker(seed: int, rounds: int) -> dict[str, int]:
    """A worker that is paused past its leases, and continues with tasks that another worker has by then."""
    async with judged(Cluster("paused", settings=LEASE), seed) as (cluster, faults):
        driver, total = TaskDriver(cluster, Random(seed)), 0
        for number in range(rounds):
            keys = [f"waits-{number}-{each}" for each in range(8)]
            running = [driver.start("waits", key) for key in keys]
            await _wait_for_effects(cluster, "effect", set(keys))
            begun = [line for line in cluster.effects.lines("effect") if line["key"] in keys]
            worker = max(cluster.workers, key=lambda each: sum(line["pid"] == each.pid for line in begun))
            owned = {line["key"] for line in begun if line["pid"] == worker.pid}
            _release(cluster, set(keys) - owned, range(1, 20))
            worker.pause()
            await _wait_for_effects(cluster, "effect", owned, lambda line: line["attempt"] > 1)
            _release(cluster, owned, [1])
            worker.resume()
            stopped = {"went on", "was cancelled"}
            await cluster.until(
                lambda: owned <= {line["key"] for line in cluster.effects.lines() if line["what"] in stopped},
                "the paused worker does not continue",
            )
            _release(cluster, owned, range(2, 20))
            await asyncio.gather(*running)
            total += len(owned)
            for line in cluster.responses.lines("seen"):
                result = line["task"].get("result", {}).get("structuredContent", {})
                if result.get("key") in owned and result["attempt"] == 1:
                    faults.append(f"result of a lost lease: {result}")
        faults += task_faults(cluster.responses.lines(), cluster.effects.lines())
        return {"tasks": len(driver.created), "tasks of the paused worker": total}


async def _wait_for_effects(
    cluster: Cluster, what: str, keys: set[str], matches: Callable[[Line], bool] = lambda line: True
) -> None:
    await cluster.until(
        lambda: keys <= {line["key"] for line in cluster.effects.lines(what) if matches(line)},
        f"no {what}: {keys}",
    )


def _release(cluster: Cluster, keys: Iterable[str], attempts: Iterable[int]) -> None:
    """Let attempts of `waits` end."""
    for key in keys:
        for attempt in attempts:
            (cluster.folder / f"go-{key}-{attempt}").touch()


async def redis_failures(
    seed: int, rounds: int, tasks: int, subscribers: int, names: Sequence[str] = ()
) -> dict[str, float]:
    """A Redis that fails in several ways under tasks and changes; returns the longest recovery of each in seconds."""
    draw = Random(seed)
    recovery: dict[str, float] = {}
    async with judged(Cluster("redis", settings=LEASE), seed) as (cluster, faults):
        listeners = [Subscriber(cluster, number) for number in range(subscribers)]
        running = [asyncio.ensure_future(each.run()) for each in listeners]
        versions = dict.fromkeys(RESOURCES, 0)
        try:
            await cluster.until(
                lambda: all(each.known.keys() >= versions.keys() for each in listeners),
                "a subscriber has no stream",
            )
            for fail in (_kill, _pause, _cut, _drop_replies, _flush, _promote):
                name = fail.__name__[1:]
                for number in range(rounds if name in names or not names else 0):
                    before = len(cluster.responses.lines())
                    prefix = f"{name}-{number}"
                    seconds = await _recover(cluster, draw, versions, listeners, fail, prefix, tasks)
                    recovery[name] = max(recovery.get(name, 0), seconds)
                    lines = cluster.responses.lines()
                    faults += [f"{name}: {each}" for each in change_faults(lines)]
                    if fail not in {_flush, _promote}:  # which lose tasks
                        found = task_faults(lines[before:], cluster.effects.lines())
                        faults += [f"{name}: {each}" for each in found]
        finally:
            await end(running)
    return recovery


async def _recover(cluster, draw, versions, listeners, fail, name, tasks) -> float:
    """Let the Redis fail under load; return the seconds until a task is created and all changes are known."""

    async def touch() -> None:
        client = Client(cluster.url)
        while True:
            resource, url = draw.choice(RESOURCES), draw.choice(cluster.replicas).url
            with suppress(UnavailableError, ResponseError):
                version = int(await client.text("touch", url, name=resource))
                versions[resource] = max(version, versions[resource])
                cluster.responses.write("touched", name=resource, version=version)
            await asyncio.sleep(draw.uniform(0, 0.1))

    touching, driver = asyncio.ensure_future(touch()), TaskDriver(cluster, draw)
    running = [driver.start("works", f"{name}-{number}", seconds=0.3) for number in range(tasks)]
    await asyncio.sleep(0.3)
    await fail(cluster, draw)
    begin = time.monotonic()
    id_ = await driver.create("works", f"{name}-after", seconds=0)
    await asyncio.sleep(0.2)
    await end([touching])
    while time.monotonic() < begin + DEFAULT_TIMEOUT and not all(
        each.known.get(name, 0) >= version for each in listeners for name, version in versions.items()
    ):
        await asyncio.sleep(0.02)
    seconds = time.monotonic() - begin
    if fail in {_flush, _promote}:
        await end(running)
    else:
        await asyncio.gather(driver.follow(id_), *running)
    return seconds


async def _kill(cluster: Cluster, draw: Random) -> None:
    cluster.redis.kill()
    await asyncio.sleep(draw.uniform(0.5, 2))
    await asyncio.to_thread(cluster.redis.start)


async def _pause(cluster: Cluster, draw: Random) -> None:
    cluster.redis.pause()
    await asyncio.sleep(draw.uniform(0.5, 2))
    cluster.redis.resume()


async def _cut(cluster: Cluster, draw: Random) -> None:
    for _ in range(5):
        cluster.proxy.cut(draw)
        await asyncio.sleep(draw.uniform(0, 0.1))
    cluster.proxy.cut()


async def _drop_replies(cluster: Cluster, draw: Random) -> None:
    cluster.proxy.drops = 10
    await cluster.until(lambda: not cluster.proxy.drops, "no replies to drop")


async def _flush(cluster: Cluster, draw: Random) -> None:
    await asyncio.to_thread(cluster.redis.ask, "FLUSHALL")


async def _promote(cluster: Cluster, draw: Random) -> None:
    """Replace the Redis by a replica that lacks the latest writes."""
    redis, other = cluster.redis, RedisServer(cluster.folder / f"replica-{draw.random()}")
    await asyncio.to_thread(other.start)
    await asyncio.to_thread(other.ask, "REPLICAOF", "127.0.0.1", redis.port)
    await cluster.until(lambda: other.replicated() >= 0, "the replica has no link")
    await asyncio.to_thread(other.ask, "REPLICAOF", "NO", "ONE")
    await asyncio.sleep(draw.uniform(0.5, 2))
    redis.kill()
    redis.port, redis.folder, redis.process = other.port, other.folder, other.process
    cluster.proxy.upstream = other.port
    cluster.proxy.cut()


async def different_clocks(seed: int, tasks: int) -> dict[str, int]:
    """Clocks 90 s apart and 50 ms to the Redis: no lease ends early, and plain calls do not wait for the Redis."""
    async with judged(Cluster("clocks", settings=LEASE, ahead=(-45, 45, 0)), seed) as (cluster, faults):
        cluster.proxy.delay = 0.025
        driver = TaskDriver(cluster, Random(seed))
        await asyncio.gather(*(driver.run("works", f"works-{number}", seconds=1) for number in range(tasks)))
        effects = cluster.effects.lines()
        faults += task_faults(cluster.responses.lines(), effects)
        again = [line for line in effects if line["what"] == "effect" and line["attempt"] > 1]
        faults += [f"run again: {line}" for line in again]
        cluster.redis.pause()
        try:
            for each in cluster.replicas:
                await asyncio.wait_for(driver.client.text("echo", each.url, value="x"), DEFAULT_TIMEOUT)
        finally:
            cluster.redis.resume()
        return {"tasks": len(driver.created)}

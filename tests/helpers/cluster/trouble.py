"""A Redis that is killed, stopped, cut off, emptied and replaced, under tasks, changes and their listeners."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

from tests.helpers.cluster.clients import Client, Error, end
from tests.helpers.cluster.cluster import Cluster
from tests.helpers.cluster.long_work import Asker
from tests.helpers.cluster.processes import PATIENCE
from tests.helpers.cluster.subscribers import THINGS, Subscriber
from tests.helpers.cluster.wire import Away
from tests.helpers.redis_server import RedisServer


class Troubles:
    """What may happen to a Redis.

    Args:
        cluster: Whose.
        draw: Chance.
    """

    def __init__(self, cluster: Cluster, draw: Random) -> None:
        self.cluster = cluster
        self.draw = draw
        self.keeping: dict[str, Callable[[], Awaitable[None]]] = {
            "killed": self.killed,
            "stopped": self.stopped,
            "paused": self.paused,
            "connections cut": self.connections_cut,
            "replies swallowed": self.replies_swallowed,
            "cut off": self.cut_off,
        }
        self.losing: dict[str, Callable[[], Awaitable[None]]] = {
            "emptied": self.emptied,
            "a lagging replica promoted": self.promoted,
        }

    async def killed(self) -> None:
        """`kill -9`, and started again with what its log holds."""
        self.cluster.redis.kill()
        await self._while()
        await asyncio.to_thread(self.cluster.redis.start)

    async def stopped(self) -> None:
        """Ended as an operator ends it, and started again."""
        redis = self.cluster.redis
        assert redis.process is not None
        redis.process.terminate()
        await asyncio.to_thread(redis.process.wait)
        redis.process = None
        await self._while()
        await asyncio.to_thread(redis.start)

    async def paused(self) -> None:
        """Stopped where it stands, with its connections open."""
        self.cluster.redis.pause()
        await self._while()
        self.cluster.redis.resume()

    async def connections_cut(self) -> None:
        """Connections broken, some and then all, again and again."""
        for _ in range(5):
            for proxy in self.cluster.proxies:
                proxy.cut(self.draw)
            await asyncio.sleep(self.draw.uniform(0, 0.1))
        for proxy in self.cluster.proxies:
            proxy.cut()

    async def replies_swallowed(self) -> None:
        """Replies lost after the commands were executed."""
        proxies = self.cluster.proxies
        for proxy in proxies:
            proxy.swallows = 10
        await self.cluster.until(
            lambda: not any(proxy.swallows for proxy in proxies), lambda: "somebody asks Redis for nothing"
        )

    async def cut_off(self) -> None:
        """Nothing goes through, and nobody is told so."""
        for proxy in self.cluster.proxies:
            proxy.pause()
        await self._while()
        for proxy in self.cluster.proxies:
            proxy.cut()
            proxy.resume()

    async def emptied(self) -> None:
        """All that it keeps is gone."""
        await asyncio.to_thread(self.cluster.redis.ask, "FLUSHALL")

    async def promoted(self) -> None:
        """Another takes its place that lacks what was written last."""
        cluster = self.cluster
        other = RedisServer(cluster.folder / "other")
        await asyncio.to_thread(other.start)
        await asyncio.to_thread(other.ask, "REPLICAOF", "127.0.0.1", cluster.redis.port)
        await cluster.until(
            lambda: b"master_link_status:up" in other.ask("INFO", "replication"), lambda: "no replica"
        )
        await asyncio.to_thread(other.ask, "REPLICAOF", "NO", "ONE")  # from now on it lags
        await self._while()
        cluster.redis.kill()
        cluster.redis.port, cluster.redis.folder, cluster.redis.process = (
            other.port,
            other.folder,
            other.process,
        )
        for proxy in cluster.proxies:
            proxy.upstream = other.port
            proxy.cut()

    async def _while(self) -> None:
        await asyncio.sleep(self.draw.uniform(0.5, 2))


class Toucher:
    """Changes things through all replicas, for ever, and writes down what was acknowledged.

    Args:
        cluster: Where.
        client: What it asks by.
        draw: Chance.

    Attributes:
        versions: The latest version of each thing that was acknowledged.
    """

    def __init__(self, cluster: Cluster, client: Client, draw: Random) -> None:
        self.cluster = cluster
        self.client = client
        self.draw = draw
        self.versions = dict.fromkeys(THINGS, 0)

    async def run(self) -> None:
        """Change one thing after the other."""
        while True:
            with suppress(Away, Error):
                await self.touch(self.draw.choice(THINGS))
            await asyncio.sleep(self.draw.uniform(0, 0.1))

    async def touch(self, name: str) -> None:
        """Change a thing."""
        version = int(await self.client.text("touch", name=name))
        self.versions[name] = max(version, self.versions[name])
        self.cluster.asked.write("touched", name=name, version=version)


async def settle(toucher: Toucher, subscribers: list[Subscriber], patience: float = PATIENCE) -> None:
    """Wait until all subscribers know the last change, or for so long."""
    end = time.monotonic() + patience
    while time.monotonic() < end and not all(
        subscriber.known.get(name, 0) >= version
        for subscriber in subscribers
        for name, version in toucher.versions.items()
    ):
        await asyncio.sleep(0.02)


async def trouble(
    cluster: Cluster,
    toucher: Toucher,
    asker: Asker,
    subscribers: list[Subscriber],
    what: Callable[[], Awaitable[None]],
    tasks: int,
    patience: float = PATIENCE,
) -> float:
    """Have a trouble under load, and wait until nothing is left of it.

    Args:
        cluster: Where.
        toucher: Who changes things.
        asker: Who makes tasks.
        subscribers: Those who listen.
        what: The trouble.
        tasks: How many tasks are made before it and as many while it lasts.
        patience: Seconds that all of it may take.

    Returns:
        Seconds from its end until a task is made and all have heard of all changes.
    """
    touching = asyncio.ensure_future(toucher.run())
    name = f"{what.__name__}-{cluster.asked.path.stat().st_size}"
    following = [asyncio.ensure_future(asker.run("works", f"{name}-{n}", seconds=0.3)) for n in range(tasks)]
    await asyncio.sleep(0.3)
    following += [
        asyncio.ensure_future(asker.run("works", f"{name}-{n}+", seconds=0.05)) for n in range(tasks)
    ]
    await what()
    begin = time.monotonic()
    if (id_ := await asker.create("works", f"{name}-after", seconds=0)) is not None:
        following.append(asyncio.ensure_future(asker.follow(id_)))
    await asyncio.sleep(0.2)
    await end([touching])
    await settle(toucher, subscribers, patience)
    took = time.monotonic() - begin
    await asyncio.gather(*following)
    return took

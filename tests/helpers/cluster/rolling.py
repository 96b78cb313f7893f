"""Replicas and workers that are restarted one after the other, as an operator does, while clients go on."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from tests.helpers.cluster.clients import Client, Error, Session
from tests.helpers.cluster.cluster import Cluster
from tests.helpers.cluster.long_work import MIXED, Asker
from tests.helpers.cluster.processes import Process
from tests.helpers.cluster.wire import Away

CALLERS = 4


class Load:
    """Clients of both eras that call without a pause, and tasks.

    Args:
        cluster: Where.
        draw: Chance.

    Attributes:
        done: How much of each was done.
        errors: What went wrong.
    """

    def __init__(self, cluster: Cluster, draw: Random) -> None:
        self.cluster = cluster
        self.draw = draw
        self.done: Counter[str] = Counter()
        self.errors: list[str] = []
        self.asker = Asker(Client(cluster.url), cluster, draw)
        self.is_over = False

    async def run(self) -> None:
        """Ask until it is over, and wait for all that was begun."""
        await asyncio.gather(*(self._calls(number) for number in range(CALLERS)), self._tasks())

    async def _calls(self, number: int) -> None:
        client = Session(self.cluster.url) if number % 2 else Client(self.cluster.url)
        kind = "calls in sessions" if number % 2 else "calls"
        if isinstance(client, Session):
            await client.initialize()
        while not self.is_over:
            try:
                await client.text("echo", value="x")
            except (Away, Error) as error:
                self.errors.append(f"{kind}: {error!r}")
            else:
                self.done[kind] += 1
            await asyncio.sleep(0.01)

    async def _tasks(self) -> None:
        following = []
        while not self.is_over:
            key = f"{self.draw.choice(MIXED)}-{len(following)}"
            run = self.asker.run(key.partition("-")[0], key, seconds=0.3)
            following.append(asyncio.ensure_future(run))
            await asyncio.sleep(0.1)
        await asyncio.gather(*following)
        self.done["tasks"] += len(following)


async def roll(cluster: Cluster, draw: Random) -> tuple[Counter[str], list[str]]:
    """Restart all, one by one, twice: as they are, and as a later version.

    Returns:
        What was done meanwhile, and what went wrong.
    """
    load = Load(cluster, draw)
    running = asyncio.ensure_future(load.run())
    await asyncio.sleep(0.5)
    for version in ("1", "2"):
        for each in cluster.servers:
            each.settings["VERSION"] = version
            await _restart(cluster, each)
        if version == "2":
            await load.asker.run("works_more", "works_more-0", seconds=0.05, times=2)
    load.is_over = True
    await running
    await load.asker.look_again()
    return load.done, load.errors


async def _restart(cluster: Cluster, process: Process) -> None:
    ports = [each.port or 0 for each in cluster.replicas]
    if process in cluster.replicas:
        await cluster.gateway.send_to([port for port in ports if port != process.port])
    await process.stop()
    process.start()
    await cluster.up(process)
    await cluster.gateway.send_to(ports)

"""What is tried on a cluster, in small by the tests and in full by `make chaos`: each returns what went wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from tests.helpers.cluster.clients import Client, end
from tests.helpers.cluster.cluster import Cluster
from tests.helpers.cluster.elsewhere import Elsewhere
from tests.helpers.cluster.judge import changes_unheard, effects_wrong, promises_broken
from tests.helpers.cluster.long_work import Asker, work_and_kill
from tests.helpers.cluster.processes import PATIENCE
from tests.helpers.cluster.racing import race_for_a_limit, race_for_one_use
from tests.helpers.cluster.rolling import roll
from tests.helpers.cluster.stopped import stop_and_go_on, write_late, written_late
from tests.helpers.cluster.subscribers import Subscriber
from tests.helpers.cluster.trouble import Toucher, Troubles, settle, trouble

LEASE = {"LEASE": 2}


class Failed(AssertionError):
    """What went wrong in a run, by the ledgers."""


@asynccontextmanager
async def judged(cluster: Cluster, seed: int) -> AsyncIterator[tuple[Cluster, list[str]]]:
    """Start a cluster, say by which seed, and raise what was put into the list in the end."""
    print(f"{cluster.folder.name}: seed {seed}", flush=True)
    wrong: list[str] = []
    async with cluster:
        yield cluster, wrong
        wrong += [f"ended by itself: {each.name}" for each in cluster.servers if each.has_ended]
        if wrong:
            first = "\n".join(wrong[:20])
            raise Failed(
                f"{len(wrong)} wrong, by seed {seed}, {dict(Counter(each.split(':')[0] for each in wrong))}\n{first}"
            )


async def kills(seed: int, tasks: int, kills: int) -> dict[str, int]:
    """Tasks of all kinds, while replicas and workers are killed."""
    async with judged(Cluster("kills", settings=LEASE, is_direct=True), seed) as (cluster, wrong):
        asker = Asker(Client(cluster.url), cluster, Random(seed))
        hit = await work_and_kill(cluster, asker, tasks, kills)
        asked, effects = cluster.asked.lines(), cluster.effects.lines()
        wrong += promises_broken(asked) + effects_wrong(asked, effects)
        again = sum(line["attempt"] > 1 for line in effects if line["what"] == "effect")
        return {"tasks": len(asker.created), "kills": len(hit), "begun again": again}


async def acknowledged(seed: int, control: str = "") -> None:
    """Tasks that are acknowledged, whereupon all replicas are killed at once."""
    settings = {**LEASE, "CONTROL": control}
    async with judged(Cluster("acknowledged", settings=settings), seed) as (cluster, wrong):
        asker = Asker(Client(cluster.url), cluster, Random(seed))
        made = await asyncio.gather(*(asker.create("works", f"works-{n}", seconds=0.05) for n in range(20)))
        for each in cluster.replicas:
            each.kill()
        for each in cluster.replicas:
            each.start()
        await asyncio.gather(*map(cluster.up, cluster.replicas))
        for id_ in made:
            if id_ is not None:
                await asker.look(id_)  # what nobody knows is written down
        wrong += [each for each in promises_broken(cluster.asked.lines()) if "nobody knows" in each]


async def stopped(seed: int, rounds: int, control: str = "") -> dict[str, int]:
    """A worker that is stopped past its lease, and goes on."""
    settings = {**LEASE, "CONTROL": control}
    async with judged(Cluster("stopped", settings=settings), seed) as (cluster, wrong):
        asker = Asker(Client(cluster.url), cluster, Random(seed))
        its: list[str] = []
        for number in range(rounds):
            its += await stop_and_go_on(cluster, asker, f"{number}")
            its += await write_late(cluster, asker, f"{number}+")
        asked = cluster.asked.lines()
        wrong += promises_broken(asked) + written_late(asked, its)
        return {"tasks": len(asker.created), "held by the worker that was stopped": len(its)}


async def redis_in_trouble(seed: int, rounds: int, tasks: int, listeners: int) -> dict[str, float]:
    """All that may happen to a Redis, under load."""
    draw = Random(seed)
    took: dict[str, float] = {}
    async with judged(Cluster("trouble", settings=LEASE), seed) as (cluster, wrong):
        troubles = Troubles(cluster, draw)
        async with _listening(cluster, listeners, draw) as (toucher, subscribers):
            for name, what in (troubles.keeping | troubles.losing).items():
                for _ in range(rounds):
                    asker = Asker(Client(cluster.url), cluster, draw)
                    begin = len(cluster.asked.lines())
                    seconds = await trouble(cluster, toucher, asker, subscribers, what, tasks)
                    took[name] = max(took.get(name, 0), seconds)
                    lines = cluster.asked.lines()
                    wrong += [f"{name}: {each}" for each in changes_unheard(lines)]
                    if name in troubles.keeping:
                        wrong += [f"{name}: {each}" for each in promises_broken(lines[begin:])]
    return took


async def changes_by_pubsub(seed: int) -> None:
    """Connections that are cut where the bus does not know what was missed."""
    draw = Random(seed)
    settings = {**LEASE, "CONTROL": "pubsub"}
    async with judged(Cluster("pubsub", settings=settings), seed) as (cluster, wrong):
        async with _listening(cluster, 12, draw) as (toucher, subscribers):
            await _touch_all(toucher)
            await settle(toucher, subscribers)
            wrong += [f"before anything was cut: {each}" for each in changes_unheard(cluster.asked.lines())]
            for _ in range(10):
                cluster.proxies[0].cut()
                await _touch_all(toucher)
            await settle(toucher, subscribers, 5)
        wrong += changes_unheard(cluster.asked.lines())


async def _touch_all(toucher: Toucher) -> None:
    await asyncio.gather(*map(toucher.touch, toucher.versions))


@asynccontextmanager
async def _listening(
    cluster: Cluster, listeners: int, draw: Random
) -> AsyncIterator[tuple[Toucher, list[Subscriber]]]:
    toucher = Toucher(cluster, Client(cluster.url), draw)
    subscribers = [Subscriber(cluster, number) for number in range(listeners)]
    running = [asyncio.ensure_future(each.run()) for each in subscribers]
    try:
        await cluster.until(
            lambda: all(each.known.keys() >= toucher.versions.keys() for each in subscribers),
            lambda: "somebody cannot listen",
        )
        yield toucher, subscribers
    finally:
        await end(running)


async def elsewhere(seed: int, times: int) -> dict[str, int]:
    """Each kind of request at a replica other than the one where it began."""
    async with judged(Cluster("elsewhere", settings=LEASE, is_direct=True), seed) as (cluster, wrong):
        asking = Elsewhere(cluster, Random(seed))
        await asking.many(times)
        wrong += asking.wrong
        return dict(asking.done)


async def rolling(seed: int) -> dict[str, int]:
    """All replicas and workers restarted one by one, and then by a later version, under load."""
    async with judged(Cluster("rolling", settings=LEASE, is_direct=True), seed) as (cluster, wrong):
        done, errors = await roll(cluster, Random(seed))
        asked = cluster.asked.lines()
        wrong += errors + promises_broken(asked) + effects_wrong(asked, cluster.effects.lines())
        return dict(done)


async def racing(seed: int, racers: int) -> dict[str, int]:
    """Many for one use, and for what is limited."""
    async with judged(Cluster("racing", workers=0, is_direct=True), seed) as (cluster, wrong):
        told = Counter(await race_for_one_use(cluster, racers, "prize"))
        drawn = cluster.effects.lines("drawn")
        if told != {"won": 1, "used": racers - 1} or len(drawn) != 1:
            wrong.append(f"one use: {told}, and {len(drawn)} effects")
    burst = racers // 10
    async with judged(Cluster("limit", workers=0, settings={"BURST": burst}, is_direct=True), seed) as (
        cluster,
        wrong,
    ):
        told = Counter(await race_for_a_limit(cluster, racers))
        let_in = cluster.effects.lines("let in")
        if told != {"let in": burst, "refused": racers - burst} or len(let_in) != burst:
            wrong.append(f"a limit of {burst}: {told}, and {len(let_in)} effects")
    return {"racers": racers}


async def clocks_apart(seed: int, times: int) -> dict[str, int]:
    """Clocks 90 s apart and 50 ms to Redis: all is as ever, and no lease is over before its time."""
    ahead = (-45, 45, 0)
    async with judged(Cluster("clocks", settings=LEASE, ahead=ahead), seed) as (cluster, wrong):
        client = Client(cluster.url)
        clocks = [float(await client.text("clock", each.url)) for each in cluster.replicas]
        if max(clocks) - min(clocks) < 80:
            wrong.append(f"the clocks are not apart: {clocks}")
        for proxy in cluster.proxies:
            proxy.delay = 0.025  # each way
        asking = Elsewhere(cluster, Random(seed))
        await asking.many(times)
        wrong += asking.wrong
        again = [line for line in cluster.effects.lines("effect") if line["attempt"] > 1]
        wrong += [f"begun again: {line}" for line in again]
        wrong += await _plain_calls_wait_for_nobody(cluster)
        return dict(asking.done)


async def _plain_calls_wait_for_nobody(cluster: Cluster) -> list[str]:
    """Ask while nothing comes from Redis: whoever needed it would wait for as long as that."""
    client = Client(cluster.url)
    cluster.proxies[0].pause()
    try:
        for each in cluster.replicas:
            await asyncio.wait_for(client.text("echo", each.url, value="x"), PATIENCE)
    except Exception as error:
        return [f"plain calls: {error!r}"]
    finally:
        cluster.proxies[0].resume()
    return []

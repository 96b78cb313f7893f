"""A worker that is stopped for longer than its lease, and then goes on with what others have by now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.helpers.cluster.cluster import Cluster
from tests.helpers.cluster.ledger import Line
from tests.helpers.cluster.long_work import Asker
from tests.helpers.cluster.processes import Process

TASKS = {"waits": 6, "waits_once": 2}
"""How many of each kind: the worker that goes on has a slot for each."""


async def stop_and_go_on(cluster: Cluster, asker: Asker, name: str) -> list[str]:
    """Stop a worker in the midst of its tasks until the other one has begun them, and then let it end them first.

    Returns:
        The keys of the tasks that it had.
    """
    following, stopped, its = await _begin(cluster, asker, name)
    stopped.pause()
    again = await _begun_again(cluster, asker, its)
    _may_end(cluster, its, 1)
    stopped.resume()
    over = {"went on", "was cancelled"}
    await _until(
        cluster,
        lambda line: line["what"] in over and line["pid"] == stopped.pid,
        set(its),
    )
    _may_end(cluster, again, *range(2, 20))
    await asyncio.gather(*following)
    await asker.look_again()
    return its


async def write_late(cluster: Cluster, asker: Asker, name: str) -> list[str]:
    """Let a worker end its tasks, and keep what it writes on the way to Redis until the other one has begun them.

    Returns:
        The keys of the tasks that it had.
    """
    following, slow, its = await _begin(cluster, asker, name)
    way = cluster.proxy_of(slow)
    way.pause()
    _may_end(cluster, its, 1)
    await _until(cluster, lambda line: line["what"] == "went on" and line["pid"] == slow.pid, set(its))
    again = await _begun_again(cluster, asker, its)
    way.resume()
    await asyncio.sleep(1)  # what was on the way arrives, and would be seen in what clients are told
    _may_end(cluster, again, *range(2, 20))
    await asyncio.gather(*following)
    await asker.look_again()
    return its


async def _begin(
    cluster: Cluster, asker: Asker, name: str
) -> tuple[list[asyncio.Task[None]], Process, list[str]]:
    """Make tasks that wait, until all of them run; return who follows them, and a worker with what it has."""
    keys = [f"{tool}-{name}-{number}" for tool, most in TASKS.items() for number in range(most)]
    ids = [await asker.create(key.partition("-")[0], key) for key in keys]
    following = [asyncio.ensure_future(asker.follow(id_)) for id_ in ids if id_ is not None]
    await _until(cluster, lambda line: line["what"] == "effect", set(keys))
    begun = [line for line in cluster.effects.lines("effect") if line["key"] in keys]
    held = {each: [line["key"] for line in begun if line["pid"] == each.pid] for each in cluster.workers}
    worker = max(held, key=lambda each: sum(key.startswith("waits-") for key in held[each]))
    for key in keys:
        if key not in held[worker]:
            _may_end(cluster, [key], *range(1, 20))
    return following, worker, held[worker]


async def _begun_again(cluster: Cluster, asker: Asker, its: list[str]) -> list[str]:
    """Wait until what a worker has is another's, or has ended; return what has been begun again."""
    again = [key for key in its if key.startswith("waits-")]
    await _until(cluster, lambda line: line["attempt"] > 1, set(again))
    ids = {
        line["id"]
        for line in cluster.asked.lines("created")
        if line["key"] in its and line["key"] not in again
    }
    await cluster.until(lambda: asker.ended >= ids, lambda: "what is never run again has not ended")
    return again


def _may_end(cluster: Cluster, keys: list[str], *attempts: int) -> None:
    for key in keys:
        for attempt in attempts:
            (cluster.folder / f"go-{key}-{attempt}").touch()


def written_late(asked: list[Line], its: list[str]) -> list[str]:
    """Judge whether what the worker has written late was taken, though others had the tasks by then.

    Args:
        asked: The ledger of the clients.
        its: The keys of the tasks that it had.
    """
    keys = {line["id"]: line["key"] for line in asked if line["what"] == "created"}
    found = []
    for line in asked:
        if line["what"] != "seen" or keys[line["id"]] not in its or line["task"]["status"] != "completed":
            continue
        result = line["task"]["result"]["structuredContent"]
        if result["attempt"] == 1:
            found.append(f"written late: {keys[line['id']]} has ended as {result}")
    return sorted(set(found))


async def _until(cluster: Cluster, is_meant: Callable[[Line], bool], keys: set[str]) -> None:
    """Wait until the tools have written such a line for all keys."""
    await cluster.until(
        lambda: {line["key"] for line in cluster.effects.lines() if is_meant(line)} >= keys,
        lambda: f"it has not come so far: {keys}",
    )

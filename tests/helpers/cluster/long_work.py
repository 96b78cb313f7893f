"""Clients that make tasks and follow each to its end, whatever is killed, and write down what they are told."""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

from tests.helpers.cluster.clients import ENDED, IDEMPOTENCY, UNKNOWN, Client, Error
from tests.helpers.cluster.cluster import Cluster
from tests.helpers.cluster.processes import PATIENCE, Process
from tests.helpers.cluster.wire import Away

MIXED = (
    *("works",) * 7,
    *("works_in_thread",) * 2,
    *("risks",) * 4,
    *("risks_and_asks",) * 3,
    *("steps",) * 4,
)
"""Tools, as often as they are drawn."""

BUSY = 503


class Asker:
    """Makes tasks and follows them.

    Args:
        client: What it asks by.
        cluster: Whose ledger it writes in.
        draw: Chance.

    Attributes:
        created: The tasks that have been acknowledged, and their tools.
        ended: Those that have ended.
        unknown: Those that somebody has said not to know.
    """

    def __init__(self, client: Client, cluster: Cluster, draw: Random) -> None:
        self.client = client
        self.cluster = cluster
        self.draw = draw
        self.created: dict[str, str] = {}
        self.ended: set[str] = set()
        self.unknown: set[str | None] = set()
        self.is_given_up = False
        self._news = time.monotonic()

    async def run(self, tool: str, key: str, **arguments: object) -> None:
        """Make a task, and follow it to its end."""
        id_ = await self.create(tool, key, **arguments)
        if id_ is not None:
            await self.follow(id_)

    async def create(self, tool: str, key: str, **arguments: object) -> str | None:
        """Make a task; who has not heard of it asks again, under the same key. None where it is given up."""
        params = {
            "name": tool,
            "arguments": {"key": key, **arguments},
            "_meta": {IDEMPOTENCY: key},
        }
        while (task := await self._asked("tools/call", params)) is None:
            if self._gives_up():
                return None
        id_: str = task["taskId"]
        self.created[id_] = tool
        self._write("created", id=id_, key=key, tool=tool)
        return id_

    async def follow(self, id_: str) -> None:
        """Look at a task until it has ended, answer what it asks, and look some more."""
        known: Any = None
        left = self.draw.randint(1, 3)
        while left and id_ not in self.unknown:
            task = await self.look(id_)
            if task is None:
                if self._gives_up():
                    return
            elif task["status"] in ENDED:
                self._write("seen", id=id_, task=task)
                self.ended.add(id_)
                left -= 1
            elif task != known:
                known = task
                self._write("seen", id=id_, task=task)
            if task is not None and task["status"] == "input_required":
                await self._answer(task)
            if self._gives_up():
                return
            await asyncio.sleep(self.draw.uniform(0.2, 0.5))

    async def look(self, id_: str, at: str | None = None) -> dict[str, Any] | None:
        """Return a task as it is told; None where nobody answers."""
        return await self._asked("tasks/get", {"taskId": id_}, at, id_)

    async def look_again(self) -> None:
        """Look at every task once more, on each replica in turn."""
        urls = [each.url for each in self.cluster.replicas]
        for number, id_ in enumerate(self.created):
            task = await self.look(id_, urls[number % len(urls)])
            if task is not None:
                self._write("seen", id=id_, task=task)

    async def _answer(self, task: dict[str, Any]) -> None:
        answer = {"action": "accept", "content": {"value": True}}
        answers = dict.fromkeys(task["inputRequests"], answer)
        params = {"taskId": task["taskId"], "inputResponses": answers}
        await self._asked("tasks/update", params, id_=task["taskId"])

    async def _asked(
        self, method: str, params: dict[str, Any], at: str | None = None, id_: str | None = None
    ) -> dict[str, Any] | None:
        try:
            return await self.client.ask(method, params, at)
        except Away:
            await asyncio.sleep(0.05)
        except Error as error:
            if error.code == UNKNOWN:
                self.unknown.add(id_)
            if error.status != BUSY:
                self._write("error", id=id_, code=error.code, error=str(error), method=method)
            await asyncio.sleep(0.2)
        return None

    def _write(self, what: str, **more: object) -> None:
        self._news = time.monotonic()
        self.cluster.asked.write(what, **more)

    def _gives_up(self) -> bool:
        """Whether nothing has happened for so long that nothing will."""
        self.is_given_up |= time.monotonic() > self._news + PATIENCE
        return self.is_given_up


async def work_and_kill(cluster: Cluster, asker: Asker, tasks: int, kills: int) -> list[Process]:
    """Make tasks while replicas and workers are killed and started again, and wait for all ends.

    Args:
        cluster: What is killed.
        asker: Who asks.
        tasks: How many tasks.
        kills: How many kills, with as many tasks begun before each.

    Returns:
        Whom the kills have hit.
    """
    draw = asker.draw
    following: list[asyncio.Task[None]] = []
    hit: list[Process] = []
    for number in range(tasks):
        tool = draw.choice(MIXED)
        run = asker.run(tool, f"{tool}-{number}", seconds=draw.choice((0.05, 0.3, 1.0)))
        following.append(asyncio.ensure_future(run))
        if (number + 1) * kills // tasks > number * kills // tasks:
            await asyncio.sleep(draw.uniform(0, 0.3))
            hit.append(draw.choice(cluster.servers))
            await cluster.restart(hit[-1])
    await asyncio.gather(*following)
    await asker.look_again()
    return hit

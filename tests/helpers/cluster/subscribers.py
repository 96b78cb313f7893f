"""Clients that listen for changes, look at what has changed when they are told, and write down what they then know."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.helpers.cluster.clients import Client, Error, Session, Stream
from tests.helpers.cluster.cluster import Cluster
from tests.helpers.cluster.wire import Away

THINGS = ("anvil", "bench", "clamp")


class Subscriber:
    """Listens at one replica, and comes back where its stream ends.

    Args:
        cluster: Where.
        number: Which it is: those with even numbers have no session.
        things: What it listens to.

    Attributes:
        who: What its lines in the ledger call it.
        known: The version of each thing that it has seen.
    """

    def __init__(self, cluster: Cluster, number: int, things: Sequence[str] = THINGS) -> None:
        self.cluster = cluster
        self.who = f"subscriber-{number}"
        self.things = things
        self.known: dict[str, int] = {}
        self.gaps = 0
        self.notified = 0
        self._url = cluster.replicas[number // 2 % len(cluster.replicas)].url
        self._is_session = bool(number % 2)

    async def run(self) -> None:
        """Listen, for ever."""
        while True:
            try:
                await (self._in_session() if self._is_session else self._alone())
            except (Away, Error):
                self.gaps += 1
                self.cluster.asked.write("gap", who=self.who)
                await asyncio.sleep(0.1)

    async def _alone(self) -> None:
        client = Client(self._url)
        uris = [f"thing://{name}" for name in self.things]
        filters = {"notifications": {"resourceSubscriptions": uris}}
        async with client.open("subscriptions/listen", filters) as (stream, _):
            await stream.until("notifications/subscriptions/acknowledged")
            await self._hear(client, stream)

    async def _in_session(self) -> None:
        session = Session(self._url)
        await session.initialize()
        async with session.listen() as stream:
            for name in self.things:
                await session.ask("resources/subscribe", {"uri": f"thing://{name}"})
            await self._hear(session, stream)

    async def _hear(self, client: Client, stream: Stream) -> None:
        for name in self.things:
            await self._read(client, name)
        while True:
            message = await stream.wait()
            if message.get("method") == "notifications/resources/updated":
                self.notified += 1
                await self._read(client, message["params"]["uri"].removeprefix("thing://"))

    async def _read(self, client: Client, name: str) -> None:
        """Look at a thing: each replica knows it."""
        result = await client.ask("resources/read", {"uri": f"thing://{name}"})
        self.known[name] = int(result["contents"][0]["text"])
        self.cluster.asked.write("read", who=self.who, name=name, version=self.known[name])

"""Watches that come, go, break and are cancelled at random: those that stay hear, and nothing is left over."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from mcpkit import Client, Server, TransportError
from mcpkit.client.changes import listening
from mcpkit.client.changes.changes import Watch
from tests.helpers.listening import hearing
from tests.helpers.restarted import Restarted
from tests.helpers.waiting import PATIENCE, over

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
NAMES = "abc"


def make() -> Server:
    server = Server("small")
    for name in NAMES:
        server.resource(f"x://{name}", name=name)(_text)
    return server


def _text() -> str:
    return "text"


async def turns(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


class Round:
    """One round: a client of a server that is restarted, and who watches what."""

    def __init__(self, seed: int, way: Restarted, client: Client) -> None:
        self.random = random.Random(seed)
        self.way = way
        self.client = client
        self.joining: list[tuple[Watch, set[str], asyncio.Task[Watch]]] = []
        self.open: list[tuple[Watch, set[str]]] = []

    async def step(self) -> None:
        """Do one thing."""
        chance = self.random.choices(
            [self.die, self.update, self.join, self.settle, self.leave, self.listen_in_vain],
            [15, 25, 25, 15, 10, 10],
        )
        await chance[0]()
        await turns(self.random.randrange(4))

    async def die(self) -> None:
        if self.way.opened:
            await self.way.die()

    async def update(self) -> None:
        self.way.server.resource_updated(f"x://{self.random.choice(NAMES)}")

    async def join(self) -> None:
        uris = {f"x://{name}" for name in self.random.sample(NAMES, self.random.randrange(1, 4))}
        watch = self.client.watch(resources=sorted(uris))
        self.joining.append((watch, uris, asyncio.create_task(watch.__aenter__())))

    async def settle(self) -> None:
        if self.joining:
            watch, uris, joining = self.joining.pop(self.random.randrange(len(self.joining)))
            if self.random.random() < 0.5:
                joining.cancel()
            # It may have broken as often as it is tried.
            with suppress(asyncio.CancelledError, TransportError):
                await asyncio.wait_for(joining, PATIENCE)
                self.open.append((watch, uris))

    async def leave(self) -> None:
        if self.open:
            await self.open.pop(self.random.randrange(len(self.open)))[0].aclose()

    async def listen_in_vain(self) -> None:
        if self.open:
            watch, _ = self.random.choice(self.open)
            await self.empty(watch, turn=1)

    async def empty(self, watch: Watch, *, turn: int = 20) -> None:
        """Take all changes that wait."""
        while True:
            taking = asyncio.ensure_future(anext(watch))
            await turns(turn)
            if not taking.done():
                await over(taking)
                return
            await taking

    async def end(self) -> None:
        """Make sure that each watch that is open hears of everything, and leave."""
        while self.joining:
            await self.settle()
        await turns(200)
        for watch, _ in self.open:
            await self.empty(watch)
        for name in NAMES:
            self.way.server.resource_updated(f"x://{name}")
        for watch, uris in self.open:
            told = {(await asyncio.wait_for(anext(watch), PATIENCE)).uri for _ in uris}
            assert told == uris
        while self.open:
            await self.leave()
        await turns(50)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_whoever_watches_hears_whatever_happens_before(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_pause(_: float) -> None:
        await turns(1)

    monkeypatch.setattr(listening, "sleep", no_pause)
    for seed in range(100):
        before = asyncio.all_tasks()
        way = Restarted(make)
        async with Client(way, revision=revision) as client:
            one = Round(seed, way, client)
            for _ in range(one.random.randrange(5, 40)):
                await one.step()
            await one.end()
            assert hearing(way.server) <= (1 if revision < "2026" else 0)  # the session hears of lists anyway
        await turns(20)
        assert asyncio.all_tasks() == before, seed

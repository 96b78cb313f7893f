"""What the tests of sessions in several places have in common: a broker that they share, and servers that use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from mcpkit import Memory, Server, Stored
from mcpkit.transports.http.sessions.record import Record
from tests.helpers.asgi_answer import Answer
from tests.helpers.asgi_client import Serve, Session
from tests.helpers.session_server import SECRET
from tests.helpers.work import Work


class Shared(Memory):
    """A broker such as processes share: what is read is never what was read before, and it may take a while.

    Attributes:
        gate: Reads have to pass it, with what they have read.
        lock: Writes have to pass it, before they are made.
        followed: How many apps hear of sessions.
        refuses: Whether it raises what a broker raises that cannot be reached.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.lock = asyncio.Event()
        self.lock.set()
        self.followed = 0
        self.refuses = False

    async def read(self, key: str) -> Mapping[str, str]:
        self._answer()
        record = dict(await super().read(key))
        await self.gate.wait()
        return record

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        self._answer()
        await self.lock.wait()
        await super().write(key, changes, ttl)

    async def erase(self, key: str) -> None:
        self._answer()
        await super().erase(key)

    async def get(self, key: str) -> Stored | None:
        self._answer()
        return await super().get(key)

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        self._answer()
        return await super().put(key, value, version=version, ttl=ttl)

    async def publish(self, topic: str, message: str) -> None:
        self._answer()
        await super().publish(topic, message)

    def _answer(self) -> None:
        if self.refuses:
            raise ConnectionError("the store is down")

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        unsubscribe = super().subscribe(topic, listener, missed)
        if not topic.endswith("/sessions"):
            return unsubscribe
        self.followed += 1

        def leave() -> None:
            self.followed -= 1
            unsubscribe()

        return leave


def sessions_in(store: Memory) -> list[str]:
    """Return the keys of the sessions that a store has records of."""
    return [key for key in store._records._entries if "/session/" in key]


def make_server(broker: Memory, work: Work | None = None) -> Server:
    server = Server("weather", version="1", secret=SECRET, shared=broker)

    @server.tool
    async def wait() -> str:
        assert work is not None
        await work.wait()
        return "waited"

    @server.resource("weather://{town}")
    async def weather(town: str) -> str:
        return town

    return server


@asynccontextmanager
async def two_places(serve: Serve, broker: Shared) -> AsyncIterator[tuple[Server, Session, Session]]:
    """Serve in two places; give the server of the first, and one session as it is asked in each."""
    server = make_server(broker)
    async with serve(make_server(broker)) as there, serve(server) as here:
        session = await here.initialize()
        yield server, session, session.at(there)


async def say_changed(broker: Memory, record: Record) -> None:
    """Say that a session has changed, as another process does."""
    await Memory.publish(broker, "weather/sessions", f"elsewhere 1 {record.token.id} changed ")


async def subscribe(session: Session, town: str, verb: str = "subscribe") -> None:
    assert (await session.ask(f"resources/{verb}", {"uri": f"weather://{town}"}).whole()).status == 200


async def listen(session: Session) -> Answer:
    stream = session.listen()
    assert await stream.event() is not None  # the one that has no data
    return stream


async def next_town(stream: Answer) -> str:
    return str((await stream.message())["params"]["uri"]).removeprefix("weather://")


async def settle(stream: Answer) -> None:
    """Let what was published be heard: reading a store that is in memory takes a few turns of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not stream.is_over

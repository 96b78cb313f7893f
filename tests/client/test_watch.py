"""Client.watch: notifications of changed lists and resources, subscriptions and their ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from mcpkit import Client, ProtocolError, Server
from mcpkit.client import Change
from mcpkit.client.changes.changes import MAX_LENGTH, MOST_WAITING, Pending, Subscription, SubscriptionFilter
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, initialized
from tests.helpers.waiting import DEFAULT_TIMEOUT, over, until

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]
KINDS = ("tools", "prompts", "resources")


class Observed:
    """A server with a tool, prompts and resources, and what its clients are subscribed to."""

    def __init__(self) -> None:
        self.server = Server("observed")
        self.watched: set[str] = set()
        self._numbers = count()
        self.server.resource("x://all/{part}", name="parts")(_part)
        for kind in ("tools", "prompts"):
            self.add(kind)
        for name in "abc":
            self.server.resource(f"x://{name}", name=name, watch=self._watched(name))(_text)

    def _watched(self, name: str) -> Callable[[], AsyncGenerator[None]]:
        async def watch() -> AsyncGenerator[None]:
            self.watched.add(name)
            try:
                await asyncio.Event().wait()
                yield
            finally:
                self.watched.discard(name)

        return watch

    def add(self, kind: str) -> None:
        """Change a list."""
        name = f"added{next(self._numbers)}"
        if kind == "resources":
            self.server.resource(f"x://{name}", name=name)(_text)
        else:
            getattr(self.server, kind.removesuffix("s"))(name=name)(_text)


def _text() -> str:
    return "text"


def _part(part: str) -> str:
    return part


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


async def next_change(changes: Subscription) -> Change:
    return await asyncio.wait_for(anext(changes), DEFAULT_TIMEOUT)


async def assert_no_change(changes: Subscription) -> None:
    waiting = asyncio.ensure_future(anext(changes))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    await over(waiting)


@asynccontextmanager
async def connected(revision: str) -> AsyncGenerator[tuple[Observed, Client]]:
    observed = Observed()
    async with Client(observed.server, protocol_version=revision) as client:
        yield observed, client
    await until(lambda: not observed.watched)


@pytest.mark.parametrize("kind", KINDS)
async def test_watch_yields_each_watched_change_once_and_no_other(revision: str, kind: str) -> None:
    options: Any = {f"{kind}_list_changed": True, "resource_subscriptions": ["x://a", "x://b"]}
    async with connected(revision) as (observed, client), client.listen(**options) as changes:
        await until(lambda: observed.watched == {"a", "b"})
        for _ in range(3):
            for each in KINDS:
                observed.add(each)
            for name in "cba":
                observed.server.notify_resource_updated(f"x://{name}")
            for _ in range(20):
                await asyncio.sleep(0)
        received = {await next_change(changes) for _ in range(3)}
        assert received == {Change(kind), Change("resource", "x://a"), Change("resource", "x://b")}
        await assert_no_change(changes)
        observed.add(kind)
        assert await next_change(changes) == Change(kind)


async def test_watch_template_yields_matching_resources(revision: str) -> None:
    async with (
        connected(revision) as (observed, client),
        client.listen(resource_subscriptions="x://all/{part}") as all_,
        client.listen(resource_subscriptions="x://all/1") as one,
        client.listen(resource_subscriptions="x://a") as other,
    ):
        for part in ("1", "2"):
            observed.server.notify_resource_updated(f"x://all/{part}")
            assert await next_change(all_) == Change("resource", f"x://all/{part}")
        assert await next_change(one) == Change("resource", "x://all/1")
        await assert_no_change(one)
        observed.server.notify_resource_updated("x://a")
        assert (await next_change(other)).uri == "x://a"


@pytest.mark.slow
async def test_watch_break_ends_subscription(revision: str) -> None:
    async with connected(revision) as (observed, client):

        async def consume() -> Change:
            async for change in client.listen(resource_subscriptions="x://a"):
                break
            return change

        consuming = asyncio.create_task(consume())
        await until(lambda: observed.watched == {"a"})
        observed.server.notify_resource_updated("x://a")
        assert await consuming == Change("resource", "x://a")
        gc.collect()
        await until(lambda: not observed.watched)


async def test_watch_close_ends_pending_join() -> None:
    transport = ScriptedTransport(
        lambda _, message: [discovered(message)] if message["method"] == "server/discover" else None
    )
    async with Client(transport) as client:
        changes = client.listen(tools_list_changed=True)
        waiting = asyncio.create_task(anext(changes, None))
        await until(lambda: transport.methods()[-1] == "subscriptions/listen")
        await changes.aclose()
        assert await waiting is None


async def test_watch_ends_when_client_closes(revision: str) -> None:
    observed, before = Observed(), asyncio.all_tasks()
    async with Client(observed.server, protocol_version=revision) as client:
        changes = client.listen(resource_subscriptions="x://a")
        waiting = asyncio.create_task(anext(changes, None))
        await until(lambda: observed.watched == {"a"})
    assert await asyncio.wait_for(waiting, DEFAULT_TIMEOUT) is None
    await until(lambda: asyncio.all_tasks() == before)
    with pytest.raises(ConnectionError, match="is not open"):
        async with client.listen(tools_list_changed=True):
            pass


async def test_watch_unsupported_changes_raise_protocol_error(revision: str) -> None:
    server = Server("without resources")
    server.tool(name="a")(_text)
    async with Client(server, protocol_version=revision) as client:
        resources = {"resource_subscriptions": "x://a", "resources_list_changed": True}
        with pytest.raises(
            ProtocolError, match=r"the list of resources, x://a\. Watch only what it notifies"
        ):
            async with client.listen(tools_list_changed=True, **resources):
                pass
        with pytest.raises(ProtocolError, match="the list of prompts"):
            async for _ in client.listen(prompts_list_changed=True):
                pass
        async with client.listen() as changes:
            server.tool(name="b")(_text)
            assert await next_change(changes) == Change("tools")


async def test_subscription_is_shared_by_watches_of_one_resource() -> None:
    def answer(_: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "initialize":
            handshake = initialized(message)
            handshake["result"]["capabilities"] = {"resources": {"subscribe": True}}
            return [handshake]
        return [{"id": message["id"], "result": {}}] if "id" in message else []

    def sent() -> list[str]:
        found = [f"{each['method']} {each['params'].get('uri')}" for each in transport.sent[2:]]
        return [each.removeprefix("resources/") for each in found]

    transport = ScriptedTransport(answer)
    async with Client(transport, protocol_version="2025-11-25") as client:
        async with (
            client.listen(resource_subscriptions=["x://a", "x://a", "x://b"]),
            client.listen(resource_subscriptions="x://a"),
        ):
            assert sorted(sent()) == ["subscribe x://a", "subscribe x://b"]
        await until(lambda: len(sent()) == 4)
        assert sorted(sent()[2:]) == ["unsubscribe x://a", "unsubscribe x://b"]


@pytest.mark.parametrize(("times", "length"), [(MOST_WAITING + 1, 1), (2, MAX_LENGTH // 2)])
async def test_pending_overflow_becomes_possible_change(times: int, length: int) -> None:
    pending = Pending(SubscriptionFilter(["tools"], ["x://{n}", "x://named"]))
    pending.add(Change("tools"))
    pending.add(Change("resource", "x://named"))
    for n in range(times):
        pending.add(Change("resource", f"x://{n}{length * 'x'}"))
    assert await pending.take() == Change("tools")
    assert await pending.take() == Change("resource", "x://named")
    assert await pending.take() == Change("resource", "x://{n}", may_have_missed=True)
    pending.end()
    with pytest.raises(StopAsyncIteration):
        await pending.take()

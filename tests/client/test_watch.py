"""Client.listen: changes of lists and resources, subscriptions and their ends, and lost servers."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from mcpkit import CacheHint, Client, ClientGroup, ProtocolError, Server, ServerOptions
from mcpkit.client import Change
from mcpkit.client import client_subscriptions as subscription_requests
from mcpkit.client.client_messages import OutgoingMessage
from mcpkit.client.client_subscriptions import (
    MAX_LENGTH,
    MAX_WAITING,
    ChangeBuffer,
    Subscription,
    SubscriptionFilter,
)
from mcpkit.client.transport_interface_and_memory import MemoryTransport, TransportListener
from mcpkit.exceptions import TransportError
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, initialized
from tests.helpers.waiting import DEFAULT_TIMEOUT, LoopClock, over, until

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


def discovery_only(_: ScriptedTransport, message: Message) -> list[Message]:
    return [discovered(message)] if message["method"] == "server/discover" else []


async def test_watch_close_ends_pending_join() -> None:
    transport = ScriptedTransport(discovery_only)
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
        with pytest.raises(ProtocolError, match=r"the list of resources, x://a\. Subscribe to others"):
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


@pytest.mark.parametrize(("times", "length"), [(MAX_WAITING + 1, 1), (2, MAX_LENGTH // 2)])
async def test_pending_overflow_becomes_possible_change(times: int, length: int) -> None:
    pending = ChangeBuffer(SubscriptionFilter(["tools"], ["x://{n}", "x://named"]))
    pending.add(Change("tools"))
    pending.add(Change("resource", "x://named"))
    for n in range(times):
        pending.add(Change("resource", f"x://{n}{length * 'x'}"))
    assert await pending.get() == Change("tools")
    assert await pending.get() == Change("resource", "x://named")
    assert await pending.get() == Change("resource", "x://{n}", may_have_missed=True)
    pending.end()
    with pytest.raises(StopAsyncIteration):
        await pending.get()


MISSED = [Change("tools", None, may_have_missed=True), Change("resource", "x://a", may_have_missed=True)]


def small_server() -> Server:
    server = Server("small", options=ServerOptions(cache={"tools/list": CacheHint(3600)}))
    server.tool(name="a")(_text)
    server.resource("x://a", name="a")(_text)
    return server


class RestartingTransport(MemoryTransport):
    """A connection to a server that ends, and to another one of the same kind when it is opened again.

    Attributes:
        server: The server that runs now, or ran last.
        opened: How often the connection has been opened.
        failures: The errors of the next attempts to open it.
    """

    def __init__(self) -> None:
        super().__init__(small_server())
        self.opened = 0
        self.failures: list[TransportError] = []

    async def open(self, receiver: TransportListener) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.opened += 1
        self.server = self._server = small_server()
        self._receiver = receiver
        await super().open(receiver)

    def send(self, message: OutgoingMessage) -> None:
        if self._open is None:
            raise TransportError("it has ended", may_have_begun=False)
        super().send(message)

    async def die(self) -> None:
        await self.close()
        self._receiver.connection_lost(TransportError("it has ended", may_have_begun=True))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Remove the pauses between two attempts, and return their lengths."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    sleep = asyncio.sleep
    monkeypatch.setattr(subscription_requests, "sleep", pause)
    return pauses


@asynccontextmanager
async def watching(revision: str) -> AsyncGenerator[tuple[RestartingTransport, Subscription]]:
    transport = RestartingTransport()
    async with (
        Client(transport, protocol_version=revision) as client,
        client.listen(tools_list_changed=True, resource_subscriptions="x://a") as changes,
    ):
        yield transport, changes


async def both_missed(changes: Subscription) -> bool:
    return [await next_change(changes) for _ in range(2)] == MISSED


async def test_watch_reconnects_and_yields_possible_changes(revision: str) -> None:
    async with watching(revision) as (transport, changes):
        for restarts in (1, 2):
            await transport.die()
            assert await both_missed(changes)
            assert transport.opened == 1 + restarts
            transport.server.notify_resource_updated("x://a")
            assert await next_change(changes) == Change("resource", "x://a")
            transport.server.tool(name="b")(_text)
            assert await next_change(changes) == Change("tools")


def failure(**members: Any) -> TransportError:
    return TransportError("it does not start", may_have_begun=False, **members)


async def test_watch_reconnect_backs_off(revision: str, no_pauses: list[float]) -> None:
    async with watching(revision) as (transport, changes):
        transport.failures = [failure() for _ in range(subscription_requests.MAX_ATTEMPTS - 2)]
        await transport.die()
        assert await both_missed(changes)
    assert no_pauses[0] == 0
    assert sorted(no_pauses[1:6]) == no_pauses[1:6]
    assert 30 < sum(no_pauses) < 300


@pytest.mark.parametrize(("retry_after", "pause"), [(7, 7), (10**6, 300)])
async def test_watch_reconnect_waits_for_retry_after(revision, retry_after, pause, no_pauses) -> None:
    async with watching(revision) as (transport, changes):
        transport.failures = [failure(retry_after=retry_after)]
        await transport.die()
        assert await both_missed(changes)
    assert no_pauses == [0, pause]


async def test_watch_reconnect_final_error_is_raised_at_once(revision: str, no_pauses: list[float]) -> None:
    async with watching(revision) as (transport, changes):
        transport.failures = [failure(may_pass=False)]
        await transport.die()
        with pytest.raises(TransportError, match="it does not start"):
            await next_change(changes)
    assert no_pauses == [0]


async def test_watch_reconnect_gives_up_after_repeated_breaks(revision: str) -> None:
    clock = LoopClock()
    async with watching(revision) as (transport, changes):
        for _ in range(2 * subscription_requests.MAX_ATTEMPTS):
            clock.ahead += 6
            await transport.die()
            assert await both_missed(changes)
        for _ in range(
            subscription_requests.MAX_ATTEMPTS - 2
        ):  # the last of the connections that lasted counts, too
            await transport.die()
            assert await both_missed(changes)
        await transport.die()
        with pytest.raises(TransportError):
            await next_change(changes)


def acknowledging(streams: list[Message]) -> ScriptedTransport:
    """Be a server that acknowledges subscriptions, and add their requests to a list."""

    def script(transport: ScriptedTransport, message: Message) -> Any:
        if message["method"] == "server/discover":
            return [discovered(message)]
        if "id" not in message:
            return None
        streams.append(message)
        accepted = {"notifications": message["params"]["notifications"]}
        return [notification_of(message, "subscriptions/acknowledged", **accepted)]

    return ScriptedTransport(script)


def notification_of(message: Message, method: str, **params: Any) -> Message:
    meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    return {"method": f"notifications/{method}", "params": {"_meta": meta, **params}}


async def test_watch_stream_ended_by_server_is_joined_again() -> None:
    streams: list[Message] = []
    transport = acknowledging(streams)
    async with Client(transport) as client, client.listen(tools_list_changed=True) as changes:
        transport.deliver({"id": streams[0]["id"], "result": {"resultType": "complete"}})
        assert await next_change(changes) == MISSED[0]
        params = {"requestId": streams[1]["id"], "reason": "slow"}
        transport.deliver({"method": "notifications/cancelled", "params": params})
        assert await next_change(changes) == MISSED[0]
        assert [stream["params"]["notifications"] for stream in streams] == [{"toolsListChanged": True}] * 3
        assert transport.opened == 1
        assert "notifications/cancelled" not in transport.methods()
    await until(lambda: transport.methods()[-1] == "notifications/cancelled")
    assert transport.sent[-1]["params"]["requestId"] == streams[2]["id"]


async def test_watch_ignores_notifications_of_other_streams() -> None:
    streams: list[Message] = []
    transport = acknowledging(streams)
    async with (
        Client(transport) as client,
        client.listen(tools_list_changed=True, resource_subscriptions="x://a") as first,
        client.listen(tools_list_changed=True) as second,
    ):
        transport.deliver(notification_of(streams[1], "tools/list_changed"))
        assert await next_change(second) == Change("tools")
        transport.deliver({"method": "notifications/tools/list_changed"})  # of no stream
        transport.deliver(notification_of(streams[1], "prompts/list_changed"))  # not asked for
        transport.deliver(notification_of(streams[1], "resources/updated", uri="x://a"))  # nor that
        transport.deliver(notification_of(streams[0], "resources/updated", uri=7))
        transport.deliver({"method": "notifications/tools/list_changed", "params": {"_meta": 7}})
        transport.deliver(notification_of(streams[0], "resources/updated", uri="x://a/part"))
        assert await next_change(first) == Change("resource", "x://a/part")
        transport.deliver(notification_of(streams[1], "tools/list_changed"))
        assert await next_change(second) == Change("tools")


async def test_watch_of_several_servers_yields_changes_of_each(revision, caplog) -> None:
    servers = {name: Server(name) for name in ("one", "two", "three", "empty")}
    one, two, three, _ = servers.values()
    for server in (one, two):
        server.tool(name="a")(_text)
    three.resource("three://a", name="a")(_text)
    async with (
        ClientGroup({"mcpServers": servers}, protocol_version=revision) as client,
        client.listen(tools_list_changed=True, resource_subscriptions="three://a") as changes,
        client.listen() as lists,
    ):
        for server in (one, two):
            server.tool(name="b")(_text)
            assert await next_change(changes) == await next_change(lists) == Change("tools")
        three.notify_resource_updated("three://a")
        assert await next_change(changes) == Change("resource", "three://a")
        three.resource("three://b", name="b")(_text)
        assert await next_change(lists) == Change("resources")
    assert not caplog.messages


async def test_watch_missing_acknowledgement_times_out() -> None:
    transport = ScriptedTransport(discovery_only)
    async with Client(transport, timeout=0.01) as client:
        with pytest.raises(TimeoutError, match="did not acknowledge subscriptions/listen within"):
            async with client.listen(tools_list_changed=True):
                pass
        await until(lambda: transport.methods()[-1] == "notifications/cancelled")

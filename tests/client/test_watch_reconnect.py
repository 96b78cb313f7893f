"""Client.watch when the server or its stream is lost: it reconnects, and marks what may have been missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import CacheHint, Client, ClientGroup, Server, ServerOptions
from mcpkit.client import Change
from mcpkit.client.changes import listening
from mcpkit.client.changes.changes import Subscription
from mcpkit.client.link.transport import TransportListener
from mcpkit.client.transports.memory import MemoryTransport
from mcpkit.exceptions import TransportError
from mcpkit.protocol.client import OutgoingMessage
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered
from tests.helpers.waiting import DEFAULT_TIMEOUT, LoopClock, until

pytestmark = pytest.mark.anyio


REVISIONS = ["2025-11-25", "2026-07-28"]
MISSED = [Change("tools", None, may_have_missed=True), Change("resource", "x://a", may_have_missed=True)]


def small_server() -> Server:
    server = Server("small", options=ServerOptions(cache={"tools/list": CacheHint(3600)}))
    server.tool(name="a")(_text)
    server.resource("x://a", name="a")(_text)
    return server


def _text() -> str:
    return "text"


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


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Remove the pauses between two attempts, and return their lengths."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    sleep = asyncio.sleep
    monkeypatch.setattr(listening, "sleep", pause)
    return pauses


async def next_change(changes: Subscription) -> Change:
    return await asyncio.wait_for(anext(changes), DEFAULT_TIMEOUT)


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
        transport.failures = [failure() for _ in range(listening.TRIES - 2)]
        await transport.die()
        assert await both_missed(changes)
    assert no_pauses[0] == 0
    assert sorted(no_pauses[1:6]) == no_pauses[1:6]
    assert 30 < sum(no_pauses) < 300


@pytest.mark.parametrize(("retry_after", "pause"), [(7, 7), (10**6, 300)])
async def test_watch_reconnect_waits_for_retry_after(
    revision: str, retry_after: float, pause: float, no_pauses: list[float]
) -> None:
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
        for _ in range(2 * listening.TRIES):
            clock.ahead += 6
            await transport.die()
            assert await both_missed(changes)
        for _ in range(listening.TRIES - 2):  # the last of the connections that lasted counts, too
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
        transport.say({"id": streams[0]["id"], "result": {"resultType": "complete"}})
        assert await next_change(changes) == MISSED[0]
        params = {"requestId": streams[1]["id"], "reason": "slow"}
        transport.say({"method": "notifications/cancelled", "params": params})
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
        transport.say(notification_of(streams[1], "tools/list_changed"))
        assert await next_change(second) == Change("tools")
        transport.say({"method": "notifications/tools/list_changed"})  # of no stream
        transport.say(notification_of(streams[1], "prompts/list_changed"))  # not asked for
        transport.say(notification_of(streams[1], "resources/updated", uri="x://a"))  # nor that
        transport.say(notification_of(streams[0], "resources/updated", uri=7))
        transport.say({"method": "notifications/tools/list_changed", "params": {"_meta": 7}})
        transport.say(notification_of(streams[0], "resources/updated", uri="x://a/part"))
        assert await next_change(first) == Change("resource", "x://a/part")
        transport.say(notification_of(streams[1], "tools/list_changed"))
        assert await next_change(second) == Change("tools")


async def test_watch_of_several_servers_yields_changes_of_each(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
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
    transport = ScriptedTransport(
        lambda _, message: [discovered(message)] if message["method"] == "server/discover" else None
    )
    async with Client(transport, timeout=0.01) as client:
        with pytest.raises(TimeoutError, match="did not acknowledge subscriptions/listen within"):
            async with client.listen(tools_list_changed=True):
                pass
        await until(lambda: transport.methods()[-1] == "notifications/cancelled")

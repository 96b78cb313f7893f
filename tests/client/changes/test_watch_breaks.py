"""Watches whose server goes away and comes back: they join again, and say what may have been missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Cache, Change, Client, ProtocolError, Server, TransportError
from mcpkit.client.changes import listening
from mcpkit.client.changes.changes import Watch
from tests.helpers.restarted import Restarted
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, error
from tests.helpers.waiting import PATIENCE, LoopClock, until

pytestmark = pytest.mark.anyio
REVISIONS = ["2025-11-25", "2026-07-28"]
MISSED = [Change("tools", None, may_have_missed=True), Change("resource", "x://a", may_have_missed=True)]


def small_server() -> Server:
    server = Server("small", cache={"tools/list": Cache(3600)})
    server.tool(name="a")(_text)
    server.resource("x://a", name="a")(_text)
    return server


def _text() -> str:
    return "text"


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Take the time between two tries away, and say how long it was each time."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    sleep = asyncio.sleep
    monkeypatch.setattr(listening, "sleep", pause)
    return pauses


async def heard(changes: Watch) -> Change:
    return await asyncio.wait_for(anext(changes), PATIENCE)


@asynccontextmanager
async def watching(revision: str) -> AsyncGenerator[tuple[Restarted, Client, Watch]]:
    way = Restarted(small_server)
    async with (
        Client(way, revision=revision) as client,
        client.watch(tools=True, resources="x://a") as changes,
    ):
        yield way, client, changes


async def test_it_joins_again_and_says_what_may_have_been_missed(revision: str) -> None:
    async with watching(revision) as (way, _, changes):
        for restarts in (1, 2):
            await way.die()
            assert [await heard(changes) for _ in range(2)] == MISSED
            assert way.opened == 1 + restarts
            way.server.resource_updated("x://a")
            assert await heard(changes) == Change("resource", "x://a")
            way.server.tool(name="b")(_text)
            assert await heard(changes) == Change("tools")


async def test_what_was_certain_before_the_break_stays_certain(revision: str) -> None:
    async with watching(revision) as (way, _, changes):
        way.server.resource_updated("x://a")
        for _ in range(20):
            await asyncio.sleep(0)
        await way.die()
        await until(lambda: way.opened == 2)
        assert await heard(changes) == Change("resource", "x://a")
        assert await heard(changes) == MISSED[0]


async def test_what_was_kept_before_a_break_is_asked_for_again(
    revision: str,
) -> None:
    async with watching(revision) as (way, client, changes):
        assert len(await client.list_tools()) == 1
        await way.die()
        assert await heard(changes) == MISSED[0]
        way.server.tool(name="b")(_text)
        assert len(await client.list_tools()) == 2


async def test_all_who_watch_join_again_and_two_of_one_resource_do_not_end_each_other(revision: str) -> None:
    async with watching(revision) as (way, client, first):
        async with client.watch(resources="x://a") as second:
            await way.die()
            assert await heard(second) == MISSED[1]
            assert [await heard(first) for _ in range(2)] == MISSED
            assert way.opened == 2
        for _ in range(20):
            await asyncio.sleep(0)
        way.server.resource_updated("x://a")
        assert await heard(first) == Change("resource", "x://a")


async def test_it_goes_on_trying_for_a_while(revision: str, no_pauses: list[float]) -> None:
    async with watching(revision) as (way, _, changes):
        way.failures = listening.TRIES - 2
        await way.die()
        assert [await heard(changes) for _ in range(2)] == MISSED
        assert no_pauses[0] == 0
        assert sorted(no_pauses[1:6]) == no_pauses[1:6]
        assert 30 < sum(no_pauses) < 300


@pytest.mark.parametrize(("asked", "left"), [(7, 7), (10**6, 300)])
async def test_a_server_that_asks_for_time_has_it_within_reason(
    revision: str, asked: float, left: float, no_pauses: list[float]
) -> None:
    async with watching(revision) as (way, _, changes):
        way.failures, way.retry_after = 1, asked
        await way.die()
        assert [await heard(changes) for _ in range(2)] == MISSED
        assert no_pauses == [0, left]


async def test_what_would_be_the_same_the_next_time_is_raised_at_once(
    revision: str, no_pauses: list[float]
) -> None:
    async with watching(revision) as (way, _, changes):
        way.failures, way.is_final = 1, True
        await way.die()
        with pytest.raises(TransportError, match="it does not start"):
            await heard(changes)
        assert no_pauses == [0]


async def test_a_server_that_breaks_again_and_again_is_left_in_the_end_and_one_that_lasts_is_not(
    revision: str,
) -> None:
    clock = LoopClock()
    async with watching(revision) as (way, _, changes):
        for _ in range(2 * listening.TRIES):
            clock.ahead += 6
            await way.die()
            assert [await heard(changes) for _ in range(2)] == MISSED
        ended = 0
        while await _breaks_and_joins(way, changes):
            ended += 1
        assert ended == listening.TRIES - 2  # the last of those that lasted counts, too


async def _breaks_and_joins(way: Restarted, changes: Watch) -> bool:
    await way.die()
    try:
        return [await heard(changes) for _ in range(2)] == MISSED
    except TransportError:
        return False


async def test_a_session_that_a_call_finds_gone_is_joined_again() -> None:
    async with watching("2025-11-25") as (way, client, changes):
        way.is_forgotten = True
        await client.call("a")
        assert [await heard(changes) for _ in range(2)] == MISSED


async def test_when_it_has_tried_often_enough_it_says_why(revision: str) -> None:
    async with watching(revision) as (way, _, changes):
        way.failures = 1000
        await way.die()
        with pytest.raises(TransportError, match="it does not start"):
            await heard(changes)
        with pytest.raises(StopAsyncIteration):
            await heard(changes)


async def test_a_server_that_has_become_another_one_is_an_error_that_says_what_it_lacks(
    revision: str,
) -> None:
    servers = iter([small_server, small_server, lambda: Server("empty")])
    way = Restarted(lambda: next(servers)())
    async with Client(way, revision=revision) as client, client.watch(tools=True) as changes:
        await way.die()
        with pytest.raises(ProtocolError, match="does not tell of changes of the list of tools"):
            await heard(changes)


# Servers of which one has to see the messages


def stateless(listen: Callable[[ScriptedTransport, Message], Any]) -> ScriptedTransport:
    def script(transport: ScriptedTransport, message: Message) -> Any:
        if message["method"] == "server/discover":
            return [discovered(message)]
        return listen(transport, message) if "id" in message else None

    return ScriptedTransport(script)


def acknowledged(message: Message, **honoured: Any) -> Message:
    meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    notifications = honoured or message["params"]["notifications"]
    return {
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": meta, "notifications": notifications},
    }


def told(message: Message, method: str, **params: Any) -> Message:
    meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    return {"method": f"notifications/{method}", "params": {"_meta": meta, **params}}


async def test_a_stream_that_the_server_ends_or_drops_is_joined_again() -> None:
    streams: list[Message] = []

    def listen(transport: ScriptedTransport, message: Message) -> Any:
        streams.append(message)
        return [acknowledged(message)]

    transport = stateless(listen)
    async with Client(transport) as client, client.watch(tools=True) as changes:
        transport.say({"id": streams[0]["id"], "result": {"resultType": "complete"}})
        assert await heard(changes) == MISSED[0]
        transport.say(
            {"method": "notifications/cancelled", "params": {"requestId": streams[1]["id"], "reason": "slow"}}
        )
        assert await heard(changes) == MISSED[0]
        assert [stream["params"]["notifications"] for stream in streams] == [{"toolsListChanged": True}] * 3
        assert transport.opened == 1
        assert "notifications/cancelled" not in transport.methods()
    await until(lambda: transport.methods()[-1] == "notifications/cancelled")
    assert transport.sent[-1]["params"]["requestId"] == streams[2]["id"]


async def test_what_may_have_been_missed_is_not_answered_from_what_is_kept() -> None:
    streams: list[Message] = []

    def listen(_: ScriptedTransport, message: Message) -> Any:
        streams.append(message)
        return [acknowledged(message)]

    def answer(transport: ScriptedTransport, message: Message) -> Any:
        if message["method"] in {"tools/list", "resources/read"}:
            member = "tools" if message["method"] == "tools/list" else "contents"
            return [{"id": message["id"], "result": {member: [], "ttlMs": 10**6}}]
        return listen(transport, message)

    transport = stateless(answer)
    async with Client(transport) as client, client.watch(tools=True, resources="x://a") as changes:
        for times in (1, 2):
            for _ in range(2):
                await client.list_tools()
                await client.read("x://a")
            assert transport.methods().count("tools/list") == times
            assert transport.methods().count("resources/read") == times
            transport.say({"id": streams[-1]["id"], "result": {"resultType": "complete"}})
            assert [await heard(changes) for _ in range(2)] == MISSED
        assert transport.opened == 1


async def test_a_server_that_cannot_be_reached_is_tried_a_few_times_before_anything_was_heard() -> None:
    def listen(_: ScriptedTransport, __: Message) -> Any:
        raise TransportError("no way", may_have_begun=False)

    transport = stateless(listen)
    async with Client(transport) as client:
        with pytest.raises(TransportError, match="no way"):
            async with client.watch(tools=True):
                pass
        assert transport.methods().count("subscriptions/listen") == 3


async def test_only_what_its_own_stream_says_is_heard() -> None:
    streams: list[Message] = []

    def listen(transport: ScriptedTransport, message: Message) -> Any:
        streams.append(message)
        return [acknowledged(message)]

    transport = stateless(listen)
    async with (
        Client(transport) as client,
        client.watch(tools=True, resources="x://a") as first,
        client.watch(tools=True) as second,
    ):
        transport.say(told(streams[1], "tools/list_changed"))
        assert await heard(second) == Change("tools")
        transport.say({"method": "notifications/tools/list_changed"})  # of no stream
        transport.say(told(streams[1], "prompts/list_changed"))  # not asked for
        transport.say(told(streams[1], "resources/updated", uri="x://a"))  # nor that
        transport.say(told(streams[0], "resources/updated", uri=7))
        transport.say(told(streams[0], "resources/updated"))
        transport.say({"method": "notifications/tools/list_changed", "params": {"_meta": 7}})
        transport.say(told(streams[0], "resources/updated", uri="x://a/part"))
        assert await heard(first) == Change("resource", "x://a/part")
        transport.say(told(streams[1], "tools/list_changed"))
        assert await heard(second) == Change("tools")


async def test_changes_that_come_with_the_acknowledgement_are_heard() -> None:
    transport = stateless(lambda _, message: [acknowledged(message), told(message, "tools/list_changed")])
    async with Client(transport) as client, client.watch(tools=True) as changes:
        assert await heard(changes) == Change("tools")


@pytest.mark.parametrize(
    ("honoured", "said"),
    [
        ({"toolsListChanged": False}, "the list of tools, x://a"),
        ({"toolsListChanged": True}, "changes of x://a;"),
        ({"toolsListChanged": True, "resourceSubscriptions": "x://a"}, "changes of x://a;"),
        ({"resourceSubscriptions": ["x://a"]}, "changes of the list of tools;"),
    ],
)
async def test_what_is_not_acknowledged_is_an_error(honoured: Any, said: str) -> None:
    transport = stateless(lambda _, message: [acknowledged(message, **honoured)])
    async with Client(transport) as client:
        with pytest.raises(ProtocolError, match=said):
            async with client.watch(tools=True, resources="x://a"):
                pass
        await until(lambda: transport.methods()[-1] == "notifications/cancelled")


async def test_uris_that_are_acknowledged_in_another_form_are_heard_of() -> None:
    transport = stateless(lambda _, message: [acknowledged(message, resourceSubscriptions=["x://a%20b"])])
    async with Client(transport) as client, client.watch(resources="x://a b"):
        pass


async def test_a_server_that_never_acknowledges_is_given_up() -> None:
    transport = stateless(lambda *_: None)
    async with Client(transport, timeout=0.01) as client:
        with pytest.raises(TimeoutError, match="not been acknowledged within"):
            async with client.watch(tools=True):
                pass
        await until(lambda: transport.methods()[-1] == "notifications/cancelled")


async def test_an_error_of_the_server_is_raised_as_it_is() -> None:
    transport = stateless(lambda _, message: [error(message, -32603, "too many")])
    async with Client(transport) as client:
        with pytest.raises(ProtocolError, match="too many"):
            async with client.watch(tools=True):
                pass
        assert transport.methods().count("subscriptions/listen") == 1


async def test_a_server_that_comes_up_again_may_refuse_for_a_while() -> None:
    answers = iter(["yes", "no", "no", "yes"])

    def listen(_: ScriptedTransport, message: Message) -> Any:
        return [acknowledged(message) if next(answers) == "yes" else error(message, -32603, "not ready")]

    transport = stateless(listen)
    async with Client(transport) as client, client.watch(tools=True) as changes:
        transport.die()
        assert await heard(changes) == MISSED[0]
        assert transport.methods().count("subscriptions/listen") == 4


async def test_a_client_that_is_closed_while_it_joins_says_so() -> None:
    transport = stateless(lambda *_: None)
    client = Client(transport)
    async with client:
        joining = asyncio.create_task(client.watch(tools=True).__aenter__())
        await until(lambda: transport.methods()[-1] == "subscriptions/listen")
    with pytest.raises(ConnectionError, match="closed"):
        await joining

"""Limits of sessions, streams and subscriptions, and between processes: at the bound and just above."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import time
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Context, Memory, ProtocolError, Server, Sqlite, resource_dir
from mcpkit.calls.shares import Shares
from mcpkit.engine.connection import Connection
from mcpkit.engine.subscriptions.listen import MAX_URI_LENGTH, MAX_URIS
from mcpkit.engine.subscriptions.mailbox import Pending
from mcpkit.engine.subscriptions.relay import MOST_ASKED, MOST_WAITING, Publisher
from mcpkit.state.bulletin import _MOST_MESSAGES
from mcpkit.state.change import Change
from mcpkit.testing import connect
from mcpkit.transports.http import exchange
from mcpkit.transports.http.sessions.events import _BESIDES, MOST_EVENTS, SHARE, Events, Shelf
from tests.helpers.clock import Clock
from tests.helpers.pipe import META, settle, stateless_meta
from tests.helpers.raw_client import PING, Client, Serve, initialize
from tests.helpers.waiting import LoopClock, until
from tests.transports.limits.conftest import Wire, limit

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def session_header(client: Client) -> dict[str, str | bytes | None]:
    """Open a session, send nothing more, and return the header with its id."""
    return {"mcp-session-id": (await client.post(initialize()).whole()).headers["mcp-session-id"]}


async def ping_status(client: Client, session: dict[str, str | bytes | None]) -> int | None:
    return (await client.post(PING, session).whole()).status


@limit("sessions")
async def test_sessions_above_max_sessions_get_503(server: Server, serve: Serve) -> None:
    async with serve(server, max_sessions=4) as client:
        sessions = [await client.initialize() for _ in range(4)]
        answer = await client.post(initialize()).whole()
        assert (answer.status, answer.error()["code"]) == (503, -32603)
        assert answer.error()["message"] == "Too many sessions are open (4); try again later"
        assert int(answer.headers["retry-after"]) <= 60
        for session in sessions:
            assert (await session.ask("ping").whole()).status == 200


@pytest.mark.parametrize(
    ("options", "is_used", "seconds", "status"),
    [
        pytest.param(
            {"session_ttl": 1000}, True, 999, 200, marks=limit("time of a session without requests")
        ),
        ({"session_ttl": 1000}, True, 1011, 404),
        pytest.param({}, False, 59, 200, marks=limit("time of a session that is opened and not used")),
        ({}, False, 60, 404),
    ],
)
async def test_session_after_ttl_gets_404(
    options: dict[str, Any], is_used: bool, seconds: float, status: int, serve: Serve
) -> None:
    clock = LoopClock()
    async with serve(Server("lasting", shared=Memory(clock)), **options) as client:
        session = (await client.initialize()).headers() if is_used else await session_header(client)
        clock.ahead += seconds
        assert await ping_status(client, session) == status
        assert await ping_status(client, await session_header(client)) == 200


@limit("time of a session in all")
@pytest.mark.parametrize(("seconds", "status"), [(999, 200), (1000, 404)])
async def test_session_after_max_age_gets_404(
    seconds: float, status: int, server: Server, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    async with serve(server, session_max_age=1000) as client:
        session = await client.initialize()
        now[0] += seconds
        assert (await session.ask("ping").whole()).status == status


LISTEN = {"notifications": {"toolsListChanged": True}}


@limit("streams that listen")
async def test_streams_above_max_streams_get_503(server: Server, serve: Serve) -> None:
    async with serve(server, max_streams=4) as client:
        session = await client.initialize()
        sse = client.open("GET", "/sse")
        streams = [
            sse,
            session.listen(),
            *(client.ask("subscriptions/listen", LISTEN, id=n) for n in range(2)),
        ]
        assert [(await each.head()).status for each in streams] == [200] * 4
        answer = await client.ask("subscriptions/listen", LISTEN, id=3).whole()
        assert (answer.status, answer.headers["retry-after"]) == (503, "10")
        assert answer.error()["message"].startswith("Too many event streams are open (4)")
        for open_stream in (session.listen, lambda: client.open("GET", "/sse")):
            assert (await open_stream().whole()).status == 503
        sse.disconnect()
        await sse.whole()
        assert (await session.listen().head()).status == 200


@limit("streams that listen")
async def test_subscriptions_over_sse_above_max_streams_get_error(serve: Serve) -> None:
    async with serve(Server("listened", offers={"tools"}), max_streams=4) as client:
        stream = client.open("GET", "/sse")
        endpoint = await stream.event()
        assert endpoint is not None

        async def request(id_: int, method: str, **params: Any) -> Any:
            params |= {"_meta": stateless_meta()}
            stream.judge.expect(message := {"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
            await client.post(message, path=endpoint.data or "").whole()
            return await stream.message()

        for number in range(3):
            assert "error" not in await request(number, "subscriptions/listen", **LISTEN)
        error = (await request(3, "subscriptions/listen", **LISTEN))["error"]
        expected = "Too many event streams are open (4); try again later"
        assert (error["code"], error["message"]) == (-32603, expected)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}}
        await client.post(cancelled, path=endpoint.data or "").whole()
        assert "error" not in await request(5, "subscriptions/listen", notifications={})
        stream.disconnect()
        await stream.whole()


@limit("streams of a pipe")
async def test_subscriptions_of_a_pipe_above_max_running_get_error(wire: Wire) -> None:
    async with wire(Server("listened", max_running=4, offers={"tools"}), "2026-07-28") as pipe:
        for _ in range(4):
            pipe.start("subscriptions/listen", LISTEN)
            assert (await pipe.receive())["method"] == "notifications/subscriptions/acknowledged"
        error = await pipe.error("subscriptions/listen", LISTEN)
        assert error == {"code": -32603, "message": "Too many subscriptions are open (4); end one first"}
        pipe.cancel(1)
        pipe.start("subscriptions/listen", {"notifications": {}})
        assert "error" not in await pipe.receive()


@limit("places of one client")
def test_shares_give_one_client_half_of_the_free_places() -> None:
    for places, others, requests in itertools.product((1, 2, 3, 8, 9), (0, 1, 2, 7, 8, 10), (1, 3, 20)):
        shares = Shares()
        for _ in range(min(others, places)):
            shares.take(None)
        taken = 0
        for _ in range(requests):
            if shares.has_room(places, "eve"):
                shares.take("eve")
                taken += 1
        free = max(0, places - others)
        assert taken == min(requests, (free + 1) // 2), (places, others, requests)
        assert shares.has_room(places, "ada") == (free - taken > 0), (places, others, requests)


@limit("places of one client")
async def test_streams_of_one_address_above_its_share_get_503(server: Server, serve: Serve) -> None:
    async with serve(server, max_streams=8) as client:
        app, host = client.app, "203.0.113.7"

        async def from_host(scope: MutableMapping[str, Any], *channel: Any) -> None:
            await app({**scope, "client": (host, 1)}, *channel)

        client.app = from_host
        answers = [client.ask("subscriptions/listen", {"notifications": {}}, id=n) for n in range(5)]
        assert [(await each.head()).status for each in answers] == [200] * 4 + [503]
        message = (await answers[4].whole()).error()["message"]
        assert "(4 from address 203.0.113.7; one client has at most as many of 8" in message
        host = "203.0.113.8"
        assert (await client.ask("subscriptions/listen", {"notifications": {}}, id=0).head()).status == 200


LONG_URIS = [f"it://{number:02d}" + "x" * (2048 - 7) for number in range(32)]
URIS = {
    "count": ([f"it://{number}" for number in range(MAX_URIS)], True),
    "one more": ([f"it://{number}" for number in range(MAX_URIS + 1)], False),
    "length": (["it://" + "x" * (MAX_URI_LENGTH - 5)], True),
    "one character more": (["it://" + "x" * (MAX_URI_LENGTH - 4)], False),
    "total length": (LONG_URIS, True),
    "one character more in total": ([*LONG_URIS, "i"], False),
}


@limit("URIs and keys that are subscribed to")
@pytest.mark.parametrize(("uris", "is_valid"), URIS.values(), ids=URIS)
async def test_subscribed_uris_and_keys_above_limit_are_invalid_params(
    uris: list[str], is_valid: bool, wire: Wire
) -> None:
    """The keys of topics count together with the URIs."""
    server = Server("listened", offers={"resources"})
    server.extension("com.example/a").topic("firstIds", "notifications/first")
    server.extension("com.example/b").topic("secondIds", "notifications/second")
    errors = []
    for parts in ((uris, [], []), (uris[:10], uris[10 : len(uris) // 2], uris[max(10, len(uris) // 2) :])):
        notifications = dict(zip(("resourceSubscriptions", "firstIds", "secondIds"), parts, strict=True))
        known = {"extensions": {"com.example/a": {}, "com.example/b": {}}}
        async with connect(server, capabilities=known) as client:
            listening = asyncio.ensure_future(
                client.request("subscriptions/listen", {"notifications": notifications})
            )
            if is_valid:
                acknowledged = await client.notification("notifications/subscriptions/acknowledged")
                assert acknowledged["notifications"] == notifications
                listening.cancel()
            else:
                with pytest.raises(ProtocolError) as caught:
                    await listening
                errors.append({"code": caught.value.code, "message": str(caught.value)})
    async with wire(server, "2025-11-25") as pipe:
        answers = [await pipe.request("resources/subscribe", {"uri": uri}) for uri in uris]
        errors += [answer["error"] for answer in answers if "error" in answer]
        await pipe.result("resources/unsubscribe", {"uri": uris[0]})
        await pipe.result("resources/subscribe", {"uri": "it://1"})
    assert len(errors) == (0 if is_valid else 3)
    for error in errors:
        assert error["code"] == -32602
        expected = "at most 2,048 characters", "at most 1,000 URIs of 65,536 characters together"
        assert expected[len(uris) > 1] in error["message"]


@limit("changes that wait for a reader")
@given(st.sampled_from([Pending.LIMIT, Pending.LIMIT + 1]) | st.integers(0, 3 * Pending.LIMIT))
def test_pending_rejects_updates_above_limit_and_no_list_changes(count: int) -> None:
    pending = Pending()
    added = [pending.add(Change("resource", f"it://{number}")) for number in range(count)]
    assert added == [number < Pending.LIMIT for number in range(count)]
    assert pending.add(Change("tools"))
    assert len(pending) == min(count, Pending.LIMIT) + 1


@limit("changes that wait for a reader")
@pytest.mark.parametrize("count", [Pending.LIMIT, Pending.LIMIT + 1])
async def test_updates_above_limit_end_the_stream_of_a_slow_reader(count: int, serve: Serve) -> None:
    server = Server("listened", offers={"resources"})
    uris = [f"it://{number}" for number in range(count)]
    params = {"notifications": {"resourceSubscriptions": uris}, "_meta": stateless_meta()}
    request = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    lines: list[bytes] = []
    room = asyncio.Event()
    connection = Connection(server, lines.append, ready=room.wait)
    connection.receive(json.dumps(request).encode())
    async with serve(server) as client:
        answer = client.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
        await answer.message()
        answer.stop_reading()
        server.resource_updated(uris[0])
        await settle()  # that one is on its way, and waits in no list
        for uri in uris:
            server.resource_updated(uri)
        await settle()
        room.set()
        answer.read_on()
        await settle()
        ending, update = "notifications/cancelled", "notifications/resources/updated"
        methods = [json.loads(each)["method"] for each in lines][1:]
        assert methods == ([update] * count if count == Pending.LIMIT else [ending])
        if count > Pending.LIMIT:
            (*_, last) = await answer.messages()
            assert last["params"]["reason"] == "too many changes wait to be read"
        else:
            assert [(await answer.message())["method"] for _ in range(count + 1)] == [update] * (count + 1)
        await connection.aclose()


@limit("files of a folder that are listed")
async def test_files_above_most_entries_are_not_listed(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(str(number))
    server = Server("files")
    server.include(resource_dir(tmp_path, "docs://all", most_entries=4))
    async with connect(server) as client:
        resources = (await client.request("resources/list"))["resources"]
        assert [each["uri"] for each in resources] == [f"docs://all/{n}.txt" for n in range(4)]
        assert (await client.read("docs://all/4.txt"))[0]["text"] == "4"


# Events and slow clients


@limit("events kept for a client that comes back")
@given(st.sampled_from([MOST_EVENTS, MOST_EVENTS + 1]) | st.integers(0, 3 * MOST_EVENTS))
def test_events_above_limit_forget_the_oldest(count: int) -> None:
    events = Events("0123abcd", Shelf(64 * 1024 * 1024))
    for number in range(count):
        assert events.keep("s", number, b"x")
    assert [each.number for each in events.after("s", -1)] == list(range(count))[-MOST_EVENTS:]


@limit("events kept for a client that comes back")
@given(st.sampled_from([1000, 1001]) | st.integers(0, 3000))
def test_event_above_share_of_the_shelf_is_not_kept(size: int) -> None:
    shelf = Shelf(SHARE * (1000 + _BESIDES))
    assert Events("0123abcd", shelf).keep("s", 1, b"x" * size) == (size <= 1000)
    assert shelf.size == (size + _BESIDES if size <= 1000 else 0)


@limit("client that does not read")
@pytest.mark.parametrize("seconds", [950, 1050])
async def test_response_is_given_up_when_client_does_not_read(
    seconds: int, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_PATIENCE", 1000)
    server = Server("patient")
    text = "x" * 5 * exchange._PIECE
    gate = asyncio.Event()

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("info", "x")
        await gate.wait()
        return text

    async with serve(server, keep_alive=1_000_000) as client:
        answer = client.call("speak", meta={META + "logLevel": "info"})
        await answer.message()
        answer.stop_reading()
        gate.set()
        await settle()
        clock = LoopClock()
        while not answer.task.done():
            clock.ahead += seconds
            await settle()
            if seconds < 1000:
                answer.read_on()
                answer.stop_reading()  # one piece was let through
            await settle()
        if seconds < 1000:
            assert (await answer.message())["result"]["content"][0]["text"] == text
            assert clock.ahead > 4 * seconds, "each piece has its own time"
        else:
            client.opened.remove(answer)
        assert (await client.ask("tools/list").whole()).status == 200


@limit("what waits for a client of HTTP+SSE")
@given(st.sampled_from([10_000, 10_001]) | st.integers(0, 30_000), st.integers(1, 5))
def test_exchange_is_behind_above_most_queued_bytes(size: int, pieces: int) -> None:
    async def unused(*_: Any) -> Any:
        raise AssertionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "MOST_QUEUED", 10_000)
        stream = exchange.Exchange(unused, unused, 15)
        for piece in range(pieces):
            stream.push(b"x" * (size // pieces + (piece < size % pieces)))
        assert stream.is_behind == (size > 10_000)


# Between processes


class GatedBroker(Memory):
    """A broker that does not answer until its gate is open, and records what is published."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.published: list[dict[str, Any]] = []

    async def publish(self, topic: str, message: str) -> None:
        await self.gate.wait()
        self.published.append(json.loads(message))
        await super().publish(topic, message)


@asynccontextmanager
async def publishing(server: Server) -> AsyncIterator[GatedBroker]:
    broker = GatedBroker()
    publisher = Publisher(server.listeners, broker, "s/changes", "here")
    yield broker
    publisher.close()


@limit("changes that wait for the shared store")
@pytest.mark.parametrize("excess", [0, 1])
async def test_changes_above_limit_are_not_published(excess: int) -> None:
    server = Server("s")
    async with publishing(server) as broker:
        server.resource_updated("data://first")
        await settle()
        for number in range(MOST_WAITING + excess):
            server.resource_updated(f"data://{number}")
        server.tool(lambda: "", name="new")  # a change of a list is always kept
        broker.gate.set()
        await until(lambda: broker.published[-1:] == [{"origin": "here", "what": "tools", "uri": None}])
        assert len(broker.published) == 1 + MOST_WAITING + 1


@limit("updates for some users that other processes are asked about")
@pytest.mark.parametrize("excess", [0, 1])
async def test_updates_for_users_above_limit_forget_the_oldest(excess: int) -> None:
    server, count = Server("s"), MOST_ASKED + excess
    async with publishing(server) as broker:
        broker.gate.set()
        for number in range(count):
            server.resource_updated(f"data://{number}", to=lambda who: True)
        await until(lambda: len(broker.published) == count)
        questions, broker.published = broker.published, []
        for question in questions:
            reply = {"number": question["number"], "principals": [["ada", [], None, None, None]]}
            await broker.publish("s/changes/here", json.dumps(reply))
        await settle()
        uris = [message["uri"] for message in broker.published if "to" in message]
        assert uris == [question["uri"] for question in questions][-MOST_ASKED:]


@limit("messages in a `Sqlite` that processes have not fetched yet")
async def test_sqlite_messages_above_number_or_age_are_deleted(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "shared.db"

    def messages() -> list[str]:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT message FROM messages ORDER BY id")
            return [message for (message,) in rows]

    with closing(Sqlite(path, clock=clock)) as shared:
        for age in (30, 29.9, 0):
            clock.now = 1000 - age
            await shared.publish("t", str(age))
        with closing(Sqlite(path, clock=clock)) as other:  # deletes when it begins
            await other.publish("t", "last")
            await other.erase("nothing")
        assert messages() == ["29.9", "0", "last"]
        for number in range(_MOST_MESSAGES + 2500):
            await shared.publish("t", str(number))
            if number % 500 == 0:
                assert len(messages()) <= 1.1 * _MOST_MESSAGES
        assert messages()[-_MOST_MESSAGES:] == [str(2500 + each) for each in range(_MOST_MESSAGES)]


@limit("wait for a `Sqlite` that another process has locked")
async def test_locked_sqlite_gets_503_after_patience(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(Sqlite(tmp_path / "shared.db")) as shared,
        closing(sqlite3.connect(tmp_path / "shared.db", isolation_level=None)) as other,
    ):
        await shared.erase("nothing")
        async with serve(Server("s", shared=shared, secret="s" * 32)) as client:
            other.execute("BEGIN EXCLUSIVE")
            with monkeypatch.context() as patch:
                patch.setattr("mcpkit.state.database.PATIENCE", 0.1)
                assert (await client.post(initialize()).whole()).status == 503
            other.execute("ROLLBACK")
            await client.initialize()

"""Bounds of sessions, streams and subscriptions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Memory, ProtocolError, Server, resource_dir
from mcpkit.calls.shares import Shares
from mcpkit.engine.connection import Connection
from mcpkit.engine.subscriptions.listen import MAX_URI_LENGTH, MAX_URIS, MAX_URIS_LENGTH
from mcpkit.engine.subscriptions.mailbox import Pending
from mcpkit.state.change import Change
from mcpkit.testing import connect
from tests.helpers.listening import hearing
from tests.helpers.pipe import settle, stateless_meta
from tests.helpers.raw_client import PING, Client, Serve, initialize
from tests.helpers.waiting import LoopClock, until
from tests.limits.ways import LATEST, around, limit
from tests.wire.conftest import Wire

pytestmark = [pytest.mark.anyio, pytest.mark.long]

FAR = 1_000_000.0


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock()


@pytest.fixture
def lasting(clock: LoopClock) -> Server:
    return Server("lasting", shared=Memory(clock))


async def opened(client: Client) -> dict[str, str | bytes | None]:
    """Open a session, and send no more; return the header that names it."""
    return {"mcp-session-id": (await client.post(initialize()).whole()).headers["mcp-session-id"]}


async def ping(client: Client, session: dict[str, str | bytes | None]) -> int | None:
    return (await client.post(PING, session).whole()).status


@limit("sessions")
@pytest.mark.parametrize("count", [3, 4, 5, 8, 400])
async def test_sessions(count: int, server: Server, serve: Serve) -> None:
    async with serve(server, max_sessions=4) as client:
        used = [await client.initialize() for _ in range(min(count, 4))]
        for _ in range(count - 4):
            answer = await client.post(initialize()).whole()
            assert (answer.status, answer.error()["code"]) == (503, -32603)
            assert answer.error()["message"] == "Too many sessions are open (4); try again later"
            assert int(answer.headers["retry-after"]) <= 60
        assert len(client.app.door()._begin().sessions) == min(count, 4)  # type: ignore[attr-defined]  # of our app
        for session in used:
            assert (await session.ask("ping").whole()).status == 200


@limit("time of a session without requests")
@pytest.mark.parametrize(("seconds", "status"), [(999, 200), (1011, 404), (2000, 404), (FAR, 404)])
async def test_session_ttl(
    seconds: float, status: int, lasting: Server, serve: Serve, clock: LoopClock
) -> None:
    async with serve(lasting, session_ttl=1000) as client:
        session = await client.initialize()
        clock.ahead += seconds
        answer = await session.post(PING).whole()
        assert answer.status == status
        if status == 404:
            assert answer.error()["code"] == -32600
        assert await ping(client, await opened(client)) == 200


@limit("time of a session that is opened and not used")
@pytest.mark.parametrize(("seconds", "status"), [(59, 200), (60, 404), (120, 404), (FAR, 404)])
async def test_unused(seconds: float, status: int, lasting: Server, serve: Serve, clock: LoopClock) -> None:
    async with serve(lasting) as client:
        session = await opened(client)
        clock.ahead += seconds
        assert await ping(client, session) == status


@limit("time of a session in all")
@pytest.mark.parametrize(("seconds", "status"), [(999, 200), (1000, 404), (2000, 404), (FAR, 404)])
async def test_session_max_age(
    seconds: float, status: int, server: Server, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    async with serve(server, session_max_age=1000) as client:
        session = await client.initialize()
        now[0] += seconds
        assert (await session.ask("ping").whole()).status == status
        assert await ping(client, await opened(client)) == 200


@limit("streams that listen")
@pytest.mark.parametrize("count", [3, 4, 5, 8, 400])
async def test_streams(count: int, server: Server, serve: Serve) -> None:
    async with serve(server, max_streams=4) as client:
        session = await client.initialize()
        pipe = client.open("GET", "/sse")
        open_streams = [(await pipe.head()).status, (await session.listen().head()).status]
        for number in range(count - 2):
            filtered = {"notifications": {"toolsListChanged": True}}
            answer = await client.ask("subscriptions/listen", filtered, id=number).head()
            open_streams.append(answer.status)
            if number >= 2:
                assert (
                    (await answer.whole())
                    .error()["message"]
                    .startswith("Too many event streams are open (4)")
                )
                assert answer.headers["retry-after"] == "10"
        assert open_streams == [200] * min(count, 4) + [503] * (count - 4)
        for listen in (session.listen, lambda: client.open("GET", "/sse")):
            other = listen()
            status = (await other.head()).status
            assert status == (503 if count >= 4 else 200)
            other.disconnect()
            await other.whole()
        pipe.disconnect()
        await pipe.whole()
        assert (await session.listen().head()).status == 200


@limit("streams that listen")
@pytest.mark.parametrize("count", [2, 3, 4, 8, 400])
async def test_streams_on_a_pipe_of_http(count: int, serve: Serve) -> None:
    server = Server("listened", offers={"tools"})

    def message(number: int, method: str, **params: Any) -> dict[str, Any]:
        return {
            "jsonrpc": "2.0",
            "id": number,
            "method": method,
            "params": params | {"_meta": stateless_meta()},
        }

    async with serve(server, max_streams=4) as client:
        stream = client.open("GET", "/sse")
        endpoint = await stream.event()
        assert endpoint is not None

        async def ask(number: int, method: str = "subscriptions/listen", **params: Any) -> Any:
            stream.judge.expect(asked := message(number, method, **params))
            await client.post(asked, path=endpoint.data or "").whole()
            return await stream.message()

        for number in range(count):
            answer = await ask(number, notifications={"toolsListChanged": True})
            assert ("error" in answer) == (number >= 3)
            if number >= 3:
                assert answer["error"]["code"] == -32603
                assert answer["error"]["message"] == "Too many event streams are open (4); try again later"
        assert "result" in await ask(1000, "tools/list")
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}}
        await client.post(cancelled, path=endpoint.data or "").whole()
        assert "error" not in await ask(1001, notifications={})
        stream.disconnect()
        await stream.whole()
        service = client.app.door()._begin()  # type: ignore[attr-defined]  # of our app
        await until(lambda: service.environment.streams.taken == 0)


@limit("places of one client")
@given(st.integers(1, 200), st.integers(0, 200), st.integers(1, 400))
def test_shares(places: int, others: int, asked: int) -> None:
    shares = Shares()
    for _ in range(min(others, places)):
        shares.take(None)
    got = 0
    for _ in range(asked):
        if shares.has_room(places, "eve"):
            shares.take("eve")
            got += 1
    free = max(0, places - others)
    assert got == min(asked, (free + 1) // 2)
    assert shares.has_room(places, "ada") == (free - got > 0)


@limit("places of one client")
@pytest.mark.parametrize("count", [3, 4, 5, 8, 400])
async def test_share_of_streams(count: int, server: Server, serve: Serve) -> None:
    async with serve(server, max_streams=8) as client:
        app, host = client.app, "203.0.113.7"

        async def from_afar(scope: MutableMapping[str, Any], *channel: Any) -> None:
            await app({**scope, "client": (host, 1)}, *channel)

        client.app = from_afar
        statuses = []
        for number in range(count):
            answer = client.ask("subscriptions/listen", {"notifications": {}}, id=number)
            statuses.append((await answer.head()).status)
            if number >= 4:
                message = (await answer.whole()).error()["message"]
                assert "(4 from address 203.0.113.7; one client has at most as many of 8" in message
        assert statuses == [200] * min(count, 4) + [503] * (count - 4)
        host = "203.0.113.8"
        assert (await client.ask("subscriptions/listen", {"notifications": {}}, id=0).head()).status == 200


@limit("streams of a pipe")
@pytest.mark.parametrize("count", [3, 4, 5, 8, 400])
async def test_streams_of_a_pipe(count: int, wire: Wire) -> None:
    server = Server("listened", max_running=4, offers={"tools"})
    async with wire(server, LATEST["stateless"]) as pipe:
        for number in range(count):
            pipe.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            answer = await pipe.receive()
            assert answer.get("method") == (
                "notifications/subscriptions/acknowledged" if number < 4 else None
            )
            if number >= 4:
                assert answer["error"]["code"] == -32603
                assert answer["error"]["message"] == "Too many subscriptions are open (4); end one first"
        pipe.cancel(1)
        pipe.start("subscriptions/listen", {"notifications": {}})
        assert "error" not in await pipe.receive()


LONG_URI = "it://" + "x" * (MAX_URI_LENGTH - 5)
MANY = [
    *(([f"it://{number}" for number in range(count)], count <= MAX_URIS) for count in around(MAX_URIS)),
    *(([f"it://{'x' * (length - 5)}"], length <= MAX_URI_LENGTH) for length in around(MAX_URI_LENGTH)),
    ([f"it://{number:02d}" + "x" * (2048 - 7) for number in range(32)], True),
    ([f"it://{number:02d}" + "x" * (2048 - 7) for number in range(32)] + ["i"], False),
    ([f"it://{number:02d}" + "x" * (2048 - 7) for number in range(64)], False),
]


@pytest.mark.long
@limit("URIs and keys that are subscribed to")
@pytest.mark.parametrize(("uris", "is_fine"), MANY, ids=range(len(MANY)))
async def test_uris(uris: list[str], is_fine: bool, wire: Wire, serve: Serve) -> None:
    server = Server("listened", offers={"resources"})
    assert (sum(map(len, uris)) <= MAX_URIS_LENGTH) or not is_fine

    def is_told(error: dict[str, Any]) -> bool:
        of_one, of_all = "at most 2,048 characters", "at most 1,000 URIs of 65,536 characters together"
        is_of_all = of_all in error["message"] and (len(uris) > 1 or len(uris[0]) > MAX_URIS_LENGTH)
        return error["code"] == -32602 and (is_of_all or (len(uris) == 1 and of_one in error["message"]))

    params = {"notifications": {"resourceSubscriptions": uris}}
    async with wire(server, LATEST["stateless"]) as pipe:
        pipe.start("subscriptions/listen", params)
        answer = await pipe.receive()
        assert ("error" in answer) == (not is_fine)
        assert is_fine or is_told(answer["error"])
    async with serve(server) as client:
        listening = await client.ask("subscriptions/listen", params).head()
        assert listening.is_stream == is_fine
        assert is_fine or is_told((await listening.whole()).error())
    async with wire(server, LATEST["handshake"]) as pipe:
        answers = [await pipe.request("resources/subscribe", {"uri": uri}) for uri in uris[:1010]]
        refused = [answer["error"] for answer in answers if "error" in answer]
        assert bool(refused) == (not is_fine)
        assert all(map(is_told, refused))
        await pipe.result("resources/unsubscribe", {"uri": uris[0]})
        await pipe.result("resources/subscribe", {"uri": "it://1"})


@limit("URIs and keys that are subscribed to")
@pytest.mark.parametrize("as_uris", [0, 10])
@pytest.mark.parametrize(("keys", "is_fine"), MANY, ids=range(len(MANY)))
async def test_keys(keys: list[str], is_fine: bool, as_uris: int) -> None:
    """What is listened to of topics counts together with the URIs."""
    server = Server("listened", offers={"resources"})
    server.extension("com.example/a").topic("firstIds", "notifications/first")
    server.extension("com.example/b").topic("secondIds", "notifications/second")
    parts = keys[:as_uris], keys[as_uris : len(keys) // 2], keys[max(as_uris, len(keys) // 2) :]
    wanted = dict(zip(("resourceSubscriptions", "firstIds", "secondIds"), parts, strict=True))
    known = {"extensions": {"com.example/a": {}, "com.example/b": {}}}
    async with connect(server, capabilities=known) as client:
        listening = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
        if is_fine:
            told = await client.notification("notifications/subscriptions/acknowledged")
            assert told["notifications"] == wanted
            listening.cancel()
        else:
            with pytest.raises(ProtocolError, match="at most") as caught:
                await listening
            assert caught.value.code == -32602


@limit("changes that wait for a reader")
@given(st.sampled_from(around(Pending.LIMIT)) | st.integers(0, 3 * Pending.LIMIT))
def test_pending(count: int) -> None:
    pending = Pending()
    taken = [pending.add(Change("resource", f"it://{number}")) for number in range(count)]
    assert taken == [number < Pending.LIMIT for number in range(count)]
    assert pending.add(Change("tools")), "for lists there is always room"
    assert len(pending) == min(count, Pending.LIMIT) + 1


@limit("changes that wait for a reader")
@pytest.mark.parametrize("count", [Pending.LIMIT - 1, Pending.LIMIT, Pending.LIMIT + 1, 3 * Pending.LIMIT])
@pytest.mark.parametrize("transport", ["a pipe", "HTTP"])
async def test_slow_reader(count: int, transport: str, serve: Serve) -> None:
    server = Server("listened", offers={"resources"})
    uris = [f"it://{number}" for number in range(count)]
    params = {"notifications": {"resourceSubscriptions": uris}, "_meta": stateless_meta()}
    request = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    is_ended = count > Pending.LIMIT
    if transport == "a pipe":
        sent: list[bytes] = []
        room = asyncio.Event()
        connection = Connection(server, sent.append, ready=room.wait)
        connection.receive(json.dumps(request).encode())
        for uri in uris:
            server.resource_updated(uri)
        await settle()
        room.set()
        await settle()
        methods = [json.loads(each)["method"] for each in sent][1:]
        assert methods == (
            ["notifications/cancelled"] if is_ended else ["notifications/resources/updated"] * count
        )
        await connection.aclose()
        return
    async with serve(server) as client:
        answer = client.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
        await answer.message()
        answer.stop_reading()
        server.resource_updated(uris[0])
        await settle()  # that one is on its way, and waits in no list
        for uri in uris:
            server.resource_updated(uri)
        await until(lambda: not hearing(server) or not is_ended)
        await settle()
        answer.read_on()
        for _ in range(1 if is_ended else count + 1):
            message = await answer.message()
            assert message["method"] in {"notifications/resources/updated", "notifications/cancelled"}
        if is_ended:
            rest = [message, *await answer.messages()]
            assert rest[-1]["params"]["reason"] == "too many changes wait to be read"
        assert (await client.ask("resources/list").whole()).status == 200


@limit("files of a folder that are listed")
@pytest.mark.parametrize("count", [3, 4, 5, 8, 400])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_entries(count: int, revision: str, tmp_path: Path) -> None:
    for number in range(count):
        (tmp_path / f"{number:03d}.txt").write_text(str(number))
    server = Server("files")
    server.include(resource_dir(tmp_path, "docs://all", most_entries=4))
    async with connect(server, revision=revision) as client:
        listed = (await client.request("resources/list"))["resources"]
        assert [each["uri"] for each in listed] == [f"docs://all/{n:03d}.txt" for n in range(min(count, 4))]
        last = await client.request("resources/read", {"uri": f"docs://all/{count - 1:03d}.txt"})
        assert last["contents"][0]["text"] == str(count - 1)

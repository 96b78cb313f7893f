"""Limits of sessions, streams and subscriptions: at the bound and just above."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Context, HttpOptions, Limits, ProtocolError, Server, ServerOptions, Timeouts, resource_dir
from mcpkit.engine.connection import Connection
from mcpkit.engine.subscriptions.listen import MAX_URI_LENGTH, MAX_URIS
from mcpkit.engine.subscriptions.mailbox import Pending
from mcpkit.storage import Memory
from mcpkit.testing import connect
from mcpkit.transports.http import exchange
from tests.helpers.pipe import META, settle, stateless_meta
from tests.helpers.raw_client import PING, Client, Serve, initialize
from tests.helpers.tables import each_row
from tests.helpers.waiting import LoopClock
from tests.transports.limits.conftest import Wire, limit

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def session_header(client: Client) -> dict[str, str | bytes | None]:
    """Open a session, send nothing more, and return the header with its id."""
    return {"mcp-session-id": (await client.post(initialize()).whole()).headers["mcp-session-id"]}


@limit("sessions")
async def test_sessions_above_max_sessions_get_503(server: Server, serve: Serve) -> None:
    async with serve(server, limits=Limits(max_sessions=4)) as client:
        sessions = [await client.initialize() for _ in range(4)]
        answer = await client.post(initialize()).whole()
        assert (answer.status, answer.error()["code"]) == (503, -32603)
        assert answer.error()["message"] == "Too many sessions are open (4). Try again later"
        assert int(answer.headers["retry-after"]) <= 60
        for session in sessions:
            assert (await session.ask("ping").whole()).status == 200


@limit("time of a session without requests")
@limit("time of a session that is opened and not used")
@each_row(
    ("options", "is_used", "seconds", "status"),
    [
        ({"timeouts": Timeouts(shutdown=0, session_idle=1000)}, True, 999, 200),
        ({"timeouts": Timeouts(shutdown=0, session_idle=1000)}, True, 1011, 404),
        ({}, False, 59, 200),
        ({}, False, 60, 404),
    ],
)
async def test_session_after_ttl_gets_404(
    options: dict[str, Any], is_used: bool, seconds: float, status: int, serve: Serve
) -> None:
    clock = LoopClock()
    async with serve(Server("lasting", storage=Memory(clock)), **options) as client:
        session = (await client.initialize()).headers() if is_used else await session_header(client)
        clock.ahead += seconds
        assert (await client.post(PING, session).whole()).status == status


LISTEN = {"notifications": {"toolsListChanged": True}}


@limit("streams that listen")
async def test_streams_above_max_streams_get_503(server: Server, serve: Serve) -> None:
    async with serve(server, limits=Limits(max_streams=4)) as client:
        session = await client.initialize()
        sse = client.open("GET", "/sse")
        calls = [client.ask("subscriptions/listen", LISTEN, id=number) for number in range(2)]
        assert [(await each.head()).status for each in (sse, session.listen(), *calls)] == [200] * 4
        answer = await client.ask("subscriptions/listen", LISTEN, id=3).whole()
        assert (answer.status, answer.headers["retry-after"]) == (503, "10")
        assert answer.error()["message"].startswith("Too many event streams are open (4)")
        for open_stream in (session.listen, lambda: client.open("GET", "/sse")):
            assert (await open_stream().whole()).status == 503
        sse.disconnect()
        await sse.whole()
        assert (await session.listen().head()).status == 200


@limit("streams of a pipe")
async def test_subscriptions_of_a_pipe_above_max_running_get_error(wire: Wire) -> None:
    async with wire(
        Server(
            "listened", limits=Limits(concurrent_requests=4), options=ServerOptions(capabilities={"tools"})
        ),
        "2026-07-28",
    ) as pipe:
        for _ in range(4):
            pipe.start("subscriptions/listen", LISTEN)
            assert (await pipe.receive())["method"] == "notifications/subscriptions/acknowledged"
        error = await pipe.error("subscriptions/listen", LISTEN)
        assert error == {"code": -32603, "message": "Too many subscriptions are open (4). Close one first"}
        pipe.cancel(1)
        pipe.start("subscriptions/listen", {"notifications": {}})
        assert "error" not in await pipe.receive()


LONG_URIS = [f"it://{number:02d}" + "x" * (2048 - 7) for number in range(32)]


@limit("URIs and keys that are subscribed to")
@each_row(
    ("uris", "is_valid"),
    [
        ([f"it://{number}" for number in range(MAX_URIS)], True),
        ([f"it://{number}" for number in range(MAX_URIS + 1)], False),
        (["it://" + "x" * (MAX_URI_LENGTH - 5)], True),
        (["it://" + "x" * (MAX_URI_LENGTH - 4)], False),
        (LONG_URIS, True),
        ([*LONG_URIS, "i"], False),
    ],
)
async def test_subscribed_uris_and_keys_above_limit_are_invalid_params(
    uris: list[str], is_valid: bool, wire: Wire
) -> None:
    """The keys of topics count together with the URIs."""
    server = Server("listened", options=ServerOptions(capabilities={"resources"}))
    server.extension("com.example/a").topic("firstIds", "notifications/first")
    half = max(1, len(uris) // 2)
    filters = {"resourceSubscriptions": uris[:half], "firstIds": uris[half:]}
    async with connect(server, capabilities={"extensions": {"com.example/a": {}}}) as client:
        listening = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": filters}))
        if is_valid:
            acknowledged = await client.notification("notifications/subscriptions/acknowledged")
            assert acknowledged["notifications"] == filters
            listening.cancel()
        else:
            with pytest.raises(
                ProtocolError, match=r"at most (2,048 characters|1,000 URIs and topic keys, of 65,536)"
            ):
                await listening
    async with wire(server, "2025-11-25") as pipe:
        answers = [await pipe.request("resources/subscribe", {"uri": uri}) for uri in uris]
        errors = [answer["error"]["code"] for answer in answers if "error" in answer]
        assert errors == ([] if is_valid else [-32602])


@limit("changes that wait for a reader")
@pytest.mark.parametrize("count", [Pending.LIMIT, Pending.LIMIT + 1])
async def test_updates_above_limit_end_the_stream_of_a_slow_reader(count: int) -> None:
    server = Server("listened", options=ServerOptions(capabilities={"resources"}))
    uris = [f"it://{number}" for number in range(count)]
    params = {"notifications": {"resourceSubscriptions": uris}, "_meta": stateless_meta()}
    request = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    lines: list[bytes] = []
    room = asyncio.Event()
    connection = Connection(server, lines.append, ready=room.wait)
    connection.receive(json.dumps(request).encode())
    for uri in uris:
        server.notify_resource_updated(uri)
    await settle()
    room.set()
    await settle()
    messages = [json.loads(each) for each in lines][1:]
    if count == Pending.LIMIT:
        assert [each["method"] for each in messages] == ["notifications/resources/updated"] * count
    else:
        assert [each["method"] for each in messages] == ["notifications/cancelled"]
        assert "updates wait for the client" in messages[0]["params"]["reason"]
    await connection.aclose()


@limit("files of a folder that are listed")
async def test_files_above_max_entries_are_not_listed(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(str(number))
    server = Server("files")
    server.include(resource_dir(tmp_path, "docs://all", max_entries=4))
    async with connect(server) as client:
        resources = (await client.request("resources/list"))["resources"]
        assert [each["uri"] for each in resources] == [f"docs://all/{n}.txt" for n in range(4)]
        assert (await client.read_resource("docs://all/4.txt"))[0]["text"] == "4"


@limit("client that does not read")
@pytest.mark.parametrize("seconds", [950, 1050])
async def test_response_is_aborted_when_client_does_not_read(
    seconds: int, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_TIMEOUT", 1000)
    server = Server("patient")
    text = "x" * 5 * exchange._PIECE
    gate = asyncio.Event()

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("info", "x")
        await gate.wait()
        return text

    async with serve(server, http=HttpOptions(sse_ping_interval=1_000_000)) as client:
        answer = client.call_tool("speak", meta={META + "logLevel": "info"})
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


@limit("what waits for a client of HTTP+SSE")
@given(st.sampled_from([10_000, 10_001]) | st.integers(0, 30_000), st.integers(1, 5))
def test_exchange_waits_above_queued_bytes_limit(size: int, pieces: int) -> None:
    async def unused(*_: Any) -> Any:
        raise AssertionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "MOST_QUEUED", 10_000)
        stream = exchange.Exchange(unused, unused, 15)
        for piece in range(pieces):
            stream.push(b"x" * (size // pieces + (piece < size % pieces)))
        assert stream.is_behind == (size > 10_000)

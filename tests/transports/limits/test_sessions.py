"""Limits of sessions, streams, running calls, tasks and stores: at the bound and just above."""

import asyncio
import importlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import (
    Context,
    HttpOptions,
    Limits,
    ProtocolError,
    ResultOptions,
    Server,
    ServerOptions,
    Timeouts,
    resource_dir,
)
from mcpkit._utils.exceptions import ProcessEndedError
from mcpkit.engine.changes_between_processes import MAX_WAITING, ChangeQueue, Publisher
from mcpkit.engine.message_dispatch import Connection
from mcpkit.engine.subscription_filters_and_delivery import MAX_URI_LENGTH, MAX_URIS
from mcpkit.execution import worker_processes as processes
from mcpkit.execution.worker_processes import Processes
from mcpkit.storage import Memory, Sqlite
from mcpkit.tasks import task_records as store
from mcpkit.testing import connect
from mcpkit.transports.http import response
from tests.helpers.pipe import META, Wire, settle, stateless_meta
from tests.helpers.process_functions import add
from tests.helpers.raw_client import PING, Answer, Serve, initialize, request, texts_of
from tests.helpers.servers.protected import old_of
from tests.helpers.tables import each_row
from tests.helpers.task_client import KNOWS_TASKS, begin
from tests.helpers.task_client import until as until_task
from tests.helpers.waiting import LoopClock, until
from tests.transports.limits.conftest import limit

pytestmark = pytest.mark.slow


@limit("time of a session without requests")
@limit("time of a session that is opened and not used")
@each_row(
    ("is_used", "seconds", "status"),
    [(True, 999, 200), (True, 1011, 404), (False, 59, 200), (False, 60, 404)],
)
async def test_session_after_ttl_gets_404(is_used: bool, seconds: float, status: int, serve: Serve) -> None:
    clock = LoopClock()
    server = Server("lasting", storage=Memory(clock))
    async with serve(server, timeouts=Timeouts(shutdown=0, session_idle=1000)) as client:
        if is_used:
            headers = (await client.initialize()).headers()
        else:
            opening = await client.post(initialize()).whole()
            headers = {"mcp-session-id": opening.headers["mcp-session-id"]}
        clock.ahead += seconds
        assert (await client.post(PING, headers).whole()).status == status


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
        for refused in (session.listen(), client.open("GET", "/sse")):
            assert (await refused.whole()).status == 503
        sse.disconnect()
        await sse.whole()
        assert (await session.listen().head()).status == 200


@limit("streams of a pipe")
async def test_subscriptions_of_a_pipe_above_max_running_get_error(wire: Wire) -> None:
    options = ServerOptions(capabilities={"tools"})
    server = Server("listened", limits=Limits(concurrent_requests=4), options=options)
    async with wire(server, "2026-07-28") as pipe:
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
@each_row(("uris", "is_valid"), [
    ([f"it://{number}" for number in range(MAX_URIS)], True),
    ([f"it://{number}" for number in range(MAX_URIS + 1)], False),
    (["it://" + "x" * (MAX_URI_LENGTH - 5)], True), (["it://" + "x" * (MAX_URI_LENGTH - 4)], False),
    (LONG_URIS, True), ([*LONG_URIS, "i"], False),
])  # fmt: skip
async def test_subscribed_uris_and_keys_above_limit_are_invalid_params(uris, is_valid) -> None:
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
            problem = "at most (2,048 characters|1,000 URIs and topic keys, of 65,536)"
            with pytest.raises(ProtocolError, match=problem):
                await listening
    async with connect(server, protocol_version="2025-11-25") as client:
        for uri in uris if is_valid else uris[:-1]:
            await client.request("resources/subscribe", {"uri": uri})
        if not is_valid:
            with pytest.raises(ProtocolError, match="at most"):
                await client.request("resources/subscribe", {"uri": uris[-1]})


@limit("changes that wait for a reader")
@pytest.mark.parametrize("count", [ChangeQueue.LIMIT, ChangeQueue.LIMIT + 1])
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
    if count == ChangeQueue.LIMIT:
        assert [each["method"] for each in messages] == ["notifications/resources/updated"] * count
    else:
        assert [each["method"] for each in messages] == ["notifications/cancelled"]
        assert "updates wait for the client" in messages[0]["params"]["reason"]
    await connection.aclose()


async def test_updates_above_limit_end_the_stream_of_a_slow_http_client(serve: Serve) -> None:
    server = Server("listened", options=ServerOptions(capabilities={"resources"}))
    uris = [f"it://{number}" for number in range(300)]
    async with serve(server) as client:
        wanted = {"notifications": {"resourceSubscriptions": uris}}
        slow, quick = (client.ask("subscriptions/listen", wanted, id=name) for name in ("slow", "quick"))
        for stream in (slow, quick):
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        slow.stop_reading()
        for _ in range(ChangeQueue.LIMIT // len(uris) + 2):
            for uri in uris:
                server.notify_resource_updated(uri)
            assert [(await quick.message())["params"]["uri"] for _ in uris] == uris
        slow.read_on()
        end = (await slow.messages())[-1]
        assert (end["method"], end["params"]["requestId"]) == ("notifications/cancelled", "slow")
        assert end["params"]["reason"]


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
async def test_response_is_aborted_when_client_does_not_read(seconds, serve, monkeypatch) -> None:
    monkeypatch.setattr(response, "READ_TIMEOUT", 1000)
    server = Server("patient")
    text = "x" * 5 * response.PIECE

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("info", "x")
        return text

    async with serve(server, http=HttpOptions(sse_ping_interval=1_000_000)) as client:
        answer = client.call_tool("speak", meta={META + "logLevel": "info"})
        answer.stop_reading()
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
            assert texts_of(await answer.messages()) == ["x", text]
            assert clock.ahead > 4 * seconds, "each piece has its own time"
        else:
            client.opened.remove(answer)


@limit("what waits for a client of HTTP+SSE")
async def test_sse_client_that_does_not_read_gets_503(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "MAX_QUEUED", 100_000)
    server = Server("large")

    @server.tool(result=ResultOptions(structured=False))
    async def give(size: int) -> str:
        return "x" * size

    async with serve(server) as client:
        sse = await old_of(client, {})

        async def call(id_: int, size: int) -> Answer:
            params = {"name": "give", "arguments": {"size": size}}
            return await sse.post(request("tools/call", params, id=id_), {}).whole()

        sse.stream.stop_reading()
        for number in range(2):  # the first is being sent, the second waits
            assert (await call(number, response.MAX_QUEUED)).status == 202
        pipe = next(iter(client.app.router()._service().pipes.values()))
        await until(lambda: pipe.is_behind)
        refused = await call(7, 1)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        sse.stream.read_on()
        assert sorted([(await sse.stream.message())["id"] for _ in range(2)]) == [0, 1]
        assert (await call(7, 1)).status == 202
        assert (await sse.stream.message())["id"] == 7


@limit("start of a worker process")
async def test_worker_start_above_limit_fails_and_frees_its_place(monkeypatch, tmp_path) -> None:
    (tmp_path / "starts_for_ever.py").write_text(
        "import multiprocessing, time\n"
        "if multiprocessing.parent_process() is not None:\n"
        "    time.sleep(3600)\n"
        "def done():\n"
        "    return 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    done = importlib.import_module("starts_for_ever").done
    workers = Processes(1)
    monkeypatch.setattr(processes, "_START_LIMIT", 0.2)
    with pytest.raises(ProcessEndedError, match=r"it did not import the function's module within 0\.2 s"):
        await workers.run(done, {})
    monkeypatch.undo()
    assert await workers.run(add, {"a": 1, "b": 1}) == 2


# Tasks


@limit("record of a task")
async def test_task_record_above_limit_gets_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_RECORD", 5000)
    server = Server("lab")

    @server.tool(task=True)
    def double(text: str) -> str:
        return text * 2

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        await until_task(client, await begin(client, "double", {"text": "x" * 500}), "completed")
        failed = await until_task(client, await begin(client, "double", {"text": "x" * 3000}), "failed")
        assert failed["error"]["code"] == -32603
        assert "the tool ran, but" in failed["error"]["message"].lower()
        with pytest.raises(ProtocolError) as caught:
            await begin(client, "double", {"text": "x" * 5000})
        assert caught.value.code == -32602


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


@limit("changes that wait for the shared store")
@each_row("excess", [0, 1])
async def test_changes_above_limit_are_not_published(excess: int) -> None:
    server, broker = Server("s"), GatedBroker()
    publisher = Publisher(server.catalog.listeners, broker, "s/changes", "here")
    server.notify_resource_updated("data://first")
    await settle()
    for number in range(MAX_WAITING + excess):
        server.notify_resource_updated(f"data://{number}")
    server.tool(lambda: "", name="new")  # a change of a list is always kept
    broker.gate.set()
    await until(lambda: broker.published[-1:] == [{"origin": "here", "what": "tools", "uri": None}])
    assert len(broker.published) == 1 + MAX_WAITING + 1
    publisher.close()


@limit("wait for a `Sqlite` that another process has locked")
async def test_locked_sqlite_gets_503_after_timeout(tmp_path, serve, monkeypatch) -> None:
    with (
        closing(Sqlite(tmp_path / "shared.db")) as shared,
        closing(sqlite3.connect(tmp_path / "shared.db", isolation_level=None)) as other,
    ):
        await shared.erase("nothing")
        async with serve(Server("s", storage=shared, secret_key="s" * 32)) as client:
            other.execute("BEGIN EXCLUSIVE")
            with monkeypatch.context() as patch:
                patch.setattr("mcpkit.storage.sqlite_connections_and_tables.DEFAULT_TIMEOUT", 0.1)
                assert (await client.post(initialize()).whole()).status == 503
            other.execute("ROLLBACK")
            await client.initialize()

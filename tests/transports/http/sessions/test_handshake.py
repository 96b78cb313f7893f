"""`initialize` over HTTP goes the way of all calls: it reports, counts, and opens a session in the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, LogHandler, Memory, Server
from mcpkit.middleware import CallNext, Request, Result
from tests.helpers.asgi_answer import Answer, Judge, within
from tests.helpers.asgi_client import Client, Headers, Serve, Session, initialize
from tests.helpers.session_server import PING
from tests.helpers.shared_memory import sessions_in
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio

OPENING = initialize(_meta={"progressToken": "opening"}, capabilities={"elicitation": {}})
JSON = {"accept": "application/json"}


class Store(Memory):
    """A store whose writes wait for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        await super().write(key, changes, ttl)
        self.is_written.set()
        await self.gate.wait()


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
def server(store: Store, work: Work) -> Server:
    server = Server("opened", secret="a secret of sixteen bytes and more", shared=store, max_running=1)

    @server.tool
    async def wait(ctx: Context) -> str:
        await work.wait()
        return "waited"

    return server


def begin(client: Client, headers: Headers | None = None) -> Answer:
    return client.post(OPENING, headers, judge=Judge(client.folder, "2025-11-25"))


def is_stream_with_id(answer: Answer) -> bool:
    return answer.is_stream and "mcp-session-id" in answer.headers


async def status_under(client: Client, answer: Answer) -> int | None:
    """Return the status of a request under the session id that an answer has named."""
    return (await client.post(PING, {"mcp-session-id": answer.headers["mcp-session-id"]}).whole()).status


# What it says before its result


async def test_a_middleware_reports_progress_on_it(server: Server, serve: Serve) -> None:
    @server.middleware("initialize")
    async def report(request: Request, call_next: CallNext) -> Result:
        await request.ctx.progress(1, 2)
        result = await call_next(request)
        await request.ctx.progress(2, 2)
        return result

    async with serve(server) as client:
        answer = await begin(client).whole()
        assert is_stream_with_id(answer)
        *reports, response = await answer.messages()
        assert [each["params"]["progress"] for each in reports] == [1, 2]
        assert response["result"]["protocolVersion"] == "2025-11-25"
        assert await status_under(client, answer) == 200


async def test_a_logger_is_heard_by_its_client(server: Server, serve: Serve) -> None:
    log = logging.getLogger("reception")
    log.addHandler(handler := LogHandler())

    @server.middleware("initialize")
    async def greet(request: Request, call_next: CallNext) -> Result:
        log.warning("somebody comes")
        return await call_next(request)

    try:
        async with serve(server) as client:
            answer = await begin(client).whole()
            assert is_stream_with_id(answer)
            record, response = await answer.messages()
            assert record["params"] == {"level": "warning", "data": "somebody comes", "logger": "reception"}
            assert "result" in response
            assert await status_under(client, answer) == 200
    finally:
        log.removeHandler(handler)


async def test_a_client_that_takes_no_stream_gets_the_result_alone(server: Server, serve: Serve) -> None:
    @server.middleware("initialize")
    async def report(request: Request, call_next: CallNext) -> Result:
        await request.ctx.progress(1, 2)
        return await call_next(request)

    async with serve(server) as client:
        answer = await begin(client, JSON).whole()
        assert answer.json()["result"]["protocolVersion"] == "2025-11-25"
        assert await status_under(client, answer) == 200


async def test_one_that_takes_long_becomes_a_stream(server: Server, serve: Serve, work: Work) -> None:
    @server.middleware("initialize")
    async def wait(request: Request, call_next: CallNext) -> Result:
        await work.wait()
        return await call_next(request)

    async with serve(server, stream_after=0) as client:
        answer = await begin(client).head()
        assert is_stream_with_id(answer)
        assert await status_under(client, answer) == 404, "it is not open yet"
        work.gate.set()
        assert "result" in await answer.response()
        assert await status_under(client, answer) == 200


async def test_without_sessions_it_reports_and_names_none(server: Server, serve: Serve) -> None:
    @server.middleware("initialize")
    async def report(request: Request, call_next: CallNext) -> Result:
        await request.ctx.progress(1, 2)
        return await call_next(request)

    async with serve(server, stateless=True) as client:
        answer = await begin(client).whole()
        assert answer.is_stream
        assert "mcp-session-id" not in answer.headers
        assert (await answer.messages())[-1]["result"]["capabilities"]["tools"] == {}


async def test_a_stream_that_begins_while_the_lifespan_is_entered_has_a_session_that_hears_of_changes(
    schema_dir: Path, work: Work
) -> None:
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        await work.wait()
        server.tool(lambda: "first", name="first")
        yield

    server = Server("slow", lifespan=lifespan)
    client = Client(server.asgi(grace=0, stream_after=0), schema_dir)
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    told.put_nowait({"type": "lifespan.startup"})
    app = asyncio.ensure_future(client.app({"type": "lifespan"}, told.get, asyncio.Queue().put))
    answer = await begin(client).head()
    assert is_stream_with_id(answer)
    work.gate.set()
    assert (await answer.response())["result"]["capabilities"]["tools"] == {"listChanged": True}
    session = Session(client, "2025-11-25", answer.headers["mcp-session-id"], answer.judge)
    await session.notify("notifications/initialized")
    stream = await session.listen().head()
    server.tool(lambda: "second", name="second")
    assert (await stream.message())["method"] == "notifications/tools/list_changed"
    await client.aclose()
    told.put_nowait({"type": "lifespan.shutdown"})
    await within(app)


# What leaves no session


@pytest.mark.parametrize("has_reported", [False, True])
async def test_one_that_fails_leaves_no_session(
    server: Server, serve: Serve, store: Store, has_reported: bool
) -> None:
    @server.middleware("initialize")
    async def fail(request: Request, call_next: CallNext) -> Result:
        if has_reported:
            await request.ctx.progress(1, 2)
        await call_next(request)
        raise KeyError("afterwards")

    async with serve(server) as client:
        answer = begin(client)
        response = await answer.response()
        assert response["error"]["message"].startswith("Internal error (ref ")
        assert answer.is_stream is has_reported
        assert "mcp-session-id" not in answer.headers
        assert sessions_in(store) == []


async def test_one_that_fails_once_its_id_is_told_leaves_no_session(
    server: Server, serve: Serve, store: Store, work: Work
) -> None:
    @server.middleware("initialize")
    async def fail(request: Request, call_next: CallNext) -> Result:
        await request.ctx.progress(1, 2)
        await work.wait()
        raise KeyError("afterwards")

    async with serve(server) as client:
        answer = await begin(client).head()
        assert is_stream_with_id(answer)
        work.gate.set()
        assert "error" in await answer.response()
        assert await status_under(client, answer) == 404
        assert sessions_in(store) == []


async def test_one_whose_result_cannot_be_written_leaves_no_session(
    server: Server, serve: Serve, store: Store
) -> None:
    @server.middleware("initialize")
    async def spoil(request: Request, call_next: CallNext) -> Mapping[str, Any]:
        return {**await call_next(request), "instructions": object()}

    async with serve(server) as client:
        answer = await begin(client).whole()
        assert answer.error()["message"].startswith("Internal error (ref ")
        assert "mcp-session-id" not in answer.headers
        assert sessions_in(store) == []


async def test_what_asks_is_told_that_nobody_can_answer(server: Server, serve: Serve, store: Store) -> None:
    @server.middleware("initialize")
    async def ask(request: Request, call_next: CallNext) -> Result:
        await request.ctx.elicit("Who are you?", str)
        return await call_next(request)

    async with serve(server) as client:
        answer = await begin(client).whole()
        assert answer.status == 200
        assert answer.error()["code"] == -32602
        assert "mcp-session-id" not in answer.headers
        assert sessions_in(store) == []


async def test_a_client_that_goes_cancels_it(server: Server, serve: Serve, store: Store, work: Work) -> None:
    @server.middleware("initialize")
    async def wait(request: Request, call_next: CallNext) -> Result:
        await request.ctx.progress(1, 2)
        await work.wait()
        return await call_next(request)

    async with serve(server) as client:
        answer = await begin(client).head()
        answer.disconnect()
        await within(work.cancelled.wait())
        await answer.whole()
        assert await status_under(client, answer) == 404
        assert sessions_in(store) == []


@pytest.mark.slow
async def test_a_client_that_goes_while_the_session_is_opened_leaves_none(
    server: Server, serve: Serve, store: Store
) -> None:
    store.gate.clear()
    async with serve(server) as client:
        answer = begin(client)
        await within(store.is_written.wait())
        answer.disconnect()
        await answer.whole()
        assert sessions_in(store) == []


# How many


async def test_one_that_runs_middleware_is_refused_where_too_many_requests_run(
    server: Server, serve: Serve, work: Work
) -> None:
    @server.middleware("initialize")
    async def look(request: Request, call_next: CallNext) -> Result:
        return await call_next(request)

    async with serve(server) as client:
        running = client.call("wait")
        await within(work.started.wait())
        refused = await begin(client).whole()
        assert (refused.status, refused.error()["code"]) == (503, -32603)
        assert "retry-after" in refused.headers
        assert "mcp-session-id" not in refused.headers
        work.gate.set()
        await running.whole()
        assert (await begin(client).whole()).status == 200


async def test_one_that_is_answered_at_once_needs_no_place(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        running = client.call("wait")
        await within(work.started.wait())
        assert await status_under(client, await begin(client).whole()) == 200
        work.gate.set()
        await running.whole()


async def test_as_it_runs_others_are_refused(server: Server, serve: Serve, work: Work) -> None:
    @server.middleware("initialize")
    async def wait(request: Request, call_next: CallNext) -> Result:
        await work.wait()
        return await call_next(request)

    async with serve(server) as client:
        opening = begin(client)
        await within(work.started.wait())
        assert (await client.call("wait").whole()).status == 503
        work.gate.set()
        assert (await opening.whole()).status == 200


async def test_those_that_fail_take_no_place_from_sessions(server: Server, serve: Serve) -> None:
    @server.middleware("initialize")
    async def judge(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        if request.ctx.client.name == "stranger":
            raise KeyError("stranger")
        return result

    stranger = initialize(clientInfo={"name": "stranger", "version": "1"})
    async with serve(server, max_sessions=1) as client:
        session = await client.initialize()
        for _ in range(3):
            assert (await client.post(stranger).whole()).status == 200  # an error, and nothing about sessions
        assert (await session.ask("ping").whole()).status == 200
        assert (await client.post(initialize()).whole()).status == 503, "its place is in use"

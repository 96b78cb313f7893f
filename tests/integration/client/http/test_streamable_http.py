"""Clients over HTTP of servers of ours and of the official SDK: at a port and as apps, mounted in other frameworks."""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from litestar import Litestar, asgi
from mcp.server.mcpserver import Context as OfficialContext
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount

from mcpkit import Client, Context, Server
from mcpkit.client.link.errors import OutcomeUnknownError, TransportError
from mcpkit.client.transports.http.sse import SseTransport
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.protocol.revisions import LATEST
from tests.helpers.official_server import official_server
from tests.helpers.raw_client import within
from tests.helpers.serving import in_thread
from tests.helpers.toured import REVISIONS, Toured, tour
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

EVERY = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


class Work:
    """What goes on at the server, in another thread, counted."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def server(work: Work) -> Server:
    server = Server("asked")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def report(ctx: Context, times: int) -> str:
        for done in range(times):
            await ctx.progress(done + 1, times)
        return "reported"

    @server.tool
    async def wait(ctx: Context, *, streams: bool = False) -> None:
        if streams:
            await ctx.progress(1)
        work.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            work.cancelled += 1

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.list_roots())[0].uri

    @server.resource("asked://{name}")
    async def resource(name: str) -> str:
        return name

    @server.prompt
    async def plan(city: str) -> str:
        return f"Plan for {city}"

    return server


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with in_thread(server.asgi()) as origin:
        yield f"{origin}/mcp"


def client(url: str, revision: str | None = None, **options: Any) -> Client:
    return Client(HttpTransport(url, **options), revision=revision)


@EVERY
async def test_http_calls_are_answered(url: str, revision: str) -> None:
    async with client(url, revision) as asked:
        assert asked.revision == revision
        assert (await asked.call("echo", {"text": "å\n😀"})).text == "å\n😀"
        assert (await asked.read("asked://fixed"))[0]["text"] == "fixed"
        assert (await asked.get_prompt("plan", {"city": "Oslo"}))[0]["content"]["text"] == "Plan for Oslo"


@EVERY
async def test_http_progress_precedes_result(url: str, revision: str) -> None:
    async with client(url, revision) as asked:
        heard: list[float] = []
        result = await asked.call("report", {"times": 3}, progress=lambda done, *_: heard.append(done))
        assert (heard, result.text) == ([1, 2, 3], "reported")


@EVERY
async def test_http_server_requests_are_answered(url: str, revision: str) -> None:
    async with Client(HttpTransport(url), revision=revision, roots=["file:///there"]) as asked:
        assert (await asked.call("ask")).text == "file:///there"


@EVERY
async def test_http_open_streams_do_not_block_calls(url: str, revision: str, work: Work) -> None:
    async with client(url, revision) as asked:
        waiting = [
            asyncio.ensure_future(asked.call("wait", {"streams": True}, progress=print)) for _ in range(20)
        ]
        await until(lambda: work.begun == 20)
        assert (await asked.call("echo", {"text": "at once"})).text == "at once"
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


@EVERY
async def test_http_timeout_cancels_call_at_server(url: str, revision: str, work: Work) -> None:
    async with client(url, revision) as asked:
        with pytest.raises(TimeoutError):
            await asked.call("wait", timeout=0.2)
        await until(lambda: work.cancelled)


@EVERY
async def test_http_close_in_other_task_fails_pending_calls(url: str, revision: str, work: Work) -> None:
    before = asyncio.all_tasks()
    asked = await client(url, revision).__aenter__()
    waiting = asyncio.ensure_future(asked.call("wait"))
    await until(lambda: work.begun)
    await asyncio.create_task(asked.close())
    await asyncio.create_task(asked.close())
    with pytest.raises(ConnectionError, match="closed"):
        await waiting
    assert asyncio.all_tasks() == before


async def test_http_own_httpx_client_is_used_and_stays_open(url: str) -> None:
    seen: list[httpx2.Request] = []

    async def see(request: httpx2.Request) -> None:
        seen.append(request)

    async with httpx2.AsyncClient(headers={"X-Mine": "1"}, timeout=1, event_hooks={"request": [see]}) as own:
        async with client(url, http_client=own) as asked:
            assert (await asked.call("echo", {"text": "here"})).text == "here"
        assert not own.is_closed
    assert {request.headers["x-mine"] for request in seen} == {"1"}
    assert {request.headers["mcp-protocol-version"] for request in seen} == {LATEST}


async def test_http_missing_httpx2_names_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "httpx2":
            raise ModuleNotFoundError("No module named 'httpx2'", name="httpx2")
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install .*\[client\]"):
        await client("http://127.0.0.1:9/mcp").__aenter__()
    assert "httpx2" in sys.modules


ORIGIN = "http://127.0.0.1:8000"
Site = Callable[[Any], Any]


def in_starlette(app: Any) -> Any:
    return Starlette(routes=[Mount("/api", app)])


def in_fastapi(app: Any) -> Any:
    api = FastAPI()
    api.mount("/api", app)
    return api


def in_litestar(app: Any) -> Any:
    return Litestar([asgi("/api", is_mount=True, copy_scope=True)(app)], logging_config=None)


async def passing(request: Request, call_next: Any) -> Response:
    response: Response = await call_next(request)
    return response


def behind_middleware(app: Any) -> Any:
    stack = [Middleware(BaseHTTPMiddleware, dispatch=passing), Middleware(GZipMiddleware, minimum_size=10)]
    return Starlette(routes=[Mount("/api", app)], middleware=stack)


SITES = {
    "alone": (lambda app: app, ""), "starlette": (in_starlette, "/api"), "middleware": (behind_middleware, "/api"),
    "fastapi": (in_fastapi, "/api"), "litestar": (in_litestar, "/api"),
}  # fmt: skip
EVERY_SITE = pytest.mark.parametrize(("site", "prefix"), SITES.values(), ids=SITES)


@EVERY_SITE
@pytest.mark.parametrize("revision", REVISIONS[-1:])
async def test_app_tour_over_streamable_http(site: Site, prefix: str, revision: str) -> None:
    toured = Toured()
    before = asyncio.all_tasks()
    transport = HttpTransport(f"{ORIGIN}{prefix}/mcp", app=site(toured.server.asgi(grace=0)))
    await tour(transport, revision, toured)
    if not prefix:  # the lifespan of what is mounted is left with the event loop
        assert asyncio.all_tasks() == before


@EVERY_SITE
@pytest.mark.parametrize("revision", REVISIONS[:1])
async def test_app_tour_over_sse(site: Site, prefix: str, revision: str) -> None:
    toured = Toured()
    before = asyncio.all_tasks()
    transport = SseTransport(f"{ORIGIN}{prefix}/sse", app=site(toured.server.asgi(grace=0)))
    await tour(transport, revision, toured)
    if not prefix:
        assert asyncio.all_tasks() == before


async def test_app_failure_is_transport_error() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raise ValueError("no such table")

    with pytest.raises(TransportError, match="the app has raised ValueError: no such table"):
        async with Client(HttpTransport(f"{ORIGIN}/mcp", app=app)):
            pass


@pytest.mark.parametrize(("path", "transport"), [("/mcp", HttpTransport), ("/events", SseTransport)])
async def test_app_target_finds_its_transport(path: str, transport: type) -> None:
    server = official_server()
    app = server.streamable_http_app() if path == "/mcp" else server.sse_app(sse_path=path)
    async with Client(app, path=path) as client:
        assert isinstance(client._link.transport, transport)
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"


class Recorded:
    """An app around another one, that forgets sessions when it is told to.

    Attributes:
        seen: What its lifespan has done.
        is_forgetful: Whether the next call finds its session gone.
    """

    def __init__(self, app: Any) -> None:
        self.seen: list[str] = []
        self.is_forgetful = False
        self._app = app
        self.app = Starlette(routes=[Mount("/", self.serve)], lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.seen.append("started")
        yield
        self.seen.append("ended")

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        if self.is_forgetful and b"tools/call" in message["body"]:
            self.is_forgetful = False
            await Response(status_code=404)(scope, receive, send)
            return
        messages = [message]

        async def again() -> Any:
            return messages.pop() if messages else await receive()

        await self._app(scope, again, send)


@pytest.mark.parametrize("path", ["/mcp"])
async def test_app_keeps_running_while_session_is_reopened(path: str) -> None:
    recorded = Recorded(Toured().server.asgi(grace=0))
    async with Client(recorded.app, path=path, revision="2025-11-25") as client:
        recorded.is_forgetful = True
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
        assert not recorded.is_forgetful
        assert recorded.seen == ["started"]
    assert recorded.seen == ["started", "ended"]


WAYS: dict[str, dict[str, Any]] = {
    "sessions": {}, "sessions, json": {"json_response": True}, "stateless": {"stateless_http": True},
    "stateless, json": {"stateless_http": True, "json_response": True},
}  # fmt: skip


class Events(EventStore):
    """Keeps all events in memory."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        place = int(last_event_id)
        stream = self.kept[place - 1][0]
        for number, (stream_id, message) in enumerate(self.kept[place:], place + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def official_echo_server() -> MCPServer:
    server = MCPServer("official")

    @server.tool()
    async def echo(text: str) -> str:
        return text

    @server.tool()
    async def report(times: int, ctx: OfficialContext) -> str:
        for done in range(times):
            await ctx.report_progress(done + 1, times)
        return "reported"

    @server.tool()
    async def poll(ctx: OfficialContext) -> str:
        await ctx.report_progress(1)
        await ctx.close_sse_stream()
        await asyncio.sleep(0.2)
        await ctx.report_progress(2)
        return "polled"

    @server.tool()
    async def change(ctx: OfficialContext) -> str:
        await ctx.session.send_tool_list_changed()
        return "changed"

    return server


@contextmanager
def serving(**options: Any) -> Iterator[str]:
    with in_thread(official_echo_server().streamable_http_app(**options)) as origin:
        yield f"{origin}/mcp"


@pytest.mark.parametrize(("way", "revision"), [*((each, "2025-11-25") for each in WAYS), ("sessions", None)])
async def test_official_server_calls_are_answered(way: str, revision: str | None) -> None:
    with serving(**WAYS[way]) as url:
        async with Client(HttpTransport(url), revision=revision) as client:
            assert client.revision == (revision or "2026-07-28")
            texts = [f"å {number}" for number in range(70)]
            results = await asyncio.gather(*(client.call("echo", {"text": text}) for text in texts))
            assert [result.text for result in results] == texts
            assert len(await client.list_tools()) == 4
            heard: list[float] = []
            await client.call("report", {"times": 3}, progress=lambda done, *_: heard.append(done))
            assert heard == ([] if "json" in way else [1, 2, 3])


async def test_official_server_closed_stream_is_resumed() -> None:
    with serving(event_store=Events(), retry_interval=50) as url:
        async with Client(HttpTransport(url), revision="2025-11-25") as client:
            heard: list[float] = []
            result = await client.call("poll", progress=lambda done, *_: heard.append(done))
            assert (result.text, heard) == ("polled", [1, 2])


async def test_official_server_ended_session_is_reopened() -> None:
    ids: list[str] = []

    async def see(response: httpx2.Response) -> None:
        if id_ := response.headers.get("mcp-session-id"):
            ids.append(id_)

    with serving() as url:
        async with (
            httpx2.AsyncClient(event_hooks={"response": [see]}) as own,
            Client(HttpTransport(url, http_client=own), revision="2025-11-25") as client,
        ):
            first = ids[0]
            ended = await own.delete(url, headers={"mcp-session-id": first})
            assert ended.status_code == 200
            assert (await client.call("echo", {"text": "here"})).text == "here"
            assert ids[-1] != first


class Broken:
    """An app whose transport of 2024-11-05 breaks when it is told to.

    Attributes:
        fault: What happens to the next call: `forgotten`, its session is; `cut`, the stream ends before the answer;
            `refused`, it is not taken.
        calls: How many calls have come.
    """

    def __init__(self, app: Any) -> None:
        self.fault = ""
        self.calls = 0
        self._app = app
        self._cut = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] == "GET":
            serving = asyncio.ensure_future(self._app(scope, receive, send))
            cut = asyncio.ensure_future(self._cut.wait())
            await asyncio.wait((serving, cut), return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            cut.cancel()
            await asyncio.wait((serving, cut))
            return
        message = await receive()
        fault = ""
        if b"tools/call" in message["body"]:
            self.calls += 1
            fault, self.fault = self.fault, ""
        if fault == "forgotten":
            await PlainTextResponse("Could not find session", 404)(scope, receive, send)
        elif fault == "refused":
            await PlainTextResponse("Come back", 429)(scope, receive, send)
        elif fault == "cut":
            self._cut.set()
            await asyncio.sleep(0)
            self._cut.clear()
            await PlainTextResponse("Accepted", 202)(scope, receive, send)
        else:

            async def again() -> Any:
                return message

            await self._app(scope, again, send)


async def test_sse_calls_that_never_began_are_retried() -> None:
    app = Broken(Toured().server.asgi(grace=0))
    async with Client(SseTransport("http://127.0.0.1:8000/sse", app=app)) as client:
        for number, app.fault in enumerate(("forgotten", "refused", "")):
            assert (await within(client.call("add", {"a": 1, "b": number}))).text == str(1 + number)
    assert app.calls == 5


async def test_sse_call_with_unknown_outcome_is_not_retried() -> None:
    app = Broken(Toured().server.asgi(grace=0))
    async with Client(SseTransport("http://127.0.0.1:8000/sse", app=app)) as client:
        app.fault = "cut"
        with pytest.raises(OutcomeUnknownError):
            await within(client.call("add", {"a": 1, "b": 2}))
        assert app.calls == 1
        app.fault = "cut"
        assert (await within(client.call("add", {"a": 1, "b": 2}, retry=True))).text == "3"
        assert app.calls == 3

"""The author's lifespan: once for each event loop, and left at the end, with nothing wired."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from mcpkit import Context, Server
from tests.helpers.asgi_client import Client
from tests.helpers.pipe import settle
from tests.helpers.serving import Served, from_text, in_thread

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "word",
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "word", "arguments": {}, "_meta": META},
}


class Author:
    """A server, and what its lifespan did."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.server = Server("life", lifespan=self.lifespan)

        @self.server.tool
        async def word(ctx: Context) -> str:
            return ctx.state["word"]

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[dict[str, str]]:
        self.seen.append("entered")
        task = asyncio.current_task()
        await asyncio.sleep(0)
        try:
            yield {"word": "here"}
        finally:
            await asyncio.sleep(0)
            self.seen.append("left" if asyncio.current_task() is task else "left by another task")


def call(http: httpx2.Client, url: str) -> str:
    answer = http.post(url, json=CALL, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]["content"][0]["text"]


def below(app: Any) -> Any:
    return Starlette(routes=[Mount("/x", app)])


@pytest.fixture
def author() -> Author:
    return Author()


def test_an_app_of_its_own_enters_at_startup_and_leaves_at_shutdown(author):
    with in_thread(author.server.asgi()) as url, httpx2.Client() as http:
        assert http.get(f"{url}/nothing").status_code == 404
        assert author.seen == ["entered"]
        assert call(http, f"{url}/mcp") == "here"
        assert author.seen == ["entered"]
    assert author.seen == ["entered", "left"]


def test_a_mounted_app_enters_at_its_first_request_and_leaves_at_the_end(author):
    with in_thread(below(author.server.asgi())) as url, httpx2.Client() as http:
        http.get(f"{url}/elsewhere")
        assert author.seen == []
        assert [call(http, f"{url}/x/mcp") for _ in range(3)] == ["here"] * 3
        assert author.seen == ["entered"]
    assert author.seen == ["entered", "left"]


def test_many_first_requests_at_once_enter_once(author):
    async def calls() -> list[int]:
        async with httpx2.AsyncClient(timeout=30) as http:
            posts = (http.post(f"{url}/x/mcp", json=CALL, headers=HEADERS) for _ in range(20))
            return [answer.status_code for answer in await asyncio.gather(*posts)]

    with in_thread(below(author.server.asgi())) as url:
        assert asyncio.run(calls()) == [200] * 20
        assert author.seen == ["entered"]
    assert author.seen == ["entered", "left"]


def test_two_apps_of_one_server_share_its_stay(author):
    app = Starlette(routes=[Mount("/one", author.server.asgi()), Mount("/two", author.server.asgi())])
    with in_thread(app) as url, httpx2.Client() as http:
        assert [call(http, f"{url}/{prefix}/mcp") for prefix in ("one", "two")] == ["here", "here"]
        assert author.seen == ["entered"]
    assert author.seen == ["entered", "left"]


def test_one_app_serves_two_event_loops_at_a_time(author):
    app = author.server.asgi()
    with in_thread(app) as first, httpx2.Client() as http:
        with in_thread(below(app)) as second:
            assert [call(http, f"{first}/mcp"), call(http, f"{second}/x/mcp")] == ["here", "here"]
            assert author.seen == ["entered", "entered"]
        assert author.seen == ["entered", "entered", "left"]
        assert call(http, f"{first}/mcp") == "here"
    assert author.seen == ["entered", "entered", "left", "left"]


def test_an_app_serves_again_after_its_shutdown(author):
    app = author.server.asgi()
    for _ in range(2):
        with in_thread(app) as url, httpx2.Client() as http:
            assert call(http, f"{url}/mcp") == "here"
    assert author.seen == ["entered", "left"] * 2


def test_the_test_client_as_a_context_manager_is_one_stay(author):
    with TestClient(author.server.asgi(), "http://localhost") as http:
        assert author.seen == ["entered"]
        assert [call(http, "/mcp") for _ in range(3)] == ["here"] * 3
    assert author.seen == ["entered", "left"]


def test_the_test_client_as_a_context_manager_round_a_parent_is_one_stay(author):
    with TestClient(below(author.server.asgi()), "http://localhost") as http:
        assert [call(http, "/x/mcp") for _ in range(3)] == ["here"] * 3
        assert author.seen == ["entered"]
    assert author.seen == ["entered", "left"]


@pytest.mark.parametrize(("wrap", "path"), [(lambda app: app, "/mcp"), (below, "/x/mcp")])
def test_the_test_client_without_its_context_manager_is_a_stay_for_each_request(author, wrap, path):
    http = TestClient(wrap(author.server.asgi()), "http://localhost")
    assert [call(http, path) for _ in range(3)] == ["here"] * 3
    assert author.seen == ["entered", "left"] * 3


def test_a_parent_may_pass_its_lifespan_on(author):
    app = author.server.asgi()

    @asynccontextmanager
    async def lifespan(parent: Starlette) -> AsyncIterator[None]:
        async with author.server.running():
            yield

    parent = Starlette(routes=[Mount("/x", app)], lifespan=lifespan)
    with in_thread(parent) as url, httpx2.Client() as http:
        assert call(http, f"{url}/x/mcp") == "here"
    assert author.seen == ["entered", "left"]


@asynccontextmanager
async def failing_to_enter(server: Server) -> AsyncIterator[None]:
    raise OSError("the database is away")
    yield


@asynccontextmanager
async def failing_to_leave(server: Server) -> AsyncIterator[None]:
    yield
    raise OSError("the database is away")


def test_a_lifespan_that_cannot_be_entered_stops_the_start():
    app = Server("life", lifespan=failing_to_enter).asgi()
    with pytest.raises(OSError, match="the database is away"), TestClient(app, "http://localhost"):
        pass


def test_a_lifespan_that_cannot_be_left_is_heard_of():
    app = Server("life", lifespan=failing_to_leave).asgi()
    with pytest.raises(OSError, match="the database is away"), TestClient(app, "http://localhost") as http:
        assert http.get("/nothing").status_code == 404


def test_why_a_lifespan_failed_is_not_told_to_clients():
    server = Server("life", lifespan=failing_to_enter)

    @server.tool
    def word() -> str:
        return "here"

    with in_thread(below(server.asgi())) as url, httpx2.Client() as http:
        answer = http.post(f"{url}/x/mcp", json=CALL, headers=HEADERS)
    assert answer.status_code in {200, 503}
    assert "here" not in answer.text
    assert "database" not in answer.text


PROGRAM = """
import sys
from contextlib import asynccontextmanager
from mcpkit import Server

@asynccontextmanager
async def lifespan(server):
    print("entered", file=sys.stderr)
    try:
        yield
    finally:
        print("left", file=sys.stderr)

server = Server("life", lifespan=lifespan)

@server.tool
def word() -> str:
    return "here"

mounted = server.asgi()
"""
PARENTS = {
    "none": "app = mounted",
    "starlette": """
from starlette.applications import Starlette
from starlette.routing import Mount

app = Starlette(routes=[Mount("/x", mounted)])
""",
    "fastapi": """
from fastapi import FastAPI

app = FastAPI()
app.mount("/x", mounted)
""",
    "litestar": """
from litestar import Litestar, asgi
from litestar.types import Receive, Scope, Send

@asgi("/x", is_mount=True, copy_scope=True)
async def tools(scope: Scope, receive: Receive, send: Send) -> None:
    await mounted(scope, receive, send)

app = Litestar([tools], logging_config=None)
""",
    "django": """
from django.conf import settings
from django.core.asgi import get_asgi_application

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
pages = get_asgi_application()

async def app(scope, receive, send):
    if scope["type"] == "http" and scope["path"].startswith("/x/"):
        await mounted(scope | {"root_path": "/x"}, receive, send)
    else:
        await pages(scope, receive, send)
""",
}
LISTEN = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "subscriptions/listen",
    "params": {"notifications": {"toolsListChanged": True}, "_meta": META},
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to hear")
@pytest.mark.parametrize("parent", PARENTS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_streams_and_leaves_the_lifespan(parent, number, hear_interrupts):
    prefix = "" if parent == "none" else "/x"
    with Served(from_text(PROGRAM + PARENTS[parent])) as server, httpx2.Client(timeout=30) as http:
        url = f"{server.origin}{prefix}/mcp"
        assert call(http, url) == "here"
        headers = HEADERS | {"Mcp-Method": "subscriptions/listen"}
        with http.stream("POST", url, json=LISTEN, headers=headers) as stream:
            heard = stream.iter_lines()
            while "acknowledged" not in next(heard):
                pass
            server.signal(number)
            rest = [line for line in heard if line.startswith("data:")]
        server.wait()
    assert len(rest) == 1
    assert '"id":2' in rest[0]
    said = [line for line in server.notes.splitlines() if not line.startswith("INFO:")]
    assert said == ["entered", "left"]


@pytest.mark.anyio
async def test_who_hangs_up_while_the_lifespan_is_entered_is_not_served(schema_dir: Path) -> None:
    gate, served = asyncio.Event(), []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        await gate.wait()
        yield

    server = Server("slow", lifespan=lifespan)

    @server.tool
    async def serve(who: int) -> None:
        served.append(who)

    app = server.asgi(grace=0)
    client = Client(app, schema_dir)
    before = asyncio.all_tasks()
    calls = [client.call("serve", {"who": number}) for number in range(6)]
    await settle()
    for call in calls[::2]:
        call.disconnect()
    await settle()
    gate.set()
    assert [(await call.whole()).status for call in calls] == [None, 200] * 3
    assert sorted(served) == [1, 3, 5]
    (service,) = app.door()._services.values()
    await service.aclose()
    assert asyncio.all_tasks() == before

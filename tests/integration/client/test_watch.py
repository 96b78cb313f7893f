"""Client.watch over real transports, of servers of ours and of the official SDK, that break and come back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.lowlevel import NotificationOptions

from mcpkit import Change, Client, OutcomeUnknownError
from mcpkit.client.changes.changes import Watch
from mcpkit.client.transports.http.sse import SseTransport
from tests.helpers import changing_server
from tests.helpers.changing_server import changing_server as make_server
from tests.helpers.changing_server import official
from tests.helpers.serving import in_thread
from tests.helpers.waiting import PATIENCE, until
from tests.integration.interop.cutting_proxy import cutting

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]
CERTAIN = {Change("tools"), Change("resource", "x://a")}
MISSED = {Change("tools", None, may_have_missed=True), Change("resource", "x://a", may_have_missed=True)}


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


async def next_changes(changes: Watch) -> set[Change]:
    return {await asyncio.wait_for(anext(changes), PATIENCE) for _ in range(2)}


@contextmanager
def served_official() -> Iterator[str]:
    with in_thread(official().streamable_http_app()) as url:
        yield f"{url}/mcp"


@asynccontextmanager
async def target(kind: str) -> AsyncGenerator[Any]:
    """Give the target of a client."""
    command = [sys.executable, str(Path(changing_server.__file__))]
    if kind == "stdio":
        yield command
    elif kind == "stdio, official":
        yield [*command, "official"]
    elif kind == "app":
        yield make_server().asgi()
    elif kind == "http":
        with in_thread(make_server().asgi(grace=0)) as url:
            yield f"{url}/mcp"
    elif kind == "sse":
        with in_thread(make_server().asgi(grace=0)) as url:
            yield SseTransport(f"{url}/sse")
    else:
        with served_official() as url:
            yield url


@pytest.mark.parametrize("kind", ["stdio", "stdio, official", "http", "http, official"])
async def test_watch_over_each_transport(kind: str, revision: str, monkeypatch: Any) -> None:
    options = NotificationOptions.__init__

    def changed(self: NotificationOptions, *_: bool, **__: bool) -> None:
        options(self, tools_changed=True)

    monkeypatch.setattr(NotificationOptions, "__init__", changed)  # no way of the official app says it
    before = asyncio.all_tasks()
    async with target(kind) as server, Client(server, revision=revision) as client:
        async with (
            client.watch(tools=True, resources="x://a") as changes,
            client.watch(resources="x://a", tools=True) as others,
        ):
            for _ in range(2):
                await client.call("change")
                assert await next_changes(changes) == await next_changes(others) == CERTAIN
        async with client.watch(tools=True, resources="x://a") as changes:
            await client.call("change")
            assert await next_changes(changes) == CERTAIN
    await until(lambda: asyncio.all_tasks() == before)


@pytest.mark.parametrize("kind", ["stdio", "stdio, official"])
async def test_watch_restarts_ended_process(kind: str, revision: str) -> None:
    async with (
        target(kind) as server,
        Client(server, revision=revision) as client,
        client.watch(tools=True, resources="x://a") as changes,
    ):
        for _ in range(2):
            with pytest.raises(OutcomeUnknownError):
                await client.call("end")
            assert await next_changes(changes) == MISSED
            await client.call("change")
            assert await next_changes(changes) == CERTAIN


async def test_watch_joins_broken_stream() -> None:
    with in_thread(make_server().asgi(grace=0)) as url, cutting(url, b"tools/list_changed") as proxy:
        async with (
            Client(f"{proxy.origin}/mcp", revision="2026-07-28") as client,
            client.watch(tools=True) as changes,
        ):
            call = asyncio.ensure_future(client.call("change"))
            # Taken before the stream is joined again: what nobody has taken by then stands for what was missed, too.
            assert await asyncio.wait_for(anext(changes), PATIENCE) == Change("tools")
            await call
            assert await asyncio.wait_for(anext(changes), PATIENCE) == Change(
                "tools", None, may_have_missed=True
            )
            await client.call("change")
            assert await asyncio.wait_for(anext(changes), PATIENCE) == Change("tools")

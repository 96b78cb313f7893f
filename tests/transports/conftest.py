from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.raw_client import PING, Answer, Client, Serve, initialize, serving
from tests.helpers.servers.full import Steps, make_server
from tests.helpers.waiting import Work

REQUESTS: dict[str, Callable[[Client, dict[str, str]], Answer]] = {
    "stateless": lambda client, headers: client.ask("tools/list", headers=headers),
    "initialize": lambda client, headers: client.post(initialize(), headers),
    "session": lambda client, headers: client.post(PING, {"mcp-session-id": "x", **headers}),
    "not JSON": lambda client, headers: client.post(b"{", headers),
    "GET": lambda client, headers: client.open("GET", headers={"accept": "text/event-stream", **headers}),
    "DELETE": lambda client, headers: client.open("DELETE", headers={"mcp-session-id": "x", **headers}),
}
"""Requests of all kinds to the endpoint."""


@pytest.fixture
def serve(schema_dir: Path) -> Serve:
    """Run the ASGI app of a server in this process: `async with serve(server, **options) as client`."""

    def run(server: Server, **options: Any) -> AbstractAsyncContextManager[Client]:
        return serving(server, schema_dir, **options)

    return run


@pytest.fixture
def work() -> Iterator[Work]:
    """Work of the tools `wait` and `block`; waiting threads are released at the end."""
    work = Work()
    yield work
    work.released.set()


@pytest.fixture
def steps() -> Steps:
    """Control of the tool `step`."""
    return Steps()


@pytest.fixture
def server(work: Work, steps: Steps) -> Server:
    """Server with all tools."""
    return make_server(work, steps)


@pytest.fixture
async def client(server: Server, serve: Serve) -> AsyncIterator[Client]:
    """Client of the fixture `server`."""
    async with serve(server) as client:
        yield client

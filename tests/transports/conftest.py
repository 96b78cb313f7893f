from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.raw_client import Client, Serve, serving
from tests.helpers.servers.full import Steps, make_server
from tests.helpers.waiting import Work


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

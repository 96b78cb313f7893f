from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.pipe import Pipe, open_pipe
from tests.helpers.raw_client import Client, Serve, serving
from tests.helpers.work import Work
from tests.limits.ways import WAYS, asking
from tests.wire.conftest import Wire

Ask = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture(params=WAYS)
def ask(request: pytest.FixtureRequest, schema_dir: Path) -> Ask:
    """Serve a server and ask it in each way: `async with ask(server) as client`."""

    def run(server: Server, **options: Any) -> AbstractAsyncContextManager[Any]:
        return asking(request.param, server, schema_dir, **options)

    return run


@pytest.fixture
def serve(schema_dir: Path) -> Serve:
    """Run a server's ASGI app in this process: `async with serve(server, **options) as client`."""

    def run(server: Server, **options: Any) -> AbstractAsyncContextManager[Client]:
        return serving(server, schema_dir, **options)

    return run


@pytest.fixture
def wire(schema_dir: Path) -> Wire:
    """Connect a judged pipe: `async with wire(server, revision) as pipe`."""

    def connect(
        server: Server, revision: str = "2025-11-25", *, initialize: bool = True
    ) -> AbstractAsyncContextManager[Pipe]:
        return open_pipe(server, revision, schema_dir, initialize=initialize)

    return connect


@pytest.fixture
def work() -> Iterator[Work]:
    """What tools tell the test and wait for; a thread that waits is let go at its end."""
    made = Work()
    yield made
    made.released.set()


@pytest.fixture
def server() -> Server:
    """A server with a tool that takes anything."""
    server = Server("limited")

    @server.tool
    async def echo(value: Any = None) -> str:
        return "echoed"

    return server

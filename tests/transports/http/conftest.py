from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Client, Serve, serving
from tests.helpers.resumed import Steps
from tests.helpers.stateless_server import make_server
from tests.helpers.work import Work


@pytest.fixture
def serve(schema_dir: Path) -> Serve:
    """Run a server's ASGI app in this process: `async with serve(server, **options) as client`."""

    def run(server: Server, **options: Any) -> AbstractAsyncContextManager[Client]:
        return serving(server, schema_dir, **options)

    return run


@pytest.fixture
def work() -> Iterator[Work]:
    """What tools tell the test and wait for; a thread that waits is let go at its end."""
    made = Work()
    yield made
    made.released.set()


@pytest.fixture
def server(work: Work) -> Server:
    """A server whose functions do what requests can meet, where a file has none of its own."""
    return make_server(work)


@pytest.fixture
def steps() -> Steps:
    """What lets the tool `tell` take one step at a time."""
    return Steps()

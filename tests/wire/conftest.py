from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from mcpkit import Server
from tests.helpers.handshake_tasks import OpenPipe, pipe_opener
from tests.helpers.pipe import REVISIONS, Pipe, open_pipe

Wire = Callable[..., AbstractAsyncContextManager[Pipe]]


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    """Each revision of the protocol."""
    return request.param


@pytest.fixture
def wire(schema_dir: Path) -> Wire:
    """Connect a judged pipe: `async with wire(server, revision) as pipe`."""

    def connect(
        server: Server, revision: str = "2025-11-25", *, initialize: bool = True
    ) -> AbstractAsyncContextManager[Pipe]:
        return open_pipe(server, revision, schema_dir, initialize=initialize)

    return connect


@pytest.fixture
def speak(schema_dir: Path) -> OpenPipe:
    """Connect a judged pipe of somebody who fills in forms: `async with speak(server, ADA) as pipe`."""
    return pipe_opener(schema_dir)

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.handshake_tasks import OpenPipe, pipe_opener
from tests.helpers.pipe import Pipe, open_pipe

Wire = Callable[..., AbstractAsyncContextManager[Pipe]]


@pytest.fixture
def wire(schema_dir: Path) -> Wire:
    """Connect a pipe that validates messages: `async with wire(server, revision) as pipe`."""

    def connect(server: Server, revision: str = "2025-11-25", **options: Any) -> Any:
        return open_pipe(server, revision, schema_dir, **options)

    return connect


@pytest.fixture
def speak(schema_dir: Path) -> OpenPipe:
    """Connect a validated pipe of a client that answers forms: `async with speak(server, ADA) as pipe`."""
    return pipe_opener(schema_dir)

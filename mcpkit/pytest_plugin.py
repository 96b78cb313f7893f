"""The fixture `mcp_client` for pytest; what it needs of mcpkit is imported when a test uses it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .client.sync import SyncClient

    McpClient = Callable[..., SyncClient]
    """Connects a client: takes what `SyncClient` takes; without a target that of the setting `mcp_target`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting `mcp_target`."""
    parser.addini(
        "mcp_target", "the server that the fixture mcp_client connects to: a script, a command or a URL"
    )


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest) -> Iterator[McpClient]:
    """Connect clients that are closed when the test ends, by the function that the test is given.

    What it returns is called with the target and the options of `mcpkit.SyncClient`, and returns an open one, whose
    methods wait for their results. Without a target it is that of the setting `mcp_target`, relative to the folder of
    pytest's configuration.
    """
    from .client.sync import SyncClient

    with ExitStack() as clients:

        def connect(target: object = None, **options: object) -> SyncClient:
            configured = request.config.getini("mcp_target")
            if target is None:
                if not configured:
                    raise pytest.UsageError("mcp_client() needs a server, or the setting mcp_target")
                is_file = (path := request.config.rootpath / configured).exists()
                words = shlex.split(configured, posix=sys.platform != "win32")
                target = path if is_file else words if len(words) > 1 else configured
            client: SyncClient = SyncClient(target, **options)  # type: ignore[arg-type]  # it says what is wrong
            return clients.enter_context(client)

        yield connect

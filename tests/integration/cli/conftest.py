"""The workbench server over HTTP, and the fixtures of commands that run in this process."""

from collections.abc import Iterator

import pytest

from tests.cli.conftest import consoles, mcpkit
from tests.helpers.serving import in_thread
from tests.integration.cli.workbench_server import server

__all__ = ["consoles", "mcpkit"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve the server over HTTP."""
    with in_thread(server.asgi()) as origin:
        yield f"{origin}/mcp"

"""A server that commands ask, served once for all tests of a module, and what runs a command in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from mcpkit.cli.app import run
from mcpkit.cli.output import written
from tests.helpers.serving import in_thread
from tests.helpers.workbench_server import server


class Ended(NamedTuple):
    """How a command has ended, and what it has written."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve the server over HTTP."""
    with in_thread(server.asgi()) as origin:
        yield f"{origin}/mcp"


@pytest.fixture
def mcpkit(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Return what runs a command."""

    def command(*arguments: str) -> Ended:
        for console in (written.results, written.remarks):
            console.cache_clear()
        status = run(arguments)
        return Ended(int(status), *capsys.readouterr())

    return command

"""A server over HTTP, shared by the tests of a module, and a function that runs a command in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from mcpkit.cli.app import run
from mcpkit.cli.output import written
from tests.helpers.serving import in_thread
from tests.integration.cli.workbench_server import server


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


@pytest.fixture(autouse=True)
def consoles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the consoles of the test before, and how wide its terminal was."""
    monkeypatch.delenv("COLUMNS", raising=False)
    for console in (written.results, written.remarks):
        console.cache_clear()

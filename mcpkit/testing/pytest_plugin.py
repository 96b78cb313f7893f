"""The fixtures `mcp_client`, `mcp_lock` and `mcp_check` for pytest; what they need is imported when one is used."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from ..client.sync import SyncClient

    McpClient = Callable[..., SyncClient]
    """Connects a client: takes what `SyncClient` takes; without a target that of the setting `mcp_target`."""

_LOCK = "mcp.lock.json"


class McpLock(Protocol):
    """Fails the test where a server differs from its contract, see `mcp_lock`."""

    def __call__(self, target: object = None, path: str = _LOCK, *, compatible: bool = False) -> None:
        """Compare them."""


class McpCheck(Protocol):
    """Fails the test for what hosts and models will stumble over, see `mcp_check`."""

    def __call__(self, target: object = None, *, ignore: Sequence[str] = (), strict: bool = False) -> None:
        """Look for it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting `mcp_target`, and the option `--mcp-lock-update`."""
    parser.addini("mcp_target", "the server that fixtures connect to: a script, a command or a URL")
    parser.getgroup("mcpkit").addoption(
        "--mcp-lock-update",
        action="store_true",
        help="write the lockfiles of mcp_lock instead of comparing servers with them",
    )


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest) -> Iterator[McpClient]:
    """Connect clients that are closed when the test ends, by the function that the test is given.

    What it returns is called with the target and the options of `mcpkit.SyncClient`, and returns an open one, whose
    methods wait for their results. Without a target it is that of the setting `mcp_target`, relative to the folder of
    pytest's configuration.
    """
    from ..client.sync import SyncClient

    with ExitStack() as clients:

        def connect(target: object = None, **options: object) -> SyncClient:
            target = _target(request.config, target, "mcp_client")
            client: SyncClient = SyncClient(target, **options)  # type: ignore[arg-type]  # it says what is wrong
            return clients.enter_context(client)

        yield connect


@pytest.fixture
def mcp_lock(request: pytest.FixtureRequest) -> McpLock:
    """Compare a server with its contract, by the function that the test is given.

    It takes the target, as `mcp_client` does; the file, `mcp.lock.json` by default, relative to the folder of pytest's
    configuration; and `compatible=True` where changes that break no client are fine. With `--mcp-lock-update` it
    writes the file instead.
    """

    def compare_them(target: object = None, path: str = _LOCK, *, compatible: bool = False) -> None:
        from .contract import compare

        config = request.config
        failure = compare(
            _target(config, target, "mcp_lock"),
            config.rootpath / path,
            is_updated=bool(config.getoption("mcp_lock_update")),
            allows_compatible=compatible,
        )
        if failure is not None:
            pytest.fail(failure, pytrace=False)

    return compare_them


@pytest.fixture
def mcp_check(request: pytest.FixtureRequest) -> McpCheck:
    """Look for what hosts and models will stumble over, by the function that the test is given.

    It takes the target, as `mcp_client` does; codes of findings that are of no interest; and `strict=True` where advice
    fails the test, too. `[tool.mcpkit.check]` in pyproject.toml counts as well.
    """

    def look(target: object = None, *, ignore: Sequence[str] = (), strict: bool = False) -> None:
        from .contract import check

        target = _target(request.config, target, "mcp_check")
        failure = check(target, request.config.rootpath, ignore=ignore, is_strict=strict)
        if failure is not None:
            pytest.fail(failure, pytrace=False)

    return look


def _target(config: pytest.Config, target: object, fixture: str) -> object:
    """Return the target of a test; without one that of the setting."""
    if target is not None:
        return target
    configured: str = config.getini("mcp_target")
    if not configured:
        raise pytest.UsageError(
            f"{fixture}() has no server. Pass one, or set mcp_target in the pytest configuration"
        )
    words = shlex.split(configured, posix=sys.platform != "win32")
    path = config.rootpath / configured
    return path if path.exists() else words if len(words) > 1 else configured

"""The pytest fixtures `mcp_client`, `mcp_lock` and `mcp_check`; their modules are imported when a test uses one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from ..client.sync_client import SyncClient

    McpClient = Callable[..., SyncClient]
    """Connects a client: takes what `SyncClient` takes; without a target that of the setting `mcp_target`."""

_LOCK = "mcp.lock.json"


class McpLock(Protocol):
    """Type of the fixture `mcp_lock`: a function that fails the test if a server differs from its contract."""

    def __call__(self, target: object = None, path: str = _LOCK, *, compatible: bool = False) -> None:
        """Compare a server with its contract."""


class McpCheck(Protocol):
    """Type of the fixture `mcp_check`: a function that fails the test if a server has problems with hosts or models."""

    def __call__(self, target: object = None, *, ignore: Sequence[str] = (), strict: bool = False) -> None:
        """Check a server."""


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
    """Return a function that connects a client for the test, and close the clients when the test ends.

        def test_add(mcp_client):
            client = mcp_client("server.py")
            assert client.call_tool("add", {"a": 1, "b": 2}).data == 3

    The function takes the target and the options of `mcpkit.SyncClient`, and returns a connected `SyncClient`. Without
    a target, it takes the setting `mcp_target`, relative to the folder of pytest's configuration.
    """
    from ..client.sync_client import SyncClient

    with ExitStack() as clients:

        def connect(target: object = None, **options: object) -> SyncClient:
            target = _target(request.config, target, "mcp_client")
            client: SyncClient = SyncClient(target, **options)  # type: ignore[arg-type]  # it says what is wrong
            return clients.enter_context(client)

        yield connect


@pytest.fixture
def mcp_lock(request: pytest.FixtureRequest) -> McpLock:
    """Return a function that fails the test if a server differs from its contract: `mcp_lock("server.py")`.

    The function takes the target, as `mcp_client` does, and the path of the contract: `mcp.lock.json` by default,
    relative to the folder of pytest's configuration. With `compatible=True`, changes that break no client pass. With
    the option `--mcp-lock-update`, the contract is written instead.
    """

    def compare_them(target: object = None, path: str = _LOCK, *, compatible: bool = False) -> None:
        from .lock_and_check import compare

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
    """Return a function that fails the test if a server has problems with hosts or models: `mcp_check("server.py")`.

    The function takes the target, as `mcp_client` does. `ignore` has codes of findings to ignore. With `strict=True`,
    advice fails the test, too. The settings `[tool.mcpkit.check]` in pyproject.toml apply as well.
    """

    def look(target: object = None, *, ignore: Sequence[str] = (), strict: bool = False) -> None:
        from .lock_and_check import check

        target = _target(request.config, target, "mcp_check")
        failure = check(target, request.config.rootpath, ignore=ignore, is_strict=strict)
        if failure is not None:
            pytest.fail(failure, pytrace=False)

    return look


def _target(config: pytest.Config, target: object, fixture: str) -> object:
    """Return the target of a test; if it is None, the one of the setting."""
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

"""The pytest fixtures `mcp_client`, `mcp_lock` and `mcp_check`; their modules are imported when a test uses one."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from ..client.sync_client import SyncClient
    from ..lockfile.lockfile import Surface

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

    def compare(target: object = None, path: str = _LOCK, *, compatible: bool = False) -> None:
        from ..lockfile.lockfile import changes, contract_of, read_if_exists, write
        from ..lockfile.schema_changes import Effect

        file = request.config.rootpath / path
        contract = contract_of(_surfaces(_target(request.config, target, "mcp_lock")))
        if request.config.getoption("mcp_lock_update"):
            write(file, contract)
            return
        old = read_if_exists(file)
        if old is None:
            pytest.fail(f"{file} does not exist. Run pytest --mcp-lock-update to write it", pytrace=False)
        words = {Effect.BREAKING: "breaks clients", Effect.UNKNOWN: "may break clients"}
        if not compatible:
            words[Effect.COMPATIBLE] = "changed"
        found = [each for each in changes(old, contract) if each.effect in words]
        if found:
            lines = "\n".join(f"{words[each.effect]}: {each.where}: {each.what}" for each in found)
            advice = "Run pytest --mcp-lock-update to accept the changes"
            pytest.fail(f"the server differs from {file.name}. {advice}:\n{lines}", pytrace=False)

    return compare


@pytest.fixture
def mcp_check(request: pytest.FixtureRequest) -> McpCheck:
    """Return a function that fails the test if a server has problems with hosts or models: `mcp_check("server.py")`.

    The function takes the target, as `mcp_client` does. `ignore` has codes of findings to ignore. With `strict=True`,
    advice fails the test, too. The settings `[tool.mcpkit.check]` in pyproject.toml apply as well.
    """

    def check(target: object = None, *, ignore: Sequence[str] = (), strict: bool = False) -> None:
        from ..cli.check.rule_form_and_host_limits import CheckInputs
        from ..cli.check.rules_and_settings import findings, load_settings

        target = _target(request.config, target, "mcp_check")
        settings = load_settings(request.config.rootpath)
        inputs = CheckInputs(
            _surfaces(target),
            budget=settings.budget,
            tool_budget=settings.tool_budget,
            strict_hosts=settings.hosts,
        )
        found = findings(inputs, ignored=[*settings.ignore, *ignore])
        failed = [str(each) for each in found if strict or settings.strict or each.severity != "advice"]
        if failed:
            pytest.fail("\n".join(failed), pytrace=False)

    return check


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


def _surfaces(target: object) -> list[Surface]:
    """Fetch the lists of a server in a separate thread, as an event loop may be running in the test."""
    from ..client.client_group import client_for
    from ..lockfile.lockfile import surfaces_of

    async def fetch() -> list[Surface]:
        async with client_for(target) as client:  # type: ignore[arg-type]  # it checks the target
            return await surfaces_of(client)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, fetch()).result()

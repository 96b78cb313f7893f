"""Comparison with a lockfile and checks, for the fixtures `mcp_lock` and `mcp_check`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..cli.check.check_rules import findings
from ..cli.check.check_settings import load_settings
from ..cli.check.rule import CheckInputs
from ..client.client_group import client_for
from ..lockfile.lockfile import Surface, contract_of, read_if_exists, surfaces_of, write
from ..lockfile.lockfile_changes import Effect, changes


def compare(target: object, path: Path, *, is_updated: bool, allows_compatible: bool) -> str | None:
    """Compare a server with the contract in a file.

    Args:
        target: The server, as `Client` takes it.
        path: The file.
        is_updated: Whether to write the current contract to the file instead.
        allows_compatible: Whether changes that break no client are accepted.

    Returns:
        The message of the failed test; None if it passes.

    Raises:
        ValueError: The file does not contain a contract.
    """
    contract = contract_of(_surfaces(target))
    if is_updated:
        write(path, contract)
        return None
    old = read_if_exists(path)
    if old is None:
        return f"{path} does not exist. Run pytest --mcp-lock-update to write it"
    found = [
        each
        for each in changes(old, contract)
        if not (allows_compatible and each.effect is Effect.COMPATIBLE)
    ]
    if not found:
        return None
    words = {
        Effect.BREAKING: "breaks clients",
        Effect.UNKNOWN: "may break clients",
        Effect.COMPATIBLE: "changed",
    }
    lines = "\n".join(f"{words[each.effect]}: {each.where}: {each.what}" for each in found)
    return (
        f"the server differs from {path.name}. Run pytest --mcp-lock-update to accept the changes:\n{lines}"
    )


def check(target: object, folder: Path, *, ignore: Sequence[str], is_strict: bool) -> str | None:
    """Check a server for problems with hosts and models, with the settings of the project in a folder.

    Args:
        target: The server, as `Client` takes it.
        folder: The project's folder.
        ignore: Codes of findings to ignore, besides those of the settings.
        is_strict: Whether advice fails the test, too.

    Returns:
        The message of the failed test; None if it passes.

    Raises:
        ValueError: A setting is invalid, or a code is unknown.
    """
    settings = load_settings(folder)
    inputs = CheckInputs(
        _surfaces(target),
        budget=settings.budget,
        tool_budget=settings.tool_budget,
        strict_hosts=settings.hosts,
    )
    found = [
        str(each)
        for each in findings(inputs, ignored=[*settings.ignore, *ignore])
        if is_strict or settings.strict or each.severity != "advice"
    ]
    return "\n".join(found) or None


def _surfaces(target: object) -> list[Surface]:
    """Fetch the lists of a server in a separate thread, as an event loop may be running in the test."""

    async def fetch() -> list[Surface]:
        async with client_for(target) as client:  # type: ignore[arg-type]  # it checks the target
            return await surfaces_of(client)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, fetch()).result()

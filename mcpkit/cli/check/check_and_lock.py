"""`mcpkit check` checks a server for problems in hosts, models and clients; `mcpkit lock` writes its lockfile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from ...lockfile.lockfile import NAME, changes, contract_of, read, read_if_exists, surfaces_of
from ...lockfile.lockfile import write as write_lockfile
from ..console import escape_control_characters, relative_path, write, write_json, write_stderr
from ..exit_status import Status
from ..findings import Finding, Severity, exit_status_of
from ..server_loader import project_folder
from ..server_target import ServerTarget, client_command
from .rule_form_and_host_limits import STRICT_MODES, CheckInputs
from .rules_and_settings import findings, load_settings
from .source_rules import sources_of


@click.command("check", epilog="Example: mcpkit check server.py --strict")
@client_command
@click.option("--strict", is_flag=True, help="Also fail for findings of severity advice.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Omit findings with this code.")
@click.option(
    "--host",
    multiple=True,
    type=click.Choice(list(STRICT_MODES)),
    help="Also check the strict mode of this model API.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    help="Limit for all tools together (default: 10,000).",
)
@click.option(
    "--tool-budget",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    help="Limit for each tool (default: 1,000).",
)
@click.option(
    "--lock", type=click.Path(path_type=Path), metavar="FILE",
    help=f"Lockfile to compare with (default: the project's {NAME}, if it exists).",
)  # fmt: skip
@click.option("--update", is_flag=True, help="Write the current interface to the lockfile.")
async def check(
    server: ServerTarget,
    strict: bool,
    ignore: tuple[str, ...],
    host: tuple[str, ...],
    budget: int | None,
    tool_budget: int | None,
    lock: Path | None,
    update: bool,
) -> int:
    """Check a server for problems in hosts, models and clients.

    The rules are about names, descriptions, schemas, annotations and blocking calls. If there is a lockfile from mcpkit
    lock, the check also lists the changes since then, and which of them break clients.
    """
    folder = project_folder(server.target)
    settings = load_settings(folder)
    path = lock or relative_path(folder / NAME)
    old = None if update else read(lock) if lock is not None else read_if_exists(path)
    async with server.client() as client:
        surfaces = await surfaces_of(client)
    contract = contract_of(surfaces)
    inputs = CheckInputs(
        surfaces,
        sources_of(server.target),
        [] if old is None else changes(old, contract),
        settings.budget if budget is None else budget,
        settings.tool_budget if tool_budget is None else tool_budget,
        list(dict.fromkeys([*settings.hosts, *host])),
    )
    found = findings(inputs, ignored=[*settings.ignore, *ignore])
    if update:
        write_lockfile(path, contract)
        write_stderr(f"wrote {path}")
    return _write_findings(found, is_json=server.is_json, is_strict=strict or settings.strict)


@click.command("lock", epilog="Example: mcpkit lock server.py --update")
@client_command
@click.option(
    "--lock", "path", type=click.Path(path_type=Path), metavar="FILE",
    help=f"Path of the lockfile (default: the project's {NAME}).",
)  # fmt: skip
@click.option("--update", is_flag=True, help="Overwrite a lockfile that differs.")
async def lock(server: ServerTarget, path: Path | None, update: bool) -> int:
    """Write the lockfile of a server's interface: tools, resources, resource templates and prompts, with their schemas.

    If the lockfile exists and differs, the command lists the changes, and overwrites it only with --update.
    """
    path = path or relative_path(project_folder(server.target) / NAME)
    async with server.client() as client:
        contract = contract_of(await surfaces_of(client))
    old = read_if_exists(path)
    if old == contract:
        write_stderr(f"{path} is up to date")
        return Status.DONE
    if old is not None:
        found = findings(CheckInputs(changes=changes(old, contract)))
        status = _write_findings(found, is_json=server.is_json, is_strict=True)
        if not update:
            write_stderr(f"{path} is unchanged. Run with --update to overwrite it")
            return status
    write_lockfile(path, contract)
    write_stderr(f"wrote {path}")
    return Status.DONE


_NOUNS: Final[dict[Severity, tuple[str, str]]] = {
    "error": ("error", "errors"),
    "warning": ("warning", "warnings"),
    "advice": ("piece of advice", "pieces of advice"),
}


def _write_findings(found: Sequence[Finding], *, is_json: bool, is_strict: bool) -> int:
    """Write findings to standard output.

    Args:
        found: The findings.
        is_json: Whether to write JSON.
        is_strict: Whether findings of severity advice fail the command, too.

    Returns:
        The exit status.
    """
    if is_json:
        write_json({"findings": [finding.as_json("where", "what") for finding in found]})
    else:
        for finding in found:
            write(escape_control_characters(str(finding)))
        counts = Counter(finding.severity for finding in found)
        totals = [f"{counts[each]} {_NOUNS[each][counts[each] > 1]}" for each in _NOUNS if counts[each]]
        write(", ".join(totals) or "no findings")
    allowed: tuple[Severity, ...] = () if is_strict else ("advice",)
    return exit_status_of((finding.severity for finding in found), *allowed)

"""`mcpkit check`: what hosts and models will stumble over, and what breaks clients."""

from __future__ import annotations

from pathlib import Path

import click

from ....client.contract.changes import changes
from ....client.contract.lockfile import NAME, contract_of, kept, read, write
from ....client.contract.surface import surfaces_of
from ...console import relative_path, write_stderr
from ...server_target import ServerTarget, client_command
from ...targets.served import folder_of
from ..finding import Looked
from ..hosts import STRICT
from ..rules.catalogue import findings
from ..settings import settings
from ..sources import sources_of
from .told import tell


@click.command("check", epilog="Example: mcpkit check server.py --strict")
@client_command
@click.option("--strict", is_flag=True, help="Also fail for findings of severity advice.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Omit findings with this code.")
@click.option(
    "--host",
    multiple=True,
    type=click.Choice(list(STRICT)),
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
    "--lock",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"Lockfile to compare with (default: the project's {NAME}, if it exists).",
)
@click.option("--update", is_flag=True, help="Write the current interface to the lockfile.")
async def command(
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
    folder = folder_of(server.target)
    said = settings(folder)
    path = lock or relative_path(folder / NAME)
    old = None if update else read(lock) if lock is not None else kept(path)
    async with server.client() as client:
        surfaces = await surfaces_of(client)
    contract = contract_of(surfaces)
    looked = Looked(
        surfaces,
        sources_of(server.target),
        [] if old is None else changes(old, contract),
        said.budget if budget is None else budget,
        said.tool_budget if tool_budget is None else tool_budget,
        list(dict.fromkeys([*said.hosts, *host])),
    )
    found = findings(looked, ignored=[*said.ignore, *ignore])
    if update:
        write(path, contract)
        write_stderr(f"wrote {path}")
    return tell(found, is_json=server.is_json, is_strict=strict or said.strict)

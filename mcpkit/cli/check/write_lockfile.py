"""`mcpkit lock`: write the lockfile of a server's interface."""

from __future__ import annotations

from pathlib import Path

import click

from ...lockfile.lockfile import NAME, contract_of, read_if_exists, surfaces_of, write
from ...lockfile.lockfile_changes import changes
from ..console import relative_path, write_stderr
from ..exit_status import Status
from ..server_loader import project_folder
from ..server_target import ServerTarget, client_command
from .check_rules import findings
from .check_server import write_findings
from .rule import CheckInputs


@click.command("lock", epilog="Example: mcpkit lock server.py --update")
@client_command
@click.option(
    "--lock",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"Path of the lockfile (default: the project's {NAME}).",
)
@click.option("--update", is_flag=True, help="Overwrite a lockfile that differs.")
async def command(server: ServerTarget, path: Path | None, update: bool) -> int:
    """Write the lockfile of a server's interface: tools, resources, resource templates and prompts, with their schemas.

    If the lockfile exists and differs, the command lists the changes, and overwrites it only with --update.
    """
    path = path or relative_path(project_folder(server.target) / NAME)
    async with server.client() as client:
        contract = contract_of(await surfaces_of(client))
    old = read_if_exists(path)
    if old is None:
        write(path, contract)
        write_stderr(f"wrote {path}")
        return Status.DONE
    found = findings(CheckInputs(changes=changes(old, contract)))
    if old == contract:
        write_stderr(f"{path} is up to date")
        return Status.DONE
    status = write_findings(found, is_json=server.is_json, is_strict=True)
    if not update:
        write_stderr(f"{path} is unchanged. Run with --update to overwrite it")
        return status
    write(path, contract)
    write_stderr(f"wrote {path}")
    return Status.DONE

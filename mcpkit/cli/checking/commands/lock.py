"""`mcpkit lock`: writes down what clients of a server rely on."""

from __future__ import annotations

from pathlib import Path

import click

from ....client.contract.changes import changes
from ....client.contract.lockfile import NAME, contract_of, kept, write
from ....client.contract.surface import surfaces_of
from ...asking.server import Asked, asks_server
from ...output.written import near, remark
from ...statuses import Status
from ...targets.served import folder_of
from ..finding import Looked
from ..rules.catalogue import findings
from .told import tell


@click.command("lock", epilog="Example: mcpkit lock server.py --update")
@asks_server
@click.option(
    "--lock",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"The file ({NAME} of the project).",
)
@click.option("--update", is_flag=True, help="Write it although it differs.")
async def command(asked: Asked, path: Path | None, update: bool) -> int:
    """Write down what clients of a server rely on: tools, resources, templates and prompts, with their schemas.

    Where there is such a file that differs, it says how, and writes nothing without --update.
    """
    path = path or near(folder_of(asked.target) / NAME)
    async with asked.client() as client:
        contract = contract_of(await surfaces_of(client))
    old = kept(path)
    if old is None:
        write(path, contract)
        remark(f"{path} is written")
        return Status.DONE
    found = findings(Looked(changes=changes(old, contract)))
    if old == contract:
        remark(f"{path} is up to date")
        return Status.DONE
    status = tell(found, is_json=asked.is_json, is_strict=True)
    if not update:
        remark(f"{path} is left as it is: --update writes it")
        return status
    write(path, contract)
    remark(f"{path} is written")
    return Status.DONE

"""`mcpkit hosts`: which hosts there are, and their servers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ...protocol.jsonrpc import Json, is_object
from ..configurations.places import File, files_of, host_of, is_there
from ..configurations.reading import entries_in
from ..configurations.shapes import read_by_clients
from ..configurations.table import HOSTS
from ..console import stdout_console, write_json
from ..exit_status import CommandError
from . import completing
from .records import Records


@click.command("hosts", epilog="Example: mcpkit hosts --json")
@click.argument("names", nargs=-1, metavar="[HOST]...", shell_complete=completing.hosts)
@click.option("--json", "is_json", is_flag=True, help="Write JSON.")
def command(names: Sequence[str], is_json: bool) -> None:
    """List the supported hosts, whether they are installed, their configuration files and the servers in them."""
    hosts = [host_of(name) for name in names] or list(HOSTS.values())
    made = Records().made()
    found: list[Json] = [
        {
            "name": host.name,
            "title": host.title,
            "found": is_there(host, made),
            "files": [_told(file) for file in files_of(host, Path.cwd())],
        }
        for host in hosts
    ]
    if is_json:
        write_json(found)
    else:
        _draw(found)


def _told(file: File) -> Json:
    told: Json = {"scope": file.scope, "path": str(file.path), "exists": file.path.is_file()}
    try:
        entries = entries_in(file)
        reached = (is_object(entry) and read_by_clients(file.host, entry) for entry in entries.values())
        return {
            **told,
            "servers": [name for name, is_server in zip(entries, reached, strict=True) if is_server],
        }
    except (CommandError, OSError) as error:  # which one of them has, and the others are told all the same
        return {**told, "servers": [], "problem": str(error)}


def _draw(hosts: Sequence[Json]) -> None:
    from rich.table import Column, Table

    whole = [Column(title, overflow="fold") for title in ("file", "servers")]
    table = Table("host", "installed", "scope", *whole, box=None)
    for host in hosts:
        told = [file for file in host["files"] if file["servers"] or file.get("problem")]
        known = told or [file for file in host["files"] if file["exists"]][:1] or host["files"][:1]
        for index, file in enumerate(known):
            servers = file.get("problem") or ", ".join(file["servers"])
            first = (host["name"], "yes" if host["found"] else "no") if index == 0 else ("", "")
            table.add_row(*first, file["scope"], _short(Path(file["path"])), servers)
    stdout_console().print(table)


def _short(path: Path) -> str:
    """Return a path from this folder, or from the user's home."""
    for folder, name in ((Path.cwd(), Path()), (Path.home(), Path("~"))):
        if path.is_relative_to(folder):
            return str(name / path.relative_to(folder))
    return str(path)

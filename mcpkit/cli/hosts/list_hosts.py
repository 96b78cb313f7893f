"""`mcpkit hosts`, and shell completion of the names of hosts and their servers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from ...protocol.jsonrpc import Json, is_object
from ..console import rich_console, write_json
from ..exit_status import CommandError
from .config_editing import entries_in
from .config_entries import client_entry
from .host_table import HOSTS, ConfigFile, files_of, host_by_name, is_installed
from .install_records import InstallRecords


def complete_hosts(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a host."""
    return [
        CompletionItem(name, help=host.title) for name, host in HOSTS.items() if name.startswith(incomplete)
    ]


def complete_servers(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a server of the host on the command line."""
    host = HOSTS.get(str(context.params.get("host")))
    names: dict[str, None] = {}
    for file in () if host is None else files_of(host, Path.cwd()):
        try:
            names.update(dict.fromkeys(entries_in(file)))
        except (CommandError, OSError):  # the command itself reports it
            continue
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command("hosts", epilog="Example: mcpkit hosts --json")
@click.argument("names", nargs=-1, metavar="[HOST]...", shell_complete=complete_hosts)
@click.option("--json", "is_json", is_flag=True, help="Write JSON.")
def command(names: Sequence[str], is_json: bool) -> None:
    """List the supported hosts, whether they are installed, their configuration files and the servers in them."""
    hosts = [host_by_name(name) for name in names] or list(HOSTS.values())
    created = InstallRecords().created_paths()
    rows: list[Json] = [
        {
            "name": host.name,
            "title": host.title,
            "found": is_installed(host, created),
            "files": [_file_row(file) for file in files_of(host, Path.cwd())],
        }
        for host in hosts
    ]
    if is_json:
        write_json(rows)
    else:
        _print_table(rows)


def _file_row(file: ConfigFile) -> Json:
    row: Json = {"scope": file.scope, "path": str(file.path), "exists": file.path.is_file()}
    try:
        entries = entries_in(file)
    except (CommandError, OSError) as error:  # the rows of the other files are still listed
        return {**row, "servers": [], "problem": str(error)}
    servers = [name for name, entry in entries.items() if is_object(entry) and client_entry(file.host, entry)]
    return {**row, "servers": servers}


def _print_table(hosts: Sequence[Json]) -> None:
    from rich.table import Column, Table

    columns = [Column(title, overflow="fold") for title in ("file", "servers")]
    table = Table("host", "installed", "scope", *columns, box=None)
    for host in hosts:
        files = [file for file in host["files"] if file["servers"] or file.get("problem")]
        files = files or [file for file in host["files"] if file["exists"]][:1] or host["files"][:1]
        for index, file in enumerate(files):
            servers = file.get("problem") or ", ".join(file["servers"])
            first = (host["name"], "yes" if host["found"] else "no") if index == 0 else ("", "")
            table.add_row(*first, file["scope"], _short_path(Path(file["path"])), servers)
    rich_console().print(table)


def _short_path(path: Path) -> str:
    """Return a path relative to the current folder or the home folder."""
    for folder, name in ((Path.cwd(), Path()), (Path.home(), Path("~"))):
        if path.is_relative_to(folder):
            return str(name / path.relative_to(folder))
    return str(path)

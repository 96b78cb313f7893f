"""`mcpkit install`: gives a server to a host."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from ...client.targets.host_configuration import read_env
from ...client.targets.infer_target import HttpServerConfig, StdioServerConfig
from ...protocol.jsonrpc import Json
from ..configurations.places import File, file_of, host_of, is_there
from ..configurations.reading import Document
from ..configurations.shapes import entry_of
from ..configurations.table import Host, Scope
from ..configurations.variables import variables_in
from ..exit_status import CommandError
from ..targets.pairs import pairs
from . import completing, files
from .records import Record, Records, hash_of, hash_of_entry
from .wanted import plain, server_at


@click.command("install", epilog="Example: mcpkit install claude-code server.py -e TOKEN=...")
@click.argument("host", metavar="HOST", shell_complete=completing.hosts)
@click.argument("target", shell_complete=completing.files)
@click.option("--name", metavar="NAME", help="Name in the configuration (default: the server's own name).")
@click.option(
    "--scope",
    type=click.Choice(["user", "project", "local"]),
    default="user",
    show_default=True,
    help="Configuration to write: yours, the project's, or yours for this project.",
)
@click.option(
    "-e", "--env", multiple=True, metavar="NAME=VALUE", help="Environment variable of the server's process."
)
@click.option(
    "--env-file", type=click.Path(path_type=Path), metavar="FILE", help="File with environment variables."
)
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Working directory of the server's process.",
)
@click.option(
    "-H", "--header", multiple=True, metavar="NAME:VALUE", help="HTTP header to add to each request to a URL."
)
@click.option(
    "--uv", "is_run_by_uv", is_flag=True, help="Start the server with uv in the environment of its project."
)
@click.option(
    "--reload",
    "is_reloading",
    is_flag=True,
    help="Restart the server when its code changes; the host stays connected.",
)
@click.option(
    "--expand", is_flag=True, help="Allow variables in the values, such as ${NAME}, which the host replaces."
)
@click.option("--force", is_flag=True, help="Overwrite another server with this name.")
@click.option(
    "--dry-run", "is_tried", is_flag=True, help="Print the change of the host's file; write nothing."
)
@click.option(
    "--print", "is_printed", is_flag=True, help="Print the entry that would be written; write nothing."
)
def command(
    host: str,
    target: str,
    name: str | None,
    scope: Scope,
    env: Sequence[str],
    env_file: Path | None,
    cwd: Path | None,
    header: Sequence[str],
    is_run_by_uv: bool,
    is_reloading: bool,
    expand: bool,
    force: bool,
    is_tried: bool,
    is_printed: bool,
) -> None:
    """Add a server to the configuration of a host. The rest of the file stays unchanged.

    HOST is a name that `mcpkit hosts` lists.
    """
    known = host_of(host)
    file = file_of(known, scope, Path.cwd())
    if cwd is not None and known.started.cwd is None:
        raise click.UsageError(f"{known.title} has no setting for the working directory. Omit --cwd")
    given = pairs(env, "=", "--env NAME=VALUE")
    read = {} if env_file is None else read_env(env_file, "--env-file")
    called, server = server_at(
        target,
        env={**read, **given},
        headers=pairs(header, ":", "--header NAME:VALUE"),
        cwd=cwd.absolute() if cwd is not None else None,
        is_run_by_uv=is_run_by_uv,
        is_reloading=is_reloading,
        name=name,
    )
    if known.has_plain_names and called != plain(called):
        raise CommandError(
            f"{known.title} accepts only letters, digits, - and _ in names, got {called!r}. Add --name {plain(called)}"
        )
    if (
        isinstance(server, StdioServerConfig) and known.started.env_file is not None
    ):  # which the host reads itself
        server = replace(
            server, env={key: server.env[key] for key in server.env if key in given or key not in read}
        )
    entry = entry_of(known, called, server, None if env_file is None else env_file.absolute())
    if not expand:
        _check_literal(known, entry)
    if is_printed:
        click.echo(Document(file, b"").with_entry(called, entry).decode().rstrip())
        return
    before = files.content_of(file.path)
    document = Document(file, before or b"")
    if document.entries.get(called) == entry:
        click.echo(f"{called} is already in {file.path}; nothing changed", err=True)
        return
    record = Records().find(file, called)
    _check_free(document, file, called, record, is_forced=force)
    after = document.with_entry(called, entry)
    if is_tried:
        _show_change(file, before or b"", after)
        return
    was_there = is_there(known, Records().made())
    _write(file, called, entry, before, after, record)
    click.echo(f"added {called} to {file.path} for {known.title}", err=True)
    if not was_there:
        click.echo(f"{known.title} does not seem to be installed on this machine", err=True)
    _tell(known, file, server.headers if isinstance(server, HttpServerConfig) else server.env)


def _check_literal(host: Host, entry: Json) -> None:
    """Refuse an entry with values that the host would not pass on as they are; no value is shown."""
    for place, spelling in variables_in(host, entry):
        way_out = " with --env-file FILE" if host.started.env_file and place.startswith("env.") else ""
        instead = f"pass the value in a file{way_out}"
        if place == host.started.cwd or place.partition("[")[0] in {host.started.command, "args"}:
            instead = "use a path or an argument without $"
        raise CommandError(
            f"{host.title} replaces variables such as {spelling} in {place}, and has no escape for them. "
            f"Add --expand to allow this, or {instead}"
        )


def _check_free(document: Document, file: File, name: str, record: Record | None, *, is_forced: bool) -> None:
    there = document.entries.get(name)
    is_ours = record is not None and record.entry == hash_of_entry(there)
    if name in document.entries and not is_ours and not is_forced:
        raise CommandError(
            f"{file.path} already has another server {name}. Choose another --name, or overwrite it with --force"
        )


def _show_change(file: File, before: bytes, after: bytes) -> None:
    lines = difflib.unified_diff(
        before.decode().splitlines(), after.decode().splitlines(), str(file.path), str(file.path), lineterm=""
    )
    click.echo("\n".join(lines))


def _write(
    file: File, name: str, entry: Json, before: bytes | None, after: bytes, record: Record | None
) -> None:
    folders = tuple(str(folder) for folder in files.missing_folders(file.path))
    if record is not None and before is not None and record.after == hash_of(before):
        backup, folders = record.backup, record.folders  # as nobody but us has written since
    else:
        backup = None if before is None else str(files.keep(file.path, before))
    files.replace(file.path, before, after, is_shared=file.scope == "project")
    Records().add(file, name, Record(hash_of_entry(entry), hash_of(after), backup, folders))


def _tell(host: Host, file: File, secrets: Mapping[str, str]) -> None:
    if secrets:
        shared = ", which may be shared with other people" if file.scope == "project" else ""
        click.echo(f"the file contains the values of {', '.join(secrets)} in plain text{shared}", err=True)
    for remark in (host.remark, host.project_remark if file.scope == "project" else ""):
        if remark:
            click.echo(remark, err=True)

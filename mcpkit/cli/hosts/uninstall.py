"""`mcpkit uninstall`: takes a server from a host."""

from __future__ import annotations

from pathlib import Path

import click

from ..._utils.option_checks import nearest
from ..configurations.places import File, files_of, host_of
from ..configurations.reading import Document
from ..configurations.table import Scope
from ..exit_status import CommandError, Status
from . import completing, files
from .records import Record, Records, hash_of


@click.command("uninstall", epilog="Example: mcpkit uninstall claude-code weather")
@click.argument("host", metavar="HOST", shell_complete=completing.hosts)
@click.argument("name", metavar="NAME", shell_complete=completing.servers)
@click.option(
    "--scope",
    type=click.Choice(["user", "project", "local"]),
    help="Configuration to change, if several have a server with this name.",
)
@click.option("--force", is_flag=True, help="Also remove a server that mcpkit did not install.")
def command(host: str, name: str, scope: Scope | None, force: bool) -> None:
    """Remove a server that mcpkit installed from the configuration of a host.

    If the file has not changed since, its previous content is restored byte for byte. Otherwise only the entry is
    removed.
    """
    known = host_of(host)
    documents = [
        (file, Document(file, before), before)
        for file in files_of(known, Path.cwd())
        if scope in (None, file.scope) and (before := files.content_of(file.path)) is not None
    ]
    found = [each for each in documents if name in each[1].entries]
    if not found:
        names = {each: None for _, document, _ in documents for each in document.entries}
        close = nearest(name, names)
        hint = f"; did you mean {close}?" if close else f"; it has {', '.join(names)}" if names else ""
        raise CommandError(f"{known.title} has no server {name}{hint}", Status.NO_SUCH_THING)
    if len(found) > 1:
        scopes = " or ".join(f"--scope {file.scope}" for file, _, _ in found)
        raise CommandError(f"{known.title} has several servers {name}. Add {scopes}")
    [(file, document, before)] = found
    record = Records().find(file, name)
    if record is None and not force:
        raise CommandError(f"mcpkit did not install {name} in {file.path}. Add --force to remove it anyway")
    if record is not None and record.after == hash_of(before) and _put_back(file, before, record):
        click.echo(f"removed {name} and restored {file.path} to its previous content", err=True)
    else:
        after = document.without_entry(name)
        if record is None:
            files.keep(file.path, before)
        files.replace(file.path, before, after)
        click.echo(f"removed {name} from {file.path}; the rest is unchanged", err=True)
    Records().forget(file, name)


def _put_back(file: File, before: bytes, record: Record) -> bool:
    """Make a file what it was before an entry was installed; say whether that is known."""
    if record.backup is None:
        file.path.resolve().unlink()
        for folder in map(Path, record.folders):
            if any(folder.iterdir()):
                break
            folder.rmdir()
        return True
    backup = Path(record.backup)
    content = files.content_of(backup)
    if content is None:
        return False
    files.replace(file.path, before, content)
    backup.unlink()
    return True

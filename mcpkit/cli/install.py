"""`mcpkit install` and `mcpkit uninstall`: servers in the configuration of hosts."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import click
from click import argument, option

from .._utils.option_checks import nearest
from .._utils.python_safe_path import mcpkit_command
from ..client.client import Client
from ..client.targets.host_configuration import read_env
from ..client.targets.infer_target import HttpServerConfig, StdioServerConfig, infer_target
from ..protocol.jsonrpc import Json
from .exit_status import CommandError, Status
from .hosts.config_editing import read_document
from .hosts.config_entries import entry_of, variables_in
from .hosts.host_table import ConfigFile, Host, Scope, file_of, files_of, host_by_name, is_installed
from .hosts.install_records import (
    InstallRecord,
    InstallRecords,
    back_up,
    hash_of,
    hash_of_entry,
    read_bytes,
    replace_file,
)
from .hosts.list_hosts import complete_hosts, complete_servers
from .key_values_and_usage import parse_options
from .run import is_script
from .script_metadata import read_script_metadata, uv_path
from .server_loader import ServerLocation, parse_server_location, projects_of
from .server_target import complete_files, resolve_target


@click.command("install", epilog="Example: mcpkit install claude-code server.py -e TOKEN=...")
@argument("host", metavar="HOST", shell_complete=complete_hosts)
@argument("target", shell_complete=complete_files)
@option("--name", metavar="NAME", help="Name in the configuration (default: the server's own name).")
@option(
    "--scope",
    type=click.Choice(["user", "project", "local"]),
    default="user",
    show_default=True,
    help="Configuration to write: yours, the project's, or yours for this project.",
)
@option(
    "-e", "--env", multiple=True, metavar="NAME=VALUE", help="Environment variable of the server's process."
)
@option(
    "--env-file", type=click.Path(path_type=Path), metavar="FILE", help="File with environment variables."
)
@option(
    "--cwd",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Working directory of the server's process.",
)
@option(
    "-H", "--header", multiple=True, metavar="NAME:VALUE", help="HTTP header to add to each request to a URL."
)
@option("--uv", "uses_uv", is_flag=True, help="Start the server with uv in the environment of its project.")
@option(
    "--reload",
    "reloads",
    is_flag=True,
    help="Restart the server when its code changes; the host stays connected.",
)
@option(
    "--expand", is_flag=True, help="Allow variables in the values, such as ${NAME}, which the host replaces."
)
@option("--force", is_flag=True, help="Overwrite another server with this name.")
@option("--dry-run", "is_dry_run", is_flag=True, help="Print the change of the host's file; write nothing.")
@option("--print", "is_printed", is_flag=True, help="Print the entry that would be written; write nothing.")
def install(
    host: str,
    target: str,
    name: str | None,
    scope: Scope,
    env: Sequence[str],
    env_file: Path | None,
    cwd: Path | None,
    header: Sequence[str],
    uses_uv: bool,
    reloads: bool,
    expand: bool,
    force: bool,
    is_dry_run: bool,
    is_printed: bool,
) -> None:
    """Add a server to the configuration of a host. The rest of the file stays unchanged.

    HOST is a name that `mcpkit hosts` lists.
    """
    known = host_by_name(host)
    file = file_of(known, scope, Path.cwd())
    if cwd is not None and known.stdio.cwd is None:
        raise click.UsageError(f"{known.title} has no setting for the working directory. Omit --cwd")
    env_options = parse_options(env, "=", "--env NAME=VALUE")
    env_of_file = {} if env_file is None else read_env(env_file, "--env-file")
    server_name, server = resolve_install_target(
        target,
        env={**env_of_file, **env_options},
        headers=parse_options(header, ":", "--header NAME:VALUE"),
        cwd=cwd.absolute() if cwd is not None else None,
        uses_uv=uses_uv,
        reloads=reloads,
        name=name,
    )
    if known.has_plain_names and server_name != plain_name(server_name):
        raise CommandError(
            f"{known.title} accepts only letters, digits, - and _ in names, got {server_name!r}. "
            f"Add --name {plain_name(server_name)}"
        )
    if (
        isinstance(server, StdioServerConfig) and known.stdio.env_file is not None
    ):  # the host reads the file itself
        own = {
            key: value for key, value in server.env.items() if key in env_options or key not in env_of_file
        }
        server = replace(server, env=own)
    entry = entry_of(known, server_name, server, None if env_file is None else env_file.absolute())
    if not expand:
        _check_without_variables(known, entry)
    if is_printed:
        click.echo(read_document(file, b"").with_entry(server_name, entry).decode().rstrip())
        return
    before = read_bytes(file.path)
    document = read_document(file, before or b"")
    existing = document.entries.get(server_name)
    if existing == entry:
        click.echo(f"{server_name} is already in {file.path}; nothing changed", err=True)
        return
    record = InstallRecords().find(file, server_name)
    is_own = record is not None and record.entry == hash_of_entry(existing)
    if server_name in document.entries and not is_own and not force:
        raise CommandError(
            f"{file.path} already has another server {server_name}. Choose another --name, "
            "or overwrite it with --force"
        )
    after = document.with_entry(server_name, entry)
    if is_dry_run:
        old, new = (before or b"").decode().splitlines(), after.decode().splitlines()
        click.echo("\n".join(difflib.unified_diff(old, new, str(file.path), str(file.path), lineterm="")))
        return
    was_installed = is_installed(known, InstallRecords().created_paths())
    _write(file, server_name, entry, before, after, record)
    click.echo(f"added {server_name} to {file.path} for {known.title}", err=True)
    if not was_installed:
        click.echo(f"{known.title} does not seem to be installed on this machine", err=True)
    _print_remarks(file, server.headers if isinstance(server, HttpServerConfig) else server.env)


def _check_without_variables(host: Host, entry: Json) -> None:
    """Reject an entry with variables that the host would replace; the message has no value."""
    for path, spelling in variables_in(host, entry):
        option = " with --env-file FILE" if host.stdio.env_file and path.startswith("env.") else ""
        instead = f"pass the value in a file{option}"
        if path == host.stdio.cwd or path.partition("[")[0] in {host.stdio.command, "args"}:
            instead = "use a path or an argument without $"
        raise CommandError(
            f"{host.title} replaces variables such as {spelling} in {path}, and has no escape for them. "
            f"Add --expand to allow this, or {instead}"
        )


def _print_remarks(file: ConfigFile, secrets: Collection[str]) -> None:
    is_shared = file.scope == "project"
    if secrets:
        shared = ", which may be shared with other people" if is_shared else ""
        click.echo(f"the file contains the values of {', '.join(secrets)} in plain text{shared}", err=True)
    for remark in (file.host.remark, file.host.project_remark if is_shared else ""):
        if remark:
            click.echo(remark, err=True)


def _write(
    file: ConfigFile, name: str, entry: Json, before: bytes | None, after: bytes, record: InstallRecord | None
) -> None:
    """Replace a file, and record the entry and the backup of the file before."""
    folders = tuple(str(folder) for folder in file.path.resolve().parents if not folder.exists())
    if record is not None and before is not None and record.after == hash_of(before):
        backup, folders = record.backup, record.folders  # only mcpkit has written since the first backup
    else:
        backup = None if before is None else str(back_up(file.path, before))
    replace_file(file.path, before, after, is_shared=file.scope == "project")
    InstallRecords().add(file, name, InstallRecord(hash_of_entry(entry), hash_of(after), backup, folders))


@click.command("uninstall", epilog="Example: mcpkit uninstall claude-code weather")
@argument("host", metavar="HOST", shell_complete=complete_hosts)
@argument("name", metavar="NAME", shell_complete=complete_servers)
@option(
    "--scope",
    type=click.Choice(["user", "project", "local"]),
    help="Configuration to change, if several have a server with this name.",
)
@option("--force", is_flag=True, help="Also remove a server that mcpkit did not install.")
def uninstall(host: str, name: str, scope: Scope | None, force: bool) -> None:
    """Remove a server that mcpkit installed from the configuration of a host.

    If the file has not changed since, its previous content is restored byte for byte. Otherwise only the entry is
    removed.
    """
    known = host_by_name(host)
    documents = [
        (file, read_document(file, before), before)
        for file in files_of(known, Path.cwd())
        if scope in (None, file.scope) and (before := read_bytes(file.path)) is not None
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
    record = InstallRecords().find(file, name)
    if record is None and not force:
        raise CommandError(f"mcpkit did not install {name} in {file.path}. Add --force to remove it anyway")
    if record is not None and record.after == hash_of(before) and _restore(file, before, record):
        click.echo(f"removed {name} and restored {file.path} to its previous content", err=True)
    else:
        after = document.without_entry(name)
        if record is None:
            back_up(file.path, before)
        replace_file(file.path, before, after)
        click.echo(f"removed {name} from {file.path}; the rest is unchanged", err=True)
    InstallRecords().remove(file, name)


def _restore(file: ConfigFile, before: bytes, record: InstallRecord) -> bool:
    """Restore a file as it was before an installation; return False if its backup is gone."""
    if record.backup is None:
        file.path.resolve().unlink()
        for folder in map(Path, record.folders):
            if any(folder.iterdir()):
                break
            folder.rmdir()
        return True
    backup = Path(record.backup)
    content = read_bytes(backup)
    if content is None:
        return False
    replace_file(file.path, before, content)
    backup.unlink()
    return True


# The target: a command or URL that works from any folder, and the name of the server


def resolve_install_target(
    word: str,
    *,
    env: Mapping[str, str],
    headers: Mapping[str, str],
    cwd: Path | None,
    uses_uv: bool,
    reloads: bool,
    name: str | None,
) -> tuple[str, StdioServerConfig | HttpServerConfig]:
    """Return the name of a server, and its process or URL.

    Args:
        word: The TARGET on the command line.
        env: Environment variables of its process.
        headers: HTTP headers of each request to it.
        cwd: The working directory of its process; None for the default.
        uses_uv: Whether uv starts it in the environment of its project.
        reloads: Whether it restarts when its code changes.
        name: The name; None for the one that the server reports.

    Raises:
        click.UsageError: An option does not fit the target.
        CommandError: The target cannot be resolved, or the server cannot be asked for its name.
    """
    scheme, separator, _ = word.partition("://")
    if separator and scheme.isalnum():
        options = {"-e and --env-file": env, "--cwd": cwd, "--uv": uses_uv, "--reload": reloads}
        for option, value in options.items():
            if value:
                raise click.UsageError(f"{option} cannot be used with the URL {word}. Omit it")
        is_sse = "sse" in word.partition("?")[0].split("/")
        remote = HttpServerConfig(word, headers, transport="sse" if is_sse else None)
        return name or asyncio.run(_reported_name(remote)), remote
    if headers:
        raise click.UsageError(f"--header needs a URL, got {word}. Omit it")
    is_one_word = Path(word).is_file() or not any(map(str.isspace, word))
    location = parse_server_location(word) if is_one_word else None
    if location is not None:
        command = _python_command(location, uses_uv=uses_uv, reloads=reloads)
        process = StdioServerConfig(command, env, Path.cwd() if cwd is None else cwd)
    elif uses_uv or reloads:
        option = "--uv" if uses_uv else "--reload"
        raise click.UsageError(f"{option} needs a server in a Python file or module, got {word}. Omit it")
    else:
        process = _other_process(word)
        process = StdioServerConfig(process.command, {**process.env, **env}, cwd)
    name = name or asyncio.run(_reported_name(process))
    if reloads:
        process = StdioServerConfig([*process.command, "--reload"], process.env, process.cwd)
    return name, process


def plain_name(name: str) -> str:
    """Return a name with only the characters that every host accepts."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")


def _python_command(location: ServerLocation, *, uses_uv: bool, reloads: bool) -> list[str]:
    """Return the command that runs a server in a Python file or module, by the path of the file.

    uv runs a file with a `# /// script` block with `--uv`, or if dependencies in the block are missing here.
    """
    path = (
        _file_of_module(location.module) if location.path is None else Path(os.path.normpath(location.path))
    )
    run = ("run", f"{path}:{location.name}" if location.name else str(path))
    metadata = read_script_metadata(path)
    if metadata is not None and (uses_uv or metadata.needs_uv()):
        if location.name is None and not reloads and is_script(path):
            return metadata.script_command(())
        return metadata.mcpkit_command(run)
    if not uses_uv:
        return mcpkit_command(*run)
    start = [uv_path(), "run", "--directory"]
    project = next(projects_of(path.parent), None)
    if project is None:
        raise CommandError(
            f"--uv needs a pyproject.toml in {path.parent} or a parent folder, and there is none. "
            "Omit --uv, or run uv init"
        )
    return [*start, str(project), "mcpkit", *run]


def _file_of_module(module: str) -> Path:
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        spec = None
    finally:
        sys.path.remove(str(Path.cwd()))
    if spec is None or spec.origin is None:
        raise CommandError(
            f"no module named {module} in {Path.cwd()} or on sys.path. "
            "Check its name, or run the command in its folder",
            Status.NO_SUCH_THING,
        )
    return Path(spec.origin).absolute()


def _other_process(word: str) -> StdioServerConfig:
    """Return the process of a command, a script for Node.js or a folder."""
    target = resolve_target(word)
    if isinstance(target, Mapping) or str(target).casefold().endswith((".json", ".jsonc")):
        raise CommandError(
            f"{word} is an entry of a host's configuration. Name the server's file, URL or command instead"
        )
    process = infer_target(target)
    assert isinstance(process, StdioServerConfig), "the target is neither a URL nor an object"
    if isinstance(target, list):
        return process
    program, *arguments = process.command  # of a script or a folder
    return StdioServerConfig([shutil.which(program) or program, *arguments], process.env)


async def _reported_name(server: StdioServerConfig | HttpServerConfig) -> str:
    """Connect to a server, and return the name that it reports."""
    if isinstance(server, HttpServerConfig):
        client = Client(server.url, headers=server.headers, timeout=30)
    else:
        client = Client(list(server.command), env=server.env, cwd=server.cwd, timeout=30)
    try:
        async with client:
            name = plain_name(str(client.server_info.get("name") or ""))
    except (OSError, ValueError) as error:
        raise CommandError(
            f"cannot connect to the server to read its name: {error}. Fix this, or add --name",
            Status.NOT_REACHED,
        ) from error
    if not name:
        raise CommandError("the server reports no name. Add --name")
    return name

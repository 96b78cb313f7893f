"""Servers by their name in the configuration of a host, or in a file on the command line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..._utils.option_checks import nearest
from ...client.targets.host_configuration import Configuration, is_disabled, load, workspace
from ...client.targets.infer_target import Target
from ...protocol.jsonrpc import Json, is_object
from ..exit_status import CommandError, Status
from .config_editing import entries_in
from .config_entries import client_entry, escaped
from .config_files import ConfigFile, existing_files, host_of_file
from .host_table import HOSTS

logger = logging.getLogger(__name__)


def is_qualified_name(word: str) -> bool:
    """Return whether a word is `HOST:NAME` or `FILE:NAME`, and neither a module of this folder nor a Python file."""
    qualifier, colon, _ = word.rpartition(":")
    if not colon:
        return False
    path = Path(qualifier).expanduser()
    if path.is_file():
        return path.suffix.casefold() != ".py"
    return qualifier.casefold() in HOSTS and not (path.is_dir() or path.with_suffix(".py").is_file())


def find_server(name: str) -> Target:
    """Return the entry of a server, in the format of the client.

    Args:
        name: Its name in the configuration of a host, for a project in this folder or one above, or for the user;
            `HOST:NAME`; or `FILE:NAME`.

    Raises:
        CommandError: There is no such server, or several hosts have different servers with this name.
        ValueError: The named file is invalid.
    """
    qualifier, colon, key = name.rpartition(":")
    path = Path(qualifier).expanduser()
    if colon and path.is_file():
        return _server_in_file(path, key)
    host = HOSTS.get(qualifier.casefold()) if colon else None
    server_name = name if host is None else key
    servers = [each for each in _configured_servers() if host is None or each.file.host == host]
    found: dict[str, _ConfiguredServer] = {}
    for each in servers:
        if each.name == server_name:
            found.setdefault(each.file.host.name, each)  # that of the project, which comes before the user's
    if not found:
        close = nearest(server_name, [each.name for each in servers])
        hint = f"; did you mean {close}?" if close else ""
        problem = (
            "is not a file, a URL, a command of several words, or a server in the configuration of a host"
        )
        message = f"{name} {problem}" if host is None else f"{host.title} has no server {server_name}"
        raise CommandError(message + hint, Status.NO_SUCH_THING)
    entries = [each.entry for each in found.values()]
    if any(_connection(entry) != _connection(entries[0]) for entry in entries):
        choices = " or ".join(f"{each}:{server_name}" for each in found)
        raise CommandError(
            f"several hosts have a server {server_name}, and their entries differ. Write {choices}",
            Status.NO_SUCH_THING,
        )
    return entries[0]


class _ConfiguredServer(NamedTuple):
    """A server of a host; its entry has the format of the client."""

    file: ConfigFile
    name: str
    entry: Json


def _server_in_file(path: Path, name: str) -> Json:
    host = host_of_file(path)
    if host is None:
        entries = Configuration(load(path), str(path), workspace(path)).entries
    else:
        entries = entries_in(ConfigFile(host, "user", path, host.keys))
    entry: object = entries.get(name)
    if host is not None and is_object(entry):
        entry = client_entry(host, entry)
    if not is_object(entry):
        close = nearest(name, entries)
        hint = f"; did you mean {close}?" if close else f"; it has {', '.join(entries)}" if entries else ""
        raise CommandError(f"{path} has no server {name}{hint}", Status.NO_SUCH_THING)
    return _with_absolute_paths(entry, workspace(path))


def _configured_servers() -> Iterator[_ConfiguredServer]:
    """Yield the enabled servers of all hosts; invalid files are logged and skipped."""
    for file in existing_files(Path.cwd()):
        try:
            entries = entries_in(file)
        except (CommandError, OSError) as error:
            logger.warning("%s", error)
            continue
        for name, host_entry in entries.items():
            entry = client_entry(file.host, host_entry) if is_object(host_entry) else None
            if entry is not None and not is_disabled(entry):
                if file.scope != "user":
                    entry = _with_absolute_paths(entry, workspace(file.path))
                yield _ConfiguredServer(file, name, entry)


def _with_absolute_paths(entry: Json, folder: Path) -> Json:
    """Return an entry of a project with paths that work from any folder."""
    folder = Path(escaped(str(folder)))
    text = json.dumps(entry, default=str).replace("${workspaceFolder}", json.dumps(str(folder))[1:-1])
    absolute: Json = json.loads(text)
    if "command" in absolute:
        absolute["cwd"] = str(folder / Path(str(absolute.get("cwd") or "")).expanduser())
    if isinstance(env_file := absolute.get("envFile"), str) and not env_file.startswith("$"):
        absolute["envFile"] = str(folder / Path(env_file).expanduser())
    return absolute


def _connection(entry: Json) -> tuple[object, ...]:
    """Return the parts of an entry that identify the server; keys of the URL and folders differ between hosts."""
    url = entry.get("url") or entry.get("httpUrl") or entry.get("serverUrl")
    return (url, *(entry.get(key) or None for key in ("command", "args", "env", "headers")))

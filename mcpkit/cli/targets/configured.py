"""Servers by the names that they have in configurations: of hosts, or in a file that is named."""

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
from ..hosts.config_editing import entries_in
from ..hosts.config_entries import client_entry, escaped
from ..hosts.config_files import ConfigFile, existing_files, host_of_file
from ..hosts.host_table import HOSTS

logger = logging.getLogger(__name__)


def configured(name: str) -> Target:
    """Return the entry of a server that is known by name.

    Args:
        name: Its name in the configuration of a host, for a project in this folder or one above, or for its user;
            `HOST:NAME`; or `FILE:NAME`, where the file is of one of the kinds that hosts have.

    Raises:
        CommandError: There is none of that name, or hosts have several that differ; the message names them.
        ValueError: A file that is named is broken.
    """
    place, colon, key = name.rpartition(":")
    path = Path(place).expanduser()
    if colon and path.is_file():
        return _only_in(path, key)
    host = HOSTS.get(place.casefold()) if colon else None
    wanted = name if host is None else key
    known = [each for each in _known() if host is None or each.file.host == host]
    found: dict[str, _Named] = {}
    for each in known:  # the first of a host, as what is of a project goes before what is its user's
        if each.name == wanted:
            found.setdefault(each.file.host.name, each)
    if not found:
        close = nearest(wanted, [each.name for each in known])
        hint = f"; did you mean {close}?" if close else ""
        what = "is not a file, a URL, a command of several words, or a server in the configuration of a host"
        message = f"{name} {what}" if host is None else f"{host.title} has no server {wanted}"
        raise CommandError(message + hint, Status.NO_SUCH_THING)
    entries = [each.entry for each in found.values()]
    if any(_essence(entry) != _essence(entries[0]) for entry in entries):
        named = " or ".join(f"{each}:{wanted}" for each in found)
        raise CommandError(
            f"several hosts have a server {wanted}, and their entries differ. Write {named}",
            Status.NO_SUCH_THING,
        )
    return entries[0]


def is_at_host(word: str) -> bool:
    """Say whether a word is `HOST:NAME` or `FILE:NAME`: neither a module of this folder nor a file of Python."""
    place, colon, _ = word.rpartition(":")
    if not colon:
        return False
    path = Path(place).expanduser()
    if path.is_file():
        return path.suffix.casefold() != ".py"
    return place.casefold() in HOSTS and not (path.is_dir() or path.with_suffix(".py").is_file())


class _Named(NamedTuple):
    """A server of a host, as a client reads it."""

    file: ConfigFile
    name: str
    entry: Json


def _only_in(path: Path, name: str) -> Json:
    """Return a server of a file that is named."""
    host = host_of_file(path)
    if host is None:
        entries = Configuration(load(path), str(path), workspace(path)).entries
    else:
        entries = entries_in(ConfigFile(host, "user", path, host.keys))
    entry = entries.get(name)
    read = (entry if host is None else client_entry(host, entry)) if is_object(entry) else None
    if read is None:
        close = nearest(name, entries)
        hint = f"; did you mean {close}?" if close else f"; it has {', '.join(entries)}" if entries else ""
        raise CommandError(f"{path} has no server {name}{hint}", Status.NO_SUCH_THING)
    return _placed(read, workspace(path))


def _known() -> Iterator[_Named]:
    """Yield the servers that hosts have; a file that is broken is told of, and left out."""
    for file in existing_files(Path.cwd()):
        try:
            entries = entries_in(file)
        except (CommandError, OSError) as error:
            logger.warning("%s", error)
            continue
        for name, entry in entries.items():
            read = client_entry(file.host, entry) if is_object(entry) else None
            if read is not None and not is_disabled(read):
                folder = None if file.scope == "user" else workspace(file.path)
                yield _Named(file, name, read if folder is None else _placed(read, folder))


def _placed(entry: Json, folder: Path) -> Json:
    """Return an entry of a file in a project, as it is meant from anywhere."""
    folder = Path(escaped(str(folder)))
    written = json.dumps(str(folder))[1:-1]
    placed: Json = json.loads(json.dumps(entry, default=str).replace("${workspaceFolder}", written))
    if "command" in placed:
        placed["cwd"] = str(folder / Path(str(placed.get("cwd") or "")).expanduser())
    if isinstance(env_file := placed.get("envFile"), str) and not env_file.startswith("$"):
        placed["envFile"] = str(folder / Path(env_file).expanduser())
    return placed


def _essence(entry: Json) -> tuple[object, ...]:
    """Return what tells one server from another: not how a host names the same, nor where it starts it."""
    url = entry.get("url") or entry.get("httpUrl") or entry.get("serverUrl")
    parts = (entry.get(key) or None for key in ("command", "args", "env", "headers"))
    return (url, *parts)

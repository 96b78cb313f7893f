"""Configuration files of hosts on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..._utils.option_checks import nearest
from ..exit_status import CommandError, Status
from .host_table import HOSTS, FileLocation, Host, Scope

_ROOTS: Final = {
    "$XDG_CONFIG_HOME": ("XDG_CONFIG_HOME", ".config"),
    "%APPDATA%": ("APPDATA", "AppData/Roaming"),
}


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file of a host, which may not exist.

    Attributes:
        host: The host.
        scope: The scope of its servers.
        path: The path.
        keys: Keys of the object with the servers.
    """

    host: Host
    scope: Scope
    path: Path
    keys: tuple[str, ...]


def host_by_name(name: str) -> Host:
    """Return a host.

    Raises:
        CommandError: No host has this name; the message lists the names.
    """
    host = HOSTS.get(name.casefold())
    if host is None:
        close = nearest(name, HOSTS)
        hint = f"did you mean {close}?" if close else f"mcpkit supports {', '.join(HOSTS)}"
        raise CommandError(f"unknown host {name}; {hint}", Status.NO_SUCH_THING)
    return host


def files_of(host: Host, folder: Path) -> Iterator[ConfigFile]:
    """Yield the files of a host for a project in a folder; in the home folder, that is the file of the user."""
    user = user_file(host.user)
    yield ConfigFile(host, "user", user, host.keys)
    if host.project is not None and folder / host.project != user:
        yield ConfigFile(host, "project", folder / host.project, host.keys)
    if host.local is not None:
        yield ConfigFile(host, "local", folder / host.local, host.keys)
    if host.local_keys:
        repository = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)
        keys = tuple(key.replace("{folder}", repository.as_posix()) for key in host.local_keys)
        yield ConfigFile(host, "local", user, keys)


def file_of(host: Host, scope: Scope, folder: Path) -> ConfigFile:
    """Return the file of a host with a scope, for a project in a folder.

    Raises:
        CommandError: The host has no file with this scope.
    """
    files = list(files_of(host, folder))
    for file in files:
        if file.scope == scope:
            return file
    raise CommandError(
        f"{host.title} has no scope {scope}. Use one of {', '.join(file.scope for file in files)}"
    )


def user_file(location: FileLocation, platform: str = sys.platform) -> Path:
    """Return the path of a file of the user.

    Args:
        location: The location in the table of hosts.
        platform: The platform, as in `sys.platform`.
    """
    folder = os.environ.get(location.variable) if location.variable else None
    if folder:
        return Path(folder).expanduser() / location.below
    path = {"darwin": location.macos, "win32": location.windows}.get(platform) or location.linux
    root, _, rest = path.partition("/")
    if root == "~":
        return Path.home() / rest
    variable, default = _ROOTS[root]
    value = os.environ.get(variable, "")
    return (Path(value) if Path(value).is_absolute() else Path.home() / default) / rest


def existing_files(folder: Path) -> Iterator[ConfigFile]:
    """Yield the files that exist: of projects in a folder and the folders above, then of the user."""
    for each in (folder, *folder.parents):
        for host in HOSTS.values():
            for file in files_of(host, each):
                if file.scope != "user" and file.path.is_file():
                    yield file
        if each == Path.home():
            break
    for host in HOSTS.values():
        if (path := user_file(host.user)).is_file():
            yield ConfigFile(host, "user", path, host.keys)


def host_of_file(path: Path) -> Host | None:
    """Return the host of a file by its path or its format; None for JSON at any other path."""
    suffix = path.suffix.casefold()
    if suffix != ".json":
        return {".toml": HOSTS["codex"], ".yaml": HOSTS["goose"], ".yml": HOSTS["goose"]}.get(suffix)
    path = path.absolute()
    for host in HOSTS.values():
        ends = [Path(file).parts for file in (host.project, host.local) if file]
        if path == user_file(host.user) or any(path.parts[-len(end) :] == end for end in ends):
            return host
    return None


def is_installed(host: Host, created: Collection[Path] = ()) -> bool:
    """Return whether a host seems to be installed: its folder, its file or its program exists.

    Args:
        host: The host.
        created: Files and folders that mcpkit has created, which do not count.
    """
    path = user_file(host.user)
    if path.is_file() and path not in created:
        return True
    folder = path.parent
    if folder != Path.home() and folder.is_dir():
        if folder not in created:
            return True
        if any(each not in created and not each.name.startswith(path.name) for each in folder.iterdir()):
            return True
    return bool(host.program and shutil.which(host.program))

"""Where hosts have their files on this machine."""

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
from .table import HOSTS, Host, Place, Scope

_ROOTS: Final = {
    "$XDG_CONFIG_HOME": ("XDG_CONFIG_HOME", ".config"),
    "%APPDATA%": ("APPDATA", "AppData/Roaming"),
}


@dataclass(frozen=True)
class File:
    """A file that a host has servers in, whether it is there or not.

    Attributes:
        host: The host.
        scope: For what it counts.
        path: The file.
        keys: The keys that lead to the servers in it.
    """

    host: Host
    scope: Scope
    path: Path
    keys: tuple[str, ...]


def host_of(name: str) -> Host:
    """Return a host by its name.

    Raises:
        CommandError: There is none of that name; the message names those that there are.
    """
    host = HOSTS.get(name.casefold())
    if host is None:
        close = nearest(name, HOSTS)
        hint = f"did you mean {close}?" if close else f"mcpkit supports {', '.join(HOSTS)}"
        raise CommandError(f"unknown host {name}; {hint}", Status.NO_SUCH_THING)
    return host


def file_of(host: Host, scope: Scope, folder: Path) -> File:
    """Return the file of a scope of a host.

    Args:
        host: The host.
        scope: For what it counts.
        folder: The folder of the project.

    Raises:
        CommandError: The host has no file of that scope.
    """
    for file in files_of(host, folder):
        if file.scope == scope:
            return file
    scopes = ", ".join(file.scope for file in files_of(host, folder))
    raise CommandError(f"{host.title} has no scope {scope}. Use one of {scopes}")


def files_of(host: Host, folder: Path) -> Iterator[File]:
    """Yield the files of a host, for a project in a folder; in the user's home, that is the file of the user."""
    user = user_file(host.user)
    yield File(host, "user", user, host.keys)
    if host.project is not None and folder / host.project != user:
        yield File(host, "project", folder / host.project, host.keys)
    if host.local is not None:
        yield File(host, "local", folder / host.local, host.keys)
    if host.local_keys:
        repository = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)
        keys = tuple(key.replace("{folder}", repository.as_posix()) for key in host.local_keys)
        yield File(host, "local", user, keys)


def user_file(place: Place, platform: str = sys.platform) -> Path:
    """Return where a file of the user's is.

    Args:
        place: What is known of it.
        platform: The system, as `sys.platform` names it.
    """
    folder = os.environ.get(place.variable) if place.variable else None
    if folder:
        return Path(folder).expanduser() / place.below
    own = {"darwin": place.macos, "win32": place.windows}.get(platform)
    path = own or place.linux
    root, _, rest = path.partition("/")
    if root == "~":
        return Path.home() / rest
    variable, default = _ROOTS[root]
    named = os.environ.get(variable, "")
    return (Path(named) if Path(named).is_absolute() else Path.home() / default) / rest


def project_files(folder: Path) -> Iterator[File]:
    """Yield the files of hosts that are there: those of projects in a folder and the ones above, then the user's."""
    home = Path.home()
    for each in (folder, *folder.parents):
        for host in HOSTS.values():
            for file in files_of(host, each):
                if file.scope != "user" and file.path.is_file():
                    yield file
        if each == home:
            break
    for host in HOSTS.values():
        if (path := user_file(host.user)).is_file():
            yield File(host, "user", path, host.keys)


def is_there(host: Host, made: Collection[Path] = ()) -> bool:
    """Say whether a host seems to be installed: its folder, its file or its program is there.

    Args:
        host: The host.
        made: Files and folders that mcpkit has made: they say nothing about the host.
    """
    path = user_file(host.user)
    if path.is_file() and path not in made:
        return True
    folder = path.parent
    if folder != Path.home() and folder.is_dir():
        if folder not in made:
            return True
        if any(each not in made and not each.name.startswith(path.name) for each in folder.iterdir()):
            return True
    return bool(host.program and shutil.which(host.program))

"""The server that is to be installed: what it is called, and how a host that stands anywhere starts or reaches it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from ..._utils.python_safe_path import mcpkit_command
from ...client.client import Client
from ...client.targets.infer_target import HttpServerConfig, StdioServerConfig, infer_target
from ..exit_status import CommandError, Status
from ..serving.script import is_script
from ..targets import inline
from ..targets.folders import projects_of
from ..targets.inline import inline_of, uv
from ..targets.served import Place, place_of
from ..targets.target import target_of

_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_-]+")


def server_at(
    word: str,
    *,
    env: Mapping[str, str],
    headers: Mapping[str, str],
    cwd: Path | None,
    is_run_by_uv: bool,
    is_reloading: bool,
    name: str | None,
) -> tuple[str, StdioServerConfig | HttpServerConfig]:
    """Return what a server is called, and how it is reached from anywhere.

    Args:
        word: What the command line names.
        env: Variables for its process.
        headers: Headers of each request to it.
        cwd: The folder in which its process starts; None where nothing is said.
        is_run_by_uv: Whether uv starts it, in the environment of its project.
        is_reloading: Whether it is started anew when its code is edited, and the host stays.
        name: What it is to be called; None for what it calls itself.

    Raises:
        CommandError: It cannot be told; the message says what to write instead.
    """
    scheme, separator, _ = word.partition("://")
    if separator and scheme.isalnum():
        for option, value in (
            ("-e and --env-file", env),
            ("--cwd", cwd),
            ("--uv", is_run_by_uv),
            ("--reload", is_reloading),
        ):
            if value:
                raise click.UsageError(f"{option} cannot be used with the URL {word}. Omit it")
        names_sse = "sse" in word.partition("?")[0].split("/")
        remote = HttpServerConfig(word, headers, transport="sse" if names_sse else None)
        return name or asyncio.run(_asked(remote)), remote
    if headers:
        raise click.UsageError(f"--header needs a URL, got {word}. Omit it")
    is_one_word = Path(word).is_file() or not any(map(str.isspace, word))
    place = place_of(word) if is_one_word else None
    if place is not None:
        command = _run(place, is_run_by_uv=is_run_by_uv, is_reloading=is_reloading)
        process = StdioServerConfig(command, env, Path.cwd() if cwd is None else cwd)
    elif is_run_by_uv or is_reloading:
        option = "--uv" if is_run_by_uv else "--reload"
        raise click.UsageError(f"{option} needs a server in a Python file or module, got {word}. Omit it")
    else:
        found = _process(word)
        process = StdioServerConfig(found.command, {**found.env, **env}, cwd)
    called = name or asyncio.run(_asked(process))
    if is_reloading:
        process = StdioServerConfig([*process.command, "--reload"], process.env, process.cwd)
    return called, process


def _run(place: Place, *, is_run_by_uv: bool, is_reloading: bool) -> list[str]:
    """Return the command that runs a server in a file or a module of Python, by the path of its file.

    A file that declares its dependencies itself has them from uv, with `--uv` or where they are missing here.
    """
    path = _file_of(place.module) if place.path is None else Path(os.path.normpath(place.path))
    run = ("run", f"{path}:{place.name}" if place.name else str(path))
    declared = inline_of(path)
    if declared is not None and (is_run_by_uv or inline.is_run_by_uv(path, declared)):
        if place.name is None and not is_reloading and is_script(path):
            return declared.script_command(path, ())
        return declared.command(path, run)
    if is_run_by_uv:
        return [uv(), "run", "--directory", str(_project(path)), "mcpkit", *run]
    return mcpkit_command(*run)


def _file_of(module: str) -> Path:
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


def _project(path: Path) -> Path:
    project = next(projects_of(path.parent), None)
    if project is None:
        raise CommandError(
            f"--uv needs a pyproject.toml in {path.parent} or a parent folder, and there is none. "
            "Omit --uv, or run uv init"
        )
    return project


def _process(word: str) -> StdioServerConfig:
    target = target_of(word)
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


async def _asked(server: StdioServerConfig | HttpServerConfig) -> str:
    """Ask a server for its name."""
    if isinstance(server, HttpServerConfig):
        client = Client(server.url, headers=server.headers, timeout=30)
    else:
        client = Client(list(server.command), env=server.env, cwd=server.cwd, timeout=30)
    try:
        async with client:
            name = str(client.server_info.get("name") or "")
    except (OSError, ValueError) as error:
        raise CommandError(
            f"cannot connect to the server to read its name: {error}. Fix this, or add --name",
            Status.NOT_REACHED,
        ) from error
    if not plain(name):
        raise CommandError("the server reports no name. Add --name")
    return plain(name)


def plain(name: str) -> str:
    """Return a name in the letters that all hosts take."""
    return _UNUSUAL.sub("-", name).strip("-")

"""Target of `mcpkit install`: the name of the server, and a command or URL that works from any folder."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import click

from .._utils.python_safe_path import mcpkit_command
from ..client.client import Client
from ..client.targets.infer_target import HttpServerConfig, StdioServerConfig, infer_target
from .exit_status import CommandError, Status
from .run import is_script
from .script_metadata import read_script_metadata, uv_path
from .server_loader import ServerLocation, parse_server_location, projects_of
from .server_target import resolve_target


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

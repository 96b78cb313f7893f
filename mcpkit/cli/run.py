"""`mcpkit run`: runs a server of mcpkit, a server of another SDK, or a script; `mcpkit worker`: runs tasks."""

from __future__ import annotations

import inspect
import logging
import re
import runpy
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal

import click
from click import argument, option

from ..transports.standard_streams import divert_standard_output
from .exit_status import CommandError
from .script_metadata import read_script_metadata, replace_process
from .server_loader import (
    NoServerError,
    errors_of_author,
    load_server,
    parse_server_location,
    program_arguments,
)

if TYPE_CHECKING:
    from ..server import Server

_MAIN_GUARD: Final = re.compile(
    rb"^if\s*\(?\s*(__name__\s*==\s*['\"]__main__|['\"]__main__['\"]\s*==\s*__name__)", re.MULTILINE
)
_IMPORT_OF_MCPKIT: Final = re.compile(rb"^\s*(from|import)\s+mcpkit\b", re.MULTILINE)

_SERVER_NAMES: Final = ("mcp", "server", "app")
"""Names of the server in a file that does not run it, as in the command lines of other SDKs."""


@click.command("run", epilog="Example: mcpkit run server.py --http --port 8080")
@argument("target")
@argument("arguments", nargs=-1, type=click.UNPROCESSED)
@option("--http", "transport", flag_value="http", help="Serve over Streamable HTTP.")
@option("--sse", "transport", flag_value="sse", help="Serve over HTTP+SSE, the transport of 2024-11-05.")
@option("--host", metavar="HOST", help="Address to listen on (default: 127.0.0.1).")
@option("--port", type=click.IntRange(0, 65535), metavar="PORT", help="Port to listen on (default: 8000).")
@option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="Number of worker processes for HTTP (default: WEB_CONCURRENCY, or 1).",
)
@option("--reload", "reloads", is_flag=True, help="Restart when the code changes; clients stay connected.")
@option("--compat", is_flag=True, help="Run a server written for mcp or fastmcp on mcpkit.")
def command(
    target: str,
    arguments: tuple[str, ...],
    transport: Literal["http", "sse"] | None,
    host: str | None,
    port: int | None,
    workers: int | None,
    reloads: bool,
    compat: bool,
) -> int | None:
    """Run a server, over stdio by default.

    TARGET is a file with a server (server.py, or server.py:name), or module:name. A file without an mcpkit server is
    run as a script. ARGUMENTS after -- are passed to the server's code.
    """
    if transport is None and any(each is not None for each in (host, port, workers)):
        raise click.UsageError("--host, --port and --workers need an HTTP server. Add --http")
    if compat and transport is not None:
        raise click.UsageError(
            "--compat cannot be used with --http or --sse: the file chooses its own transport. Omit them"
        )
    if reloads and workers is not None:
        raise click.UsageError("--reload uses one process. Omit --workers")
    location = parse_server_location(target)
    if location is not None and location.path is not None:
        flags = {transport: transport, "reload": reloads, "compat": compat}
        values = {"host": host, "port": port, "workers": workers}
        options = [f"--{name}" for name, is_set in flags.items() if is_set]
        options += [f"--{name}={value}" for name, value in values.items() if value is not None]
        _run_by_uv(target, location.path, arguments, options, is_named=location.name is not None)
    path = None if location is None or location.name is not None else location.path
    if transport is not None:
        from .http_serving import run_reload_over_http, serve_http

        address = host or "127.0.0.1", 8000 if port is None else port
        if reloads:
            return run_reload_over_http(target, arguments, address)
        server = _load_or_run(target, path, arguments, is_http=True)
        if server is not None:
            with errors_of_author():
                serve_http(server, target, transport, address, workers)
    elif reloads:
        from .reload.supervisor import run_reload_over_stdio

        return run_reload_over_stdio(target, arguments, ["--compat"] if compat else [])
    elif compat:
        from ..compat.__main__ import main

        with errors_of_author():
            main([target, *arguments])
    else:
        # Code for another SDK writes messages to standard output by itself, perhaps as soon as it is imported.
        with divert_standard_output() if path is None or _imports_mcpkit(path) else nullcontext():
            server = _load_or_run(target, path, arguments, is_http=False)
            if server is not None:
                with errors_of_author():
                    server.run()
    return None


def _run_by_uv(
    target: str, path: Path, arguments: Sequence[str], options: Sequence[str], *, is_named: bool
) -> None:
    """Replace this process by uv if the file declares dependencies that are not installed here."""
    metadata = read_script_metadata(path)
    if metadata is None or not metadata.needs_uv():
        return
    if not options and not is_named and is_script(path):
        command = metadata.script_command(arguments)
    else:
        command = metadata.mcpkit_command(["run", *options, target, "--", *arguments])
    replace_process(command, path)


def _load_or_run(target: str, path: Path | None, arguments: Sequence[str], *, is_http: bool) -> Server | None:
    """Import the server of a target; a file without one is run until it ends.

    Args:
        target: The server on the command line.
        path: The file; None for an object in a file or module.
        arguments: Arguments of the server's own script.
        is_http: Whether the server is served over HTTP.
    """
    if path is not None and is_script(path) and not _imports_mcpkit(path):  # so it has no server of mcpkit
        _run_script(target, path, arguments, is_http=is_http)
        return None
    program = target if path is None else str(path)
    try:
        with program_arguments(program, arguments):
            calls_unnamed = path is None or is_http or not is_script(path)
            return load_server(target, calls_unnamed=calls_unnamed).server
    except NoServerError as error:
        if path is None:
            raise
        if is_script(path):
            _run_script(target, path, arguments, is_http=is_http)
            return None
        with program_arguments(program, arguments):
            if is_http or not _run_server_of_other_sdk(error.module):
                raise
    return None


def is_script(path: Path) -> bool:
    """Return whether a file has `if __name__ == "__main__"`."""
    return _MAIN_GUARD.search(path.read_bytes()) is not None


def _imports_mcpkit(path: Path) -> bool:
    return _IMPORT_OF_MCPKIT.search(path.read_bytes()) is not None


def _run_script(target: str, path: Path, arguments: Sequence[str], *, is_http: bool) -> None:
    """Run a file as `python FILE ARGUMENTS` does.

    Raises:
        CommandError: The file raises, or HTTP is requested.
        SystemExit: The file exits with a status.
    """
    if is_http:
        raise CommandError(
            f"{target} has no mcpkit Server, so it chooses its own transport. Omit --http and --sse"
        )
    sys.path.insert(0, str(path.parent))
    with program_arguments(str(path), arguments), errors_of_author():
        runpy.run_path(str(path), run_name="__main__")


def _run_server_of_other_sdk(module: ModuleType) -> bool:
    """Run the server in a module with its own `run()`; return False if there is none."""
    for value in map(vars(module).get, _SERVER_NAMES):
        run = getattr(value, "run", None)
        if inspect.ismethod(run) and not inspect.iscoroutinefunction(run):
            with errors_of_author():
                run()
            return True
    return False


@click.command("worker", epilog="Example: mcpkit worker server:server --slots 8")
@argument("server", metavar="SERVER")
@option(
    "--slots", type=int, metavar="N", help="Number of tasks to run at a time (default: the server's setting)."
)
@option(
    "--grace",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time that running tasks get after a signal.",
)
def worker(server: str, slots: int | None, grace: float) -> None:
    """Run the tasks of a server in this process until SIGTERM or SIGINT.

    After the signal, running tasks finish within the grace period or go back to the queue. A second signal stops at
    once.

    SERVER is a file (server.py, or server.py:name) or a module that can be imported from this folder (server:name).
    """
    from ..transports.serving import NoWorkError, check_worker_options, run_worker

    try:
        check_worker_options(slots, grace)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        loaded = load_server(server)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        run_worker(loaded.server, slots=slots, grace=grace)
    except NoWorkError as error:
        raise CommandError(f"{error}") from None

"""`mcpkit run`: serves a server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Literal

import click

from ...transports.standard_streams import divert_standard_output
from ..exit_status import CommandError
from ..serving.script import given, is_foreign, is_script, names_mcpkit, run_object, run_script, told
from ..targets.inline import inline_of, is_run_by_uv, replace_process
from ..targets.served import Found, NoServerInError, found, place_of


@click.command("run", epilog="Example: mcpkit run server.py --http --port 8080")
@click.argument("target")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--http", "transport", flag_value="http", help="Serve over Streamable HTTP.")
@click.option(
    "--sse", "transport", flag_value="sse", help="Serve over HTTP+SSE, the transport of 2024-11-05."
)
@click.option("--host", metavar="HOST", help="Address to listen on (default: 127.0.0.1).")
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="PORT", help="Port to listen on (default: 8000)."
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="Number of worker processes for HTTP (default: WEB_CONCURRENCY, or 1).",
)
@click.option(
    "--reload", "is_reloading", is_flag=True, help="Restart when the code changes; clients stay connected."
)
@click.option("--compat", is_flag=True, help="Run a server written for mcp or fastmcp on mcpkit.")
def command(
    target: str,
    arguments: tuple[str, ...],
    transport: Literal["http", "sse"] | None,
    host: str | None,
    port: int | None,
    workers: int | None,
    is_reloading: bool,
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
    if is_reloading and workers is not None:
        raise click.UsageError("--reload uses one process. Omit --workers")
    _leave_to_uv(target, arguments, transport, host, port, workers, is_reloading=is_reloading, compat=compat)
    if is_reloading and transport is None:
        from ..reload.supervisor import run_reload_over_stdio

        return run_reload_over_stdio(target, arguments, ["--compat"] if compat else [])
    if compat:
        _run_compat(target, arguments)
        return None
    if transport is None:
        _run_stdio(target, arguments)
        return None
    from ..serving.http import Address, serve

    address = Address(host or "127.0.0.1", 8000 if port is None else port)
    if is_reloading:
        from ..reload.http_reload import run_reload_over_http

        return run_reload_over_http(target, arguments, address)
    named = _found(target, arguments, is_at_port=True)
    if named is not None:
        with told():
            serve(named.server, target, transport, address, workers)
    return None


def _run_stdio(target: str, arguments: Sequence[str]) -> None:
    place = place_of(target)
    # Code for another SDK writes messages to standard output by itself, perhaps as soon as it is imported.
    is_ours = place is None or place.path is None or place.name is not None or names_mcpkit(place.path)
    with divert_standard_output() if is_ours else nullcontext():
        named = _found(target, arguments, is_at_port=False)
        if named is not None:
            with told():
                named.server.run()


def _leave_to_uv(
    target: str,
    arguments: Sequence[str],
    transport: str | None,
    host: str | None,
    port: int | None,
    workers: int | None,
    *,
    is_reloading: bool,
    compat: bool,
) -> None:
    """Replace this process by uv where the file declares dependencies itself that are not installed here."""
    place = place_of(target)
    path = None if place is None or place.path is None else place.path
    declared = None if path is None else inline_of(path)
    if path is None or declared is None or not is_run_by_uv(path, declared):
        return
    flags = {transport: transport, "reload": is_reloading, "compat": compat}
    values = {"host": host, "port": port, "workers": workers}
    options = [f"--{name}" for name, is_given in flags.items() if is_given]
    options += [f"--{name}={value}" for name, value in values.items() if value is not None]
    if not options and place is not None and place.name is None and is_script(path):
        command = declared.script_command(path, arguments)
    else:
        command = declared.command(path, ["run", *options, target, "--", *arguments])
    replace_process(command, path)


def _found(target: str, arguments: Sequence[str], *, is_at_port: bool) -> Found | None:
    """Import the server that a target names; a file without one is run instead, until that ends."""
    place = place_of(target)
    path = None if place is None or place.name is not None else place.path
    own = target if path is None else str(path)
    if path is not None and is_foreign(path):
        _check_port(target, is_at_port=is_at_port)
        run_script(path, arguments)
        return None
    try:
        with given(own, arguments):
            runs_itself = path is not None and not is_at_port and is_script(path)
            return found(target, calls_unnamed=not runs_itself)
    except NoServerInError as error:
        if path is None:
            raise
        if is_script(path):
            _check_port(target, is_at_port=is_at_port)
            run_script(path, arguments)
            return None
        with given(own, arguments):
            if is_at_port or not run_object(error.module):
                raise
    return None


def _check_port(target: str, *, is_at_port: bool) -> None:
    if is_at_port:
        raise CommandError(
            f"{target} has no mcpkit Server, so it chooses its own transport. Omit --http and --sse"
        )


def _run_compat(target: str, arguments: Sequence[str]) -> None:
    from ...compat.__main__ import main

    with told():
        main([target, *arguments])

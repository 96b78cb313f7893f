"""`mcpkit doctor`: the command, and the checks in their order."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from textwrap import indent
from typing import Final, TypeVar

import click

from ...client.targets.host_configuration import Configuration, load, workspace
from ...client.targets.infer_target import HttpServerConfig, StdioServerConfig, infer_target
from ...client.targets.target_transports import is_mapping, is_path_of_configuration
from ...protocol.jsonrpc import Json
from ..console import write_json
from ..exit_status import CommandError, Status
from ..findings import exit_status_of, finding_text
from ..saved_logins import bearer_token
from ..server_target import ServerTarget, client_command, resolve_target
from .http_checks import (
    check_affinity,
    check_clock_and_certificate,
    check_cors,
    check_first_response,
    check_login,
    check_origins,
    check_revisions,
    check_session_end,
    check_sse_endpoint,
    check_statuses,
    check_streams,
)
from .http_probe import HttpProbe
from .probe import CheckResult, Probe
from .process_probe import Command, ProcessProbe
from .protocol_checks import (
    check_capabilities,
    check_client,
    check_lists,
    check_process_revisions,
    check_standard_responses,
    check_tool_calls,
)
from .stdio_checks import (
    check_encoding,
    check_input_end,
    check_malformed,
    check_sigterm,
    check_start,
    check_stdout,
)

P = TypeVar("P", bound=Probe)

Check = Callable[[P], Awaitable[CheckResult]]

_PROTOCOL_CHECKS: Final[tuple[Check[Probe], ...]] = (
    check_lists,
    check_capabilities,
    check_standard_responses,
    check_tool_calls,
    check_client,
)

_STDIO_CHECKS: Final[tuple[Check[ProcessProbe], ...]] = (
    check_start,
    check_stdout,
    check_process_revisions,
    *_PROTOCOL_CHECKS,
    check_malformed,
    check_encoding,
    check_stdout,
    check_input_end,
    check_sigterm,
)

_FIRST_CHECKS: Final[tuple[Check[HttpProbe], ...]] = (check_first_response, check_clock_and_certificate)

_HTTP_CHECKS: Final[tuple[Check[HttpProbe], ...]] = (
    check_revisions,
    check_affinity,
    check_statuses,
    check_origins,
    check_cors,
    check_streams,
    *_PROTOCOL_CHECKS,
    check_login,
    check_session_end,
)

_SSE_CHECKS: Final[tuple[Check[HttpProbe], ...]] = (
    check_sse_endpoint,
    check_origins,
    *_PROTOCOL_CHECKS,
    check_login,
)


async def _run_checks(probe: P, checks: tuple[Check[P], ...]) -> AsyncGenerator[CheckResult]:
    """Yield the result of each check; a check that makes the next ones pointless is the last."""
    for check in checks:
        result = await check(probe)
        yield result
        if result.stops or probe.status is not None:
            return


_TIMEOUT = 10.0
_FIRST_TIMEOUT = 30.0


@click.command("doctor", epilog="Example: mcpkit doctor server.py")
@client_command
@click.option(
    "--call", is_flag=True, help="Also call tools that are read-only or idempotent and need no arguments."
)
async def command(server: ServerTarget, call: bool) -> Status:
    """Diagnose a server: connection, protocol revisions, lists, errors and shutdown, and how to fix what is wrong.

    The server is started or called several times. The exit status is 6 if there are findings, and 4 if the server
    cannot be reached.
    """
    if server.memory_transport is not None:
        raise click.UsageError(
            "--as cannot be used with doctor, which runs the server in another process. Use --token"
        )
    probe = await _create_probe(server, calls_tools=call)
    probe.client = server.client
    steps: list[CheckResult] = []
    try:
        async with aclosing(_run_all_checks(probe)) as results:
            async for check in results:
                steps.append(check)
                if not server.is_json:
                    _print_check(check)
    finally:
        await probe.close()
    count = sum(len(check.findings) for check in steps)
    if server.is_json:
        write_json(_as_json(server.target, steps))
    else:
        click.echo(f"{count or 'no'} finding{'' if count == 1 else 's'}")
    if probe.status is not None:
        return probe.status
    return exit_status_of(each.severity for check in steps for each in check.findings)


def _run_all_checks(probe: ProcessProbe | HttpProbe) -> AsyncGenerator[CheckResult]:
    return _run_checks(probe, _STDIO_CHECKS) if isinstance(probe, ProcessProbe) else _run_http_checks(probe)


async def _run_http_checks(probe: HttpProbe) -> AsyncGenerator[CheckResult]:
    async for check in _run_checks(probe, _FIRST_CHECKS):
        yield check
        if check.stops:
            return
    if probe.status is None:
        async for check in _run_checks(probe, _HTTP_CHECKS if probe.sse is None else _SSE_CHECKS):
            yield check


async def _create_probe(server: ServerTarget, *, calls_tools: bool) -> ProcessProbe | HttpProbe:
    options = server.options
    transport = _transport_of(server.target)
    timeout = options.get("timeout")
    response_timeout, first_timeout = (
        (timeout, timeout) if timeout is not None else (_TIMEOUT, _FIRST_TIMEOUT)
    )
    if isinstance(transport, StdioServerConfig):
        cwd = options.get("cwd") or transport.cwd
        command = Command(
            transport.command,
            {**transport.env, **options.get("env", {})},
            None if cwd is None else os.fspath(cwd),
        )
        return ProcessProbe(response_timeout, first_timeout, calls_tools, command=command)
    headers = {**transport.headers, **options.get("headers", {})}
    token = options.get("token", transport.token)
    if token is None and not any(name.lower() == "authorization" for name in headers):
        if "auth" in options:
            async with server.client():  # starts the login in the browser
                pass
        token = await bearer_token(transport.url)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    is_sse = "sse" in {server.transport, transport.transport}
    return HttpProbe(
        response_timeout, first_timeout, calls_tools, url=transport.url, headers=headers, is_sse=is_sse
    )


def _transport_of(word: str) -> StdioServerConfig | HttpServerConfig:
    """Return the command or URL of a target.

    Raises:
        CommandError: It has several servers, or is neither a command nor a URL.
    """
    target = resolve_target(word)
    configuration = None
    if is_mapping(target):
        configuration = Configuration(dict(target), word, Path.cwd())
    elif is_path_of_configuration(target):
        path = Path(target).expanduser()
        configuration = Configuration(load(path), word, workspace(path))
    if configuration is not None:
        if len(configuration.entries) > 1:
            named = " or ".join(f"{word}:{name}" for name in configuration.entries)
            raise CommandError(f"{word} has several servers, and doctor checks one. Write {named}")
        return configuration.read(next(iter(configuration.entries))).connection
    transport = infer_target(target)
    if isinstance(transport, StdioServerConfig | HttpServerConfig):
        return transport
    raise CommandError(
        f"{word} is neither a command nor a URL. Name the server's file, its URL, or the command that starts it"
    )


def _print_check(check: CheckResult) -> None:
    if not check.findings:
        if check.summary:
            click.echo(f"{check.step}: {check.summary}")
        return
    click.echo(check.step)
    for each in check.findings:
        click.echo(indent(finding_text(each.severity, each.code, each.message, each.cure), "  "))
    if check.stops and check.summary:
        click.echo(f"  {check.summary}")


def _as_json(target: str, steps: list[CheckResult]) -> Json:
    return {
        "target": target,
        "steps": [{"step": check.step, "seen": check.summary} for check in steps],
        "findings": [
            # The step comes first, as in the documentation.
            {"step": each.place, **each.as_json("step", "seen")}
            for check in steps
            for each in check.findings
        ],
    }

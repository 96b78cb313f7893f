"""`mcpkit doctor`: the command, and the checks in their order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Final, TypeVar

import click

from ...client.targets.host_configuration import Configuration, load, workspace
from ...client.targets.infer_target import HttpServerConfig, StdioServerConfig, infer_target
from ...client.targets.target_transports import is_mapping, is_path_of_configuration
from ..console import write_json
from ..exit_status import CommandError, Status
from ..findings import exit_status_of, finding_text
from ..saved_logins import bearer_token
from ..server_target import ServerTarget, client_command, resolve_target
from . import http_checks, protocol_checks, stdio_checks
from .http_probe import HttpProbe
from .protocol_checks import CheckResult, Probe
from .stdio_checks import ProcessProbe

P = TypeVar("P", bound=Probe)

Check = tuple[str, Callable[[P, CheckResult], Awaitable[None]]]
"""Name and function of a check."""

_PROTOCOL_CHECKS: Final[tuple[Check[Probe], ...]] = (
    ("lists", protocol_checks.check_lists),
    ("capabilities", protocol_checks.check_capabilities),
    ("answers", protocol_checks.check_standard_responses),
    ("calls", protocol_checks.check_tool_calls),
    ("client", protocol_checks.check_client),
)
_STDIO_CHECKS: Final[tuple[Check[ProcessProbe], ...]] = (
    ("start", stdio_checks.check_start),
    ("standard output", stdio_checks.check_stdout),
    ("revisions", stdio_checks.check_process_revisions),
    *_PROTOCOL_CHECKS,
    ("malformed messages", stdio_checks.check_malformed),
    ("encoding", stdio_checks.check_encoding),
    ("standard output", stdio_checks.check_stdout),
    ("end of standard input", stdio_checks.check_input_end),
    ("SIGTERM", stdio_checks.check_sigterm),
)
_FIRST_CHECKS: Final[tuple[Check[HttpProbe], ...]] = (
    ("first response", http_checks.check_first_response),
    ("clock and certificate", http_checks.check_clock_and_certificate),
)
_HTTP_CHECKS: Final[tuple[Check[HttpProbe], ...]] = (
    ("revisions", http_checks.check_revisions),
    ("several connections", http_checks.check_affinity),
    ("statuses", http_checks.check_statuses),
    ("Origin and Host", http_checks.check_origins),
    ("CORS", http_checks.check_cors),
    ("streams", http_checks.check_streams),
    *_PROTOCOL_CHECKS,
    ("authorization", http_checks.check_login),
    ("end of the session", http_checks.check_session_end),
)
_SSE_CHECKS: Final[tuple[Check[HttpProbe], ...]] = (
    ("endpoint", http_checks.check_sse_endpoint),
    ("Origin and Host", http_checks.check_origins),
    *_PROTOCOL_CHECKS,
    ("authorization", http_checks.check_login),
)

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
    steps: list[CheckResult] = []

    async def run(probe: P, checks: tuple[Check[P], ...]) -> bool:
        """Run checks up to one that makes the next ones pointless, and return whether there was none."""
        for name, check in checks:
            steps.append(result := CheckResult(name))
            await check(probe, result)
            if not server.is_json:
                _print_check(result)
            if result.stops or probe.status is not None:
                return False
        return True

    try:
        if isinstance(probe, ProcessProbe):
            await run(probe, _STDIO_CHECKS)
        elif await run(probe, _FIRST_CHECKS):
            await run(probe, _HTTP_CHECKS if probe.sse is None else _SSE_CHECKS)
    finally:
        await probe.close()
    findings = [each for check in steps for each in check.findings]
    if server.is_json:
        write_json(
            {
                "target": server.target,
                "steps": [{"step": check.step, "seen": check.summary} for check in steps],
                # The step comes first, as in the documentation.
                "findings": [{"step": each.place, **each.as_json("step", "seen")} for each in findings],
            }
        )
    else:
        click.echo(f"{len(findings) or 'no'} finding{'' if len(findings) == 1 else 's'}")
    return exit_status_of(each.severity for each in findings) if probe.status is None else probe.status


async def _create_probe(server: ServerTarget, *, calls_tools: bool) -> ProcessProbe | HttpProbe:
    options = server.options
    transport = _transport_of(server.target)
    timeouts = options.get("timeout", _TIMEOUT), options.get("timeout", _FIRST_TIMEOUT)
    if isinstance(transport, StdioServerConfig):
        env, cwd = {**transport.env, **options.get("env", {})}, options.get("cwd") or transport.cwd
        config = replace(transport, env=env, cwd=cwd)
        return ProcessProbe(*timeouts, calls_tools, server.client, config=config)
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
    return HttpProbe(*timeouts, calls_tools, server.client, url=transport.url, headers=headers, is_sse=is_sse)


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

"""`mcpkit doctor`: what a client meets at a server, in order, and what cures it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path

import click

from ...client.targets.configuration import Configuration, load, workspace
from ...client.targets.meant import meant
from ...client.targets.reached import Process, Remote
from ...client.targets.targets import is_mapping, is_path_of_configuration
from ...protocol.jsonrpc import Json
from ..console import write_json
from ..exit_status import CommandError, Status
from ..logins.authorization import token_at
from ..server_target import ServerTarget, client_command
from ..targets.target import target_of
from .examination import AT_FIRST, OF_HTTP, OF_PROCESSES, OF_SSE, examined
from .findings.finding import Seen
from .patients.process import Command
from .patients.process_patient import ProcessPatient
from .patients.web_patient import WebPatient

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
    patient = await _patient(server, wants_calls=call)
    patient.client = server.client
    steps: list[Seen] = []
    try:
        async with aclosing(_examined(patient)) as looking:
            async for seen in looking:
                steps.append(seen)
                if not server.is_json:
                    _show(seen)
    finally:
        await patient.close()
    count = sum(len(seen.findings) for seen in steps)
    if server.is_json:
        write_json(_as_json(server.target, steps))
    else:
        click.echo(f"{count or 'no'} finding{'' if count == 1 else 's'}")
    if patient.status is not None:
        return patient.status
    return Status.FINDINGS if count else Status.DONE


def _examined(patient: ProcessPatient | WebPatient) -> AsyncGenerator[Seen]:
    return examined(patient, OF_PROCESSES) if isinstance(patient, ProcessPatient) else _examined_web(patient)


async def _examined_web(patient: WebPatient) -> AsyncGenerator[Seen]:
    async for seen in examined(patient, AT_FIRST):
        yield seen
        if seen.is_end:
            return
    if patient.status is None:
        async for seen in examined(patient, OF_HTTP if patient.sse is None else OF_SSE):
            yield seen


async def _patient(server: ServerTarget, *, wants_calls: bool) -> ProcessPatient | WebPatient:
    options = server.options
    reached = _reached(server.target)
    timeout = options.get("timeout")
    patience, first = (timeout, timeout) if timeout is not None else (_TIMEOUT, _FIRST_TIMEOUT)
    if isinstance(reached, Process):
        cwd = options.get("cwd") or reached.cwd
        command = Command(
            reached.command,
            {**reached.env, **options.get("env", {})},
            None if cwd is None else os.fspath(cwd),
        )
        return ProcessPatient(patience, first, wants_calls, command=command)
    headers = {**reached.headers, **options.get("headers", {})}
    token = options.get("token", reached.token)
    if token is None and not any(name.lower() == "authorization" for name in headers):
        if "auth" in options:
            async with server.client():  # which has the user log in
                pass
        token = await token_at(reached.url)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    is_sse = "sse" in {server.transport, reached.way}
    return WebPatient(patience, first, wants_calls, url=reached.url, headers=headers, is_sse=is_sse)


def _reached(word: str) -> Process | Remote:
    """Return how a target is reached.

    Raises:
        CommandError: It is several servers.
    """
    target = target_of(word)
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
        return configuration.read(next(iter(configuration.entries))).reached
    reached = meant(target)
    if isinstance(reached, Process | Remote):
        return reached
    raise CommandError(
        f"{word} is neither a command nor a URL. Name the server's file, its URL, or the command that starts it"
    )


def _show(seen: Seen) -> None:
    if not seen.findings:
        if seen.summary:
            click.echo(f"{seen.step}: {seen.summary}")
        return
    click.echo(seen.step)
    for each in seen.findings:
        click.echo(f"  {each.severity} {each.code}: {each.seen}")
        click.echo(f"    Fix: {each.cure}.")
    if seen.is_end and seen.summary:
        click.echo(f"  {seen.summary}")


def _as_json(target: str, steps: list[Seen]) -> Json:
    return {
        "target": target,
        "steps": [{"step": seen.step, "seen": seen.summary} for seen in steps],
        "findings": [{"step": seen.step, **asdict(each)} for seen in steps for each in seen.findings],
    }

"""`mcpkit ping`: asks a server for a sign of life."""

from __future__ import annotations

import time

import click

from ...client.client import Client
from ...client.group import failures_of, servers_of
from ...protocol.revisions import METHODS
from ..console import write, write_json, write_stderr
from ..exit_status import CommandError, Status
from .server import Asked, asks_server


@click.command("ping", epilog="Example: mcpkit ping https://example.com/mcp")
@asks_server
async def command(asked: Asked) -> None:
    """Send a ping to a server, and show how long it took to connect and to respond."""
    begin = time.perf_counter()
    async with asked.client() as client:
        connected = time.perf_counter() - begin
        for name, error in failures_of(client).items():
            write_stderr(f"{name}: {error}")
        there = {name: each for name, each in servers_of(client).items() if name not in failures_of(client)}
        seconds = {name: await _answered(each) for name, each in there.items()}
        told = {
            name: {
                "name": each.server_info.get("name"),
                "version": each.server_info.get("version"),
                "revision": each.protocol_version,
                "connected": round(connected, 6),
                "answered": round(seconds[name], 6),
            }
            for name, each in there.items()
        }
    if asked.is_json:
        write_json(next(iter(told.values())) if len(told) == 1 else told)
    else:
        for name, each in told.items():
            who = " ".join(str(each[key]) for key in ("name", "version") if each[key]) or name
            times = f"connected in {connected * 1000:.1f} ms, responded in {seconds[name] * 1000:.1f} ms"
            write(f"{who} ({each['revision']}): {times}")
    if failures_of(client):
        raise CommandError(
            "some servers of the configuration cannot be reached. Their errors are above", Status.NOT_REACHED
        )


async def _answered(client: Client) -> float:
    """Return the seconds that a server takes to answer; since 2026-07-28 there is no `ping`."""
    revisions, _ = METHODS["ping"]
    begin = time.perf_counter()
    if client.protocol_version in revisions:
        await client.request("ping")
    else:
        await client.request("server/discover", use_cache=False)
    return time.perf_counter() - begin

"""`mcpkit listen`: shows what changes at a server."""

from __future__ import annotations

import json

import click

from ...client.changes.changes import Change
from ..console import write, write_stderr
from .server import Asked, converses


@click.command("listen", epilog="Example: mcpkit listen server.py config://settings")
@converses
@click.argument("uris", nargs=-1, metavar="[URI]...")
async def command(asked: Asked, uris: tuple[str, ...]) -> None:
    """Show changes of a server's lists, or of the resources with these URIs, until Ctrl+C."""
    async with asked.client() as client, client.listen(resource_subscriptions=uris) as changes:
        write_stderr(f"listening (revision {client.protocol_version}). Press Ctrl+C to stop")
        async for change in changes:
            write(json.dumps(_told(change)) if asked.is_json else _said(change))


def _told(change: Change) -> dict[str, object]:
    told: dict[str, object] = {"kind": change.kind}
    if change.uri is not None:
        told["uri"] = change.uri
    if change.may_have_missed:
        told["mayHaveMissed"] = True
    return told


def _said(change: Change) -> str:
    what = f"the list of {change.kind}" if change.uri is None else change.uri
    return (
        f"{what} may have changed: the connection was interrupted"
        if change.may_have_missed
        else f"{what} has changed"
    )

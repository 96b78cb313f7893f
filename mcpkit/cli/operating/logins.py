"""`mcpkit auth list`: where somebody has logged in. No token is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import datetime, timezone

import click

from ...protocol.types import Json
from ..logins.authorization import authorized
from ..logins.known import Login, known
from ..output.written import write_json


@click.command("list", epilog="Example: mcpkit auth list --json")
@click.option("--json", "is_json", is_flag=True, help="Write JSON, for scripts.")
def list_logins(is_json: bool) -> None:
    """List the servers at which somebody has logged in, and for how long."""
    found = asyncio.run(_found(list(known().values())))
    if is_json:
        write_json(found)
        return
    if not found:
        click.echo("nobody has logged in anywhere", err=True)
        return
    for each in found:
        click.echo("\n  ".join(_lines(each)))


def _lines(login: Json) -> Iterator[str]:
    yield login["url"]
    if login["issuer"] is None:
        yield "there are no tokens any more"
        return
    yield f"tokens of {login['issuer']} for the client {login['client_id']}"
    yield f"scopes: {', '.join(login['scopes']) or 'none by name'}"
    if login["is_renewed"]:
        yield "renewed as long as that is allowed"
    else:
        yield f"good until {login['expires'] or 'nobody knows when'}" + (
            ", which has passed" if login["has_ended"] else ""
        )


async def _found(logins: list[Login]) -> list[Json]:
    found: list[Json] = []
    for login in logins:
        auth = authorized(login)
        tokens = await auth.storage.tokens(login.url, auth.client)
        expires = None if tokens is None else tokens.expires
        found.append(
            {
                "url": login.url,
                "issuer": None if tokens is None else tokens.issuer,
                "client_id": None if tokens is None else tokens.client_id,
                "scopes": [] if tokens is None else sorted(tokens.scopes),
                "expires": None
                if expires is None
                else datetime.fromtimestamp(expires, timezone.utc).isoformat(timespec="seconds"),
                "has_ended": expires is not None and expires <= time.time(),
                "is_renewed": tokens is not None and tokens.refresh_token is not None,
            }
        )
    return found

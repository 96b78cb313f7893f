"""`mcpkit auth list`: where somebody has logged in. No token is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import datetime, timezone

import click

from ...protocol.jsonrpc import Json
from ..console import write_json
from ..logins.authorization import authorized
from ..logins.known import Login, known


@click.command("list", epilog="Example: mcpkit auth list --json")
@click.option("--json", "is_json", is_flag=True, help="Write JSON.")
def list_logins(is_json: bool) -> None:
    """List the servers with a login, and when it expires."""
    found = asyncio.run(_found(list(known().values())))
    if is_json:
        write_json(found)
        return
    if not found:
        click.echo("no logins", err=True)
        return
    for each in found:
        click.echo("\n  ".join(_lines(each)))


def _lines(login: Json) -> Iterator[str]:
    yield login["url"]
    if login["issuer"] is None:
        yield "no tokens. Run mcpkit auth login to log in again"
        return
    yield f"issuer: {login['issuer']}, client_id: {login['client_id']}"
    yield f"scopes: {', '.join(login['scopes']) or 'none'}"
    if login["is_renewed"]:
        yield "renewed with a refresh token"
    else:
        yield f"expires: {login['expires'] or 'unknown'}" + (" (expired)" if login["has_ended"] else "")


async def _found(logins: list[Login]) -> list[Json]:
    found: list[Json] = []
    for login in logins:
        auth = authorized(login)
        tokens = await auth.storage.get_tokens(login.url, auth.client)
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

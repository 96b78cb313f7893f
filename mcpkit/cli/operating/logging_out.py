"""`mcpkit auth logout`: ends a login."""

from __future__ import annotations

import asyncio

import click

from ...auth.fetching import own_client
from ...auth.urls import MetadataError, canonical
from ...client.authorization.errors import AuthorizationFailedError
from ...client.authorization.revoking import revoke
from ...client.authorization.web import Web
from ..logins.authorization import authorized, forget_secret
from ..logins.known import Login, forget, known
from ..statuses import CommandError, Status


@click.command("logout", epilog="Example: mcpkit auth logout https://mcp.example.com/mcp")
@click.argument("url")
def logout(url: str) -> None:
    """Log out at a server.

    Its authorization server is told that the tokens are to end, where it can be told, and they are deleted here.
    """
    try:
        login = known().get(canonical(url))
    except MetadataError as error:
        raise click.UsageError(f"{url} is no URL of a server: {error}") from None
    if login is None:
        raise CommandError(f"nobody has logged in at {url}: see mcpkit auth list", Status.NO_SUCH_THING)
    asyncio.run(_logged_out(login))


async def _logged_out(login: Login) -> None:
    auth = authorized(login)
    tokens = await auth.storage.tokens(login.url, auth.client)
    told = "there were no tokens any more"
    if tokens is not None:
        http = own_client(login.url)
        async with http:
            try:
                has_ended = await revoke(auth, Web(http, login.url, {}), tokens)
                told = (
                    f"{tokens.issuer} has ended the tokens"
                    if has_ended
                    else f"{tokens.issuer} knows no way to end tokens: they are deleted here, and end by themselves"
                )
            except (AuthorizationFailedError, MetadataError) as error:
                told = f"the tokens are deleted here, and may be good until they end by themselves: {error}"
    await auth.storage.forget_tokens(login.url, auth.client)
    if login.has_secret:
        await forget_secret(login)
    forget(login.url)
    click.echo(f"logged out at {login.url}: {told}")

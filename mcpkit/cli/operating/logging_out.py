"""`mcpkit auth logout`: ends a login."""

from __future__ import annotations

import asyncio

import click

from ...auth.http_client import create_client
from ...auth.urls import MetadataError, canonical
from ...client.auth.authorization_server_client import AuthorizationFailedError, AuthorizationServerClient
from ...client.auth.authorizer import revoke
from ..exit_status import CommandError, Status
from ..logins.authorization import authorized, forget_secret
from ..logins.known import Login, forget, known


@click.command("logout", epilog="Example: mcpkit auth logout https://mcp.example.com/mcp")
@click.argument("url")
def logout(url: str) -> None:
    """Log out of a server.

    The tokens are revoked at the authorization server if it has a revocation endpoint, and deleted on this machine.
    """
    try:
        login = known().get(canonical(url))
    except MetadataError as error:
        raise click.UsageError(f"{url} is not a valid server URL: {error}") from None
    if login is None:
        raise CommandError(
            f"no login for {url}. Run mcpkit auth list to see all logins", Status.NO_SUCH_THING
        )
    asyncio.run(_logged_out(login))


async def _logged_out(login: Login) -> None:
    auth = authorized(login)
    tokens = await auth.storage.get_tokens(login.url, auth.client)
    told = "there were no tokens"
    if tokens is not None:
        http = create_client(login.url)
        async with http:
            try:
                server_client = AuthorizationServerClient(http, login.url, {})
                has_ended = await revoke(auth, server_client, tokens)
                told = (
                    f"{tokens.issuer} revoked the tokens"
                    if has_ended
                    else f"the tokens are deleted here; {tokens.issuer} has no revocation endpoint, "
                    "so they stay valid until they expire"
                )
            except (AuthorizationFailedError, MetadataError) as error:
                told = (
                    "the tokens are deleted here, but revocation failed and they may stay valid until they expire: "
                    f"{error}"
                )
    await auth.storage.delete_tokens(login.url, auth.client)
    if login.has_secret:
        await forget_secret(login)
    forget(login.url)
    click.echo(f"logged out of {login.url}: {told}")

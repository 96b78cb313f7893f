"""`mcpkit auth login`: logs in at a server, for all commands."""

from __future__ import annotations

import asyncio
import sys

import click

from ...auth.discovery import protected_resource_urls
from ...auth.http_client import create_client
from ...auth.urls import MetadataError, canonical
from ...client.auth.authorization_server_client import (
    AuthorizationFailedError,
    AuthorizationServerClient,
    DocumentMissingError,
)
from ...client.auth.login_callback import LocalCallbackServer, login_instructions, open_browser
from ...client.auth.oauth import OAuth
from ...client.client import Client
from ...client.http.request_authorization import Challenge
from ..exit_status import CommandError, Status
from ..logins.authorization import Sender, authorized, keep_secret
from ..logins.known import Login


@click.command("login", epilog="Example: mcpkit auth login https://mcp.example.com/mcp")
@click.argument("url")
@click.option("--no-browser", is_flag=True, help="Print the login URL instead of opening a browser.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Scope to request.")
@click.option("--client-id", metavar="ID", help="client_id of a client that was registered by hand.")
@click.option(
    "--client-secret",
    metavar="SECRET",
    envvar="MCPKIT_CLIENT_SECRET",
    help="client_secret of that client; MCPKIT_CLIENT_SECRET is safer.",
)
@click.option(
    "--issuer", metavar="URL", help="Issuer of the authorization server; required with --client-id."
)
@click.option("--client-metadata", metavar="URL", help="URL of the client ID metadata document.")
@click.option(
    "--port",
    type=int,
    default=0,
    metavar="PORT",
    help="Port of the redirect URI, if it was registered with one.",
)
@click.option("--dpop", is_flag=True, help="Bind the tokens to a key of this machine (DPoP).")
def login(
    url: str,
    no_browser: bool,
    scopes: tuple[str, ...],
    client_id: str | None,
    client_secret: str | None,
    issuer: str | None,
    client_metadata: str | None,
    port: int,
    dpop: bool,
) -> None:
    """Log in to a server with a browser.

    Later commands that connect to the server use this login. Tokens are stored in the system's keyring, or in a file
    that only you can read if there is no keyring.
    """
    if client_id is not None and issuer is None:
        raise click.UsageError("--client-id needs the authorization server that issued it. Add --issuer")
    if client_secret is not None and client_id is None:
        raise click.UsageError("--client-secret needs a client. Add --client-id")
    try:
        known_as = canonical(url)
    except MetadataError as error:
        raise click.UsageError(f"{url} is not a valid server URL: {error}") from None
    wanted = Login(
        known_as,
        client_id,
        issuer,
        client_metadata,
        tuple(name for each in scopes for name in each.split()) or None,
        has_secret=client_secret is not None,
        has_key=dpop,
    )
    browser = LocalCallbackServer(port=port, open_browser=_say if no_browser else open_browser)
    asyncio.run(_logged_in(wanted, browser, client_secret))


def _say(url: str) -> None:
    sys.stderr.write(f"{login_instructions(url)}\n")
    sys.stderr.flush()


async def _logged_in(wanted: Login, browser: LocalCallbackServer, secret: str | None) -> None:
    if secret is not None:
        await keep_secret(wanted, secret)
    auth = authorized(wanted, browser=browser, is_anew=True)
    async with Client(wanted.url, auth=auth):
        pass
    authorizer = auth.authorizer(wanted.url)
    if authorizer.tokens is None:
        await _asked_for(auth, wanted.url)
    tokens = authorizer.tokens
    if tokens is None:
        click.echo(f"{wanted.url} does not require a login")
        return
    scopes = ", ".join(sorted(tokens.scopes)) or "no scopes"
    click.echo(f"logged in to {wanted.url} with {tokens.issuer}; scopes: {scopes}")


async def _asked_for(auth: OAuth, url: str) -> None:
    """Log in at a server that has asked for nothing yet, as it does for some tools alone; else do nothing."""
    http = create_client(url)
    async with http:
        server_client = AuthorizationServerClient(http, url, {})
        if not [place for place in protected_resource_urls(url) if await _is_there(server_client, place)]:
            return
        try:
            await auth.authorizer(url).renew(Sender(http), None, Challenge("Bearer", {}))
        except AuthorizationFailedError as error:
            raise CommandError(str(error), Status.NOT_AUTHORIZED) from None


async def _is_there(server_client: AuthorizationServerClient, place: str) -> bool:
    try:
        await server_client.document(place, "the metadata of the server")
    except (DocumentMissingError, AuthorizationFailedError):
        return False
    return True

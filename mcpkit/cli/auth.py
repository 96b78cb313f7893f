"""`mcpkit auth`: log in to protected servers, log out, list logins, and check whether clients can log in."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from datetime import datetime, timezone

import click
from click import argument, option

from ..auth.oauth_http_client import create_client
from ..auth.urls_and_discovery import MetadataError, canonical, protected_resource_urls
from ..client.auth.authorization_server_client import (
    AuthorizationFailedError,
    AuthorizationServerClient,
    DocumentMissingError,
)
from ..client.auth.authorizer import revoke
from ..client.auth.login_callback import LocalCallbackServer, login_instructions, open_browser
from ..client.auth.oauth_grants import OAuth
from ..client.client import Client
from ..client.http.headers_and_errors import Challenge
from ..protocol.jsonrpc import Json
from .console import write_json, write_stderr
from .exit_status import CommandError, Status
from .findings import exit_status_of
from .saved_logins import (
    Login,
    Sender,
    delete_client_secret,
    delete_login,
    load_logins,
    oauth_for,
    save_client_secret,
)


@click.group(
    "auth",
    epilog="Example: mcpkit auth login https://mcp.example.com/mcp",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def command() -> None:
    """Log in to protected servers, log out, and check whether clients can log in."""


def _server_url(url: str) -> str:
    try:
        return canonical(url)
    except MetadataError as error:
        raise click.UsageError(f"{url} is not a valid server URL: {error}") from None


# mcpkit auth login


@command.command("login", epilog="Example: mcpkit auth login https://mcp.example.com/mcp")
@argument("url")
@option("--no-browser", is_flag=True, help="Print the login URL instead of opening a browser.")
@option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Scope to request.")
@option("--client-id", metavar="ID", help="client_id of a client that was registered by hand.")
@option(
    "--client-secret",
    metavar="SECRET",
    envvar="MCPKIT_CLIENT_SECRET",
    help="client_secret of that client; MCPKIT_CLIENT_SECRET is safer.",
)
@option("--issuer", metavar="URL", help="Issuer of the authorization server; required with --client-id.")
@option("--client-metadata", metavar="URL", help="URL of the client ID metadata document.")
@option(
    "--port",
    type=int,
    default=0,
    metavar="PORT",
    help="Port of the redirect URI, if it was registered with one.",
)
@option("--dpop", is_flag=True, help="Bind the tokens to a key of this machine (DPoP).")
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
    new_login = Login(
        _server_url(url),
        client_id,
        issuer,
        client_metadata,
        tuple(name for each in scopes for name in each.split()) or None,
        has_secret=client_secret is not None,
        has_key=dpop,
    )

    def print_url(url: str) -> None:
        write_stderr(login_instructions(url))

    browser = LocalCallbackServer(port=port, open_browser=print_url if no_browser else open_browser)
    asyncio.run(_log_in(new_login, browser, client_secret))


async def _log_in(new_login: Login, browser: LocalCallbackServer, secret: str | None) -> None:
    if secret is not None:
        await save_client_secret(new_login, secret)
    url = new_login.url
    auth = oauth_for(new_login, browser=browser, is_new=True)
    async with Client(url, auth=auth):
        pass
    authorizer = auth.authorizer(url)
    if authorizer.tokens is None:
        await _log_in_without_challenge(auth, url)
    tokens = authorizer.tokens
    if tokens is None:
        click.echo(f"{url} does not require a login")
        return
    scopes = ", ".join(sorted(tokens.scopes)) or "no scopes"
    click.echo(f"logged in to {url} with {tokens.issuer}; scopes: {scopes}")


async def _log_in_without_challenge(auth: OAuth, url: str) -> None:
    """Log in to a server that has metadata but accepts `initialize` without a token, since only some tools need one."""
    http = create_client(url)
    async with http:
        server_client = AuthorizationServerClient(http, url, {})
        for metadata_url in protected_resource_urls(url):
            try:
                await server_client.document(metadata_url, "the metadata of the server")
                break
            except (DocumentMissingError, AuthorizationFailedError):
                continue
        else:
            return
        try:
            await auth.authorizer(url).renew(Sender(http), None, Challenge("Bearer", {}))
        except AuthorizationFailedError as error:
            raise CommandError(str(error), Status.NOT_AUTHORIZED) from None


# mcpkit auth logout


@command.command("logout", epilog="Example: mcpkit auth logout https://mcp.example.com/mcp")
@argument("url")
def logout(url: str) -> None:
    """Log out of a server.

    The tokens are revoked at the authorization server if it has a revocation endpoint, and deleted on this machine.
    """
    saved = load_logins().get(_server_url(url))
    if saved is None:
        raise CommandError(
            f"no login for {url}. Run mcpkit auth list to see all logins", Status.NO_SUCH_THING
        )
    asyncio.run(_log_out(saved))


async def _log_out(saved: Login) -> None:
    auth = oauth_for(saved)
    tokens = await auth.storage.get_tokens(saved.url, auth.client)
    outcome = "there were no tokens"
    if tokens is not None:
        http = create_client(saved.url)
        async with http:
            try:
                if await revoke(auth, AuthorizationServerClient(http, saved.url, {}), tokens):
                    outcome = f"{tokens.issuer} revoked the tokens"
                else:
                    outcome = (
                        f"the tokens are deleted here; {tokens.issuer} has no revocation endpoint, "
                        "so they stay valid until they expire"
                    )
            except (AuthorizationFailedError, MetadataError) as error:
                outcome = (
                    "the tokens are deleted here, but revocation failed and they may stay valid until they expire: "
                    f"{error}"
                )
    await auth.storage.delete_tokens(saved.url, auth.client)
    if saved.has_secret:
        await delete_client_secret(saved)
    delete_login(saved.url)
    click.echo(f"logged out of {saved.url}: {outcome}")


# mcpkit auth list


@command.command("list", epilog="Example: mcpkit auth list --json")
@option("--json", "is_json", is_flag=True, help="Write JSON.")
def list_logins(is_json: bool) -> None:
    """List the servers with a login, and when it expires."""
    rows = asyncio.run(_login_rows(list(load_logins().values())))
    if is_json:
        write_json(rows)
        return
    if not rows:
        click.echo("no logins", err=True)
    for row in rows:
        click.echo(row["url"])
        if row["issuer"] is None:
            click.echo("  no tokens. Run mcpkit auth login to log in again")
            continue
        click.echo(f"  issuer: {row['issuer']}, client_id: {row['client_id']}")
        click.echo(f"  scopes: {', '.join(row['scopes']) or 'none'}")
        if row["is_renewed"]:
            click.echo("  renewed with a refresh token")
        else:
            click.echo(
                f"  expires: {row['expires'] or 'unknown'}" + (" (expired)" if row["has_ended"] else "")
            )


async def _login_rows(logins: list[Login]) -> list[Json]:
    rows: list[Json] = []
    for each in logins:
        auth = oauth_for(each)
        tokens = await auth.storage.get_tokens(each.url, auth.client)
        expires = None if tokens is None else tokens.expires
        expiry = None if expires is None else datetime.fromtimestamp(expires, timezone.utc)
        rows.append(
            {
                "url": each.url,
                "issuer": tokens and tokens.issuer,
                "client_id": tokens and tokens.client_id,
                "scopes": sorted(tokens.scopes) if tokens else [],
                "expires": expiry and expiry.isoformat(timespec="seconds"),
                "has_ended": expires is not None and expires <= time.time(),
                "is_renewed": tokens is not None and tokens.refresh_token is not None,
            }
        )
    return rows


# mcpkit auth check


@command.command("check", epilog="Example: mcpkit auth check https://mcp.example.com/mcp")
@argument("url")
@option("--page", metavar="ORIGIN", default="http://localhost:6274", show_default=True,
              help="Origin of a web page that logs in (checks CORS).")  # fmt: skip
@option(
    "--timeout",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Timeout of each request.",
)
@option("--hosts", "shows_hosts", is_flag=True, help="Show whether each known host can log in.")
@option("--json", "is_json", is_flag=True, help="Write JSON.")
def check(url: str, page: str, timeout: float, shows_hosts: bool, is_json: bool) -> Status:
    """Check whether clients can log in to a server: challenge, metadata, registration and CORS.

    The check does not log in. The exit status is 6 if there is an error or a warning; notes do not count.
    """
    from .doctor.check_authorization import check_authorization, hosts_at

    findings = asyncio.run(check_authorization(url, page=page, timeout=timeout))
    hosts = hosts_at(findings) if shows_hosts else {}
    if is_json:
        rows = [asdict(finding) for finding in findings]
        write_json({"findings": rows, "hosts": hosts} if shows_hosts else rows)
    else:
        for finding in findings:
            click.echo(str(finding))
        if not findings:
            click.echo("no findings: every client can log in", err=True)
        for name, outcome in hosts.items():
            click.echo(f"{name}: {outcome}")
    if any(finding.code == "unreachable" for finding in findings):
        return Status.NOT_REACHED
    return exit_status_of((finding.severity for finding in findings), "note")

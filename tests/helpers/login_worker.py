"""A server whose users log in at a provider, one of several processes of it.

PROVIDER       the issuer of the provider
CLIENT_SECRET  what this server shows it
SHARED         the URL of a Redis, or a file of SQLite
SECRETS        the server's secrets, as JSON, the newest first
LEASE          seconds after which a refresh at the provider is taken for lost
"""

from __future__ import annotations

import json
import logging
import os
from typing import Literal

import httpx2

from mcpkit import Context, Redis, Server, Sqlite
from mcpkit.auth import OAuthProxy, Upstream
from mcpkit.auth.proxy import logins
from tests.helpers.held_provider import CLIENT_ID

logging.basicConfig(level=logging.DEBUG)

PROVIDER, SHARED = os.environ["PROVIDER"], os.environ["SHARED"]
logins.LEASE = float(os.environ.get("LEASE", logins.LEASE))

server = Server(
    "notes",
    auth=OAuthProxy(
        Upstream.openid(PROVIDER, CLIENT_ID, os.environ["CLIENT_SECRET"], scopes=["openid", "email"])
    ),
    shared=Redis(SHARED) if SHARED.startswith("redis:") else Sqlite(SHARED),
    secret=json.loads(os.environ["SECRETS"]),
)


@server.tool
def whoami(ctx: Context) -> str:
    """Say who asks."""
    return str(ctx.principal.subject)


@server.tool
async def at_provider(ctx: Context) -> str:
    """Ask the provider who that is, with the user's own token."""
    token = await ctx.token_for("openid")
    async with httpx2.AsyncClient() as client:
        answer = await client.get(f"{PROVIDER}/userinfo", headers={"Authorization": f"Bearer {token}"})
    return str(answer.raise_for_status().json()["sub"])


@server.tool
async def leave(ctx: Context) -> str:
    """Send whoever asks away."""
    await server.revoke(ctx.principal)
    return "gone"


@server.tool
async def plant(where: Literal["store", "log", "answer"], text: str, ctx: Context) -> str:
    """Write something where it may be found."""
    if where == "store":
        await ctx.store.put("planted", text.encode(), version=None, ttl=60)
    elif where == "log":
        logging.getLogger("planted").debug("%s", text)
    return text if where == "answer" else "planted"


app = server.asgi(public_url="https://mcp.example.com/mcp")

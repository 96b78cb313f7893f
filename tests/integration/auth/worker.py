"""One worker of the site in workers.py; the environment names the provider, the store and the secrets."""

from __future__ import annotations

import json
import logging
import os
from typing import Literal

import httpx2

from mcpkit import Context, Server
from mcpkit.auth import OAuthProxy, UpstreamProvider
from mcpkit.storage import Redis, Sqlite
from tests.integration.auth.workers import CLIENT_ID

logging.basicConfig(level=logging.DEBUG)

PROVIDER, SHARED = os.environ["PROVIDER"], os.environ["SHARED"]


server = Server(
    "notes",
    auth=OAuthProxy(
        UpstreamProvider.openid(PROVIDER, CLIENT_ID, os.environ["CLIENT_SECRET"], scopes=["openid", "email"])
    ),
    storage=Redis(SHARED) if SHARED.startswith("redis:") else Sqlite(SHARED),
    secret_key=json.loads(os.environ["SECRETS"]),
)


@server.tool
def whoami(ctx: Context) -> str:
    return str(ctx.principal.subject)


@server.tool
async def at_provider(ctx: Context) -> str:
    token = await ctx.upstream_token("openid")
    async with httpx2.AsyncClient() as client:
        answer = await client.get(f"{PROVIDER}/userinfo", headers={"Authorization": f"Bearer {token}"})
    return str(answer.raise_for_status().json()["sub"])


@server.tool
async def leave(ctx: Context) -> str:
    await server.revoke(ctx.principal)
    return "gone"


@server.tool
async def plant(where: Literal["store", "log", "answer"], text: str, ctx: Context) -> str:
    if where == "store":
        await ctx.storage.put("planted", text.encode(), version=None, ttl=60)
    elif where == "log":
        logging.getLogger("planted").debug("%s", text)
    return text if where == "answer" else "planted"


app = server.asgi(public_url="https://mcp.example.com/mcp")

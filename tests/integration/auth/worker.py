"""The app of a worker process in test_workers.py. It imports little, so that a worker starts quickly."""

from __future__ import annotations

import logging
import os
import time

import httpx2

from mcpkit import Context, Server
from mcpkit.auth import OAuthProxy, UpstreamProvider
from mcpkit.auth.proxy import logins
from mcpkit.storage import Sqlite

logging.basicConfig(level=logging.DEBUG)
logins.LEASE = 3.0  # how long other workers wait for a refresh of a killed worker

PROVIDER, AHEAD = os.environ["PROVIDER"], float(os.environ["AHEAD"])
client = (os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"])
upstream = UpstreamProvider.openid(PROVIDER, *client, scopes=["openid", "email"])
server = Server(
    "notes",
    auth=OAuthProxy(upstream, clock=lambda: time.time() + AHEAD),
    storage=Sqlite(os.environ["SHARED"]),
    secret_key=os.environ["SECRET"],
)


@server.tool
def whoami(ctx: Context) -> str:
    return str(ctx.principal.subject)


@server.tool
async def whoami_at_provider(ctx: Context) -> str:
    token = await ctx.upstream_token("openid")
    async with httpx2.AsyncClient() as web:
        response = await web.get(f"{PROVIDER}/userinfo", headers={"Authorization": f"Bearer {token}"})
    return str(response.raise_for_status().json()["sub"])


app = server.asgi(public_url="https://mcp.example.com/mcp")

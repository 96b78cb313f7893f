"""A server with `DevAuth` whose processes share a file; `ORIGIN` and `FILE` are in the environment."""

from __future__ import annotations

import os

from mcpkit import Context, Server, Sqlite
from mcpkit.auth import DevAuth

server = Server(
    "notes",
    secret="a secret of the tests, long enough",
    shared=Sqlite(os.environ["FILE"]),
    auth=DevAuth(users=["ada"]),
)


@server.tool
def whoami(ctx: Context) -> str:
    """Say who asks, and in which process."""
    return f"{ctx.principal.subject} {os.getpid()}"


app = server.asgi(public_url=f"{os.environ['ORIGIN']}/mcp")

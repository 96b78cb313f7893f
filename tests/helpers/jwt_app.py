"""A server that takes the tokens of the issuer in `ISSUER`, for several processes of uvicorn."""

import os

from mcpkit import Context, Server
from mcpkit.auth import Jwt

server = Server("notes", secret_key="a secret of some length", auth=Jwt(os.environ["ISSUER"]))


@server.tool
def whoami(ctx: Context) -> str:
    """Return the caller and the process."""
    return f"{ctx.principal.subject} {os.getpid()}"


app = server.asgi(public_url="https://mcp.example.com/mcp", allowed_hosts=["127.0.0.1"])

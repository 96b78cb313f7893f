"""The server that the tests of sessions over HTTP ask, and what they send to it."""

from __future__ import annotations

from mcpkit import Context, Memory, Server
from tests.helpers.asgi_client import Session
from tests.helpers.pipe import HANDSHAKE
from tests.helpers.work import Work

SESSIONS = [revision for revision in HANDSHAKE if revision != "2024-11-05"]
"""Revisions whose sessions have an id."""
SECRET = "a secret of sixteen bytes and more"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def make_server(
    work: Work, name: str = "weather", *, secret: str = SECRET, shared: Memory | None = None
) -> Server:
    """Return a server; those with the same name and secret know each other's sessions."""
    server = Server(name, version="1", secret=secret, shared=shared)

    @server.tool
    async def envelope(ctx: Context) -> str:
        return f"{ctx.era} {ctx.revision} {ctx.client.name}"

    @server.tool
    async def wait() -> str:
        await work.wait()
        return "waited"

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("info", "quietly")
        await ctx.log("error", "loudly")
        return "spoken"

    @server.resource("weather://fixed")
    async def fixed() -> str:
        return "fixed"

    return server


async def said(session: Session) -> list[str]:
    """Call `speak`, and return what it has logged."""
    *messages, response = await session.call("speak").messages()
    assert "result" in response
    return [message["params"]["data"] for message in messages]

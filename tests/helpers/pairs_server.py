"""The server at which pairs of principals see nothing of each other: in all that it says it says who asks."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from mcpkit import Cache, Context, Principal, Scope, Server, Sqlite
from mcpkit.auth import Grant, TokenVerifier
from mcpkit.state.principal import client as client_by_itself
from mcpkit.state.principal import user

SECRET = "a secret of some length"
SCOPES = {
    "notes:read": Scope("Read"),
    "notes:write": Scope("Write", implies=["notes:read"]),
    "odd": Scope("Odd"),
}
ISSUERS = ("https://one.example", "https://two.example")
NOBODY = "nobody"


def mark_of(who: Principal) -> str:
    """Return what the server says of who asks: it differs for all of them."""
    return NOBODY if who.id is None else f"{who.id} by {who.client_id}"


def box_of(id_: str | None) -> str:
    """Return whose updates go by this name: those of a principal, by whichever client."""
    return hashlib.sha256(str(id_).encode()).hexdigest()[:16]


class Readable(TokenVerifier):
    """Takes tokens that say in JSON whose they are."""

    issuers = ISSUERS

    async def verify(self, token: str, audience: str) -> Grant:
        issuer, subject, client_id, scopes, _ = json.loads(base64.urlsafe_b64decode(token))
        if subject is None:
            return Grant(client_by_itself(issuer, client_id, scopes))
        return Grant(user(issuer, subject, scopes, client_id=client_id))


def make_server(shared: Sqlite) -> Server:
    """Return a server that says in all that it says who asks."""
    server = Server("pairs", secret=SECRET, shared=shared, auth=Readable(), scopes=SCOPES)

    @server.tool(anonymous=True)
    async def say(ctx: Context) -> str:
        return f"who=<{mark_of(ctx.principal)}>"

    @server.tool
    async def ask(ctx: Context) -> str:
        question = f"Who is who=<{mark_of(ctx.principal)}>?"
        return f"{(await ctx.elicit(question, str)).value} who=<{mark_of(ctx.principal)}>"

    @server.tool(scopes="notes:write")
    async def write(ctx: Context) -> str:
        return f"who=<{mark_of(ctx.principal)}>"

    @server.tool(visible=lambda who: "odd" in who.scopes)
    async def odd() -> None: ...

    for issuer in ISSUERS:
        server.tool(
            lambda: None, name=f"of_{issuer[8:11]}", visible=lambda who, issuer=issuer: who.issuer == issuer
        )

    @server.resource("inbox://mine", anonymous=True, cache=Cache(60))
    def mine(ctx: Context) -> str:
        return f"who=<{mark_of(ctx.principal)}>"

    def entries(who: Principal) -> Iterable[dict[str, Any]]:
        return [{"uri": f"inbox://{box_of(who.id)}", "name": f"who=<{mark_of(who)}>"}]

    @server.resource("inbox://{box}", entries=entries)
    def inbox(box: str, ctx: Context) -> str:
        return f"who=<{mark_of(ctx.principal)}>"

    return server

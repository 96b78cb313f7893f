"""Notes of whoever has logged in: a protected server.

python server.py     for development: it logs in its own users, ada and grace, at http://127.0.0.1:8000/mcp
uvicorn --factory server:app     in production, with as many --workers as you like

ISSUER       the authorization server where users log in instead; it must issue tokens for PUBLIC_URL
PUBLIC_URL   where clients reach the server, such as https://notes.example.com/mcp
PORT         the port to listen on, by python; 8000
DATABASE     the file that keeps the notes, and that workers share; it takes MCPKIT_SECRET
"""

from __future__ import annotations

import os
from datetime import timedelta

from pydantic import BaseModel, TypeAdapter
from starlette.types import ASGIApp

from mcpkit import Context, HttpOptions, Scope, Server, ToolError
from mcpkit.auth import DevAuth, Jwt
from mcpkit.storage import Sqlite

ISSUER = os.environ.get("ISSUER")
PUBLIC_URL = os.environ.get("PUBLIC_URL")
PORT = int(os.environ.get("PORT", "8000"))
DATABASE = os.environ.get("DATABASE")

KEPT = timedelta(days=365).total_seconds()
MOST = 1_000
NOTES = TypeAdapter(list[str])


class Identity(BaseModel):
    """Who asks, and what they may do here."""

    subject: str | None
    scopes: list[str]


server = Server(
    "notes",
    version="1.0.0",
    title="Notes",
    instructions="Keeps short notes of the user who has logged in. Nobody else sees them.",
    storage=Sqlite(DATABASE) if DATABASE else None,
    auth=Jwt(ISSUER) if ISSUER else DevAuth(users=["ada", "grace"]),
    scopes={
        "notes:read": Scope("Read your notes", default=True),
        "notes:write": Scope("Add notes", implies=["notes:read"]),
    },
)


@server.tool
async def whoami(ctx: Context) -> Identity:
    """Say who has logged in, and what they have been granted."""
    return Identity(subject=ctx.principal.subject, scopes=sorted(ctx.principal.scopes))


@server.tool(scopes="notes:write")
async def add_note(text: str, ctx: Context) -> str:
    """Add a note.

    Args:
        text: What is to be remembered.
    """
    key = f"notes/{ctx.principal.id}"
    while True:  # somebody else may write at the same time
        kept = await ctx.storage.get(key)
        notes = [] if kept is None else NOTES.validate_json(kept.value)
        if len(notes) >= MOST:
            raise ToolError(f"There are {MOST:,} notes already, and no more are kept.")
        version = None if kept is None else kept.version
        if await ctx.storage.put(key, NOTES.dump_json([*notes, text]), version=version, ttl=KEPT):
            return f"Noted, as number {len(notes) + 1}."


@server.tool(scopes="notes:read")
async def list_notes(ctx: Context) -> list[str]:
    """List the notes of the user."""
    kept = await ctx.storage.get(f"notes/{ctx.principal.id}")
    return [] if kept is None else NOTES.validate_json(kept.value)


def app() -> ASGIApp:
    """Make what uvicorn serves."""
    return server.asgi(public_url=PUBLIC_URL, http=HttpOptions(readiness_path="/health"))


if __name__ == "__main__":
    server.run("http", port=PORT, public_url=PUBLIC_URL)

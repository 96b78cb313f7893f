"""A protected server that stores notes for each user.

For development, with the users ada and grace, at http://127.0.0.1:8000/mcp:

    python server.py

In production, with any number of --workers:

    uvicorn --factory server:app

Environment variables:

ISSUER       the authorization server, which issues tokens for PUBLIC_URL;
             without it, DevAuth for development
PUBLIC_URL   the URL for clients, such as https://notes.example.com/mcp
PORT         the port of `python server.py`; 8000
DATABASE     an SQLite file for the notes, shared by all workers;
             needs MCPKIT_SECRET
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
    """The user and the granted scopes."""

    subject: str | None
    scopes: list[str]


server = Server(
    "notes",
    version="1.0.0",
    title="Notes",
    instructions="Stores notes of the user. Other users cannot see them.",
    storage=Sqlite(DATABASE) if DATABASE else None,
    auth=Jwt(ISSUER) if ISSUER else DevAuth(users=["ada", "grace"]),
    scopes={
        "notes:read": Scope("Read your notes", default=True),
        "notes:write": Scope("Add notes", implies=["notes:read"]),
    },
)


@server.tool
async def whoami(ctx: Context) -> Identity:
    """Return the user who has logged in, and the scopes that were granted."""
    user = ctx.principal
    return Identity(subject=user.subject, scopes=sorted(user.scopes))


@server.tool(scopes="notes:write")
async def add_note(text: str, ctx: Context) -> str:
    """Add a note.

    Args:
        text: The text of the note.
    """
    key = f"notes/{ctx.principal.id}"
    while True:  # another call may write at the same time
        kept = await ctx.storage.get(key)
        notes = [] if kept is None else NOTES.validate_json(kept.value)
        if len(notes) >= MOST:
            raise ToolError(f"There are {MOST:,} notes, which is the limit.")
        version = None if kept is None else kept.version
        data = NOTES.dump_json([*notes, text])
        if await ctx.storage.put(key, data, version=version, ttl=KEPT):
            return f"Noted, as number {len(notes) + 1}."


@server.tool(scopes="notes:read")
async def list_notes(ctx: Context) -> list[str]:
    """List the notes of the user."""
    kept = await ctx.storage.get(f"notes/{ctx.principal.id}")
    return [] if kept is None else NOTES.validate_json(kept.value)


def app() -> ASGIApp:
    """Return the ASGI app for uvicorn."""
    options = HttpOptions(readiness_path="/health")
    return server.asgi(public_url=PUBLIC_URL, http=options)


if __name__ == "__main__":
    server.run("http", port=PORT, public_url=PUBLIC_URL)

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from mcpkit import Complete, Context, Depends, Scope, Server, ToolError
from mcpkit.auth import DevAuth, Jwt
from mcpkit.exceptions import ResourceNotFoundError

ISSUER = os.environ.get(
    "ISSUER"
)  # the authorization server; without it: DevAuth
PUBLIC_URL = os.environ.get(
    "PUBLIC_URL"
)  # such as https://notes.example.com/mcp

server = Server(
    "notes",
    version="1.0.0",
    auth=Jwt(ISSUER) if ISSUER else DevAuth(users=["ada", "grace"]),
    scopes={
        "notes:read": Scope("Read your notes", default=True),
        "notes:write": Scope("Add and delete notes", implies=["notes:read"]),
    },
)

Title = Annotated[str, Field(min_length=1, max_length=40)]
Folder = Literal["home", "work"]


@dataclass
class Note:
    title: str
    body: str
    folder: Folder = "home"


def open_database() -> Iterator[sqlite3.Connection]:
    """Open the database for one request, and commit if it succeeds."""
    path = os.environ.get("NOTES_DB", "notes.db")
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        with connection:
            connection.execute(
                "create table if not exists notes"
                " (owner, title, body, folder, primary key (owner, title))"
            )
            yield connection
    finally:
        connection.close()


def current_user(ctx: Context) -> str:
    return str(ctx.principal.id)


Database = Annotated[sqlite3.Connection, Depends(open_database)]
Owner = Annotated[str, Depends(current_user)]


@server.tool(scopes="notes:read")
def search_notes(
    text: str, db: Database, owner: Owner, folder: Folder | None = None
) -> list[Note]:
    """Find notes that contain a text.

    Args:
        text: The text to search for, in upper or lower case.
        folder: Search in this folder only.
    """
    rows = db.execute(
        "select title, body, folder from notes"
        " where owner = ? and instr(lower(body), lower(?))",
        [owner, text],
    )
    notes = [Note(*row) for row in rows]
    return [note for note in notes if folder in (None, note.folder)]


@server.tool(scopes="notes:write")
def add_note(
    title: Title, body: str, db: Database, owner: Owner, folder: Folder = "home"
) -> Note:
    """Add a note.

    Args:
        title: A short title that no other note has.
        body: The text of the note.
        folder: The folder of the note.
    """
    try:
        db.execute(
            "insert into notes values (?, ?, ?, ?)",
            [owner, title, body, folder],
        )
    except sqlite3.IntegrityError:
        raise ToolError(
            f"There is a note {title!r} already. Choose another title."
        ) from None
    return Note(title, body, folder)


@server.tool(scopes="notes:write", annotations={"destructiveHint": True})
async def delete_note(
    title: str, db: Database, owner: Owner, ctx: Context
) -> str:
    """Delete a note, after the user has agreed.

    Args:
        title: The title of the note.
    """
    answer = await ctx.elicit(f"Delete the note {title!r}?", bool)
    if not answer or not answer.value:
        return "The note was not deleted."
    sql = "delete from notes where owner = ? and title = ?"
    if not db.execute(sql, [owner, title]).rowcount:
        raise ToolError(
            f"There is no note {title!r}. notes://titles lists all notes."
        )
    return f"Deleted the note {title!r}."


@server.resource("notes://titles", scopes="notes:read")
def titles(db: Database, owner: Owner) -> list[str]:
    """The titles of all notes."""
    sql = "select title from notes where owner = ? order by title"
    return [title for (title,) in db.execute(sql, [owner])]


@server.resource(
    "notes://notes/{title}", mime_type="text/markdown", scopes="notes:read"
)
def read_note(title: str, db: Database, owner: Owner) -> str:
    """One note as Markdown."""
    sql = "select body from notes where owner = ? and title = ?"
    row = db.execute(sql, [owner, title]).fetchone()
    if row is None:
        raise ResourceNotFoundError(f"notes://notes/{title}")
    return f"# {title}\n\n{row[0]}\n"


def complete_title(typed: str, db: Database, owner: Owner) -> list[str]:
    return [title for title in titles(db, owner) if title.startswith(typed)]


@server.prompt(scopes="notes:read")
def plan(title: Annotated[str, Complete(complete_title)], days: int = 1) -> str:
    """Plan the work in a note.

    Args:
        title: The title of the note.
        days: The number of days to plan for.
    """
    return (
        f"Read notes://notes/{title} and plan the work in it for {days} days."
    )


def app() -> object:
    """Return the ASGI app: uvicorn --factory server:app."""
    return server.asgi(public_url=PUBLIC_URL)


if __name__ == "__main__":
    server.run("http", port=8000, public_url=PUBLIC_URL)

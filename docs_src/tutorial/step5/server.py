import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from mcpkit import Complete, Depends, Server, ToolError
from mcpkit.exceptions import ResourceNotFoundError

server = Server("notes", version="1.0.0")

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
                " (title primary key, body, folder)"
            )
            yield connection
    finally:
        connection.close()


Database = Annotated[sqlite3.Connection, Depends(open_database)]


@server.tool
def search_notes(
    text: str, db: Database, folder: Folder | None = None
) -> list[Note]:
    """Find notes that contain a text.

    Args:
        text: The text to search for, in upper or lower case.
        folder: Search in this folder only.
    """
    rows = db.execute(
        "select * from notes where instr(lower(body), lower(?))", [text]
    )
    notes = [Note(*row) for row in rows]
    return [note for note in notes if folder in (None, note.folder)]


@server.tool
def add_note(
    title: Title, body: str, db: Database, folder: Folder = "home"
) -> Note:
    """Add a note.

    Args:
        title: A short title that no other note has.
        body: The text of the note.
        folder: The folder of the note.
    """
    try:
        db.execute("insert into notes values (?, ?, ?)", [title, body, folder])
    except sqlite3.IntegrityError:
        raise ToolError(
            f"There is a note {title!r} already. Choose another title."
        ) from None
    return Note(title, body, folder)


@server.resource("notes://titles")
def titles(db: Database) -> list[str]:
    """The titles of all notes."""
    return [
        title
        for (title,) in db.execute("select title from notes order by title")
    ]


@server.resource("notes://notes/{title}", mime_type="text/markdown")
def read_note(title: str, db: Database) -> str:
    """One note as Markdown."""
    row = db.execute(
        "select body from notes where title = ?", [title]
    ).fetchone()
    if row is None:
        raise ResourceNotFoundError(f"notes://notes/{title}")
    return f"# {title}\n\n{row[0]}\n"


def complete_title(typed: str, db: Database) -> list[str]:
    return [title for title in titles(db) if title.startswith(typed)]


@server.prompt
def plan(title: Annotated[str, Complete(complete_title)], days: int = 1) -> str:
    """Plan the work in a note.

    Args:
        title: The title of the note.
        days: The number of days to plan for.
    """
    return (
        f"Read notes://notes/{title} and plan the work in it for {days} days."
    )


if __name__ == "__main__":
    server.run()

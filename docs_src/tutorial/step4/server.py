from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from mcpkit import Complete, Server, ToolError
from mcpkit.exceptions import ResourceNotFoundError

server = Server("notes", version="1.0.0")

Title = Annotated[str, Field(min_length=1, max_length=40)]
Folder = Literal["home", "work"]


@dataclass
class Note:
    title: str
    body: str
    folder: Folder = "home"


NOTES = {
    "shopping": Note("shopping", "Milk and bread"),
    "garden": Note("garden", "Water the tomatoes"),
}


@server.tool
def search_notes(text: str, folder: Folder | None = None) -> list[Note]:
    """Find notes that contain a text.

    Args:
        text: The text to search for, in upper or lower case.
        folder: Search in this folder only.
    """
    return [
        note
        for note in NOTES.values()
        if text.lower() in note.body.lower() and folder in (None, note.folder)
    ]


@server.tool
def add_note(title: Title, body: str, folder: Folder = "home") -> Note:
    """Add a note.

    Args:
        title: A short title that no other note has.
        body: The text of the note.
        folder: The folder of the note.
    """
    if title in NOTES:
        raise ToolError(
            f"There is a note {title!r} already. Choose another title."
        )
    NOTES[title] = Note(title, body, folder)
    return NOTES[title]


@server.resource("notes://titles")
def titles() -> list[str]:
    """The titles of all notes."""
    return sorted(NOTES)


@server.resource("notes://notes/{title}", mime_type="text/markdown")
def read_note(title: str) -> str:
    """One note as Markdown."""
    if title not in NOTES:
        raise ResourceNotFoundError(f"notes://notes/{title}")
    return f"# {title}\n\n{NOTES[title].body}\n"


def complete_title(typed: str) -> list[str]:
    return [title for title in sorted(NOTES) if title.startswith(typed)]


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

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from mcpkit import Server, ToolError

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


if __name__ == "__main__":
    server.run()

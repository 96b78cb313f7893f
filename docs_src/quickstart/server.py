from dataclasses import dataclass

from mcpkit import Server, ToolError

server = Server("library", version="1.0.0")

SHELVES = {"Emma": 3, "Dracula": 1, "Middlemarch": 3}


@dataclass
class Place:
    title: str
    shelf: int


@server.tool
def find_book(title: str) -> Place:
    """Find the shelf of a book.

    Args:
        title: The title of the book.
    """
    if title not in SHELVES:
        raise ToolError(f"There is no book {title!r}. See library://titles.")
    return Place(title, SHELVES[title])


@server.resource("library://titles")
def titles() -> list[str]:
    """The titles of all books."""
    return sorted(SHELVES)


@server.resource("library://shelves/{number}")
def shelf(number: int) -> list[str]:
    """The titles on one shelf."""
    return sorted(title for title in SHELVES if SHELVES[title] == number)


@server.prompt
def recommend(mood: str) -> str:
    """Recommend a book for a mood."""
    return f"Which book in library://titles suits a reader who is {mood}?"


if __name__ == "__main__":
    server.run()

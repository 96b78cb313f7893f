from typing import Annotated

from mcpkit import Depends, Server

server = Server("library")


def books() -> dict[str, str]:
    """Return the authors by title."""
    return {"Emma": "Austen", "Persuasion": "Austen", "Dracula": "Stoker"}


@server.tool
def count_books(
    author: str, books: Annotated[dict[str, str], Depends(books)]
) -> int:
    """Count the books of an author."""
    return list(books.values()).count(author)


if __name__ == "__main__":
    server.run()

from mcpkit import Server

server = Server("library", version="1.0.0")


@server.tool(annotations={"readOnlyHint": True})
def find_book(title: str) -> int:
    """Find the shelf of a book.

    Args:
        title: The title of the book.
    """
    return {"Emma": 3, "Dracula": 1, "Middlemarch": 3}[title]


if __name__ == "__main__":
    server.run("http", public_url="https://library.example.com/mcp")

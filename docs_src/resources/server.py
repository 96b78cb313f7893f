from mcpkit import Server

server = Server("library")

BOOKS = {
    "emma": {"title": "Emma", "author": "Jane Austen", "year": 1815},
    "dracula": {"title": "Dracula", "author": "Bram Stoker", "year": 1897},
}


@server.resource("library://books", title="All books")
def books() -> list[str]:
    """The keys of all books."""
    return list(BOOKS)


if __name__ == "__main__":
    server.run()

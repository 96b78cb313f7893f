from typing import Any

from mcpkit import File, Server

server = Server("content")


@server.tool
def greet(name: str) -> list[Any]:
    """Greet someone, with a table about the name."""
    table = f"Name,Length\n{name},{len(name)}\n"
    return [f"Hello, {name}!", File(data=table, name="name.csv")]


if __name__ == "__main__":
    server.run()

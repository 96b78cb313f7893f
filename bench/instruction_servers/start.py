"""A server as its author begins it: what is counted from the start of the process to the first answer."""

from mcpkit import Server

server = Server("counted")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    server.run()

"""A server of mcpkit for `mcpkit call`."""

from mcpkit import Server

server = Server("bench")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

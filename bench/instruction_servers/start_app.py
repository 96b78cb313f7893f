"""The same server, which can be served over HTTP as well."""

from mcpkit import Server

server = Server("counted")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


app = server.asgi()

if __name__ == "__main__":
    server.run()

import os

from mcpkit import HttpOptions, Server

server = Server("travel", version="1.0.0")


@server.tool(annotations={"readOnlyHint": True})
def convert(amount: float, rate: float = 1.08) -> float:
    """Convert euros to dollars.

    Args:
        amount: The amount in euros.
        rate: Dollars for one euro.
    """
    return round(amount * rate, 2)


app = server.asgi(
    # The function URL with /mcp, or the URL of your own domain.
    public_url=os.environ.get("PUBLIC_URL"),
    http=HttpOptions(readiness_path="/health"),
)

if __name__ == "__main__":
    server.run()

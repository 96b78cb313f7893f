import argparse
import os

from mcp.server.fastmcp import FastMCP

mcp = FastMCP(
    "search",
    instructions="Search the archive.",
    host="0.0.0.0",  # in a container
    port=int(os.environ.get("PORT", "8080")),
    stateless_http=True,
    json_response=True,
)


@mcp.tool()
def search(query: str) -> list[str]:
    """Search the archive."""
    return [query.upper()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", default="stdio")
    parser.add_argument("--path", default="/mcp")
    args = parser.parse_args()
    mcp.settings.streamable_http_path = args.path
    mcp.run(transport=args.transport)


if __name__ == "__main__":
    main()

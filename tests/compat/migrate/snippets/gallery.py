import base64

from mcp.server.fastmcp import FastMCP, Image
from mcp.types import CallToolResult, ImageContent, TextContent

mcp = FastMCP("gallery")

DOT = bytes.fromhex("89504e470d0a1a0a")


@mcp.tool()
def dot() -> Image:
    """A picture of a dot."""
    return Image(data=DOT, format="png")


@mcp.tool()
def describe(title: str) -> list[TextContent]:
    """Describe a picture."""
    if title != "dot":
        return [TextContent(type="text", text=f"There is no {title}")]
    return [TextContent(type="text", text="A dot")]


@mcp.tool()
def show(title: str) -> list[TextContent | ImageContent]:
    """Show a picture with its title."""
    encoded = base64.b64encode(DOT).decode()
    return [
        TextContent(type="text", text=title),
        ImageContent(type="image", data=encoded, mimeType="image/png"),
    ]


@mcp.tool()
def sell(title: str) -> CallToolResult:
    """Sell a picture."""
    return CallToolResult(
        content=[TextContent(type="text", text=f"{title} is not for sale")],
        isError=True,
    )


if __name__ == "__main__":
    mcp.run()

from typing import Annotated

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
from pydantic import Field

mcp = FastMCP("shop", "Find products, and order them.", log_level="WARNING")
mcp._mcp_server.version = "2.1.0"

STOCK = {"tea": 12, "coffee": 3}


@mcp.tool("find_product", annotations=ToolAnnotations(title="Find", readOnlyHint=True))
def find(
    text: Annotated[str, Field(description="A part of the name")],
    limit: int = 10,
) -> list[str]:
    """Find products."""
    return [name for name in STOCK if text in name][:limit]


@mcp.tool(
    name="order",
    description="Order a product.",
    annotations=ToolAnnotations(destructiveHint=False),
    structured_output=False,
)
def place_order(product: str, quantity: int = 1) -> str:
    return f"Ordered {quantity} of {product}"


def count(product: str) -> int:
    """Count what is left of a product."""
    return STOCK.get(product, 0)


mcp.add_tool(count, name="stock")

if __name__ == "__main__":
    mcp.run()

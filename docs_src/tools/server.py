from mcpkit import Server

server = Server("shop")

PRODUCTS = ["green tea", "black tea", "teapot", "coffee"]


@server.tool
def find_product(name: str, limit: int = 10) -> list[str]:
    """Find products by a part of their name.

    Args:
        name: A part of the name.
        limit: The most names to return.
    """
    return [product for product in PRODUCTS if name in product][:limit]


if __name__ == "__main__":
    server.run()

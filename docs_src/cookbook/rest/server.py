import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

import httpx2
from pydantic import Field

from mcpkit import Context, Server, ToolError


@asynccontextmanager
async def open_api(server: Server) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open one HTTP client, with its connection pool, for all requests."""
    url = os.environ.get("ORDERS_API")
    if url is None:  # no address: use the API in fake_api.py
        from fake_api import api

        url, transport = "http://api.test", httpx2.ASGITransport(app=api)
    else:
        transport = httpx2.AsyncHTTPTransport(retries=2)
    key = os.environ.get("ORDERS_API_KEY", "test-key")
    async with httpx2.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"},
        timeout=10,
        transport=transport,
    ) as client:
        yield client


server = Server("orders", version="1.0.0", lifespan=open_api)


@dataclass
class Order:
    id: str
    status: str
    total: float


@server.tool(annotations={"readOnlyHint": True})
async def get_order(
    order_id: Annotated[str, Field(pattern=r"^[A-Z]\d+$")],
    ctx: Context[httpx2.AsyncClient],
) -> Order:
    """Get the status and the total of an order.

    Args:
        order_id: The number of the order, for example A1.
    """
    try:
        response = await ctx.state.get(f"/orders/{order_id}")
    except httpx2.TransportError:
        raise ToolError("The order API does not respond. Try later.") from None
    if response.status_code == 404:
        raise ToolError(f"There is no order {order_id}.")
    response.raise_for_status()
    found = response.json()
    return Order(found["id"], found["status"], found["total"])


if __name__ == "__main__":
    server.run()

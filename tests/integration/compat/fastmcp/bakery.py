"""A small server under FastMCP, for tests in this process."""

from __future__ import annotations

from typing import Any

from mcpkit.compat.auth import get_access_token
from mcpkit.compat.fastmcp import Context, FastMCP


def bakery(**options: Any) -> FastMCP:
    mcp = FastMCP("bakery", **options)

    @mcp.tool()
    def bake(kind: str, ctx: Context) -> str:
        """Bake."""
        return f"{kind} for {(token := get_access_token()) and token.client_id}"

    @mcp.resource("order://{day}-{number}-{kind}.json")
    def order(day: str, number: int, kind: str) -> dict[str, Any]:
        return {"day": day, "number": number, "kind": kind}

    @mcp.prompt()
    def ask(question: str) -> str:
        return question

    return mcp

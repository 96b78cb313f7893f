"""Server of the golden corpus: one component for each row of the error table, and for each kind of result."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from mcpkit import Access, Context, Image, ResourceLink, Server, Text, ToolResult
from mcpkit.exceptions import (
    InputRequired,
    PromptError,
    ProtocolError,
    ResourceError,
    ResourceNotFoundError,
    ToolError,
)


class Point(BaseModel):
    """A point."""

    x: float
    y: float = 0.0


def make_server() -> Server:
    """Return the server."""
    server = Server("golden", version="1.0", instructions="For recordings.", secret_key="golden " * 8)

    @server.tool
    async def add(first: int, second: int = 1) -> int:
        """Add two numbers.

        Args:
            first: The first number.
            second: The second number.
        """
        return first + second

    @server.tool(title="Move")
    async def move(
        point: Point, direction: Literal["up", "down"], steps: Annotated[int, Field(ge=0, le=9)] = 1
    ) -> Point:
        return Point(x=point.x, y=point.y + (steps if direction == "up" else -steps))

    @server.tool
    async def render(kind: Literal["text", "image", "link", "all", "nothing"]) -> Any:
        blocks = {
            "text": Text("plain"),
            "image": Image(data=b"\x89PNG\r\n", mime_type="image/png"),
            "link": ResourceLink("note://one", "one"),
        }
        return list(blocks.values()) if kind == "all" else blocks.get(kind)

    failures: dict[str, BaseException] = {
        "tool": ToolError("The disk is full."),
        "empty": ToolError(""),
        "value": ValueError("secret detail"),
        "protocol": ProtocolError(-32050, "Custom", {"reason": "test"}),
        "resource": ResourceError("No such record."),
        "not-found": ResourceNotFoundError("note://none"),
        "prompt": PromptError("No such prompt."),
        "cancelled": asyncio.CancelledError(),
        "timeout": TimeoutError(),
        "input": InputRequired(),
    }

    @server.tool
    async def fail(kind: str) -> str:
        raise failures[kind]

    @server.tool
    async def unsendable(kind: Literal["object", "nan", "surrogate", "bytes"]) -> Any:
        return {"object": object(), "nan": float("nan"), "surrogate": "\ud800", "bytes": b"\xff"}[kind]

    @server.tool
    async def wrong_output() -> int:
        return "seven"  # type: ignore[return-value]

    @server.tool(timeout=0.01)
    async def slow() -> None:
        await asyncio.sleep(10)

    @server.tool
    async def structured(size: int) -> ToolResult:
        return ToolResult(content=["made"], structured={"size": size}, meta={"example.com/m": 1})

    @server.tool(access=Access(scopes=["admin"]))
    async def protected() -> str:
        return "secret"

    @server.tool
    async def report(ctx: Context, count: int = 2) -> str:
        for step in range(count):
            await ctx.report_progress(step + 1, count)
            await ctx.info(f"step {step}")
        return "reported"

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("How many?", int)
        return str(answer)

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("Say something.", max_tokens=10)).text

    @server.tool
    async def roots(ctx: Context) -> str:
        return str([str(root.uri) for root in await ctx.list_roots()])

    @server.resource("note://one", mime_type="text/plain")
    async def note() -> str:
        """A note."""
        return "one"

    @server.resource("note://{name}/more")
    async def more(name: str) -> bytes:
        if name == "none":
            raise ResourceNotFoundError("note://none/more")
        if name == "fault":
            raise RuntimeError("secret detail")
        return name.encode()

    async def styles(value: str) -> list[str]:
        return [style for style in ("bold", "brief") if value in style]

    @server.prompt(complete={"style": styles})
    async def greet(name: str, style: str = "brief") -> str:
        """Greet somebody."""
        if name == "fault":
            raise PromptError("Not that name.")
        return f"Greet {name} in a {style} style."

    return server

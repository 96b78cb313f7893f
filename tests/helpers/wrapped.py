"""What the tests of middleware have in common: a server to wrap, and a middleware that notes what passes."""

from __future__ import annotations

from typing import Any

from mcpkit import Context, Limits, Server, ToolError
from mcpkit.exceptions import ResourceNotFoundError
from mcpkit.middleware import CallNext, Request, Result

REVISIONS = ["2025-11-25", "2026-07-28"]


def make_server() -> Server:
    server = Server("wrapped", limits=Limits(page_size=1))

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def add_in_thread(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail(ctx: Context) -> str:
        raise ToolError("no")

    @server.tool
    async def count(ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        await ctx.info("half")
        return "done"

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which city?", str)
        return f"{ctx.client.info['name']} said {answer.value}"

    @server.resource("wrapped://known")
    async def known() -> str:
        return "here"

    @server.resource("wrapped://{name}")
    async def unknown(name: str) -> str:
        raise ResourceNotFoundError

    @server.prompt
    async def greet(name: str) -> str:
        return f"Hello {name}"

    return server


class Recorder:
    """Notes what goes in and comes out."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        try:
            result = await call_next(request)
        except BaseException as error:
            self.seen.append((request.method, type(error).__name__))
            raise
        self.seen.append((request.method, dict(result)))
        return result

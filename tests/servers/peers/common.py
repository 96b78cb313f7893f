"""Tools, a resource and a prompt for the servers of all Python libraries."""

from typing import Any

import anyio


def add_components(server: Any, context: Any) -> None:
    """Register them; `context` is the class of a handler's context in the library."""
    stopped: list[float] = []

    @server.tool()
    async def add(first: int, second: int) -> int:
        """Add two numbers."""
        return first + second

    @server.tool()
    async def wait(seconds: float, ctx: context) -> str:
        """Report progress three times, then wait."""
        try:
            for step in (1, 2, 3):
                await ctx.report_progress(step, 3)
            await anyio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            stopped.append(seconds)
            raise
        return "waited"

    @server.tool()
    async def count_stopped() -> int:
        """Count the cancelled calls."""
        return len(stopped)

    @server.resource("note://hello")
    def note() -> str:
        """A note."""
        return "Hello"

    @server.prompt()
    def greet(name: str) -> str:
        """Greet a user."""
        return f"Greet {name}"

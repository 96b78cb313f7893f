"""The server for all official clients, with one of each feature: `server.py [http|sse]`."""

import asyncio
import base64
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from mcpkit import Access, Context, Image, Message, Server, ToolError, assistant, user
from mcpkit.extensions import ParamHeader

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GREETINGS = {"danish": "Hej", "dutch": "Hallo", "english": "Hello"}

server = Server(
    "interop", version="1.2.3", title="Interoperability", instructions="Call add before anything else."
)
finished = asyncio.Event()
released = asyncio.Event()


@dataclass
class Sum:
    """The result of an addition."""

    total: int
    terms: list[int]


@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> Sum:
    """Add two numbers.

    Args:
        a: The first term.
        b: The second term.
    """
    return Sum(a + b, [a, b])


@server.tool
def divide(a: float, b: float) -> float:
    """Divide one number by another."""
    if b == 0:
        raise ToolError("b must not be 0")
    return a / b


@server.tool
def picture() -> Image:
    """Show the smallest picture."""
    return Image(data=PIXEL, mime_type="image/png")


@server.tool
async def count(to: int, ctx: Context) -> str:
    """Count aloud, then wait for `enough`: some clients drop progress that comes with the result."""
    finished.clear()
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    await ctx.warning({"counted": to}, logger="counter")
    await finished.wait()
    return f"counted to {to}"


@server.tool
async def enough() -> None:
    """Let `count` end."""
    finished.set()


@server.tool
async def part(ctx: Context) -> str:
    """Take leave of the client, which has to come back for the answer where that means something."""
    await ctx.http.close_stream()
    return "met again"


@server.tool
async def hang(ctx: Context) -> None:
    """Say that it has begun, then wait to be cancelled."""
    released.clear()
    await ctx.report_progress(1)
    try:
        await asyncio.Event().wait()
    finally:
        released.set()


@server.tool
async def release() -> str:
    """Wait until `hang` has let go."""
    await released.wait()
    return "released"


@server.tool
def stir() -> None:
    """Change the list of tools and back, and update a resource."""
    server.catalog.tools.disable("locate")
    server.catalog.tools.enable("locate")
    server.notify_resource_updated("interop://greeting")


@server.tool
def locate(region: Annotated[str, ParamHeader("Region")]) -> str:
    """Name a place, which clients of the stateless revision say in a header too."""
    return f"somewhere in {region}"


@server.tool(access=Access(requires_capabilities="sampling"))
def imagine() -> str:
    """Need what these clients cannot do."""
    return "a picture"


@server.resource("interop://greeting", title="A greeting", mime_type="text/plain")
def greeting() -> str:
    """Say hello."""
    return "Hello, world"


def languages(value: str) -> list[str]:
    return [language for language in GREETINGS if language.startswith(value)]


@server.resource("interop://greetings/{language}", mime_type="text/plain", complete={"language": languages})
def greeting_in(language: str) -> str:
    """Say hello in a language."""
    return GREETINGS[language]


@server.prompt
def welcome(name: str, style: Literal["formal", "friendly"] = "formal") -> list[Message]:
    """Write a welcome.

    Args:
        name: The guest.
        style: How to put it.
    """
    return [user(f"Write a {style} welcome for {name}."), assistant("With pleasure.")]


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run()
    else:
        server.run(sys.argv[1], port=0)

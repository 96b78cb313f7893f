"""A server with a bit of everything that commands of the command line ask for; as a file it is also run by them."""

import asyncio
import threading
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from mcpkit import (
    Audio,
    Context,
    EmbeddedResource,
    Image,
    ProtocolError,
    ResourceLink,
    Server,
    Task,
    ToolError,
)

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)

server = Server("workbench", version="1.0.0", instructions="Use it for tests.\nSecond line.")
ended = threading.Event()


class Trip(BaseModel):
    city: Annotated[str, Field(title="City", min_length=2, description="Where to")]
    days: Annotated[int, Field(ge=1, le=30)] = 3
    style: Literal["museums", "food"] = "food"
    is_paid: bool


@server.tool(annotations={"readOnlyHint": True})
def add(first: int, second: int = 1) -> int:
    """Add two numbers.

    Args:
        first: The one.
        second: The other.
    """
    return first + second


@server.tool(name="make.order")
def make_order(item: str) -> str:
    """Make an order."""
    return f"{item} is ordered"


@server.tool
def echo(value: Any) -> dict[str, Any]:
    """Give back what came."""
    return {"value": value}


@server.tool
def fail(kind: str = "tool") -> str:
    """Fail."""
    if kind == "protocol":
        raise ProtocolError(-32000, "out of order", {"since": 1984})
    raise ToolError("it does not work")


@server.tool
def draw() -> list[object]:
    """Draw a pixel, and more."""
    return [
        "here:", Image(data=PIXEL), Image(data=PIXEL), Audio(data=b"RIFF\0\0\0\0WAVE", mime_type="audio/wav"),
        EmbeddedResource("note://hello", text="a note"),
        EmbeddedResource("file:///nested/../data.bin", blob=b"\0\1\2", mime_type="application/octet-stream"),
        ResourceLink("https://example.com/report", "report", mime_type="text/html"),
    ]  # fmt: skip


@server.tool
async def work(ctx: Context) -> str:
    """Work, and tell of it."""
    await ctx.report_progress(1, 2, "half")
    await ctx.warning("careful")
    await ctx.report_progress(2, 2, "done")
    return "worked"


@server.tool
async def plan(ctx: Context) -> str:
    """Plan a trip."""
    trip = await ctx.elicit("Where shall it go?", Trip)
    return trip.value.model_dump_json() if trip else f"no trip: {trip.action}"


@server.tool
async def pay(ctx: Context) -> str:
    """Pay on a page."""
    answer = await ctx.elicit_url("Pay, please.", "https://pay.example.com/7", done=lambda: True)
    return "paid" if answer else f"not paid: {answer.action}"


@server.tool
async def praise(ctx: Context) -> str:
    """Have a model speak."""
    return (await ctx.sample("Praise Oslo!", max_tokens=50)).text


@server.tool
async def folders(ctx: Context) -> list[str]:
    """Say where files are looked for."""
    return [root.uri for root in await ctx.list_roots()]


@server.tool
async def change(ctx: Context) -> str:
    """Change a note."""
    server.notify_resource_updated("note://hello")
    return "changed"


@server.tool(task=Task(required=True))
async def report(ctx: Context) -> str:
    """Write a report, as a task alone."""
    await ctx.report_progress(1, 2, "writing")
    answer = await ctx.elicit("In whose name?", str)
    return f"a report for {answer.value}" if answer else "no report"


@server.tool
async def wait(ctx: Context) -> None:
    """Wait for something that does not come."""
    await ctx.report_progress(1, 2, "waiting")
    await asyncio.Event().wait()


@server.tool(task=Task(required=True))
async def wait_long(ctx: Context) -> None:
    """Do the same as a task, and note where it is cancelled."""
    await ctx.report_progress(1, 2, "waiting long")
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


@server.resource("note://hello", mime_type="text/plain")
def note() -> str:
    """A note.

    With more about it.
    """
    return "Hello"


@server.resource("picture://pixel", mime_type="image/png")
def pixel() -> bytes:
    """One pixel."""
    return PIXEL


@server.resource("note://of/{name}")
def note_of(name: str) -> str:
    """Somebody's note."""
    return f"Hello, {name}"


@server.prompt(title="A greeting")
def greet(name: str, tone: Literal["warm", "cold"] = "warm") -> str:
    """Greet somebody.

    Args:
        name: Whom.
    """
    return f"Greet {name} in a {tone} tone"


if __name__ == "__main__":
    server.run()

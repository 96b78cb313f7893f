"""Takes and gives what is large, and tells what it holds: `python large_server.py stdio|http`."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

from mcpkit import Image, Server

server = Server("large")
began: list[int] = [0]


@server.tool
async def take(text: str) -> int:
    """Take a text."""
    return len(text)


@server.tool
def take_in_thread(text: str) -> int:
    """Take a text, in a worker thread."""
    return len(text)


@server.tool
async def give(size: int) -> str:
    """Return a text."""
    return "x" * size


@server.tool
def give_in_thread(size: int) -> str:
    """Return a text, from a worker thread."""
    return "x" * size


@server.tool
async def give_rows(size: int) -> list[dict[str, Any]]:
    """Return rows."""
    return [{"row": number, "text": "x" * 1000} for number in range(size // 1000)]


@server.tool
async def give_image(size: int) -> Image:
    """Return an image."""
    return Image(data=b"\x89PNG\r\n\x1a\n" + bytes(size))


@server.resource("large://{size}")
async def read(size: int) -> str:
    """Return a text."""
    return "x" * size


@server.tool(structured=False)
async def begin() -> str:
    """Begin to look at memory."""
    gc.collect()
    tracemalloc.reset_peak()
    began[0] = tracemalloc.get_traced_memory()[0]
    return "begun"


@server.tool
async def held() -> dict[str, int]:
    """Return how many bytes more are held, and have been at the most, than when it began."""
    gc.collect()
    now, peak = tracemalloc.get_traced_memory()
    return {"now": now - began[0], "most": peak - began[0]}


if __name__ == "__main__":
    tracemalloc.start()
    server.run()

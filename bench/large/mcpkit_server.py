"""mcpkit as an author writes it: `python mcpkit_server.py stdio`, or `http FD`."""

from __future__ import annotations

import sys

import payloads
from serving import serve

from mcpkit import Image, Limits, Server

server = Server("large", limits=Limits(max_request_body_size=32 * 1024 * 1024))


@server.tool
async def take(text: str) -> int:
    """Take a text, and return its length."""
    return len(text)


@server.tool
async def give(kind: str, size: int) -> str:
    """Return a text."""
    return payloads.text(kind, size)


@server.tool
async def give_image(size: int) -> Image:
    """Return an image."""
    return Image(data=payloads.image(size))


if __name__ == "__main__":
    if sys.argv[1] == "http":
        serve(server.asgi(), int(sys.argv[2]))
    else:
        server.run()

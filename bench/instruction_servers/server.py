"""The server whose instructions are counted: it has a tool for each line of `bench/instructions.py`, which starts it.

It imports mcpkit from PYTHONPATH, and nothing of the bench, so that any checkout can be counted with it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
import tracemalloc
from typing import Any

from pydantic import BaseModel

from mcpkit import ResultOptions, Server

server = Server("counted", version="1.0.0")
began: list[int] = []


class Point(BaseModel):
    name: str
    x: float
    y: float = 0.0


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def add_async(a: int, b: int) -> int:
    """Add two numbers, in the event loop."""
    return a + b


@server.tool
def record(city: str) -> dict[str, Any]:
    """Return the record of a city."""
    return {"city": city, "temperature": 21.5, "tags": ["dry", "warm"], "wind": {"speed": 4, "from": "NW"}}


@server.tool
async def mirror(point: Point) -> Point:
    """Mirror a point.

    Args:
        point: Where it is.
    """
    return Point(name=point.name, x=-point.x, y=-point.y)


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return f"You said: {text}"


@server.resource("counted://state")
async def state() -> str:
    """Return the state."""
    return "quiet"


@server.tool(result=ResultOptions(structured=False))
async def quiet() -> str:
    """Collect all garbage, and collect no more."""
    gc.collect()
    gc.freeze()
    gc.disable()
    return "quiet"


@server.tool(result=ResultOptions(structured=False))
async def trace() -> str:
    """Begin to trace memory."""
    gc.collect()
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    tracemalloc.reset_peak()
    began.append(tracemalloc.get_traced_memory()[0])
    return "tracing"


@server.tool(result=ResultOptions(structured=False))
async def traced() -> str:
    """Return how many bytes more than when tracing began were taken at the most."""
    return str(tracemalloc.get_traced_memory()[1] - began.pop())


async def serve_in_memory(revision: str) -> None:
    """Answer each line of standard input, a list of requests and how often to make them, with their last results."""
    from mcpkit.testing import connect

    async with connect(server, protocol_version=revision) as client:
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            method, params, count = json.loads(line)
            result: Any = None
            for _ in range(count):
                result = await client.request(method, params)
            print(json.dumps(result), flush=True)


def serve_http(descriptor: int) -> None:
    """Serve with uvicorn on a listening socket."""
    import uvicorn

    config = uvicorn.Config(
        server.asgi(), http="httptools", loop="uvloop", log_level="warning", access_log=False
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "http":
        serve_http(int(rest[0]))
    elif kind == "memory":
        asyncio.run(serve_in_memory(rest[0]))
    else:
        server.run()

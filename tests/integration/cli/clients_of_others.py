"""Clients of `mcp` 1.x and `fastmcp`, connected once to a server that they edit meanwhile: says what they have got.

python clients_of_others.py mcp|fastmcp PYTHON FILE
"""

import asyncio
import json
import sys
from pathlib import Path

SOURCE = """
from mcpkit import Server
shop = Server("shop")

@shop.tool
def price() -> str:
    return "%s"
"""
MORE = "\n@shop.tool\ndef stock() -> str:\n    return 'none'\n"


class Changes:
    """Notifications that have come."""

    def __init__(self):
        self.methods = []
        self.news = asyncio.Event()

    async def __call__(self, message):
        method = getattr(getattr(message, "root", message), "method", None)
        if method is not None:
            self.methods.append(method)
            self.news.set()

    async def wait(self, names):
        while "notifications/tools/list_changed" not in self.methods:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 60)
        self.methods.clear()


async def toured(call, names, changed, file):
    """Edit the server, call it, and return what came."""
    got = [await names(), await call("price")]
    file.write_text(SOURCE % "second" + MORE)
    await changed(["price", "stock"])
    got += [await names(), await call("price"), await call("stock")]
    file.write_text(SOURCE % "third")
    await changed(["price"])
    return [*got, await names(), await call("price")]


async def by_mcp(command, file):
    from mcp import ClientSession, StdioServerParameters, stdio_client

    changes = Changes()
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with (
        stdio_client(parameters) as streams,
        ClientSession(*streams, message_handler=changes) as session,
    ):
        await session.initialize()

        async def call(name):
            return (await session.call_tool(name, {})).content[0].text

        async def names():
            return [each.name for each in (await session.list_tools()).tools]

        return await toured(call, names, changes.wait, file)


async def by_fastmcp(command, file):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    transport = StdioTransport(command=command[0], args=command[1:])
    async with Client(transport) as client:

        async def call(name):
            return (await client.call_tool(name, {})).content[0].text

        async def names():
            return [each.name for each in await client.list_tools()]

        async def changed(expected):  # it speaks the stateless era, and listens to nothing
            while await names() != expected:
                pass

        return await toured(call, names, changed, file)


if __name__ == "__main__":
    kind, python, path = sys.argv[1:]
    server = Path(path)
    server.write_text(SOURCE % "first")
    run = [python, "-m", "mcpkit", "run", path, "--reload"]
    print(json.dumps(asyncio.run({"mcp": by_mcp, "fastmcp": by_fastmcp}[kind](run, server))))

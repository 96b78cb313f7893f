"""The server whose handlers ask: one source for clients of either era, over every transport."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from mcpkit import Context, Elicit, ListRoots, Sample, Server, user


@dataclass
class City:
    """Where to go, and for how long."""

    name: str
    days: int = 2


class Till:
    """A page on which users pay, for want of a bank.

    Attributes:
        url: Where it is.
        paid: The payments that have been made.
    """

    def __init__(self) -> None:
        self.url = ""
        self.paid: set[str] = set()

    async def show(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the visit of a browser: the path is what is paid."""
        path = (await reader.readline()).split()[1].decode()
        while (await reader.readline()).strip():
            pass
        self.paid.add(path.removeprefix("/"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nPaid")
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def lifespan(_server: Server) -> AsyncIterator[Till]:
    till = Till()
    page = await asyncio.start_server(till.show, "127.0.0.1", 0)
    till.url = f"http://127.0.0.1:{page.sockets[0].getsockname()[1]}"
    yield till
    page.close()


server = Server("asking", version="1", lifespan=lifespan)
orders: list[str] = []


@server.tool
async def plan(ctx: Context) -> str:
    """Ask three things, each of which needs the answer before."""
    city = (await ctx.elicit("Which city?", City)).value
    warmth = (await ctx.elicit(f"How warm is {city.name}?", float)).value
    words = await ctx.sample([user(f"{warmth:g} degrees")], max_tokens=20, system="One word.")
    return f"{city.days} days in {city.name}, {words.text}"


@server.tool
async def order(ctx: Context) -> str:
    """Order something between two questions."""
    what = (await ctx.elicit("What would you like?", Literal["tea", "coffee"])).value

    def place() -> int:
        orders.append(f"{what} for {ctx.call_id}")
        return len(orders)

    number = await ctx.once("order", place)
    is_sweet = (await ctx.elicit("With sugar?", bool)).value
    times = sum(each.endswith(ctx.call_id) for each in orders)
    return f"{what} {'with' if is_sweet else 'without'} sugar, number {number}, ordered here {times} times"


@server.tool
async def survey(ctx: Context) -> str:
    """Ask three things at once."""
    colour, words, roots = await ctx.ask(
        Elicit("Which colour?", Literal["red", "green", "blue"], key="colour"),
        Sample("Say hello", max_tokens=20, key="hello"),
        ListRoots(key="roots"),
    )
    uris = ", ".join(root.uri for root in roots)
    return f"{colour.value}; {words.text}; {uris}"


@server.tool
async def pay(ctx: Context[Till]) -> str:
    """Have the user pay on a page of its own."""
    payment = ctx.call_id
    till = ctx.state
    answer = await ctx.elicit_url("Please pay", f"{till.url}/{payment}", done=lambda: payment in till.paid)
    return f"{answer.action}, {len(till.paid & {payment})} payment"


@server.prompt
async def greet(ctx: Context) -> str:
    """Ask whom to greet."""
    return f"Greet {(await ctx.elicit('Whom?', str)).value} warmly."


@server.resource("notes://{kind}")
async def notes(kind: str, ctx: Context) -> str:
    """Ask whose notes."""
    return f"{kind} notes of {(await ctx.elicit('Whose?', str)).value}"


@server.tool
async def refuse(ctx: Context) -> str:
    """Ask what the user declines."""
    return (await ctx.elicit("Your salary?", int)).action


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run()
    else:
        server.run(sys.argv[1], port=0)

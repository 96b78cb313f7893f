"""A server with handlers that send requests to the client: `questions_server.py [http|sse]`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Literal

import anyio
from pydantic import AfterValidator

from mcpkit import Ask, Context, Server, user
from mcpkit.elicitation import ElicitRequest, ListRootsRequest, SamplingRequest


@dataclass
class City:
    """A destination."""

    name: str
    days: int = 2


@dataclass
class PaymentPage:
    """A page on which users pay: its path is the payment."""

    url: str
    paid: set[str]


@asynccontextmanager
async def lifespan(_server: Server) -> AsyncIterator[PaymentPage]:
    paid: set[str] = set()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # a client that closed its connection
            head = await reader.readuntil(b"\r\n\r\n")
            paid.add(head.split()[1].decode().removeprefix("/"))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nPaid")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as page:
        yield PaymentPage(f"http://127.0.0.1:{page.sockets[0].getsockname()[1]}", paid)


server = Server("asking", version="1", lifespan=lifespan)
orders: list[str] = []


@server.tool
async def plan(ctx: Context) -> str:
    """Send three requests, each of which needs the answer before."""
    city = (await ctx.elicit("Which city?", City)).value
    warmth = (await ctx.elicit(f"How warm is {city.name}?", float)).value
    words = await ctx.sample([user(f"{warmth:g} degrees")], max_tokens=20, system="One word.")
    return f"{city.days} days in {city.name}, {words.text}"


def placed(what: str, ctx: Context) -> int:
    """Place an order, and return how many there are of this call."""
    orders.append(f"{what} for {ctx.idempotency_key}")
    return sum(each.endswith(ctx.idempotency_key) for each in orders)


@server.tool
async def order(ctx: Context, table: Annotated[int, Ask("Which table?")]) -> str:
    """Order once between two questions, the first of which is a parameter's."""
    number = await ctx.once("order", lambda: placed("tea", ctx))
    is_sweet = (await ctx.elicit("With sugar?", bool)).value
    return f"tea number {number} for table {table}, sweet: {is_sweet}"


@server.tool
async def survey(ctx: Context) -> str:
    """Send three requests at once."""
    colour, words, roots = await ctx.ask(
        ElicitRequest("Which colour?", Literal["red", "green", "blue"], key="colour"),
        SamplingRequest("Say hello", max_tokens=20, key="hello"),
        ListRootsRequest(key="roots"),
    )
    return f"{colour.value}; {words.text} ({words.model}); {[root.name for root in roots]}"


async def seat(ctx: Context, side: str, guests: dict[str, str]) -> None:
    guests[side] = (await ctx.elicit(f"Who sits on the {side}?", str, key=side)).value


@server.tool
async def gather(ctx: Context) -> str:
    """Send requests in tasks that asyncio gathers, and another one after their answers."""
    guests: dict[str, str] = {}
    await asyncio.gather(seat(ctx, "left", guests), seat(ctx, "right", guests))
    return f"{guests['left']} and {guests['right']}, {(await ctx.elicit('Which table?', int)).value}"


@server.tool
async def group(ctx: Context) -> str:
    """Send requests in tasks of an anyio task group, which raises exception groups."""
    guests: dict[str, str] = {}
    async with anyio.create_task_group() as tasks:
        for side in ("left", "right"):
            tasks.start_soon(seat, ctx, side, guests)
    return f"{guests['left']} and {guests['right']}"


def even(number: int) -> int:
    """Reject what no JSON Schema of a form can reject."""
    if number % 2:
        raise ValueError("expected an even number")
    return number


@server.tool
async def pair(ctx: Context) -> str:
    """Elicit what is entered wrongly at first."""
    return f"{(await ctx.elicit('How many, in pairs?', Annotated[int, AfterValidator(even)])).value} of them"


@server.tool
async def refuse(ctx: Context) -> str:
    """Elicit what the user declines, then what the user cancels."""
    first, second = await ctx.elicit("Your salary?", int), await ctx.elicit("Your shoe size?", int)
    return f"{first.action}, {second.action}"


@server.tool
async def pay(ctx: Context[PaymentPage]) -> str:
    """Have the user pay on a page of its own."""
    payment, page = ctx.idempotency_key, ctx.state
    answer = await ctx.elicit_url("Please pay", f"{page.url}/{payment}", done=lambda: payment in page.paid)
    return f"{answer.action}, {len(page.paid & {payment})} payment"


@server.tool
async def consult(ctx: Context) -> str:
    """Have the model use a tool of the server."""
    clock = {"name": "clock", "inputSchema": {"type": "object"}}
    messages: list[object] = [user("What is the time?")]
    tool_use = await ctx.sample(messages, max_tokens=20, tools=[clock], tool_choice="auto")
    (use,) = tool_use.content
    noon = [{"type": "text", "text": "noon"}]
    messages += [
        {"role": "assistant", "content": tool_use.content},
        {"role": "user", "content": [{"type": "tool_result", "toolUseId": use["id"], "content": noon}]},
    ]
    words = await ctx.sample(messages, max_tokens=20, tools=[clock], tool_choice="none")
    return f"{tool_use.stop_reason} {use['name']}: {words.text}"


@server.tool
async def places(ctx: Context) -> str:
    """List the roots of the client."""
    return ", ".join(f"{root.name or 'nameless'} {root.uri}" for root in await ctx.list_roots())


@server.prompt
async def greet(ctx: Context) -> str:
    """Elicit the name and the style of a greeting."""
    name = (await ctx.elicit("Greet which user?", str)).value
    return f"Greet {name} {(await ctx.elicit(f'How is {name}?', str)).value}."


@server.resource("notes://{kind}")
async def notes(kind: str, ctx: Context) -> str:
    """Elicit the owner of notes."""
    return f"{kind} notes of {(await ctx.elicit('Notes of which user?', str)).value}"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run()
    else:
        server.run(sys.argv[1], port=0)

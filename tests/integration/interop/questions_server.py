"""A server whose handlers send requests to the client: `questions_server.py [http|sse] [PORT]`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Literal

import anyio
from pydantic import AfterValidator

from mcpkit import Ask, Context, Server, ServerOptions, assistant, user
from mcpkit.elicitation import ElicitRequest, ListRootsRequest, SamplingRequest


@dataclass
class City:
    """A destination."""

    name: str
    days: int = 2


class PaymentPage:
    """A page on which users pay.

    Attributes:
        url: Where it is.
        paid: The payments that have been made.
    """

    def __init__(self) -> None:
        self.url = ""
        self.paid: set[str] = set()

    async def show(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request: its path is the payment."""
        request_line = (await reader.readline()).split()
        if len(request_line) < 2:  # no request: a client that closed its connection
            writer.close()
            return
        path = request_line[1].decode()
        while (await reader.readline()).strip():
            pass
        self.paid.add(path.removeprefix("/"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nPaid")
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def lifespan(_server: Server) -> AsyncIterator[PaymentPage]:
    payments = PaymentPage()
    page = await asyncio.start_server(payments.show, "127.0.0.1", 0)
    payments.url = f"http://127.0.0.1:{page.sockets[0].getsockname()[1]}"
    yield payments
    page.close()


server = Server(
    "asking",
    version="1",
    lifespan=lifespan,
    options=ServerOptions(encrypt_state=os.environ.get("ASKING_ENCRYPTS") == "1"),
)
QUESTIONS = 11
orders: list[str] = []
started: set[str] = set()


def placed(what: str, ctx: Context) -> int:
    """Place an order, and return how many there are now."""
    orders.append(f"{what} for {ctx.idempotency_key}")
    return len(orders)


def times_placed(ctx: Context) -> int:
    """Count the orders of one call."""
    return sum(each.endswith(ctx.idempotency_key) for each in orders)


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
    number = await ctx.once("order", lambda: placed(what, ctx))
    is_sweet = (await ctx.elicit("With sugar?", bool)).value
    sugar = "with" if is_sweet else "without"
    return f"{what} {sugar} sugar, number {number}, ordered here {times_placed(ctx)} times"


@server.tool
async def order_once(ctx: Context) -> str:
    """Do as `order` does, with a state that is taken once."""
    return await order(ctx)


@server.tool
def order_in_thread(ctx: Context) -> str:
    """Do as `order` does, in a function that is not async."""
    what = ctx.sync.elicit("What would you like?", Literal["tea", "coffee"]).value
    number = ctx.sync.once("order", lambda: placed(what, ctx))
    is_sweet = ctx.sync.elicit("With sugar?", bool).value
    sugar = "with" if is_sweet else "without"
    return f"{what} {sugar} sugar, number {number}, ordered here {times_placed(ctx)} times"


@server.tool
async def survey(ctx: Context) -> str:
    """Ask three things at once."""
    colour, words, roots = await ctx.ask(
        ElicitRequest("Which colour?", Literal["red", "green", "blue"], key="colour"),
        SamplingRequest("Say hello", max_tokens=20, key="hello"),
        ListRootsRequest(key="roots"),
    )
    uris = ", ".join(root.uri for root in roots)
    return f"{colour.value}; {words.text}; {uris}"


@server.tool
async def gather(ctx: Context) -> str:
    """Ask in tasks that asyncio gathers, and again once those are answered."""

    async def guest(seat: str) -> str:
        return (await ctx.elicit(f"Who sits on the {seat}?", str, key=seat)).value

    left, right = await asyncio.gather(guest("left"), guest("right"))
    return f"{left} and {right}, {(await ctx.elicit('Which table?', int)).value}"


@server.tool
async def group(ctx: Context) -> str:
    """Ask in tasks of an anyio task group, whose failures come as an exception group."""
    guests: dict[str, str] = {}

    async def guest(seat: str) -> None:
        guests[seat] = (await ctx.elicit(f"Who sits on the {seat}?", str, key=seat)).value

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(guest, "left")
        tasks.start_soon(guest, "right")
    return f"{guests['left']} and {guests['right']}"


@server.tool
async def unstable(ctx: Context) -> str:
    """Ask in another order once the first question has been answered, as no handler should."""
    questions = ["First?", "Second?"]
    if ctx.idempotency_key in started:
        questions.reverse()
    started.add(ctx.idempotency_key)
    return " ".join([(await ctx.elicit(each, str)).value for each in questions])


@server.tool
async def attend(table: Annotated[int, Ask("Which table?")], ctx: Context) -> str:
    """Have a parameter asked for before the function runs."""
    return f"table {table}, {(await ctx.elicit('With sugar?', bool)).value}"


def even(number: int) -> int:
    """Refuse what no JSON Schema of a form can refuse."""
    if number % 2:
        raise ValueError("expected an even number")
    return number


@server.tool
async def pair(ctx: Context) -> str:
    """Ask for what is entered wrongly at first."""
    return f"{(await ctx.elicit('How many, in pairs?', Annotated[int, AfterValidator(even)])).value} of them"


@server.tool
async def refuse(ctx: Context) -> str:
    """Ask what the user declines."""
    return (await ctx.elicit("Your salary?", int)).action


@server.tool
async def dismiss(ctx: Context) -> str:
    """Ask what the user leaves open."""
    return (await ctx.elicit("Your shoe size?", int)).action


@server.tool
async def insist(ctx: Context) -> str:
    """Ask what the user declines, though there is no other way."""
    return f"{(await ctx.elicit('Your salary?', int)).value} a year"


@server.tool
async def pay(ctx: Context[PaymentPage]) -> str:
    """Have the user pay on a page of its own."""
    payment = ctx.idempotency_key
    payments = ctx.state
    answer = await ctx.elicit_url(
        "Please pay", f"{payments.url}/{payment}", done=lambda: payment in payments.paid
    )
    return f"{answer.action}, {len(payments.paid & {payment})} payment"


@server.tool
async def muse(ctx: Context) -> str:
    """Have the model speak twice, of which the second time answers the first."""
    first = await ctx.sample("Say hello", max_tokens=20)
    second = await ctx.sample([user("Say hello"), assistant(first.text), user("And goodbye")], max_tokens=20)
    return f"{first.text}, {second.text} ({second.model})"


@server.tool
async def consult(ctx: Context) -> str:
    """Have the model use a tool of the server's."""
    messages: list[object] = [user("What is the time?")]
    clock = {"name": "clock", "inputSchema": {"type": "object"}}
    tool_use = await ctx.sample(messages, max_tokens=20, tools=[clock], tool_choice="auto")
    (use,) = tool_use.content
    tool_result = {
        "type": "tool_result",
        "toolUseId": use["id"],
        "content": [{"type": "text", "text": "noon"}],
    }
    messages += [
        {"role": "assistant", "content": tool_use.content},
        {"role": "user", "content": [tool_result]},
    ]
    words = await ctx.sample(messages, max_tokens=20, tools=[clock], tool_choice="none")
    return f"{tool_use.stop_reason} {use['name']}: {words.text}"


@server.tool
async def places(ctx: Context) -> str:
    """List the client's roots."""
    return ", ".join(f"{root.name or 'nameless'} {root.uri}" for root in await ctx.list_roots())


@server.tool
async def interview(ctx: Context) -> str:
    """Ask more, one after the other, than a client may have the patience for."""
    return " ".join([(await ctx.elicit(f"Question {number}?", str)).value for number in range(QUESTIONS)])


@server.prompt
async def greet(ctx: Context) -> str:
    """Ask for the name and the style of a greeting."""
    name = (await ctx.elicit("Greet which user?", str)).value
    return f"Greet {name} {(await ctx.elicit(f'How is {name}?', str)).value}."


@server.resource("notes://{kind}")
async def notes(kind: str, ctx: Context) -> str:
    """Ask for the owner and the date of notes."""
    owner = (await ctx.elicit("Notes of which user?", str)).value
    return f"{kind} notes of {owner}, {(await ctx.elicit(f'When did {owner} write?', str)).value}"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run()
    else:
        server.run(sys.argv[1], port=int(sys.argv[2]) if len(sys.argv) > 2 else 0)

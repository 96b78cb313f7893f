"""Server with a tool, resource or prompt for each condition that transport tests need."""

import asyncio
from typing import Annotated, Any

from mcpkit import Access, Context, Server, ToolError
from mcpkit.extensions import ParamHeader
from tests.helpers.waiting import Work

SECRET = "a secret of sixteen bytes and more"


class Steps:
    """Controls the tool `step`, which takes one step per name.

    Attributes:
        requested: Names of steps to take.
        finished: Names of steps that the tool has taken.
    """

    def __init__(self) -> None:
        self.requested: asyncio.Queue[str] = asyncio.Queue()
        self.finished: asyncio.Queue[str] = asyncio.Queue()

    async def take(self, *names: str) -> None:
        for name in names:
            self.requested.put_nowait(name)
            assert await asyncio.wait_for(self.finished.get(), 10) == name


def make_server(
    work: Work | None = None, steps: Steps | None = None, *, name: str = "weather", **options: Any
) -> Server:
    """Return a server; servers with the same name and secret accept each other's sessions."""
    work, steps = work or Work(), steps or Steps()
    server = Server(name, version="1", **{"secret_key": SECRET, **options})

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def envelope(ctx: Context) -> str:
        return f"{ctx.protocol_version} {ctx.client.name}"

    @server.tool
    async def report(ctx: Context, times: int = 1) -> str:
        for done in range(times):
            await ctx.report_progress(done + 1, times)
        return "reported"

    @server.tool
    async def wait() -> str:
        await work.wait()
        return "waited"

    @server.tool
    async def log_levels(ctx: Context) -> str:
        await ctx.log("info", "quiet")
        await ctx.log("error", "loud")
        return "logged"

    @server.tool
    async def log_then_wait(ctx: Context) -> str:
        await ctx.log("warning", "hello")
        await work.wait()
        await ctx.report_progress(1)
        return "done"

    @server.tool
    async def count(ctx: Context, times: int, size: int = 1) -> str:
        for number in range(times):
            await ctx.log("warning", f"{number} " + "x" * size)
        return "counted"

    @server.tool
    async def step(ctx: Context) -> str:
        """Log each name; `close` ends the connection, `end` ends the call."""
        while (name := await steps.requested.get()) != "end":
            if name == "close":
                await ctx.http.close_stream()
            else:
                await ctx.log("warning", name)
            steps.finished.put_nowait(name)
        steps.finished.put_nowait(name)
        return "the end"

    @server.tool
    def block() -> str:
        work.released.wait(10)
        return "unblocked"

    @server.tool
    async def region(region: Annotated[str, ParamHeader("Region")] = "") -> str:
        return region

    @server.tool(access=Access(requires_capabilities="sampling"))
    async def sample() -> None: ...

    @server.tool
    async def refuse() -> None:
        raise ToolError("not today")

    @server.tool
    async def ask_name(ctx: Context) -> str:
        try:
            return (await ctx.elicit("Who?", str)).value
        finally:
            work.done.set()

    @server.tool
    async def ask_names(ctx: Context) -> str:
        first = (await ctx.elicit("First name?", str)).value
        await ctx.info("first name received")
        return f"{first} {(await ctx.elicit('Last name?', str)).value}"

    @server.tool
    async def pay(ctx: Context) -> str:
        answer = await ctx.elicit_url("Pay", "https://example.com/pay", done=lambda: True)
        return answer.action

    @server.resource("weather://fixed")
    async def fixed() -> str:
        return "fixed"

    @server.resource("towns://{name}")
    async def town(name: str) -> str:
        return name

    @server.resource("notes://{kind}")
    async def notes(kind: str, ctx: Context) -> str:
        return f"{kind} of {(await ctx.elicit('Whose?', str)).value}"

    @server.prompt
    async def plan(city: str) -> str:
        return f"Plan for {city}"

    @server.prompt(access=Access(requires_capabilities="sampling"))
    async def requires_sampling() -> str:
        return ""

    @server.prompt
    async def greet(ctx: Context) -> str:
        return f"Greet {(await ctx.elicit('Whom?', str)).value}"

    return server

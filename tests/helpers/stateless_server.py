"""The server that the tests of Streamable HTTP of 2026-07-28 ask, and what they send to it."""

from __future__ import annotations

from typing import Annotated, Any

from mcpkit import Context, Header, ProtocolError, ResourceError, Server, ToolError
from tests.helpers.pipe import stateless_meta
from tests.helpers.work import Work

REVISION = "2026-07-28"
LATER = 3600.0
"""Seconds that no test lasts."""


def make_server(work: Work) -> Server:
    """Return a server whose functions do what requests can meet."""
    server = Server("weather", version="1")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def envelope(ctx: Context) -> str:
        return f"{ctx.era} {ctx.revision} {ctx.client.name}"

    @server.tool
    async def report(ctx: Context, times: int = 1) -> str:
        for done in range(times):
            await ctx.progress(done + 1, times)
        return "reported"

    @server.tool
    async def wait() -> str:
        await work.wait()
        return "waited"

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("warning", "hello")
        await work.wait()
        await ctx.progress(1)
        return "spoken"

    @server.tool
    async def babble(ctx: Context) -> None:
        try:
            await work.wait()
        finally:
            try:
                await ctx.log("warning", "too late")
            except RuntimeError as error:
                work.failure = error

    @server.tool
    def block() -> str:
        work.released.wait(10)
        return "unblocked"

    @server.tool
    async def region(region: Annotated[str, Header("Region")] = "") -> str:
        return region

    @server.tool(requires="sampling")
    async def sample() -> None: ...

    @server.tool
    async def refuse() -> None:
        raise ToolError("not today")

    @server.tool
    async def crash() -> None:
        raise ValueError("a secret")

    @server.tool
    async def late_refusal(ctx: Context) -> None:
        await ctx.log("warning", "soon")
        raise ProtocolError(7, "late")

    @server.resource("weather://fixed")
    async def fixed() -> str:
        return "fixed"

    @server.resource("weather://broken")
    async def broken() -> str:
        raise ResourceError("no reading")

    @server.resource("weather://crash")
    async def crashing() -> str:
        raise ValueError("a secret")

    @server.prompt
    async def plan(city: str) -> str:
        return f"Plan for {city}"

    @server.prompt(requires="sampling")
    async def asking() -> str:
        return ""

    return server


def text_of(response: dict[str, Any]) -> str:
    """Return the text of a tool's result."""
    return response["result"]["content"][0]["text"]


def standard_headers(method: str, name: str | None = None) -> dict[str, str | bytes | None]:
    """Return the headers that a stateless request must have."""
    return {"mcp-protocol-version": REVISION, "mcp-method": method, "mcp-name": name}


def request(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    """Return a stateless request; without `params`, with those that it must have."""
    params = {"_meta": stateless_meta()} if params is None else params
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params} | more


def call_params(name: str, **arguments: Any) -> dict[str, Any]:
    """Return the parameters of a stateless call of a tool."""
    return {"name": name, "arguments": arguments, "_meta": stateless_meta()}

"""What a server does: each case before and after."""

from __future__ import annotations

import libcst as cst
import pytest

from mcpkit.compat.migrate.rewriting import rewritten

CASES = {
    "what `run` takes goes there where its names are known, and is marked elsewhere": (
        """\
from mcp.server.fastmcp import FastMCP


def create(port: int) -> FastMCP:
    # it is made here
    server = FastMCP("a", port=port)

    @server.tool()
    def f() -> str:
        return "x"

    return server


class Holder:
    def __init__(self, port: int):
        self.mcp = FastMCP("b", port=port, host="127.0.0.1")
        self.mcp.tool()(self.f)
        self.mcp.add_tool(self.f, "g", "Title")

    def f(self) -> str:
        return "x"

    def serve(self):
        self.mcp.run("streamable-http")


create(80).run()
""",
        """\
from mcpkit import Server


def create(port: int) -> Server:
    # it is made here
    # mcpkit: pass port=port to run("http", ...) or asgi(...), where this server is served
    server = Server("a")

    @server.tool
    def f() -> str:
        return "x"

    return server


class Holder:
    def __init__(self, port: int):
        # mcpkit: pass port=port to run("http", ...) or asgi(...), where this server is served
        self.mcp = Server("b")
        self.mcp.tool(self.f)
        self.mcp.tool(self.f, name="g", title="Title")

    def f(self) -> str:
        return "x"

    def serve(self):
        self.mcp.run("http", host="127.0.0.1")


create(80).run()
""",
    ),
    "what serves in a loop": (
        """\
import asyncio

import anyio
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("a", port=9000, session_idle_timeout=None)


async def main() -> None:
    await mcp.run_stdio_async()


async def other() -> None:
    await mcp.run_sse_async()


if __name__ == "__main__":
    asyncio.run(mcp.run_streamable_http_async())
    anyio.run(mcp.run_stdio_async)
    print(mcp.settings.port, mcp.settings.host)
""",
        """\
import uvicorn
from mcpkit import Server
from mcpkit.transports.stdio import serve_stdio

mcp = Server("a")


async def main() -> None:
    await serve_stdio(mcp)


async def other() -> None:
    await uvicorn.Server(uvicorn.Config(mcp.asgi(), host="127.0.0.1", port=9000)).serve()


if __name__ == "__main__":
    mcp.run("http", port=9000)
    mcp.run()
    print(9000, "127.0.0.1")
""",
    ),
    "rules for hosts go to what serves": (
        """\
from mcp.server.fastmcp import FastMCP
from mcp.server.transport_security import TransportSecuritySettings

mcp = FastMCP("a", host="localhost", port=80)
other = FastMCP("b", transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False))
app = other.streamable_http_app()
third = FastMCP(
    "c", transport_security=TransportSecuritySettings(allowed_hosts=["a.example"], allowed_origins=["https://a.example"])
)
third.run(transport="sse", mount_path="/x")
""",
        """\
from mcpkit import Server

# mcpkit: pass host="localhost", port=80 to run("http", ...) or asgi(...), where this server is
#   served
mcp = Server("a")
other = Server("b")
app = other.asgi(allowed_hosts=["*"], allowed_origins=["*"])
third = Server("c")
third.run("sse", allowed_hosts=["a.example"], allowed_origins=["https://a.example"])
""",
    ),
    "a class that is derived from the server's": (
        """\
from mcp.server.fastmcp import FastMCP


class Mine(FastMCP):
    def __init__(self, port: int) -> None:
        super().__init__("mine", "Do it.", port=port, debug=True)
        self.tool()(self.f)

    async def list_tools(self):
        return []

    def f(self) -> str:
        return self.get_context().request_id
""",
        """\
from mcpkit import Server, current_context


class Mine(Server):
    def __init__(self, port: int) -> None:
        # mcpkit: pass port=port to run("http", ...) or asgi(...), where this server is served
        super().__init__("mine", instructions="Do it.")
        self.tool(self.f)

    # mcpkit: nothing calls this method: a function under @server.middleware sees each request
    async def list_tools(self):
        return []

    def f(self) -> str:
        return current_context().request_id
""",
    ),
    "what is said and asked by a Context": (
        """\
from mcp.server.fastmcp import Context, FastMCP

mcp = FastMCP("a")


@mcp.tool()
def f(ctx: Context) -> str:
    ctx.report_progress(1, 2)
    ctx.log(level="info", message="x")
    return ctx.client_id


async def helper(ctx) -> None:
    await ctx.report_progress(1, 2, "x")
    await ctx.session.send_resource_updated("a://b")
    await ctx.session.send_tool_list_changed()
    print(ctx.request_context.request.headers.get("x"), ctx.request_context.session.client_params.clientInfo.name)
    roots = await ctx.session.list_roots()
    await ctx.read_resource("a://b")
""",
        """\
from mcpkit import Context, Server

mcp = Server("a")


@mcp.tool
def f(ctx: Context) -> str:
    ctx.sync.progress(1, total=2)
    ctx.sync.log("info", "x")
    return ctx.meta.get("client_id")


async def helper(ctx) -> None:
    await ctx.progress(1, total=2, message="x")
    ctx.server.resource_updated("a://b")
    print(ctx.headers.get("x"), ctx.client.name)
    roots = await ctx.list_roots()
    # mcpkit: call the resource's own function instead
    await ctx.read_resource("a://b")
""",
    ),
    "answers are told apart by their action": (
        """\
from mcp.server.elicitation import AcceptedElicitation, DeclinedElicitation
from mcp.server.fastmcp import Context, FastMCP

mcp = FastMCP("a")


@mcp.tool()
async def f(ctx: Context) -> str:
    result = await ctx.elicit("q", str)
    match result:
        case AcceptedElicitation(data=data):
            return data
        case DeclinedElicitation():
            return "no"
    if not isinstance(result, AcceptedElicitation):
        return "no"
    return result.data
""",
        """\
from mcpkit import Answer, Context, Server

mcp = Server("a")


@mcp.tool
async def f(ctx: Context) -> str:
    result = await ctx.elicit("q", str)
    match result:
        case Answer(action="accept", value=data):
            return data
        case Answer(action="decline"):
            return "no"
    if not result.action == "accept":
        return "no"
    return result.value
""",
    ),
    "what must stay in one thread does": (
        """\
import asyncio
import threading

from mcp.server.fastmcp import FastMCP

mcp = FastMCP("a")
local = threading.local()
count = 0


def step() -> int:
    global count
    count += 1
    return count


@mcp.tool()
def f() -> int:
    return step()


@mcp.tool()
def g() -> None:
    asyncio.create_task(asyncio.sleep(1))


@mcp.tool()
async def h() -> int:
    return step()


@mcp.tool()
def k() -> str:
    return "x"
""",
        """\
import asyncio
import threading

from mcpkit import Server

mcp = Server("a")
local = threading.local()
count = 0


def step() -> int:
    global count
    count += 1
    return count


@mcp.tool(thread=False)
def f() -> int:
    return step()


@mcp.tool(thread=False)
def g() -> None:
    asyncio.create_task(asyncio.sleep(1))


@mcp.tool
async def h() -> int:
    return step()


@mcp.tool
def k() -> str:
    return "x"
""",
    ),
    "texts that are meant for the caller": (
        """\
import httpx
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("a")


@mcp.tool()
def f(x: int) -> str:
    try:
        raise ValueError("caught")
    except ValueError:
        pass
    if x:
        raise RuntimeError(f"not {x}")
    raise KeyError(x)


@mcp.tool()
async def g() -> str:
    response = httpx.get("x")
    response.raise_for_status()
    return response.text


@mcp.prompt()
def p() -> str:
    raise ValueError("no")
""",
        """\
import httpx
from mcpkit import PromptError, Server, ToolError

mcp = Server("a")


@mcp.tool
def f(x: int) -> str:
    try:
        raise ValueError("caught")
    except ValueError:
        pass
    if x:
        raise ToolError(f"not {x}")
    raise KeyError(x)


@mcp.tool
async def g() -> str:
    response = httpx.get("x")
    # mcpkit: of such an error the model reads no more than "Internal error (ref ...)": raise ToolError
    #   instead, here or for all tools at once in a function under @server.on_error
    response.raise_for_status()
    return response.text


@mcp.prompt
def p() -> str:
    raise PromptError("no")
""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    before, after = CASES[case]
    found = rewritten(cst.parse_module(before), set())
    assert found.module is not None
    assert found.module.code == after
    assert rewritten(found.module, set()).module is None, "a second run changes nothing"

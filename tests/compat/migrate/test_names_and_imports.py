"""Names, imports and layout: each case before and after."""

from __future__ import annotations

import libcst as cst
import pytest

from mcpkit.compat.migrate.rewriting import rewritten

CASES = {
    "names that the author has chosen stay": (
        """\
from mcp.server.fastmcp import FastMCP as MCP, Context as C

app = MCP("a")


@app.tool()
def f(c: C) -> str:
    return "x"
""",
        """\
from mcpkit import Context as C, Server as MCP

app = MCP("a")


@app.tool
def f(c: C) -> str:
    return "x"
""",
    ),
    "names that are parts of a module become names": (
        """\
import mcp.server.fastmcp as fast
from mcp import types

app = fast.FastMCP("a")


@app.tool(annotations=types.ToolAnnotations(readOnlyHint=True))
def f(ctx: fast.Context) -> types.CallToolResult:
    return types.CallToolResult(content=[])
""",
        """\
from mcpkit import Context, Server, ToolAnnotations, ToolResult

app = Server("a")


@app.tool(annotations=ToolAnnotations(readOnlyHint=True))
def f(ctx: Context) -> ToolResult:
    return ToolResult([])
""",
    ),
    "what the file calls by a name of mcpkit's keeps it": (
        """\
from PIL import Image
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp import Image as McpImage
from mcp.server.fastmcp.prompts.base import UserMessage
from mcp.types import TextContent

mcp = FastMCP("a")


class Text:
    pass


@mcp.tool()
def f(user: str) -> list:
    return [TextContent(type="text", text=user), McpImage(data=b"", format="png")]


@mcp.prompt()
def p(user: str):
    return [UserMessage(user)]
""",
        """\
from PIL import Image
from mcpkit import Image as McpImage, Server, Text as TextBlock, user as user_message

mcp = Server("a")


class Text:
    pass


@mcp.tool
def f(user: str) -> list:
    return [TextBlock(user), McpImage(data=b"", mime_type="image/png")]


@mcp.prompt
def p(user: str):
    return [user_message(user)]
""",
    ),
    "imports stay where they stand, and texts in annotations are renamed": (
        """\
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.server.fastmcp import FastMCP


def register(mcp: "FastMCP") -> None:
    @mcp.tool(structured_output=True)
    def f() -> str:
        return "x"
""",
        """\
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpkit import Server


def register(mcp: "Server") -> None:
    @mcp.tool
    def f() -> str:
        return "x"
""",
    ),
    "resources and prompts that are objects become functions": (
        """\
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.resources import DirectoryResource, FileResource, FunctionResource
from mcp.server.fastmcp.prompts import Prompt

mcp = FastMCP("a")


def f() -> str:
    return "x"


mcp.add_resource(FunctionResource(uri="a://b", name="b", fn=f, mime_type="text/plain"))
mcp.add_resource(FileResource(uri="a://c", name="c", path="/etc/hosts"))
mcp.add_resource(DirectoryResource(uri="a://d", name="d", path="/etc"))
mcp.add_prompt(Prompt.from_function(f, name="p"))
mcp.remove_tool("f")
""",
        """\
from mcpkit import File, Server
# mcpkit: DirectoryResource: there is nothing of this name in mcpkit
from mcp.server.fastmcp.resources import DirectoryResource

mcp = Server("a")


def f() -> str:
    return "x"


mcp.resource("a://b", name="b", mime_type="text/plain")(f)
mcp.resource("a://c", name="c")(lambda: File("/etc/hosts"))
# mcpkit: `add_resource` has no counterpart: register a function: resource(uri)(function), or
#   include(resource_dir(folder, uri))
mcp.add_resource(DirectoryResource(uri="a://d", name="d", path="/etc"))
mcp.prompt(f, name="p")
mcp.tools.remove("f")
""",
    ),
    "what mcpkit refuses is marked": (
        """\
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("a")


@mcp.tool(name="send money")
def f() -> str:
    return "x"


@mcp.tool()
def g() -> str:
    return "x"


@mcp.tool()
def g() -> str:
    return "x"
""",
        """\
from mcpkit import Server

mcp = Server("a")


# mcpkit: a tool's name is 1 to 128 of A-Z a-z 0-9 _ - . here: give it another
@mcp.tool(name="send money")
def f() -> str:
    return "x"


@mcp.tool
def g() -> str:
    return "x"


# mcpkit: there is a tool 'g' already: version 1 kept the first, mcpkit refuses the second; rename
#   one, or take one away
@mcp.tool
def g() -> str:
    return "x"
""",
    ),
    "comments stay": (
        """\
# above
from mcp.server.fastmcp import FastMCP  # noqa: F401
from mcp.types import TextContent

# the server
mcp = FastMCP(
    # its name
    "a",
    debug=False,  # not in production
    instructions="Do it.",  # for models
)  # end


# a tool
@mcp.tool(
    # what it is called
    name="g",
    structured_output=True,
    description="It does it.",  # for models
)
def f() -> str:
    return "x"


if __name__ == "__main__":
    # serve
    mcp.settings.port = 80  # usual
    mcp.run(transport="stdio")  # for hosts
""",
        """\
# above
from mcpkit import Server

# the server
# not in production
mcp = Server(
    # its name
    "a",
    instructions="Do it.",  # for models
)  # end


# a tool
@mcp.tool(
    # what it is called
    name="g",
    description="It does it.",  # for models
)
def f() -> str:
    return "x"


if __name__ == "__main__":
    # serve
    mcp.run()  # for hosts
""",
    ),
    "a Context that an object keeps": (
        """\
from mcp.server.fastmcp import Context


class Service:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._own = self.ctx

    async def serve(self) -> str:
        await self.ctx.report_progress(1, 2)
        return self.ctx.request_context.lifespan_context.path + self._own.request_context.lifespan_context.path
""",
        """\
from mcpkit import Context


class Service:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._own = self.ctx

    async def serve(self) -> str:
        await self.ctx.progress(1, total=2)
        return self.ctx.state.path + self._own.state.path
""",
    ),
    "the id of a request is a text, and a result has other names": (
        """\
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import CallToolResult

mcp = FastMCP("a")


@mcp.tool()
async def f(ctx: Context) -> CallToolResult:
    ids = ctx.request_id, getattr(ctx, "request_id", None), ctx.request_context.request_id
    result = await helper(*ids)
    print(result.isError)
    return result
""",
        """\
from mcpkit import Context, Server, ToolResult

mcp = Server("a")


@mcp.tool
async def f(ctx: Context) -> ToolResult:
    ids = str(ctx.request_id), str(ctx.request_id), ctx.request_id
    result = await helper(*ids)
    # mcpkit: of a ToolResult this is `is_error`
    print(result.isError)
    return result
""",
    ),
    "several statements on a line stay there": (
        """\
from mcp.server.fastmcp import FastMCP
mcp = FastMCP("a"); mcp.settings.debug = True
if __name__ == "__main__": mcp.run(transport="stdio")
""",
        """\
from mcpkit import Server
# mcpkit: `settings`: there are no settings: what run() and asgi() take is passed to them
mcp = Server("a"); mcp.settings.debug = True
if __name__ == "__main__": mcp.run()
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

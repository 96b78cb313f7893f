from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.session import ServerSession


@dataclass
class State:
    pages: list[str]


@asynccontextmanager
async def lifespan(server: FastMCP) -> AsyncIterator[State]:
    yield State(pages=["cover", "preface"])


mcp = FastMCP("archive", lifespan=lifespan)


@mcp.tool()
async def index(ctx: Context[ServerSession, State]) -> str:
    """Index all pages."""
    pages = ctx.request_context.lifespan_context.pages
    for number, page in enumerate(pages, start=1):
        await ctx.info(f"Indexing {page}", logger_name="archive")
        await ctx.report_progress(progress=number, total=len(pages), message=page)
    await ctx.session.send_resource_list_changed()
    return f"Indexed {len(pages)} pages"


@mcp.resource("archive://pages/{number}")
def page(number: int, ctx: Context) -> str:
    """One page."""
    return ctx.request_context.lifespan_context.pages[int(number)]


if __name__ == "__main__":
    mcp.run()

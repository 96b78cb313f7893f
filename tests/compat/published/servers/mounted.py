"""A server whose app is mounted in another, beside a route of its own: `mounted.py PORT`."""

import contextlib
import sys
from collections.abc import AsyncIterator

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount

mcp = FastMCP(
    "mounted",
    stateless_http=False,
    transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
)
mcp.settings.streamable_http_path = "/"
mcp.settings.log_level = "ERROR"


@mcp.tool()
async def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@mcp.tool()
async def slow(ctx: Context, steps: int = 3) -> str:
    """Tell of each step."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
        await ctx.info(f"step {step + 1}")
    return f"{ctx.request_context.request.headers['accept']}"


@mcp.resource("mounted://state")
def state() -> str:
    """The state."""
    return "mounted"


@mcp.custom_route("/health", methods=["GET"])
async def health(request: Request) -> Response:
    return JSONResponse({"ok": True, "path": request.url.path})


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with mcp.session_manager.run():
        yield


app = Starlette(routes=[Mount("/served", app=mcp.streamable_http_app())], lifespan=lifespan)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")

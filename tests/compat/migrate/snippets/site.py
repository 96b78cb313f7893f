import contextlib

from mcp.server.fastmcp import FastMCP
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount

mcp = FastMCP("echo", stateless_http=True)
mcp.settings.streamable_http_path = "/"


@mcp.tool()
def echo(text: str) -> str:
    """Say it again."""
    return text


@mcp.custom_route("/health", methods=["GET"])
async def health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


@contextlib.asynccontextmanager
async def lifespan(app: Starlette):
    async with mcp.session_manager.run():
        yield


app = Starlette(routes=[Mount("/echo", mcp.streamable_http_app())], lifespan=lifespan)

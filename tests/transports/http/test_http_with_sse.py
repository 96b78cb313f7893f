"""The event stream of 2024-11-05, which sse-starlette serves."""

import subprocess
import sys

from mcpkit import HttpOptions, Server
from tests.helpers.raw_client import Serve
from tests.helpers.servers.protected import old_of


def test_sse_starlette_is_imported_when_a_stream_opens_and_leaves_handle_exit_of_uvicorn() -> None:
    program = """
import asyncio, sys
import uvicorn
from mcpkit import HttpOptions, Server
handle_exit = uvicorn.Server.handle_exit
app = Server("old").asgi(http=HttpOptions(sse=True))

async def main():
    started = asyncio.Event()
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [(b"host", b"localhost")]}
    scope["query_string"] = b""

    async def receive():
        if scope["method"] == "POST":
            return {"type": "http.request", "body": b"[", "more_body": False}
        await started.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        started.set()

    await app(scope, receive, send)
    assert "sse_starlette" not in sys.modules
    started.clear()
    scope.update(method="GET", path="/sse")
    await asyncio.wait_for(app(scope, receive, send), 20)
    assert "sse_starlette" in sys.modules
    assert uvicorn.Server.handle_exit is handle_exit

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_idle_stream_gets_pings(serve: Serve) -> None:
    async with serve(Server("old"), http=HttpOptions(sse=True, sse_ping_interval=0.05)) as client:
        sse = await old_of(client, {})
        for _ in range(3):
            await sse.stream.comment()
        assert "result" in await sse.ask("ping", {}, {})

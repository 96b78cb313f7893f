"""Requests as bytes, connections on which something waits, and a uvicorn in a thread that a program stops."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from typing import Any

import uvicorn

from mcpkit import Context, Server

PATIENCE = 15.0
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LATEST = {"MCP-Protocol-Version": "2026-07-28"}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}


def make_server(begun: threading.Event, released: threading.Event) -> Server:
    server = Server("stopped")

    @server.tool
    async def wait() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    @server.tool
    def block() -> str:
        begun.set()
        released.wait(PATIENCE)
        return "late"

    @server.tool
    async def report(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await asyncio.Event().wait()
        return "never"

    @server.tool
    async def large() -> str:
        return "x" * 16_000_000

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


def request(
    method: str, path: str, body: bytes, headers: dict[str, str], announced: int | None = None
) -> bytes:
    lines = {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body) if announced is None else announced),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def message(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def call(tool: str, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": META | {"progressToken": 1}}
    return request(
        "POST", "/mcp", message("tools/call", params), LATEST | {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    )


LISTEN = request(
    "POST",
    "/mcp",
    message("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": META}),
    LATEST | {"Mcp-Method": "subscriptions/listen"},
)
INITIALIZE = request("POST", "/mcp", message("initialize", CLIENT), {})


def opened(address: tuple[str, int], what: str) -> socket.socket:
    """Open a connection on which something waits, and return it when the server has begun to serve that."""
    connection = socket.create_connection(address, PATIENCE)
    if what in {"get", "handshake wait"}:
        connection.sendall(INITIALIZE)
        head = connection.recv(65536).decode()
        session = next(line for line in head.split("\r\n") if line.lower().startswith("mcp-session-id"))
        headers = {"Mcp-Session-Id": session.split(": ")[1]}
        if what == "get":
            connection.sendall(request("GET", "/mcp", b"", headers))
            connection.recv(65536)
        else:
            connection.sendall(
                request("POST", "/mcp", message("tools/call", {"name": "wait", "arguments": {}}), headers)
            )
    elif what == "sse":
        connection.sendall(request("GET", "/sse", b"", {}))
        connection.recv(65536)
    elif what == "listen":
        connection.sendall(LISTEN)
        connection.recv(65536)
    elif what == "half a body":
        connection.sendall(request("POST", "/mcp", b"{", {}, announced=100))
    elif what == "kept alive":
        connection.sendall(INITIALIZE)
        connection.recv(65536)
    elif what == "half a head":
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: loc")
    elif what == "unread":
        connection.sendall(call("large"))
        connection.recv(1)
    elif what:
        connection.sendall(call(what))
        if what == "report":
            connection.recv(65536)
    return connection


def start(app: Any, **options: Any) -> tuple[uvicorn.Server, threading.Thread, tuple[str, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", **options))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:  # an old uvicorn that is told to stop before that does not
        time.sleep(0.005)
    return server, thread, listening.getsockname()

"""What a client connects to, as users write it; read by mypy and pyright in their strict modes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import assert_type

from mcpkit import Client, ClientGroup, Server
from mcpkit.client import OutgoingMessage, TransportListener
from mcpkit.types import ToolDefinition

server = Server("weather")


async def token() -> str:
    return "secret"


class Mine:
    async def open(self, receiver: TransportListener) -> None: ...
    async def send(self, message: OutgoingMessage) -> None: ...
    async def close(self) -> None: ...


assert_type(Client("server.py", env={"CITY": "Oslo"}, cwd=Path.cwd(), stderr=subprocess.DEVNULL), Client)
Client(Path("server.py"), stderr=print)
Client("server.py", stderr=sys.stderr)
Client([sys.executable, Path("server.py"), "-v"])
Client(("uvx", "mcp-server-time"))
Client("https://example.com/mcp", token=token, headers={"A": "b"}, verify=False, cert="client.pem")
Client(server)
Client(server.asgi(), path="/weather/mcp", token="secret")
Client(Mine())
Client({"command": "uvx", "args": ["mcp-server-time"]})
Client({"mcpServers": {"weather": server, "time": ["uvx", "mcp-server-time"]}}, timeout=3.0)

Client(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Client("server.py", enw={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Client("server.py", env=["CITY=Oslo"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def several(path: Path) -> None:
    async with ClientGroup(path) as client:
        assert_type(client.servers, Mapping[str, Client])
        assert_type(client.failures, Mapping[str, Exception])
        assert_type(await client.servers["weather"].list_tools(), list[ToolDefinition])

"""A host at pipes, behind which `Supervisor` starts real processes of a server whose file tests edit."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from mcpkit.cli.reloading.stdio import environment
from mcpkit.cli.reloading.supervisor import Supervisor
from mcpkit.common.safe_output import SafeOutput
from mcpkit.transports.standard_streams import StandardStreams

PATIENCE = 60.0

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}

HEAD = """
import asyncio, os
from pathlib import Path
from mcpkit import Context, Server
shop = Server("shop", secret=None)
"""


class Edited:
    """A host, and the file of its server.

    Attributes:
        heard: Notifications and questions that have come, in order.
        file: The file.
        serving: The supervisor at work.
        last: The id of the latest request.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.heard: list[dict[str, Any]] = []
        self.serving: asyncio.Task[None]
        self.last = 0
        self._answers: dict[object, asyncio.Future[dict[str, Any]]] = {}
        self._edits: asyncio.Queue[list[str]] = asyncio.Queue()
        self._ids = count(1)
        self._news = asyncio.Event()
        self._to_server = -1

    def write(self, body: str, head: str = HEAD) -> None:
        """Write the file, and say nothing of it."""
        self.file.write_text(head + body)

    async def edit(self, body: str, head: str = HEAD) -> None:
        """Edit the file, and return when that has been seen."""
        self.write(body, head)
        self._edits.put_nowait([str(self.file)])
        await self._edits.join()

    def send(self, **message: Any) -> None:
        """Send a message to the server."""
        os.write(self._to_server, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def begin(self, method: str, **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a request, and return what will be its answer."""
        id_ = self.last = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[id_] = answer
        self.send(id=id_, method=method, params=params)
        return answer

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return its result."""
        answer = await asyncio.wait_for(self.begin(method, **params), PATIENCE)
        assert "result" in answer, answer
        return answer["result"]  # type: ignore[no-any-return]

    async def call(self, tool: str, **rest: Any) -> str:
        """Call a tool, and return the text of its result; that of an error begins with `error: `."""
        result = await self.ask("tools/call", name=tool, arguments={}, **rest)
        return ("error: " if result.get("isError") else "") + "".join(
            each["text"] for each in result["content"]
        )

    async def names(self, **rest: Any) -> list[str]:
        """Return the names of the tools."""
        return [tool["name"] for tool in (await self.ask("tools/list", **rest))["tools"]]

    async def hear(self, is_wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait for a notification or question, and return it; it, and all that came before it, is heard no more."""
        while True:
            for number, message in enumerate(self.heard):
                if is_wanted(message):
                    del self.heard[: number + 1]
                    return message
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), PATIENCE)

    async def hear_of(self, method: str) -> dict[str, Any]:
        """Wait for a notification or question of a method."""
        return await self.hear(lambda message: message["method"] == method)

    async def initialize(self, revision: str = "2025-06-18") -> dict[str, Any]:
        """Open a session."""
        client = {"name": "host", "version": "1"}
        result = await self.ask(
            "initialize", protocolVersion=revision, capabilities={"elicitation": {}}, clientInfo=client
        )
        self.send(method="notifications/initialized")
        return result

    async def told(self) -> AsyncGenerator[list[str]]:
        """Yield what `edit` has said."""
        yield []
        while True:
            yield await self._edits.get()
            self._edits.task_done()

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Take what comes from the server."""
        while line := await reader.readline():
            message = json.loads(line)
            if "method" in message:
                self.heard.append(message)
                self._news.set()
            else:
                self._answers.pop(message["id"]).set_result(message)

    def at(self, descriptor: int) -> None:
        """Say where the server reads."""
        self._to_server = descriptor

    def hang_up(self) -> None:
        """End the input of the server."""
        os.close(self._to_server)
        self._to_server = -1


@asynccontextmanager
async def edited(folder: Path, body: str, head: str = HEAD) -> AsyncIterator[Edited]:
    """Serve a file to a host, and start it anew when it is edited."""
    host = Edited(folder / "server.py")
    host.write(body, head)
    from_host, to_server = os.pipe()
    from_server, to_host = os.pipe()
    host.at(to_server)
    reader = asyncio.StreamReader(limit=2**24)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_server, "rb", buffering=0)
    )
    command = [sys.executable, "-m", "mcpkit", "run", str(host.file)]
    supervisor = Supervisor(
        command, environment(), host.told(), StandardStreams(from_host, to_host, SafeOutput())
    )
    host.serving = asyncio.ensure_future(supervisor.serve())
    reading = asyncio.ensure_future(host.read(reader))
    try:
        yield host
        if not host.serving.done():
            host.hang_up()
        await asyncio.wait_for(host.serving, PATIENCE)
    finally:
        for task in (host.serving, reading):
            task.cancel()
        await asyncio.gather(host.serving, reading, return_exceptions=True)
        transport.close()
        for descriptor in (from_host, to_host):
            os.close(descriptor)

"""A client that asks before anything is agreed upon, and waits for no lifespan, as hosts may."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcpkit import ProtocolError, Server
from mcpkit.client import CallResult
from mcpkit.protocol.client import Answered, ClientWire, Notified, Refused
from mcpkit.protocol.revisions import STATELESS
from mcpkit.transports import Connection


class ImpatientClient:
    """Sends each request at once.

    Args:
        server: The server.
        revision: The revision that it speaks.

    Attributes:
        notifications: All notifications that have come, oldest first.
        server_capabilities: What the server declares, once it has been opened.
        waiting: What waits for an answer, by id.
    """

    def __init__(self, server: Server, revision: str) -> None:
        self.notifications: list[dict[str, Any]] = []
        self.server_capabilities: dict[str, Any] = {}
        self.waiting: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._wire = ClientWire(revision, info={"name": "t", "version": "1"}, capabilities={})
        self._arrival = asyncio.Event()
        self._connection = Connection(server, self._receive)

    async def open(self) -> None:
        """Initialize, or discover."""
        if self._wire.revision in STATELESS:
            self.server_capabilities = (await self.request("server/discover"))["capabilities"]
            return
        info = {"clientInfo": self._wire.info, "capabilities": {}}
        result = await self.request("initialize", {"protocolVersion": self._wire.revision, **info})
        self.server_capabilities = result["capabilities"]
        self._connection.receive(self._wire.notification("notifications/initialized").line)

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request, and return its result."""
        sent = self._wire.request(method, params)
        future = self.waiting[sent.id] = asyncio.get_running_loop().create_future()
        self._connection.receive(sent.line)
        try:
            return await future
        finally:
            del self.waiting[sent.id]
            if (given_up := self._wire.cancel(sent.id, "nobody waits")) is not None:
                self._connection.receive(given_up.line)

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> CallResult:
        """Call a tool."""
        return CallResult(await self.request("tools/call", {"name": name, "arguments": arguments or {}}))

    async def _list(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.request(f"{kind}/list"))[kind]
        return found

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools."""
        return await self._list("tools")

    async def list_resources(self) -> list[dict[str, Any]]:
        """Return the resources."""
        return await self._list("resources")

    async def list_prompts(self) -> list[dict[str, Any]]:
        """Return the prompts."""
        return await self._list("prompts")

    async def read_resource(self, uri: str) -> list[dict[str, Any]]:
        """Read a resource."""
        contents: list[dict[str, Any]] = (await self.request("resources/read", {"uri": uri}))["contents"]
        return contents

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Get a prompt."""
        params = {"name": name, "arguments": arguments or {}}
        messages: list[dict[str, Any]] = (await self.request("prompts/get", params))["messages"]
        return messages

    async def complete(self, reference: str, argument: str, value: str) -> list[str]:
        """Complete an argument of a prompt."""
        params = {
            "ref": {"type": "ref/prompt", "name": reference},
            "argument": {"name": argument, "value": value},
        }
        values: list[str] = (await self.request("completion/complete", params))["completion"]["values"]
        return values

    async def notification(self, method: str) -> dict[str, Any]:
        """Wait for a notification, take it out of `notifications`, and return its params."""
        while True:
            for index, message in enumerate(self.notifications):
                if message["method"] == method:
                    del self.notifications[index]
                    params: dict[str, Any] = message.get("params", {})
                    return params
            self._arrival.clear()
            await self._arrival.wait()

    async def close(self) -> None:
        """Cancel what runs."""
        await self._connection.aclose()
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the client has been closed"))

    def _receive(self, line: bytes) -> None:
        for event in self._wire.receive(line):
            if isinstance(event, Answered):
                self.waiting[event.id].set_result(event.result)
            elif isinstance(event, Refused):
                self.waiting[event.id].set_exception(ProtocolError(event.code, event.message, event.data))
            elif isinstance(event, Notified):
                told = {} if event.params is None else {"params": event.params}
                self.notifications.append({"method": event.method, **told})
                self._arrival.set()

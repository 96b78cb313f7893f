"""Clients in raw JSON-RPC over HTTP, of both eras, which know nothing of mcpkit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from tests.helpers.cluster.processes import PATIENCE
from tests.helpers.cluster.wire import Away, Response, sent

Json = dict[str, Any]

META = "io.modelcontextprotocol/"
TASKS = "io.modelcontextprotocol/tasks"
IDEMPOTENCY = "mcpkit/idempotencyKey"
ENDED = {"completed", "failed", "cancelled"}
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
BOTH = "application/json, text/event-stream"
FAILED = -32603
UNKNOWN = -32602


class Error(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: Json, status: int) -> None:
        super().__init__(json.dumps(error))
        self.code: int = error["code"]
        self.status = status


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended: what asks in them may take a cancellation for a failure of its own."""
    pending = set(tasks)
    while pending:
        for each in pending:
            each.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.1)


class Stream:
    """An event stream that is open, or a JSON body in its place."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.last_id: str | None = None
        self._events = self._read()

    async def _read(self) -> AsyncIterator[Json]:
        if not self.response.headers.get("content-type", "").startswith("text/event-stream"):
            if body := await self.response.read():
                yield json.loads(body)
            return
        rest = b""
        async for chunk in self.response.chunks():
            *events, rest = (rest + chunk).split(b"\n\n")
            for event in events:
                fields = [line.partition(":") for line in event.decode().splitlines()]
                for name, _, value in fields:
                    if name == "id":
                        self.last_id = value.strip()
                if text := "\n".join(value.strip() for name, _, value in fields if name == "data"):
                    yield json.loads(text)

    async def wait(self) -> Json:
        """Return the next message, however long it takes; raises as `next` does."""
        try:
            return await anext(self._events)
        except StopAsyncIteration:
            raise Away("the stream has ended") from None
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Away(repr(error)) from error

    async def next(self) -> Json:
        """Return the next message.

        Raises:
            Away: There is none any more.
        """
        return await asyncio.wait_for(self.wait(), PATIENCE)

    async def until(self, method: str) -> Json:
        """Return the next message of a method, and pass over others."""
        while (message := await self.next()).get("method") != method:
            pass
        return message

    async def response_to(self, id_: Any) -> Json:
        """Return the result of a request; its other messages are passed over."""
        while True:
            message = await self.next()
            if message.get("id") == id_ and "method" not in message:
                if "error" in message:
                    raise Error(message["error"], self.response.status)
                result: Json = message["result"]
                return result


class Client:
    """A client of the stateless era.

    Args:
        url: Where to.
        headers: Further ones.
    """

    revision = "2026-07-28"

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        self.headers = dict(headers or {})
        self._ids = count(1)

    def _message(self, method: str, params: Json, id_: int) -> Json:
        capabilities = {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}
        meta = {
            META + "protocolVersion": self.revision,
            META + "clientInfo": {"name": "cluster", "version": "1"},
            META + "clientCapabilities": capabilities,
            **params.get("_meta", {}),
        }
        return {"jsonrpc": "2.0", "id": id_, "method": method, "params": {**params, "_meta": meta}}

    def _headers(self, method: str, params: Json) -> dict[str, str]:
        headers = {"mcp-protocol-version": self.revision, "mcp-method": method, **self.headers}
        name = params.get(NAMED_BY.get(method, "taskId"))
        return headers | ({"mcp-name": name} if isinstance(name, str) else {})

    @asynccontextmanager
    async def open(
        self, method: str, params: Json, at: str | None = None
    ) -> AsyncIterator[tuple[Stream, int]]:
        """Send a request, and give what comes of it, with its id."""
        id_ = next(self._ids)
        message = self._message(method, params, id_)
        async with self._sent("POST", at, self._headers(method, params), message) as stream:
            yield stream, id_

    @asynccontextmanager
    async def _sent(
        self, verb: str, at: str | None, headers: Mapping[str, str], message: Json | None
    ) -> AsyncIterator[Stream]:
        async with sent(verb, at or self.url, {"Accept": BOTH, **headers}, message) as response:
            yield Stream(response)

    async def ask(self, method: str, params: Json | None = None, at: str | None = None) -> Json:
        """Send a request, and return its result.

        Raises:
            Away: Nobody has answered.
            Error: The answer is an error.
        """
        async with self.open(method, params or {}, at) as (stream, id_):
            return await stream.response_to(id_)

    async def call(self, tool: str, at: str | None = None, **arguments: object) -> Json:
        """Call a tool."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, at)

    async def text(self, tool: str, at: str | None = None, **arguments: object) -> str:
        """Call a tool, and return its text."""
        result = await self.call(tool, at, **arguments)
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])


class Session(Client):
    """A client of the handshake era.

    Attributes:
        id: Its session's.
    """

    def __init__(self, url: str, revision: str = "2025-11-25") -> None:
        super().__init__(url)
        self.revision = revision
        self.id: str | None = None

    def _message(self, method: str, params: Json, id_: int) -> Json:
        return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}

    def _headers(self, method: str, params: Json) -> dict[str, str]:
        known = {} if self.id is None else {"mcp-session-id": self.id, "mcp-protocol-version": self.revision}
        return known | self.headers

    async def initialize(self, at: str | None = None) -> Json:
        """Open the session."""
        capabilities = {"elicitation": {}}
        info = {"name": "cluster", "version": "1"}
        params = {"protocolVersion": self.revision, "capabilities": capabilities, "clientInfo": info}
        async with self.open("initialize", params, at) as (stream, id_):
            result = await stream.response_to(id_)
            self.id = stream.response.headers["mcp-session-id"]
        await self.tell("notifications/initialized", at=at)
        return result

    async def tell(self, method: str, params: Json | None = None, at: str | None = None) -> int:
        """Send a notification, and return the status."""
        return await self.post({"jsonrpc": "2.0", "method": method, "params": params or {}}, at)

    async def post(self, message: Json, at: str | None = None) -> int:
        """Send any message, and return the status."""
        async with self._sent("POST", at, self._headers("", {}), message) as stream:
            await stream.response.read()
            return stream.response.status

    @asynccontextmanager
    async def listen(self, at: str | None = None, last_id: str | None = None) -> AsyncIterator[Stream]:
        """Open a stream, or come back to one."""
        headers = {**self._headers("", {}), "Accept": "text/event-stream"}
        if last_id is not None:
            headers["last-event-id"] = last_id
        async with self._sent("GET", at, headers, None) as stream:
            yield stream

    async def delete(self, at: str | None = None) -> int:
        """End the session."""
        async with self._sent("DELETE", at, self._headers("", {}), None) as stream:
            return stream.response.status

"""Clients in raw JSON-RPC over HTTP, for 2026-07-28 and for sessions of 2025-11-25, that do not use mcpkit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx2

from tests.helpers.processes import DEFAULT_TIMEOUT

Json = dict[str, Any]

META = "io.modelcontextprotocol/"
TASKS = "io.modelcontextprotocol/tasks"
ENDED = {"completed", "failed", "cancelled"}
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
INTERNAL_ERROR = -32603
UNKNOWN = -32602


class UnavailableError(Exception):
    """The connection failed, or the stream ended before the response."""


class ResponseError(Exception):
    """A JSON-RPC error response."""

    def __init__(self, error: Json, status: int) -> None:
        super().__init__(json.dumps(error))
        self.code: int = error["code"]
        self.status = status


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until all have ended."""
    pending = set(tasks)
    while pending:
        for each in pending:
            each.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.1)


class Stream:
    """The messages of an HTTP response: an event stream or one JSON body."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._messages = self._read()

    async def _read(self) -> AsyncIterator[Json]:
        if not self.response.headers.get("content-type", "").startswith("text/event-stream"):
            if body := await self.response.aread():
                yield json.loads(body)
            return
        async for line in self.response.aiter_lines():
            if line.startswith("data:") and (text := line[5:].strip()):
                yield json.loads(text)

    async def wait(self) -> Json:
        """Return the next message, however long it takes."""
        try:
            return await anext(self._messages)
        except StopAsyncIteration:
            raise UnavailableError("the stream has ended") from None
        except httpx2.TransportError as error:
            raise UnavailableError(repr(error)) from error

    async def until(self, method: str) -> Json:
        """Return the next message with a method, and skip others."""
        while (message := await asyncio.wait_for(self.wait(), DEFAULT_TIMEOUT)).get("method") != method:
            pass
        return message

    async def response_to(self, id_: int) -> Json:
        """Return the result of a request, and skip other messages."""
        while (message := await asyncio.wait_for(self.wait(), DEFAULT_TIMEOUT)).get(
            "id"
        ) != id_ or "method" in message:
            pass
        if "error" in message:
            raise ResponseError(message["error"], self.response.status_code)
        result: Json = message["result"]
        return result


class Client:
    """A client of 2026-07-28; `at` is the URL of a request in place of `url`."""

    revision = "2026-07-28"

    def __init__(self, url: str) -> None:
        self.url = url
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._http = httpx2.AsyncClient(timeout=None, limits=limits, trust_env=False)
        self._ids = count(1)

    def _message(self, method: str, params: Json, id_: int) -> Json:
        meta = {
            META + "protocolVersion": self.revision,
            META + "clientInfo": {"name": "chaos", "version": "1"},
            META + "clientCapabilities": {"elicitation": {"form": {}}, "extensions": {TASKS: {}}},
            **params.get("_meta", {}),
        }
        return {"jsonrpc": "2.0", "id": id_, "method": method, "params": {**params, "_meta": meta}}

    def _headers(self, method: str, params: Json) -> dict[str, str]:
        headers = {"mcp-protocol-version": self.revision, "mcp-method": method}
        name = params.get(NAMED_BY.get(method, "taskId"))
        return headers | ({"mcp-name": name} if isinstance(name, str) else {})

    @asynccontextmanager
    async def open(
        self, method: str, params: Json, at: str | None = None
    ) -> AsyncIterator[tuple[Stream, int]]:
        """Send a request, and yield its response and its id."""
        id_ = next(self._ids)
        message = self._message(method, params, id_)
        async with self._send("POST", at, self._headers(method, params), message) as stream:
            yield stream, id_

    @asynccontextmanager
    async def _send(
        self, verb: str, at: str | None, headers: dict[str, str], message: Json | None
    ) -> AsyncIterator[Stream]:
        headers = {"accept": "application/json, text/event-stream", **headers}
        try:
            async with self._http.stream(verb, at or self.url, headers=headers, json=message) as response:
                yield Stream(response)
        except httpx2.TransportError as error:
            raise UnavailableError(repr(error)) from error

    async def ask(self, method: str, params: Json | None = None, at: str | None = None) -> Json:
        """Send a request, and return its result."""
        async with self.open(method, params or {}, at) as (stream, id_):
            return await stream.response_to(id_)

    async def call_tool(self, tool: str, at: str | None = None, **arguments: object) -> Json:
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, at)

    async def text(self, tool: str, at: str | None = None, **arguments: object) -> str:
        """Call a tool, and return its text."""
        result = await self.call_tool(tool, at, **arguments)
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])


class Session(Client):
    """A client with a session of 2025-11-25."""

    revision = "2025-11-25"
    id: str | None = None

    def _message(self, method: str, params: Json, id_: int) -> Json:
        return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}

    def _headers(self, method: str, params: Json) -> dict[str, str]:
        return {} if self.id is None else {"mcp-session-id": self.id, "mcp-protocol-version": self.revision}

    async def initialize(self) -> None:
        """Open the session."""
        info = {"name": "chaos", "version": "1"}
        params = {"protocolVersion": self.revision, "capabilities": {"elicitation": {}}, "clientInfo": info}
        async with self.open("initialize", params) as (stream, id_):
            await stream.response_to(id_)
            self.id = stream.response.headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with self._send("POST", None, self._headers("", {}), ready) as stream:
            assert stream.response.status_code == 202

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[Stream]:
        """Open the stream of the session."""
        async with self._send("GET", None, self._headers("", {}), None) as stream:
            yield stream

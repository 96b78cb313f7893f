"""Clients in raw JSON-RPC over HTTP, for 2026-07-28 and for sessions of 2025-11-25, that do not use mcpkit."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any

import httpx2

from tests.helpers.pipe import META, NAMED_BY, message, stateless_meta
from tests.helpers.processes import DEFAULT_TIMEOUT
from tests.helpers.raw_client import initialize

Json = dict[str, Any]

CAPABILITIES = {"elicitation": {"form": {}}, "extensions": {META + "tasks": {}}}
ENDED = {"completed", "failed", "cancelled"}
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

    async def until(self, matches: Callable[[Json], object]) -> Json:
        """Return the next message that matches, and skip others."""
        while not matches(message := await asyncio.wait_for(self.wait(), DEFAULT_TIMEOUT)):
            pass
        return message

    async def response_to(self, id_: int) -> Json:
        """Return the result of a request, and skip other messages."""
        message = await self.until(lambda each: each.get("id") == id_ and "method" not in each)
        if "error" in message:
            raise ResponseError(message["error"], self.response.status_code)
        result: Json = message["result"]
        return result


class Client:
    """A client of 2026-07-28; `at` is the URL of a request in place of `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._http = httpx2.AsyncClient(timeout=None, limits=limits, trust_env=False)
        self._ids = count(1)

    def _request(self, method: str, params: Json) -> tuple[Json, Json]:
        """Return headers and params of a request."""
        meta = stateless_meta(**{META + "clientCapabilities": CAPABILITIES}) | params.get("_meta", {})
        name = params.get(NAMED_BY.get(method, "taskId"))
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": name}
        return {key: value for key, value in headers.items() if value}, {**params, "_meta": meta}

    @asynccontextmanager
    async def open(
        self, method: str, params: Json, at: str | None = None
    ) -> AsyncIterator[tuple[Stream, int]]:
        """Send a request, and yield its response and its id."""
        id_, (headers, params) = next(self._ids), self._request(method, params)
        async with self._send("POST", at, headers, message(method, params, id_)) as stream:
            yield stream, id_

    @asynccontextmanager
    async def _send(
        self, verb: str, at: str | None, headers: Json, message: Json | None = None
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

    async def text(self, tool: str, at: str | None = None, **arguments: object) -> str:
        """Call a tool, and return its text."""
        result = await self.ask("tools/call", {"name": tool, "arguments": arguments}, at)
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])


class Session(Client):
    """A client with a session of 2025-11-25."""

    headers: Json

    def _request(self, method: str, params: Json) -> tuple[Json, Json]:
        return self.headers, params

    async def initialize(self) -> None:
        """Open the session."""
        opening = initialize(capabilities={"elicitation": {}})
        async with self._send("POST", None, {}, opening) as stream:
            await stream.response_to(opening["id"])
            id_ = stream.response.headers["mcp-session-id"]
        self.headers = {"mcp-session-id": id_, "mcp-protocol-version": "2025-11-25"}
        ready = message("notifications/initialized", None, None)
        async with self._send("POST", None, self.headers, ready) as stream:
            assert stream.response.status_code == 202

    def listen(self) -> AbstractAsyncContextManager[Stream]:
        """Open the stream of the session."""
        return self._send("GET", None, self.headers)

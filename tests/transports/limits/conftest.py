from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import Pipe, open_pipe

Wire = Callable[..., AbstractAsyncContextManager[Pipe]]

limit = pytest.mark.limit
"""Names the row of `docs/reference/limits.md` that a test is about."""


class Outcome:
    """A result, or the code and text of an error; the code is None for the error of a tool."""

    def __init__(self, result: dict[str, Any], error: ProtocolError | None = None) -> None:
        self.result = result
        self.code = None if error is None else error.code
        self.text: str = result.get("content", [{}])[0].get("text", "") if error is None else str(error)
        self.is_error = error is not None or result.get("isError", False)

    def check_error(self, code: int | None, words: str) -> None:
        """Assert a short error with these words."""
        assert (self.is_error, self.code) == (True, code), self.text[:500]
        assert words in self.text
        assert len(self.text) < 10_000
        assert "Traceback" not in self.text


class LimitClient:
    """An in-memory client that returns errors as outcomes."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **params: Any) -> Outcome:
        return await self.request("tools/call", name=name, arguments=arguments or {}, **params)

    async def request(self, method: str, **params: Any) -> Outcome:
        try:
            return Outcome(await self.client.request(method, params))
        except ProtocolError as error:
            return Outcome({}, error)


@asynccontextmanager
async def limit_client(server: Server) -> AsyncIterator[LimitClient]:
    """Connect a client; the server must still answer it at the end."""
    async with connect(server, protocol_version="2026-07-28", capabilities={"elicitation": {}}) as client:
        yield LimitClient(client)
        await client.request("tools/list")


@contextmanager
def peak() -> Iterator[Callable[[], int]]:
    """Measure the most memory that is allocated at a time: a function that returns the bytes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.fixture
def wire(schema_dir: Path) -> Wire:
    """Connect a pipe whose messages are validated: `async with wire(server, revision) as pipe`."""

    def connect_pipe(server: Server, revision: str = "2025-11-25", **options: Any) -> Any:
        return open_pipe(server, revision, schema_dir, **options)

    return connect_pipe


@pytest.fixture
def server() -> Server:
    """A server with a tool that takes anything, and one that asks two questions."""
    server = Server("limited", secret_key="a secret of sixteen bytes")

    @server.tool
    async def echo(value: Any = None) -> str:
        return "echoed"

    @server.tool
    async def confirm(ctx: Context) -> str:
        first = await ctx.elicit("Sure?", str, key="first")
        second = await ctx.elicit("Really?", str, key="second")
        return f"{first.value} {second.value}"

    return server

import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.testing import TestClient, connect

limit = pytest.mark.limit
"""Names the row of `docs/reference/limits.md` that a test is about."""


class LimitClient:
    """An in-memory client that checks errors."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    async def text(self, name: str, **params: Any) -> str:
        """Call a tool and return its text."""
        result = await self.client.request("tools/call", {"name": name, "arguments": {}, **params})
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])

    async def error(self, code: int | None, words: str, method: str = "tools/call", **params: Any) -> None:
        """Assert that a request gets a short error with these words; the code is None for a tool's error."""
        try:
            result = await self.client.request(method, {"arguments": {}, **params})
            found, text = None, str(result["content"][0]["text"])
            assert result["isError"]
        except ProtocolError as error:
            found, text = error.code, str(error)
        assert (found, words in text) == (code, True), text[:500]
        assert len(text) < 10_000
        assert "Traceback" not in text


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
def server() -> Server:
    """A server with a tool that takes anything, and one that asks two questions."""
    server = Server("limited", secret_key="a secret of sixteen bytes")

    @server.tool
    async def echo(value: Any = None) -> str:
        return "echoed"

    @server.tool
    async def confirm(ctx: Context) -> None:
        for key in ("first", "second"):
            await ctx.elicit("Sure?", str, key=key)

    return server

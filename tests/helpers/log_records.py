"""Helpers for tests of `LogHandler`: the author's logger, and the log messages that clients receive."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from mcpkit import LogHandler, Server
from mcpkit.engine.message_dispatch import Connection
from mcpkit.testing import TestClient

CANCELLED = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
"""Cancels the request that `calling` begins."""


@contextmanager
def author_log(handler: LogHandler) -> Iterator[logging.Logger]:
    """Give the author a logger with a handler that sends everything."""
    log = logging.getLogger("archive.pages")
    log.setLevel(1)
    log.addHandler(handler)
    try:
        yield log
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)


async def logged_by(
    client: TestClient, name: str, level: str = "debug", **arguments: Any
) -> list[dict[str, Any]]:
    """Call a tool, and return the params of the log messages that came before its result."""
    client.notifications.clear()
    if client.protocol_version == "2026-07-28":
        await client.call_tool(name, arguments, log_level=level)
    else:
        await client.request("logging/setLevel", {"level": level})
        await client.call_tool(name, arguments)
    return [each["params"] for each in client.notifications if each["method"] == "notifications/message"]


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["data"] for message in messages]


@asynccontextmanager
async def calling(
    server: Server, name: str, ready: Callable[[], Awaitable[Any]] | None = None
) -> AsyncIterator[tuple[Connection, list[bytes]]]:
    """Call a tool at the wire, with all its log messages; give the connection and what it has sent so far."""
    sent: list[bytes] = []
    connection = Connection(server, sent.append, ready=ready)
    async with server.running():
        connection.receive(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","_meta":{'
            b'"io.modelcontextprotocol/logLevel":"debug",'
            b'"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            b'"io.modelcontextprotocol/clientCapabilities":{}}}}' % name.encode()
        )
        try:
            yield connection, sent
        finally:
            await connection.aclose()

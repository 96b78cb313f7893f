"""A custom transport: the stdio framing over a Unix socket, for any number of clients.

Run `python server.py /tmp/clock.sock`, and send messages with `nc -U /tmp/clock.sock`.
"""

import asyncio
import sys
from contextlib import suppress
from datetime import datetime, timezone

from mcpkit import Server
from mcpkit.transports import Connection, Framing

server = Server("clock", version="1.0.0")


@server.tool
async def now() -> datetime:
    """Get the current time, in UTC."""
    return datetime.now(timezone.utc)


async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    framing = Framing()
    connection = Connection(server, lambda message: writer.write(message + b"\n"), ready=writer.drain)
    with suppress(ConnectionError, asyncio.CancelledError):  # the client closed the connection, or Ctrl+C
        while chunk := await reader.read(65536):
            for line in framing.feed(chunk):
                connection.receive(line)
            await writer.drain()
        await connection.drain()
    await connection.aclose()
    writer.close()


async def serve(path: str) -> None:
    async with server.running():
        await asyncio.start_unix_server(serve_client, path)
        await asyncio.Event().wait()  # until Ctrl+C


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1]))

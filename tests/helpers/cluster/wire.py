"""HTTP as bare as can be: a request on a connection of its own, and its answer as it comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.helpers.cluster.processes import PATIENCE


class Away(Exception):
    """Nobody has answered: the connection has failed, or the gateway says that there is no one."""


class Response:
    """An answer that has begun.

    Attributes:
        status: Its status.
        headers: Its headers, by their names in small letters.
    """

    def __init__(self, reader: asyncio.StreamReader, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        pairs = (line.partition(":") for line in lines if line)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self._reader = reader

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                yield (await self._reader.readexactly(size + 2))[:-2]
        elif "content-length" in self.headers:
            yield await self._reader.readexactly(int(self.headers["content-length"]))
        else:
            while chunk := await self._reader.read(65536):
                yield chunk

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([chunk async for chunk in self.chunks()])


@asynccontextmanager
async def sent(verb: str, url: str, headers: Mapping[str, str], message: Any) -> AsyncIterator[Response]:
    """Send a request, and give its answer; leaving hangs up.

    Raises:
        Away: The connection fails, also while the answer is read, or the gateway finds nobody.
    """
    parts = urlsplit(url)
    body = b"" if message is None else json.dumps(message).encode()
    fields = {"Host": parts.netloc, "Connection": "close", **headers}
    if message is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{verb} {parts.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    writer: asyncio.StreamWriter | None = None
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write("\r\n".join(lines).encode() + body)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        response = Response(reader, head[:-4])
        if response.status in {502, 503, 504} and "json" not in response.headers.get("content-type", ""):
            raise Away(f"HTTP {response.status}")
        yield response
    except (OSError, asyncio.IncompleteReadError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise Away(repr(error)) from error
    finally:
        if writer is not None:
            writer.transport.abort()

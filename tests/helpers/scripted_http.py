"""An HTTP server of raw bytes that follows a script, be it right or wrong, and the parts of such scripts.

A script is a coroutine function that takes a request and the way to answer it. What it raises fails the test.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.helpers.scripted_transport import discovered, initialized

DEFAULT_TIMEOUT = 30.0
SESSION = "the-session"

Headers = Mapping[str, str]


@dataclass
class HttpRequest:
    """A request that has come, with the names of its headers in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        """Its body."""
        return json.loads(self.body)

    @property
    def rpc(self) -> str | None:
        """The method of the message; None for an answer, and where there is no body."""
        return self.message.get("method") if self.body else None


class Reply:
    """The way to answer one request.

    Args:
        request: The request.
        reader: What the client sends.
        writer: What the client gets.
    """

    def __init__(
        self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.asked = request
        self.is_over = False
        self._reader = reader
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)
        await self._writer.drain()

    async def send(
        self, status: int, body: bytes = b"", headers: Headers | None = None, *, length: int | None = None
    ) -> None:
        """Send a whole response; `length` is a wrong Content-Length."""
        told = {"Content-Length": str(len(body) if length is None else length), **(headers or {})}
        await self.raw(_head(status, told) + body)

    async def json(self, message: Any, status: int = 200, headers: Headers | None = None) -> None:
        """Send a message."""
        told = {"Content-Type": "application/json", **(headers or {})}
        await self.send(status, json.dumps(message).encode(), told)

    async def result(self, result: Any, headers: Headers | None = None) -> None:
        """Send the result of the request as JSON."""
        await self.json(self.answer(result), headers=headers)

    async def error(
        self, status: int, code: int, text: str, headers: Headers | None = None, **more: Any
    ) -> None:
        """Send a JSON-RPC error, with the request's id unless `more` has another."""
        error = {"jsonrpc": "2.0", "id": self.asked.message["id"], "error": {"code": code, "message": text}}
        await self.json(error | more, status, headers)

    def answer(self, result: Any) -> Any:
        """Return the message that answers the request."""
        return {"jsonrpc": "2.0", "id": self.asked.message["id"], "result": result}

    async def begin_stream(self, headers: Headers | None = None) -> None:
        """Begin an event stream."""
        told = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **(headers or {})}
        await self.raw(_head(200, told))

    async def chunk(self, data: bytes) -> None:
        """Send bytes of a stream."""
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, message: Any = None, *, id_: str | None = None, retry: int | None = None) -> None:
        """Send an event of a stream."""
        lines = [] if id_ is None else [f"id: {id_}"]
        lines += [] if retry is None else [f"retry: {retry}"]
        lines += ["data:"] if message is None else [f"data: {json.dumps(message)}"]
        await self.chunk(("\n".join(lines) + "\n\n").encode())

    async def end_stream(self) -> None:
        """End the stream as HTTP has it."""
        await self.raw(b"0\r\n\r\n")

    def cut(self) -> None:
        """Break the connection off."""
        self.is_over = True
        self._writer.transport.abort()

    async def gone(self) -> None:
        """Wait until the client has gone, however long that takes."""
        self.is_over = True
        with suppress(ConnectionError):
            while await self._reader.read(65536):
                pass

    async def hang_up(self) -> None:
        """Wait until the client has gone."""
        await asyncio.wait_for(self.gone(), DEFAULT_TIMEOUT)


Script = Callable[[HttpRequest, Reply], Awaitable[None]]


class ScriptedServer:
    """A server that follows a script.

    Args:
        script: What it does.

    Attributes:
        asked: The requests that have come.
        connections: How many connections there were.
        open: How many of them are open.
        url: Where it is.
        listener: What takes connections.
        failures: What scripts have raised.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[HttpRequest] = []
        self.connections = 0
        self.open = 0
        self.url = ""
        self.listener: asyncio.Server | None = None
        self.failures: list[BaseException] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Its own tasks."""
        return self._connections

    def die(self) -> None:
        """Break all connections off, and take no new ones."""
        assert self.listener is not None
        self.listener.close()
        for writer in self._writers:
            writer.transport.abort()

    def of(self, method: str, rpc: str | None = None) -> list[HttpRequest]:
        """Return the requests with a method of HTTP, and one of JSON-RPC."""
        return [each for each in self.asked if each.method == method and (rpc is None or each.rpc == rpc)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writers.add(writer)
        self.connections += 1
        self.open += 1
        try:
            while (request := await _read(reader)) is not None:
                self.asked.append(request)
                reply = Reply(request, reader, writer)
                await self.script(request, reply)
                if reply.is_over:
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        except Exception as error:
            self.failures.append(error)
        finally:
            self.open -= 1
            self._connections.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def close(self) -> None:
        """End all connections."""
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)


async def _read(reader: asyncio.StreamReader) -> HttpRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = [line.partition(":") for line in lines if line]
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return HttpRequest(
        method, target, headers, await reader.readexactly(int(headers.get("content-length", "0")))
    )


def _head(status: int, headers: Headers) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@asynccontextmanager
async def scripted(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """Serve a script until the end of the block, by TLS where there is a context."""
    server = ScriptedServer(script)
    server.listener = listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    try:
        yield server
    finally:
        listener.close()
        await server.close()
        await listener.wait_closed()
    assert not server.failures, server.failures


async def not_allowed(request: HttpRequest, reply: Reply) -> None:
    """Refuse the method."""
    await reply.send(405)


def greeting(script: Script, *, session: str | None = SESSION, stream: Script = not_allowed) -> Script:
    """Return a script that does what belongs to no call, and leaves calls to another.

    Args:
        script: What it does with the rest.
        session: The id of the session, or None for none.
        stream: The script of a GET, which opens a stream.
    """

    async def greet(request: HttpRequest, reply: Reply) -> None:
        if request.method == "GET":
            await stream(request, reply)
        elif request.method == "DELETE":
            await reply.send(200)
        elif request.rpc == "server/discover":
            await reply.result(discovered(request.message)["result"])
        elif request.rpc == "initialize":
            agreed = request.message["params"]["protocolVersion"]
            result = initialized(request.message, agreed)["result"] | {"capabilities": {"tools": {}}}
            await reply.result(result, {"Mcp-Session-Id": session} if session else None)
        elif request.rpc == "tools/list":
            await reply.result({"tools": []})
        elif request.rpc is not None and request.rpc.startswith("notifications/"):
            await reply.send(202)
        else:
            await script(request, reply)

    return greet


def text(text: str) -> Any:
    """Return the result of a tool that returns a text."""
    return {"content": [{"type": "text", "text": text}]}

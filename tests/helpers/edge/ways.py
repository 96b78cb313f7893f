"""Two ways to an ASGI app: a call, and bytes to uvicorn."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any, Literal, Protocol

import uvicorn

from tests.helpers.edge.messages import Request, Response

PATIENCE = 10.0
"""Seconds after which something hangs; an answer takes milliseconds."""


class Edge(Protocol):
    """Where requests come in."""

    def send(self, request: Request) -> Response | None:
        """Send a request; return the answer, or None where the connection ends without one.

        Of a stream that lasts only the head is read. Raises TimeoutError for what hangs.
        """

    def close(self) -> None: ...


class App:
    """The app itself; a server could not hand on what breaks HTTP, so that is left out."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.loop = asyncio.new_event_loop()

    def send(self, request: Request) -> Response | None:
        return self.loop.run_until_complete(asyncio.wait_for(self._send(request), PATIENCE))

    def close(self) -> None:
        # What requests have left running: the app's own two tasks, and sessions that are at work no more.
        self.loop.run_until_complete(asyncio.sleep(0.1))
        names = {task.get_name() for task in asyncio.all_tasks(self.loop)}
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0.1))
        self.loop.close()
        assert len(names) <= 3, names

    async def _send(self, request: Request) -> Response | None:
        path, _, query = request.target.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method.upper(),
            "scheme": "http",
            "path": path.replace("%ff%00", "\ufffd\x00").replace("%6d", "m").replace("%2f", "/"),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower(), value.strip()) for name, value in request.headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        waiting: list[dict[str, Any]] = [
            {"type": "http.request", "body": part, "more_body": True} for part in request.parts
        ]
        if request.body in {"whole", "chunked", "unframed"}:
            waiting.append({"type": "http.request", "body": b"", "more_body": False})
        is_gone = asyncio.Event()
        if request.body in {"garbled", "cut", "vanished"}:
            is_gone.set()
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop(0)
            await is_gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            check_order(sent, message)
            sent.append(message)
            if message["type"] == "http.response.start" and request.is_endless:
                is_gone.set()

        await self.app(scope, receive, send)
        if not sent:
            assert is_gone.is_set(), "no answer, though the client was there"
            return None
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return Response(sent[0]["status"], dict(sent[0]["headers"]), body)


def check_order(sent: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """A start, then a body; nothing after its end."""
    if not sent:
        assert message["type"] == "http.response.start"
        for name, value in message["headers"]:
            assert name == name.lower()
            assert not set(value) & set(b"\r\n\x00")
    else:
        assert message["type"] == "http.response.body"
        assert len(sent) == 1 or sent[-1].get("more_body", False)


class Uvicorn:
    """uvicorn in a thread; what it is sent need not be HTTP."""

    def __init__(self, app: Any, parser: Literal["h11", "httptools"]) -> None:
        config = uvicorn.Config(
            app,
            http=parser,
            loop="asyncio",
            ws="none",
            log_config=None,
            access_log=False,
            # A stream outlives its client where that has sent another request after it: uvicorn tells
            # the last request of a connection that it is lost, and no other.
            timeout_graceful_shutdown=1,
        )
        self.server = uvicorn.Server(config)
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        state = self.server.server_state
        assert not self.thread.is_alive(), f"uvicorn waits for {state.connections} and {state.tasks}"

    def send(self, request: Request) -> Response | None:
        with socket.create_connection(self.address, PATIENCE) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for part in self._wire(request):
                    connection.sendall(part)
                if request.body == "vanished":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return None
                if request.body in {"garbled", "cut"}:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has answered already, and closed
            try:
                return read_response(connection, request)
            except ConnectionResetError:  # it has closed without reading all
                return None

    def _wire(self, request: Request) -> Iterator[bytes]:
        content = request.content
        is_chunked = request.body in {"chunked", "garbled"}
        fields = [name.title() + b": " + value for name, value in request.headers]
        if is_chunked:
            fields.append(b"Transfer-Encoding: chunked")
        elif request.body != "unframed" and (content or request.body != "whole" or request.method == "POST"):
            missing = 0 if request.body == "whole" else 7
            fields.append(b"Content-Length: %d" % (len(content) + missing))
        line = f"{request.method} {request.target} HTTP/1.1".encode()
        head = b"\r\n".join([line, *fields, b"", b""])
        yield head[: len(head) // 2]
        yield head[len(head) // 2 :]
        for part in request.parts:
            yield b"%x\r\n%s\r\n" % (len(part), part) if is_chunked and part else part
        if request.body == "garbled":
            yield b"z\r\n" + content
        elif is_chunked:
            yield b"0\r\n\r\n"


def read_response(connection: socket.socket, request: Request) -> Response | None:
    """Read the first response of a connection, if there is one."""
    with connection.makefile("rb") as stream:
        status = 100
        while status < 200:
            line = stream.readline()
            if not line:
                return None
            status = int(line.split()[1])
            headers: dict[bytes, bytes] = {}
            while (line := stream.readline().rstrip()) != b"":
                name, _, value = line.partition(b":")
                headers[name.lower()] = value.strip()
        is_stream = headers.get(b"content-type") == b"text/event-stream"
        if request.method == "HEAD" or (is_stream and request.is_endless):
            return Response(status, {}, b"")
        if headers.get(b"transfer-encoding") == b"chunked":
            body = b""
            while (size := int(stream.readline() or b"0", 16)) > 0:
                body += stream.read(size)
                stream.readline()
            return Response(status, headers, body)
        return Response(status, headers, stream.read(int(headers.get(b"content-length", b"0"))))

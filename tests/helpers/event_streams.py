"""A client of event streams over a real socket, which can be as slow and as rude as clients are."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from mcpkit import Server
from tests.helpers.serving import in_thread

META = "io.modelcontextprotocol/"
SUBSCRIPTION = META + "subscriptionId"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class EventStream:
    """One event stream, read event by event; silence of ten seconds is a failure.

    Args:
        url: The endpoint.
        method: The request's method.
        message: The JSON of its body, or None.
        headers: Its headers beside `Accept` and `Content-Type`.
        buffer: Bytes that the system takes in for a client that does not read; None for its default.

    Attributes:
        comments: How many comments have come.
    """

    def __init__(
        self, url: str, method: str, message: Any, headers: dict[str, str], buffer: int | None = None
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._http = HTTPConnection(parts.hostname, parts.port, timeout=10)
        self._http.sock = socket.socket()
        if buffer is not None:
            self._http.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._http.sock.settimeout(10)
        self._http.sock.connect((parts.hostname, parts.port))
        body = None if message is None else json.dumps(message)
        self._http.request(method, parts.path, body, ACCEPT | headers)
        self.response: HTTPResponse = self._http.getresponse()
        self.comments = 0
        self._lines = self._read_lines()

    def _read_lines(self) -> Iterator[str]:
        # The response's own readline takes a moment without data for the end of the stream.
        rest = b""
        while read := self.response.read1(65536):
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                yield line.decode()
        assert not rest, "the stream ends in the middle of a line"

    def event(self) -> dict[str, str]:
        """Return the fields of the next event; none at the end of the stream."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                return fields
        assert not fields, "the stream ends in the middle of an event"
        return {}

    def message(self) -> dict[str, Any]:
        """Return the next message."""
        while fields := self.event():
            if fields.get("data"):
                return json.loads(fields["data"])
        raise EOFError("the stream has ended")

    def rest(self) -> list[dict[str, Any]]:
        """Return all messages until the end of the stream."""
        messages = []
        while fields := self.event():
            if fields.get("data"):
                messages.append(json.loads(fields["data"]))
        return messages

    def close(self) -> None:
        """Hang up."""
        self.response.close()
        self._http.close()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Site:
    """A server behind uvicorn in a thread, and what its tests look into."""

    def __init__(self, server: Server, app: Any, url: str) -> None:
        self.server = server
        self.app = app
        self.url = url

    @property
    def service(self) -> Any:
        """What the app keeps in its event loop."""
        (service,) = self.app.door()._services.values()
        return service

    def in_loop(self, function: Callable[[], Any]) -> Any:
        """Call a function in the server's event loop."""

        async def call() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self.service.environment.loop).result(10)

    def tasks(self) -> list[str]:
        """Return the names of the tasks that are no task of uvicorn's or the app's own."""
        own = ("Task-", "mcpkit-http", "mcpkit-lifespan", "starlette")
        names = self.in_loop(lambda: [task.get_name() for task in asyncio.all_tasks()])
        return sorted(name for name in names if not name.startswith(own))

    def task_count(self) -> int:
        """Count the tasks of the loop."""
        return self.in_loop(lambda: len(asyncio.all_tasks()))

    def listen(
        self, id_: str | int = 1, *, buffer: int | None = None, meta: Any = None, **wanted: Any
    ) -> EventStream:
        """Open a `subscriptions/listen` stream."""
        message = {
            "jsonrpc": "2.0",
            "id": id_,
            "method": "subscriptions/listen",
            "params": {"_meta": meta or stateless_meta(), "notifications": wanted},
        }
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
        return EventStream(self.url, "POST", message, headers, buffer)


def stateless_meta() -> dict[str, Any]:
    """Return the `_meta` that a stateless request must have."""
    return {
        META + "protocolVersion": "2026-07-28",
        META + "clientInfo": {"name": "test", "version": "1"},
        META + "clientCapabilities": {},
    }


def eventually(condition: Callable[[], object]) -> None:
    """Wait until something holds that nobody tells of; ten seconds without it are a failure."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        time.sleep(0.005)


@contextmanager
def site(server: Server, *, uvicorn: dict[str, Any] | None = None, **options: Any) -> Iterator[Site]:
    """Serve a server over HTTP in a thread."""
    app = server.asgi(**options)
    with in_thread(app, **(uvicorn or {})) as url:
        web = Site(server, app, url + "/mcp")
        try:
            yield web
        finally:
            # So that a test that fails leaves no stream to wait for.
            for service in tuple(app.door()._services.values()):
                service.environment.loop.call_soon_threadsafe(service.close)

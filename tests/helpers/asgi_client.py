"""Drives an ASGI app in this process, as a client without sessions or with one.

What the app leaves behind when it has been shut down, be it a task or an open request, fails the test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from mcpkit import Server
from tests.helpers.asgi_answer import Answer, App, Judge, within
from tests.helpers.pipe import HANDSHAKE, STATELESS, settle, stateless_meta

Headers = Mapping[str, str | bytes | None]

Serve = Callable[..., AbstractAsyncContextManager["Client"]]
"""The fixture `serve`."""

BOTH = "application/json, text/event-stream"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Client:
    """Whoever talks to the app."""

    def __init__(self, app: App, folder: Path) -> None:
        self.app = app
        self.folder = folder
        self.opened: list[Answer] = []

    def open(
        self,
        method: str,
        path: str = "/mcp",
        *,
        headers: Headers | None = None,
        body: bytes | None = b"",
        judge: Judge | None = None,
        **scope: Any,
    ) -> Answer:
        """Begin a request; with None for a body, that is fed to it later."""
        pairs = {"host": "localhost", "accept": BOTH} | dict(headers or {})
        path, _, query = path.partition("?")
        full_scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.lower().encode(), value if isinstance(value, bytes) else value.encode())
                for name, value in pairs.items()
                if value is not None
            ],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8000),
        } | scope
        answer = Answer(self.app, full_scope, judge or Judge(self.folder, STATELESS[-1]))
        self.opened.append(answer)
        return answer if body is None else answer.feed(body)

    def post(
        self,
        message: Any,
        headers: Headers | None = None,
        *,
        path: str = "/mcp",
        judge: Judge | None = None,
        **scope: Any,
    ) -> Answer:
        """Begin to post a JSON value, or bytes as they are."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        judge = judge or Judge(self.folder, STATELESS[-1])
        judge.expect(message)
        pairs = {"content-type": "application/json"} | dict(headers or {})
        return self.open("POST", path, headers=pairs, body=body, judge=judge, **scope)

    def ask(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        id: Any = 1,
        headers: Headers | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Answer:
        """Begin a stateless request, with the headers that it must have."""
        params = {**(params or {}), "_meta": stateless_meta() | (meta or {})}
        named_by = _NAMED_BY.get(method)
        standard = {"mcp-protocol-version": STATELESS[-1], "mcp-method": method}
        if named_by is not None:
            standard["mcp-name"] = params.get(named_by)
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        return self.post(message, standard | dict(headers or {}))

    def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Answer:
        """Begin a stateless call of a tool."""
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}}, **more)

    async def initialize(self, revision: str = "2025-11-25", **params: Any) -> Session:
        """Open a session."""
        judge = Judge(self.folder, revision if revision in HANDSHAKE else HANDSHAKE[-1])
        answer = self.post(initialize(revision, **params), judge=judge)
        result = (await answer.whole()).json()["result"]
        session = Session(self, result["protocolVersion"], answer.headers.get("mcp-session-id"), judge)
        session.result = result
        assert (await session.notify("notifications/initialized")).status == 202
        return session

    async def aclose(self) -> None:
        """Leave everything, and wait until the app is done with it."""
        for answer in self.opened:
            if not answer.task.done():
                answer.disconnect()
        for answer in self.opened:
            await answer.whole()


class Session:
    """A client of the handshake era, and its session.

    Attributes:
        id: The session's id; None where there are no sessions.
        result: What `initialize` gave.
    """

    def __init__(self, client: Client, revision: str, id: str | None, judge: Judge) -> None:
        self.client = client
        self.revision = revision
        self.id = id
        self.judge = judge
        self.result: dict[str, Any] = {}
        self._ids = 0

    def headers(self, more: Headers | None = None) -> dict[str, str | bytes | None]:
        """Return the headers that each request of the session has."""
        version = self.revision if self.revision >= "2025-06-18" else None  # older ones know no such header
        return {"mcp-session-id": self.id, "mcp-protocol-version": version, **(more or {})}

    def at(self, client: Client) -> Session:
        """Return the same session, used with another app."""
        return Session(client, self.revision, self.id, self.judge)

    def post(self, message: Any, headers: Headers | None = None) -> Answer:
        """Begin to post a message."""
        return self.client.post(message, self.headers(headers), judge=self.judge)

    def ask(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        id: Any = None,
        headers: Headers | None = None,
    ) -> Answer:
        """Begin a request."""
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids if id is None else id, "method": method}
        return self.post(message | ({"params": params} if params is not None else {}), headers)

    def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Answer:
        """Begin to call a tool; it is told that progress is welcome."""
        meta = {"progressToken": f"progress of {name}"}
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}, "_meta": meta}, **more)

    async def text(self, name: str, arguments: dict[str, Any] | None = None) -> str:
        """Call a tool and return its text."""
        return (await self.call(name, arguments).response())["result"]["content"][0]["text"]

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})}
        return await self.post(message).whole()

    def listen(self, after: str | None = None, headers: Headers | None = None) -> Answer:
        """Open a stream for what belongs to no call, or take one up after an event."""
        pairs = {"accept": "text/event-stream", "last-event-id": after, **(headers or {})}
        return self.client.open("GET", headers=self.headers(pairs), judge=self.judge)

    async def delete(self) -> Answer:
        """End the session."""
        return await self.client.open("DELETE", headers=self.headers(), judge=self.judge).whole()


def initialize(revision: str = "2025-11-25", **params: Any) -> dict[str, Any]:
    """Return the message that opens a session."""
    default = {
        "protocolVersion": revision,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": "initialize", "method": "initialize", "params": default | params}


_served: list[Any] = []
_before: list[asyncio.Task[Any]] = []
"""The apps that are served now, and the tasks that there were before the first of them."""


@asynccontextmanager
async def serving(server: Server, folder: Path, **options: Any) -> AsyncIterator[Client]:
    """Run the server's ASGI app; when it, and others beside it, have been shut down, nothing of them may be left."""
    if not _served:
        _before[:] = asyncio.all_tasks()
    app = server.asgi(**({"grace": 0} | options))
    client = Client(app, folder)
    _served.append(app)
    try:
        async with lifespan(app):
            try:
                yield client
            finally:
                await client.aclose()
                await settle()
                assert server.engine.runtime.running.taken == 0
                assert server.engine.runtime.running._taken_by == {}
        await settle()
    finally:
        _served.remove(app)
    assert _served or asyncio.all_tasks() - {*_before} == set()


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """Start an app up and shut it down, as a server does."""
    incoming: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    outgoing: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    task = asyncio.ensure_future(app({"type": "lifespan"}, incoming.get, outgoing.put))  # type: ignore[arg-type]  # a coroutine, as asyncio has it
    for step in ("startup", "shutdown"):
        incoming.put_nowait({"type": f"lifespan.{step}"})
        message = await within(outgoing.get())
        assert message == {"type": f"lifespan.{step}.complete"}, message
        if step == "startup":
            try:
                yield
            except BaseException:
                task.cancel()
                raise
    await within(task)

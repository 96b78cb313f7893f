"""Drives an ASGI app in this process: streams are read event by event, clients vanish when the test says so.

Every MCP message that comes is judged by the official schema of its revision. What the app leaves behind
when it has been shut down, be it a task or an open request, fails the test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mcpkit import Server
from wire.official import official
from wire.pipe import HANDSHAKE, STATELESS, settle, stateless_meta

App = Callable[..., Awaitable[None]]
Headers = Mapping[str, str | bytes | None]
T = TypeVar("T")

Serve = Callable[..., AbstractAsyncContextManager["Client"]]
"""The fixture `serve`."""

BOTH = "application/json, text/event-stream"
PATIENCE = 10.0
"""Seconds after which something hangs."""

_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


async def within(awaitable: Awaitable[T]) -> T:
    """Wait, but not for ever."""
    return await asyncio.wait_for(awaitable, PATIENCE)


class Event(NamedTuple):
    """One event of a stream; one without data counts too, as clients come back with its id."""

    data: str | None = None
    type: str = "message"
    id: str | None = None
    retry: int | None = None


class Comment(str):
    """A line that clients ignore."""

    __slots__ = ()


class EventReader:
    """Reads an event stream as the HTML standard says, in pieces of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, Any] = {}

    def feed(self, chunk: bytes) -> Iterator[Event | Comment]:
        """Take a piece, and give what is complete."""
        assert b"\r" not in chunk, "lines end with a line feed alone, or this reader is to learn more"
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield from self._line(line.decode())

    def _line(self, line: str) -> Iterator[Event | Comment]:
        if line.startswith(":"):
            yield Comment(line[1:])
        elif not line:
            if self._fields:
                yield Event(**self._fields)
            self._fields = {}
        else:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data" and "data" in self._fields:
                value = self._fields["data"] + "\n" + value
            key = {"event": "type"}.get(name, name)
            self._fields[key] = int(value) if name == "retry" else value


class Judge:
    """Holds what a server says to the schema of one revision, and to what it was asked."""

    def __init__(self, folder: Path, revision: str) -> None:
        self._folder = folder
        self.revision = revision
        self._methods: dict[str | int, str] = {}

    def expect(self, message: Any) -> None:
        """Hear of a message that is sent."""
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict) and type(each.get("id")) in {str, int}:
                self._methods[each["id"]] = str(each.get("method"))

    def check(self, message: Any) -> Any:
        """Raise for a message that is not as it must be; return it else."""
        for each in message if isinstance(message, list) else [message]:
            if "method" in each:
                official(self._folder, self.revision).notification(each)
            elif "id" not in each:
                # The transport pages of all revisions have such refusals without an id, the older schemas do not.
                official(self._folder, max(self.revision, "2025-11-25")).error(each)
            elif each["id"] is None:
                official(self._folder, self.revision).error(each)
            else:
                assert each["id"] in self._methods, f"nobody has asked this: {each}"
                official(self._folder, self.revision).result(self._methods[each["id"]], each)
        return message


class Answer:
    """One HTTP request, and what comes of it by and by.

    Attributes:
        status: The status; None before it is known.
        headers: The response's headers, names in lower case.
        body: What has come of the body.
        late: What the app sends after the client is gone.
        failure: What the server raises for whatever the app sends.
        is_over: Whether the response is complete.
    """

    def __init__(self, app: App, scope: MutableMapping[str, Any], judge: Judge) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.late: list[MutableMapping[str, Any]] = []
        self.failure: OSError | None = None
        self.is_over = False
        self.judge = judge
        self._reader = EventReader()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._comments: asyncio.Queue[Comment] = asyncio.Queue()
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._begun = asyncio.Event()
        self._is_gone = False
        self._room = asyncio.Event()
        self._room.set()
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))
        self.task.add_done_callback(self._wake)

    # What the client does

    def feed(self, part: bytes, *, more: bool = False) -> Answer:
        """Send a part of the body."""
        self._incoming.put_nowait({"type": "http.request", "body": part, "more_body": more})
        return self

    def disconnect(self) -> None:
        """Vanish."""
        self._is_gone = True
        self._room.set()
        self._incoming.put_nowait({"type": "http.disconnect"})

    def stop_reading(self) -> None:
        """Leave what comes in the pipes, until it is read on."""
        self._room.clear()

    def read_on(self) -> None:
        """Read again."""
        self._room.set()

    # What comes

    async def head(self) -> Answer:
        """Wait for the status and the headers."""
        await within(self._begun.wait())
        if self.task.done() and self.status is None and not self._is_gone:
            self.task.result()
            raise AssertionError("the app has returned without an answer")
        return self

    async def whole(self) -> Answer:
        """Wait until the app is done with the request."""
        await within(asyncio.shield(self.task))
        assert self.is_over or self._is_gone or self.failure
        return self

    @property
    def media_type(self) -> str:
        """What the response holds."""
        return self.headers.get("content-type", "")

    @property
    def is_stream(self) -> bool:
        """Whether the response is an event stream."""
        return self.media_type == "text/event-stream"

    def json(self) -> Any:
        """Return the body, a JSON message that is judged."""
        assert self.media_type == "application/json", (self.status, self.body)
        return self.judge.check(json.loads(self.body))

    def error(self) -> dict[str, Any]:
        """Return the error in the body."""
        return self.json()["error"]

    async def event(self) -> Event | None:
        """Wait for the next event; None at the end of the stream."""
        await self.head()
        assert self.is_stream, (self.status, self.body)
        event = await within(self._events.get())
        if event is None:
            self._events.put_nowait(None)
        return event

    async def comment(self) -> Comment:
        """Wait for the next comment."""
        return await within(self._comments.get())

    async def message(self) -> Any:
        """Wait for the next message on the stream, and judge it; None at the end."""
        while (event := await self.event()) is not None:
            assert event.type == "message", event
            if event.data:
                return self.judge.check(json.loads(event.data))
        return None

    async def messages(self) -> list[Any]:
        """Return the messages up to the end of the stream."""
        found = []
        while (message := await self.message()) is not None:
            found.append(message)
        return found

    async def response(self) -> dict[str, Any]:
        """Return the response, be it the body or the last message of the stream."""
        await self.head()
        if self.is_stream:
            return (await self.messages())[-1]
        return (await self.whole()).json()

    def waiting(self) -> list[Event]:
        """Return the events that have come and that nobody has looked at."""
        events = [self._events.get_nowait() for _ in range(self._events.qsize())]
        return [event for event in events if event is not None]

    # ASGI

    async def _receive(self) -> MutableMapping[str, Any]:
        message = await self._incoming.get()
        if message["type"] == "http.disconnect":
            self._incoming.put_nowait(message)
        return message

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self._room.wait()
        if self.failure is not None:
            raise self.failure
        if self._is_gone:
            self.late.append(message)
            return
        assert not self.is_over, f"after the end of the response: {message}"
        if message["type"] == "http.response.start":
            assert self.status is None
            self.status = message["status"]
            pairs = [(name.decode(), value.decode()) for name, value in message["headers"]]
            self.headers = dict(pairs)
            assert len(self.headers) == len(pairs), f"a header twice: {pairs}"
            self._begun.set()
            return
        assert self.status is not None
        chunk = message.get("body", b"")
        self.body += chunk
        if self.is_stream:
            for each in self._reader.feed(chunk):
                (self._comments if isinstance(each, Comment) else self._events).put_nowait(each)
        if not message.get("more_body"):
            self.is_over = True
            self._events.put_nowait(None)
            assert int(self.headers.get("content-length", len(self.body))) == len(self.body)
            self._incoming.put_nowait({"type": "http.disconnect"})

    def _wake(self, _task: object) -> None:
        self._begun.set()
        self._events.put_nowait(None)


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


@asynccontextmanager
async def serving(server: Server, folder: Path, **options: Any) -> AsyncIterator[Client]:
    """Run the server's ASGI app; when it has been shut down, nothing of it may be left."""
    before = asyncio.all_tasks()
    app = server.asgi(**({"grace": 0} | options))
    client = Client(app, folder)
    async with lifespan(app):
        try:
            yield client
        finally:
            await client.aclose()
            await settle()
            assert server._running_count == 0
    await settle()
    assert asyncio.all_tasks() - before == set()


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

"""Raw client of an ASGI app in this process. Messages of the server are checked by the official schemas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mcpkit import Server
from mcpkit.storage import Memory
from tests.helpers.official import Judge
from tests.helpers.pipe import (
    HANDSHAKE,
    META,
    NAMED_BY,
    STATELESS,
    initialize,
    message,
    settle,
    stateless_meta,
)
from tests.helpers.serving import AT_ONCE, app_of

App = Callable[..., Awaitable[None]]
Headers = Mapping[str, str | bytes | None]
Serve = Callable[..., AbstractAsyncContextManager["Client"]]
"""Type of the fixture `serve`."""
T = TypeVar("T")

DEFAULT_TIMEOUT = 30.0
"""Seconds after which a wait fails."""
BOTH = "application/json, text/event-stream"
REVISION = STATELESS[-1]
LATER = 3600.0
"""Seconds that no test lasts."""
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CAPABILITIES: dict[str, dict[str, Any]] = {"elicitation": {"form": {}, "url": {}}}
DECLARED = {META + "clientCapabilities": CAPABILITIES}


def request(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    """Return a stateless request; `params` defaults to the required ones."""
    params = {"_meta": stateless_meta()} if params is None else params
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params} | more


def call_params(name: str, **arguments: Any) -> dict[str, Any]:
    """Return the parameters of a stateless tool call."""
    return {"name": name, "arguments": arguments, "_meta": stateless_meta()}


def standard_headers(method: str, name: str | None = None) -> dict[str, str | bytes | None]:
    """Return the headers that a stateless request needs."""
    return {"mcp-protocol-version": REVISION, "mcp-method": method, "mcp-name": name}


def text_of(response: dict[str, Any]) -> str:
    """Return the text of a tool result."""
    assert "result" in response, response
    return "".join(block["text"] for block in response["result"]["content"])


def message_of(event: Event | None) -> Any:
    """Return the message in an event."""
    assert event is not None
    return json.loads(event.data or "null")


def texts_of(messages: list[Any]) -> list[str]:
    """Return the texts of log messages and tool results."""
    return [message["params"]["data"] if "method" in message else text_of(message) for message in messages]


def uri_of(message: Any) -> str:
    """Return the name of the resource `towns://{name}` in an update."""
    return str(message["params"]["uri"]).removeprefix("towns://")


def accept(value: str) -> dict[str, Any]:
    """Return the result of an accepted elicitation."""
    return {"action": "accept", "content": {"value": value}}


async def within(awaitable: Awaitable[T]) -> T:
    """Wait for at most `DEFAULT_TIMEOUT` seconds."""
    return await asyncio.wait_for(awaitable, DEFAULT_TIMEOUT)


class Event(NamedTuple):
    """Event of a stream. An event without data counts, as clients resume after its id."""

    data: str | None = None
    type: str = "message"
    id: str | None = None
    retry: int | None = None


class Comment(str):
    """Comment line of a stream."""

    __slots__ = ()


class EventReader:
    """Parser of event streams (HTML standard), for chunks of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, Any] = {}

    def feed(self, chunk: bytes) -> Iterator[Event | Comment]:
        """Parse a chunk; yield complete events and comments."""
        assert b"\r" not in chunk, "lines end with a line feed"
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


class Answer:
    """HTTP request to an ASGI app, and its response.

    Attributes:
        status: The status; None before it is known.
        headers: The response's headers, names in lower case.
        body: The part of the body received so far.
        late: Messages that the app sent after the client disconnected.
        failure: Exception that `send` raises.
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
        """Close the connection."""
        self._is_gone = True
        self._room.set()
        self._incoming.put_nowait({"type": "http.disconnect"})

    def stop_reading(self) -> None:
        """Stop reading the response until `read_on`."""
        self._room.clear()

    def read_on(self) -> None:
        """Continue to read the response."""
        self._room.set()

    # What comes

    async def head(self) -> Answer:
        """Wait for the status and the headers."""
        await within(self._begun.wait())
        if self.task.done() and self.status is None and not self._is_gone:
            self.task.result()
            raise AssertionError("the app returned without a response")
        return self

    async def whole(self) -> Answer:
        """Wait until the app has finished the request."""
        await within(asyncio.shield(self.task))
        assert self.is_over or self._is_gone or self.failure
        return self

    @property
    def media_type(self) -> str:
        """Media type of the response."""
        return self.headers.get("content-type", "")

    @property
    def is_stream(self) -> bool:
        """True for an event stream."""
        return self.media_type == "text/event-stream"

    def json(self) -> Any:
        """Return the JSON message in the body, checked."""
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
        """Return the next message of the stream, checked; None at the end."""
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
        """Return the response: the body, or the last message of the stream."""
        await self.head()
        if self.is_stream:
            return (await self.messages())[-1]
        return (await self.whole()).json()

    def waiting(self) -> list[Event]:
        """Return received events that have not been read."""
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


_SCOPE = {
    "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
}  # fmt: skip
_SCOPE |= {"client": ("127.0.0.1", 50000), "server": ("127.0.0.1", 8000)}


class Client:
    """Client of an ASGI app in this process."""

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
        """Send a request; with `body=None`, send the body later with `feed`."""
        pairs = {"host": "localhost", "accept": BOTH} | dict(headers or {})
        encoded = [
            (name.lower().encode(), value if isinstance(value, bytes) else value.encode())
            for name, value in pairs.items()
            if value is not None
        ]
        path, _, query = path.partition("?")
        target = {"method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode()}
        full_scope = {**_SCOPE, **target, "headers": encoded, **scope}
        answer = Answer(self.app, full_scope, judge or Judge(self.folder, STATELESS[-1]))
        self.opened.append(answer)
        return answer if body is None else answer.feed(body)

    def post(
        self, message: Any, headers: Headers | None = None, *, path: str = "/mcp", **options: Any
    ) -> Answer:
        """Post a JSON value or bytes; for the options, see `open`."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        pairs = {"content-type": "application/json"} | dict(headers or {})
        judge = options.pop("judge", None) or Judge(self.folder, STATELESS[-1])
        judge.expect(message)
        return self.open("POST", path, headers=pairs, body=body, judge=judge, **options)

    def ask(
        self, method: str, params: Any = None, *, id: Any = 1, headers: Headers | None = None, meta: Any = None,
        **scope: Any,
    ) -> Answer:  # fmt: skip
        """Send a stateless request with the required headers."""
        params = {**(params or {}), "_meta": stateless_meta() | (meta or {})}
        standard = standard_headers(method, params.get(NAMED_BY.get(method, "")))
        return self.post(message(method, params, id), standard | dict(headers or {}), **scope)

    def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Answer:
        """Send a stateless tool call."""
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}}, **more)

    async def initialize(self, revision: str = "2025-11-25", **params: Any) -> Session:
        """Open a session."""
        judge = Judge(self.folder, revision if revision in HANDSHAKE else HANDSHAKE[-1])
        answer = self.post(initialize(revision, **params), judge=judge)
        result = (await answer.response())["result"]
        session = Session(self, result["protocolVersion"], answer.headers.get("mcp-session-id"), judge)
        session.result = result
        assert (await session.notify("notifications/initialized")).status == 202
        return session

    async def aclose(self) -> None:
        """Close all connections and wait until the app has finished them."""
        for answer in self.opened:
            if not answer.task.done():
                answer.disconnect()
        for answer in self.opened:
            await answer.whole()


class Session:
    """Client with a session (handshake versions).

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
        """Return the headers of each request of the session."""
        version = self.revision if self.revision >= "2025-06-18" else None  # older ones know no such header
        return {"mcp-session-id": self.id, "mcp-protocol-version": version, **(more or {})}

    def at(self, client: Client) -> Session:
        """Return the same session for another app."""
        return Session(client, self.revision, self.id, self.judge)

    def post(self, message: Any, headers: Headers | None = None) -> Answer:
        """Post a message."""
        return self.client.post(message, self.headers(headers), judge=self.judge)

    def ask(
        self, method: str, params: Any = None, *, id: Any = None, headers: Headers | None = None
    ) -> Answer:
        """Send a request."""
        self._ids += 1
        return self.post(message(method, params, self._ids if id is None else id), headers)

    def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Answer:
        """Call a tool with a progress token."""
        meta = {"progressToken": f"progress of {name}"}
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}, "_meta": meta}, **more)

    async def text(self, name: str, arguments: dict[str, Any] | None = None) -> str:
        """Call a tool and return its text."""
        return (await self.call_tool(name, arguments).response())["result"]["content"][0]["text"]

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        """Send a notification."""
        return await self.post(message(method, params, None)).whole()

    def listen(self, after: str | None = None, headers: Headers | None = None) -> Answer:
        """Open the GET stream, or resume a stream after an event."""
        pairs = {"accept": "text/event-stream", "last-event-id": after, **(headers or {})}
        return self.client.open("GET", headers=self.headers(pairs), judge=self.judge)

    async def delete(self) -> Answer:
        """End the session."""
        return await self.client.open("DELETE", headers=self.headers(), judge=self.judge).whole()


_served: list[Any] = []
_before: list[asyncio.Task[Any]] = []
"""Running apps, and the tasks before the first of them."""


def _is_of_library(task: asyncio.Task[Any]) -> bool:
    """Return whether a task runs a fixture or a test, or is the one of sse-starlette that lasts as long as the loop."""
    return getattr(task.get_coro(), "__name__", "") in {"_call_in_runner_task", "_shutdown_watcher"}


@asynccontextmanager
async def serving(server: Server, folder: Path, **options: Any) -> AsyncIterator[Client]:
    """Run the ASGI app of a server; after the last app has ended, no task may be left."""
    if not _served:
        _before[:] = asyncio.all_tasks()
    app = app_of(server, **({"timeouts": AT_ONCE} | options))
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
    assert _served or not [task for task in asyncio.all_tasks() - {*_before} if not _is_of_library(task)]


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """Run the lifespan of an app."""
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


async def open_eliciting_session(client: Client, revision: str = "2025-11-25") -> Session:
    """Open a session of a client that supports elicitation."""
    elicitation = CAPABILITIES["elicitation"] if revision == "2025-11-25" else {}
    return await client.initialize(revision, capabilities={"elicitation": elicitation})


async def respond(session: Session, id_: Any, result: dict[str, Any]) -> Answer:
    """Post the response to a request of the server."""
    return await session.post({"jsonrpc": "2.0", "id": id_, "result": result}).whole()


async def first_event(answer: Answer) -> Event:
    """Return the next event of a stream that has one."""
    event = await answer.event()
    assert event is not None
    return event


async def open_stream(session: Session) -> Answer:
    """Open the GET stream of a session and read its first event."""
    stream = session.listen()
    await first_event(stream)
    return stream


async def subscribe(session: Session, *names: str) -> None:
    """Subscribe to resources `towns://{name}`."""
    for name in names:
        assert (await session.ask("resources/subscribe", {"uri": f"towns://{name}"}).whole()).status == 200


async def log_messages(session: Session) -> list[str]:
    """Call the tool `log_levels` and return its log messages."""
    *messages, response = await session.call_tool("log_levels").messages()
    assert "result" in response
    return texts_of(messages)


async def expect_list_change(stream: Answer, server: Server) -> None:
    """Change the list of tools and expect the notification next."""
    server.catalog.tools.remove("step")
    assert (await stream.message())["method"] == "notifications/tools/list_changed"


def session_keys(store: Memory) -> list[str]:
    """Return the keys of the session records in a store."""
    return [key for key in store._records._entries if "/session/" in key]

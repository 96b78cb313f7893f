"""One request to an ASGI app in this process, and what comes of it, event by event.

Every MCP message that comes is judged by the official schema of its revision.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.helpers.official import official

App = Callable[..., Awaitable[None]]
T = TypeVar("T")

PATIENCE = 10.0
"""Seconds after which something hangs."""


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

"""Event streams in the shared storage, so that a client can resume a stream at any process.

A process writes the events that it keeps for its own clients, so the same limits apply. If another process seems to
have died, the process at which the client resumes the stream writes its end, by compare-and-set: the next write of the
first process fails, so the stream has one end.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ...._utils.exceptions import INTERNAL_ERROR, ProtocolError
from ....execution.coroutines import within
from ....protocol import jsonrpc
from ....protocol.jsonrpc import Json, RequestId
from ....protocol.jsonrpc_validation import invalid
from ....storage.encryption_keys import EncryptedRecords, Keys, UnreadableRecordError
from ..response import Exchange, Source, event
from .session_store import MessageKind, SessionBus

if TYPE_CHECKING:
    from ....storage.base import Storage

logger = logging.getLogger(__name__)

Event = tuple[int, bytes]  # number and message of an event in its stream

_WRITE_DELAY = 0.02  # seconds for which events are collected, so that a short response is one write
_RETRY_DELAY = 1.0
_MAX_TRIES = 3
_PART_SIZE = 16 * 1024  # bytes of messages that are a record of their own, and not written again

_POLL_INTERVAL = 2.0  # seconds between two reads without a message from the other process
_FIRST_WRITE_TIMEOUT = 3.0  # seconds for another process to write a stream that is not in the store
_RELEASE_TIMEOUT = 1.0  # seconds for another process to end its connection of a standalone stream


_EVENT_ID = re.compile(r"(?P<stream>(?P<process>[0-9a-f]{8})(?P<kind>[cg])[0-9]+)-(?P<number>[0-9]{1,15})")


class EventId(NamedTuple):
    """Parts of an event id.

    Attributes:
        stream: Name of the stream.
        process: Process of the stream.
        is_of_response: Whether the stream answers a POST.
        number: Number of the event in the stream.
    """

    stream: str
    process: str
    is_of_response: bool
    number: int


def read_event_id(text: str) -> EventId:
    """Return the parts of an event id. An id of another form has empty parts."""
    found = _EVENT_ID.fullmatch(text)
    if found is None:
        return EventId("", "", False, 0)
    return EventId(found["stream"], found["process"], found["kind"] == "c", int(found["number"]))


def stream_not_stored() -> ProtocolError:
    """Return the error for a client that resumes a stream which is not stored."""
    return invalid(
        "the stream of this Last-Event-ID is no longer stored. Send the request again, unless its response has arrived"
    )


class StoredStream(ABC):
    """A stream of this process that is written to the event store.

    Args:
        session_id: Id of its session, as in the token.
        name: Prefix of its event ids.

    Attributes:
        session_id: Id of its session, as in the token.
        name: Prefix of its event ids.
        request_id: Id of the request that it answers; None if it answers none.
        sent: Number of its latest event.
        is_finished: Whether it has ended.
        is_detached: Whether the client has disconnected before the end, and may reconnect to another process.
        version: Version of its record; None before the first write.
        parts: Versions of the records with some of its events, by the numbers of the first and the last of them.
        is_ended_elsewhere: Whether another process has ended it, so that no more is written.
    """

    request_id: RequestId | None = None
    sent: int = 0
    is_finished = is_detached = is_ended_elsewhere = False
    version: str | None = None

    def __init__(self, session_id: str, name: str) -> None:
        self.session_id, self.name = session_id, name
        self.parts: dict[tuple[int, int], str] = {}

    @abstractmethod
    def events_after(self, number: int) -> list[Event]:
        """Return its events after the one with this number, as far as they are kept."""


class StreamRecord(NamedTuple):
    """Stored state of a stream.

    Attributes:
        key: Key of the record: session and name of the stream.
        sent: Number of the latest event.
        is_over: Whether the stream has ended.
        request_id: Id of the request that the stream answers.
        parts: Numbers of the first and the last event of each record with some of its events.
        events: The other events, as far as they are kept.
        version: Version of the record.
    """

    key: str
    sent: int
    is_over: bool
    request_id: RequestId | None
    parts: list[tuple[int, int]]
    events: list[Event]
    version: str


class EventStore:
    """Writes event streams to the shared storage, with a short delay, and reads those of other processes.

    Args:
        storage: The storage.
        keys: Keys for encryption, if the storage outlives the process.
        bus: Notifies other processes of new events.
        ttl: Seconds for which an ended stream is kept.
        max_age: Seconds for which a stream that goes on is kept, however long it sends nothing.
    """

    def __init__(self, storage: Storage, keys: Keys, bus: SessionBus, ttl: float, max_age: float) -> None:
        self._records = EncryptedRecords(storage, keys, "events", is_encrypted=storage.is_persistent)
        self.storage, self.bus, self._ttl, self._max_age = storage, bus, ttl, max_age
        self._changed: dict[StoredStream, None] = {}
        self._removed: list[StoredStream] = []
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._is_failing = False

    # Writing

    def write(self, stream: StoredStream) -> None:
        """Write a changed stream soon."""
        if not (self._is_closed or stream.is_ended_elsewhere):
            self._changed[stream] = None
            self._begin()

    def remove(self, stream: StoredStream) -> None:
        """Remove a stream, because no client may resume it any more."""
        self._changed.pop(stream, None)
        if not (self._is_closed or stream.is_ended_elsewhere):
            self._removed.append(stream)
            self._begin()

    async def flush(self) -> None:
        """Wait until everything has been written, or the storage does not answer."""
        while self._task is not None and not self._is_failing:
            await asyncio.wait([self._task], timeout=_WRITE_DELAY)

    def close(self) -> None:
        """Stop writing."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        if self._task is None:
            loop = asyncio.get_running_loop()
            # The task belongs to no request, so it has an empty context.
            self._task = contextvars.Context().run(loop.create_task, self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._changed or self._removed:
                await asyncio.sleep(_RETRY_DELAY if self._is_failing else _WRITE_DELAY)
                self._is_failing = False
                changed, self._changed = self._changed, {}
                removed, self._removed = self._removed, []
                await asyncio.gather(*map(self._write, changed), *map(self._delete, removed))
        except ImportError as error:
            self._is_closed = True
            logger.warning(
                "events are not stored for other processes, so clients can only resume a stream at the "
                "process that served it: %s",
                error,
            )
        finally:
            self._task = None

    async def _write(self, stream: StoredStream) -> None:
        key = f"{stream.session_id}/{stream.name}"
        parts = stream.parts
        try:
            events = stream.events_after(max((last for _, last in parts), default=0))
            if sum(len(message) for _, message in events) > _PART_SIZE:
                first, last = events[0][0], events[-1][0]
                part = {"events": _encode(events)}
                version = await self._replace(f"{key}/{first}", part, None, self._max_age)
                assert version is not None, "only this process writes parts"
                parts[first, last] = version
                events = []
            oldest = next((number for number, _ in stream.events_after(0)), stream.sent + 1)
            for first, last in [part for part in parts if part[1] < oldest]:
                await self._records.delete(f"{key}/{first}", version=parts.pop((first, last)))
            record: Json = {
                "sent": stream.sent,
                "over": stream.is_finished,
                "id": stream.request_id,
                "parts": list(map(list, parts)),
                "events": _encode(events),
            }
            ttl = self._ttl if stream.is_finished else self._max_age
            stream.version = await self._replace(key, record, stream.version, ttl)
            stream.is_ended_elsewhere = stream.version is None
            if stream.is_detached:
                await self.bus.publish(stream.session_id, MessageKind.EVENTS_STORED, stream.name)
        except OSError:
            if not self._is_failing:
                logger.exception(
                    "the shared store does not answer: events are stored later, and until then other "
                    "processes cannot resume the streams of this one"
                )
            self._is_failing = True
            if not stream.is_ended_elsewhere:
                self._changed[stream] = None

    async def _replace(self, key: str, value: Json, version: str | None, ttl: float) -> str | None:
        """Write a record of a stream of this process, also if the answer to an earlier write was lost.

        Returns:
            The new version; None if another process has ended the stream.
        """
        for _ in range(_MAX_TRIES):
            new = await self._records.put(key, value, version=version, ttl=ttl)
            if new is not None:
                return new
            found = await self._get(key)
            if found is not None and "by" in found[0]:
                return None
            version = None if found is None else found[1]
        raise ConnectionError(
            "the record of a stream could not be replaced, as it was changed meanwhile. mcpkit tries again"
        )

    async def _delete(self, stream: StoredStream) -> None:
        key = f"{stream.session_id}/{stream.name}"
        try:
            for (first, _), version in stream.parts.items():
                await self._records.delete(f"{key}/{first}", version=version)
            if stream.version is not None:
                await self._records.delete(key, version=stream.version)
        except OSError:
            logger.debug(
                "the events of a stream could not be deleted; they expire by themselves", exc_info=True
            )

    # Reading

    async def read(self, session_id: str, name: str) -> StreamRecord | None:
        """Return the record of a stream; None if there is none, or it is unreadable.

        Raises:
            OSError: The storage does not answer.
        """
        key = f"{session_id}/{name}"
        found = await self._get(key)
        if found is None:
            return None
        value, version = found
        parts, events = [(first, last) for first, last in value["parts"]], _decode(value["events"])
        return StreamRecord(key, value["sent"], value["over"], value["id"], parts, events, version)

    async def events_after(self, record: StreamRecord, number: int) -> list[Event]:
        """Return the stored events of a stream after one of them.

        Raises:
            OSError: The storage does not answer.
        """
        events: list[Event] = []
        for first, last in record.parts:
            if last > number and (found := await self._get(f"{record.key}/{first}")) is not None:
                events += _decode(found[0]["events"])
        return [each for each in (*events, *record.events) if each[0] > number]

    async def end(self, record: StreamRecord, message: bytes | None) -> None:
        """End the stream of another process, unless that has sent more meanwhile.

        Args:
            record: Its record as read.
            message: The last message; None for none.

        Raises:
            OSError: The storage does not answer.
        """
        last = [] if message is None else [(record.sent + 1, message)]
        value: Json = {
            "sent": record.sent + len(last),
            "over": True,
            "id": record.request_id,
            "parts": list(map(list, record.parts)),
            "events": _encode((*record.events, *last)),
            "by": self.bus.process,
        }
        await self._records.put(record.key, value, version=record.version, ttl=self._ttl)

    async def _get(self, key: str) -> tuple[Json, str] | None:
        try:
            return await self._records.get(key)
        except (UnreadableRecordError, ImportError) as error:
            logger.warning(
                "the events of a stream of another process cannot be read, so a client cannot resume it here: %s",
                error,
            )
            return None


def _encode(events: Iterable[Event]) -> list[list[object]]:
    return [[number, message.decode()] for number, message in events]


def _decode(events: list[tuple[int, str]]) -> list[Event]:
    return [(number, text.encode()) for number, text in events]


class RemoteStream(Source):
    """A stream of another process, which a client has resumed at this one.

    The other process ends its own connection to the client, and notifies this one of new events. If it has ended, the
    stream ends with an error, unless its response was stored before.

    Args:
        store: The event store.
        session_id: Id of the session, as in the token.
        last_event: Id of the last event that the client has received.
        is_gone: Returns True if a process has ended.
        streams: Resumed streams of the session by name, including this one until it ends.

    Attributes:
        has_news: Set when the other process has stored new events.
        is_relaying: Whether `relay` was called.
    """

    is_relaying = False

    def __init__(
        self,
        store: EventStore,
        session_id: str,
        last_event: EventId,
        is_gone: Callable[[str], bool],
        streams: dict[str, RemoteStream],
    ) -> None:
        self.name = last_event.stream
        self.has_news = asyncio.Event()
        # A stream of this process was dropped to make room.
        self._is_own = is_own = last_event.process == store.bus.process
        self._is_gone: Callable[[], bool] = lambda: is_own or is_gone(last_event.process)
        self._store, self._session_id = store, session_id
        self._number = last_event.number
        self._streams = streams
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        if (before := streams.get(self.name)) is not None:
            before.leave()
        streams[self.name] = self

    async def begin(self) -> StreamRecord | None:
        """Make the other process release the stream, and return its record, if there is one.

        Raises:
            OSError: The storage does not answer.
        """
        await self._store.storage.listening()
        await self._store.bus.publish(self._session_id, MessageKind.STREAM_RESUMED, self.name)
        record = await self._read()
        if record is None and not self._is_own:
            await self._wait(_FIRST_WRITE_TIMEOUT)
            record = await self._read()
        return record

    async def _read(self) -> StreamRecord | None:
        self.has_news.clear()
        return await self._store.read(self._session_id, self.name)

    async def _wait(self, seconds: float) -> None:
        try:
            await within(seconds, self.has_news.wait())
        except TimeoutError:
            text = "no notification of new events from the process of a stream; the store is read again"
            logger.debug(text)

    async def _new_events(self, record: StreamRecord) -> list[bytes]:
        """Return the events that the client has not received, as they are sent."""
        events = await self._store.events_after(record, self._number)
        if events:
            self._number = events[-1][0]
        return [event(message, f"{self.name}-{number}") for number, message in events]

    # A standalone stream: it ends, and another one begins in this process

    async def take_over(self, record: StreamRecord | None) -> tuple[list[bytes], bool]:
        """End a standalone stream of the other process.

        Returns:
            The events that the client has missed; and False if there may have been others.

        Raises:
            OSError: The storage does not answer.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _RELEASE_TIMEOUT
        is_complete = True
        while record is not None and not record.is_over:
            if self._is_gone() or loop.time() >= deadline:
                is_complete = False
                await self._store.end(record, None)
            else:
                await self._wait(deadline - loop.time())
            record = await self._read()
        return ([], False) if record is None else (await self._new_events(record), is_complete)

    # The response to a request: the other process goes on, and its events are sent here

    def relay(self, record: StreamRecord, exchange: Exchange) -> None:
        """Send the past and future events of the other process on a connection."""
        self.is_relaying, self._exchange = True, exchange
        self._task = asyncio.get_running_loop().create_task(self._relay(record, exchange))
        exchange.attach(self)
        exchange.open_stream()

    async def _relay(self, record: StreamRecord, exchange: Exchange) -> None:
        found: StreamRecord | None = record
        while found is not None:
            record = found
            try:
                for chunk in await self._new_events(record):
                    exchange.push(chunk)
                if record.is_over:
                    break
                if self._is_gone():
                    problem = _error(record, "is lost, as the process that served the request has ended")
                    await self._store.end(record, problem)
                else:
                    await self._wait(_POLL_INTERVAL)
                found = await self._read()
            except OSError:
                logger.exception(
                    "the shared store does not answer: a client waits for the events of a stream of "
                    "another process until it answers"
                )
                await asyncio.sleep(_RETRY_DELAY)
        last = record.sent + (found is None)
        if self._number < last and (problem := _error(record, "is no longer stored")) is not None:
            exchange.push(event(problem, f"{self.name}-{last}"))
        self.leave()

    def leave(self) -> None:
        """Stop reading, and end the connection after the queued events, if there is one yet."""
        self.lost(self._exchange)
        if self._exchange is not None:
            self._exchange.finish()

    def lost(self, exchange: Exchange | None) -> None:
        """Stop reading, because the client has disconnected."""
        if self._streams.get(self.name) is self:
            del self._streams[self.name]
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()


def _error(record: StreamRecord, reason: str) -> bytes | None:
    if record.request_id is None:
        return None
    problem = ProtocolError(
        INTERNAL_ERROR,
        f"The response {reason}. The request may or may not have been executed: check before you repeat it",
    )
    return jsonrpc.error(record.request_id, problem)

"""Event streams of a session: responses that clients can resume, and standalone streams for notifications.

Follows "Resumability and Redelivery" of basic/transports (2025-11-25): an event id contains the name of its stream and
its number in it, so only events of that stream are sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...._utils.concurrency import Listeners
from ...._utils.exceptions import INTERNAL_ERROR, ProtocolError
from ....engine.changes_between_processes import ChangeQueue
from ....engine.subscription_filters_and_delivery import ChangeListener, notification
from ....identity.principals_and_scopes import Change
from ....protocol import jsonrpc
from ....protocol.revisions import Handshake
from ....requests.requests_to_client import OpenQuestions
from ..response import Exchange, Source, event
from .event_store import Event, StoredStream
from .loop_state import LoopState
from .session_store import MessageKind, RecordField, SessionRecord

# Events that one session keeps for clients that resume a stream; the oldest is dropped first.
MAX_EVENTS = 256

SESSION_SHARE = 16  # one session keeps at most this part of the bytes that all sessions may keep

_EVENT_OVERHEAD = 400  # bytes of memory that an event takes beside its message

_RETRY = 1000  # milliseconds after which a client reconnects to a closed stream

# Stored events


class BufferedEvent(NamedTuple):
    """An event that is kept for a client that resumes its stream."""

    stream: EventStream
    number: int
    message: bytes

    @property
    def size(self) -> int:
        """Size in memory, in bytes."""
        return len(self.message) + _EVENT_OVERHEAD


class EventBuffer:
    """The kept events of all sessions of an app in one process, within a limit.

    Args:
        limit: Maximum number of bytes.

    Attributes:
        session_limit: Maximum number of bytes of one session. A larger event is not kept.
        size: Number of bytes.
        events: The events, the oldest first.
    """

    def __init__(self, limit: int) -> None:
        self.session_limit = limit // SESSION_SHARE
        self.size = 0
        self.events: dict[BufferedEvent, None] = {}
        self._limit = limit

    def add(self, added: BufferedEvent) -> None:
        """Add an event, and drop the oldest events of all sessions to make room."""
        self.size += added.size
        while self.size > self._limit:
            next(iter(self.events)).stream.streams.drop_oldest()
        self.events[added] = None

    def remove(self, removed: BufferedEvent) -> None:
        """Remove an event that its session has dropped."""
        del self.events[removed]
        self.size -= removed.size


class EventStreams:
    """The streams of one session in this process by name, and their latest events.

    Args:
        buffer: Events of all sessions.
        state: State of the app.
        session_id: Id of the session, as in the token.
        has_ids: Whether events have ids: from 2025-11-25 on. Older clients take the event without data that makes a
            stream resumable for a broken message.

    Attributes:
        by_name: Streams that a client may resume, by name.
        events: Kept events of these streams, the oldest first.
        max_message: Bytes of the largest message that is kept.
    """

    def __init__(self, buffer: EventBuffer, state: LoopState, session_id: str, *, has_ids: bool) -> None:
        self.session_id, self.has_ids = session_id, has_ids
        self.by_name: dict[str, EventStream] = {}
        self.events: deque[BufferedEvent] = deque()
        self.max_message = max(0, buffer.session_limit - _EVENT_OVERHEAD)
        self._buffer = buffer
        self._process = state.process
        self._store = state.event_store if has_ids else None
        self._bytes = 0
        self._opened = 0

    def new_name(self, kind: str) -> str:
        """Return a name that no stream of the session has had."""
        self._opened += 1
        return f"{self._process}{kind}{self._opened}"

    def open(self, stream: EventStream, exchange: Exchange) -> None:
        """Begin a stream on the connection of a POST."""
        stream.name = self.new_name("c")
        stream.attach(exchange)
        self.add(stream)
        exchange.push(stream.first_event())
        self.write(stream)

    def add(self, stream: EventStream) -> None:
        """Keep a stream for clients that resume it. Ended streams are dropped first."""
        if self.has_ids:
            self.by_name[stream.name] = stream
            if len(self.by_name) > MAX_EVENTS:
                self.by_name = {name: each for name, each in self.by_name.items() if each.is_open}

    def write(self, stream: EventStream) -> None:
        """Write the new events of a stream to the event store, if there are other processes."""
        if self._store is not None:
            self._store.write(stream)

    def release(self, stream: EventStream) -> None:
        """Leave a stream to another process, at which its client has resumed it. A running call goes on here."""
        stream.detach()
        if isinstance(stream, StandaloneStream) and self.by_name.pop(stream.name, None) is not None:
            stream.is_finished = True
        stream.is_detached = True
        self.write(stream)

    def close(self, *, is_over: bool) -> None:
        """Drop all events.

        Args:
            is_over: Whether the session has ended, so that no client resumes a stream at another process either.
        """
        store, self._store = self._store, None
        if store is not None and is_over:
            for stream in self.by_name.values():
                store.remove(stream)
        while self.events:
            self.drop_oldest()

    # Events

    def keep(self, stream: EventStream, number: int, message: bytes) -> bool:
        """Keep an event, and drop the oldest ones to make room.

        Returns:
            Whether it is kept: an event that is too large is not, and no other is dropped for it.
        """
        if len(message) > self.max_message:
            return False
        added = BufferedEvent(stream, number, message)
        self._buffer.add(added)
        self.events.append(added)
        self._bytes += added.size
        while len(self.events) > MAX_EVENTS or self._bytes > self._buffer.session_limit:
            self.drop_oldest()
        return True

    def drop_oldest(self) -> None:
        """Drop the oldest event, and the stored stream if it has ended and has no other event."""
        dropped = self.events.popleft()
        self._bytes -= dropped.size
        self._buffer.remove(dropped)
        stream = dropped.stream
        if self._store is not None and stream.is_finished and not stream.events_after(0):
            self._store.remove(stream)


# Streams


class EventStream(StoredStream, Source):
    """An event stream of a session, which outlives its connections.

    Args:
        streams: Streams of its session.
        name: Name of the stream; empty before it begins.

    Attributes:
        streams: Streams of its session.
        exchange: Current connection for its events, or None.
    """

    exchange: Exchange | None = None

    def __init__(self, streams: EventStreams, name: str = "") -> None:
        super().__init__(streams.session_id, name)
        self.streams = streams

    @property
    def is_open(self) -> bool:
        """True if it has not ended, with a connection or without."""
        return not self.is_finished

    def events_after(self, number: int) -> list[Event]:
        """Return its kept events after the one with this number."""
        kept = self.streams.events
        return [(each.number, each.message) for each in kept if each.stream is self and each.number > number]

    def chunks_after(self, number: int) -> list[bytes]:
        """Return its kept events after the one with this number, as they are sent."""
        return [event(message, f"{self.name}-{each}") for each, message in self.events_after(number)]

    def attach(self, exchange: Exchange) -> None:
        """Send its events on a connection from now on."""
        self.exchange = exchange
        self.is_detached = False
        exchange.attach(self)

    def lost(self, exchange: Exchange) -> None:
        """Go on without the connection, if it is still its own."""
        if self.exchange is exchange:
            self.exchange = None
            self.is_detached = not self.is_finished

    def detach(self) -> None:
        """End the connection after the queued events. The stream goes on without it."""
        exchange = self.exchange
        if exchange is not None:
            self.lost(exchange)
            exchange.finish()

    def finish(self) -> None:
        """End the stream after the queued events."""
        self.is_finished = True
        self.detach()
        self.streams.write(self)

    def send(self, message: bytes, *, is_response: bool = False) -> None:
        """Send a message on the connection, if there is one; see `event`."""
        chunk = self.event(message, is_response=is_response)
        if self.exchange is not None:
            self.exchange.push(chunk)

    async def ready(self) -> None:
        """Wait until the client keeps up, if it is connected."""
        if self.exchange is not None:
            await self.exchange.ready()

    def first_event(self) -> bytes:
        """Return the first event, with which a client can resume the stream; a comment for clients without ids."""
        if not self.streams.has_ids:
            return b":\n\n"
        return b"id: %s-%d\nretry: %d\ndata: \n\n" % (self.name.encode(), self.sent, _RETRY)

    def event(self, message: bytes, *, is_response: bool = False) -> bytes:
        """Return a message as the next event of the stream, kept for clients that resume it.

        Args:
            message: The message.
            is_response: Keep an error in place of the message if that is too large to be kept.
        """
        streams = self.streams
        if not streams.has_ids:
            return event(message)
        self.sent += 1
        if not streams.keep(self, self.sent, message) and is_response and self.request_id is not None:
            problem = ProtocolError(
                INTERNAL_ERROR,
                "The response could not be delivered: the connection was lost, and the response is too large to be "
                f"stored ({len(message):,} bytes, the limit is {streams.max_message:,}). Send the request again",
            )
            streams.keep(self, self.sent, jsonrpc.error(self.request_id, problem))
        streams.write(self)
        return event(message, f"{self.name}-{self.sent}")


class StandaloneStream(EventStream):
    """A GET stream of a session, for messages that belong to no request.

    Args:
        streams: Streams of its session.
        standalone: Standalone streams of its session.

    Attributes:
        release_token: Stops watching the access token of the connection.
    """

    release_token: Callable[[], None] | None = None

    def __init__(self, streams: EventStreams, standalone: StandaloneStreams) -> None:
        super().__init__(streams, streams.new_name("g"))
        self._standalone = standalone

    @property
    def is_open(self) -> bool:
        """True if a client is connected."""
        return self.exchange is not None

    def refill(self) -> list[bytes]:
        """Return pending notifications."""
        return self._standalone.take_notifications(self)

    def lost(self, exchange: Exchange) -> None:
        """End the stream, unless the client has reconnected already."""
        if self.exchange is exchange:
            self.exchange = None
            self.is_detached = True
            if self.release_token is not None:
                self.release_token()
            self._standalone.remove(self, exchange.caller)


class StandaloneStreams:
    """The standalone streams of a session in this process, and pending notifications; see `StandaloneChannel`.

    The newest stream, in any process, gets the messages. The record of the session names its process, the notifier.

    Args:
        state: State of the app.
        session: The session, as a listener for changes.
        negotiated: Negotiated values of the session.
        record: Record of the session.
        questions: Open requests to the client.
        save_later: Saves the record in the background.

    Attributes:
        streams: The streams, the newest one last.
        attending: Functions that are called when a stream is opened, in any process.
        questions: Open requests to the client.
        has_ended: Whether the session has ended.
    """

    def __init__(
        self,
        state: LoopState,
        session: ChangeListener,
        negotiated: Handshake,
        record: SessionRecord,
        questions: OpenQuestions,
        save_later: Callable[[], None],
    ) -> None:
        self.streams: list[StandaloneStream] = []
        self.questions: OpenQuestions | None = questions
        self.has_ended = False
        self._state, self._session, self._negotiated = state, session, negotiated
        self._record, self._save_later = record, save_later
        self.attending = Listeners[[]]()
        self._pending = ChangeQueue()
        self._overflow: dict[Change, None] = {}
        self._notifier: str | None = None

    # The notifier

    @property
    def is_notifier(self) -> bool:
        """True if the newest stream is in this process."""
        return self._notifier == self._state.process

    @property
    def has_other_notifier(self) -> bool:
        """True if the newest stream is in another process, which has not ended."""
        return not (self._notifier is None or self.is_notifier or self._state.is_gone(self._notifier))

    def load(self, fields: Mapping[str, str]) -> None:
        """Process the fields of the session's record."""
        was_open = self.is_open
        self._notifier = fields.get(RecordField.NOTIFIER)
        if self.is_open and not was_open:
            self.attending.notify()
        if self.streams:
            if self.has_other_notifier:
                self._pending.take()
                self._overflow.clear()
            elif self._notifier is None:
                self._become_notifier()
                self._save_later()

    def replace_dead_notifier(self) -> None:
        """Send the notifications in place of a process that has ended."""
        if self.streams and self._notifier is not None and self._state.is_gone(self._notifier):
            self._become_notifier()
            self._save_later()
            self.notify_all()

    def _become_notifier(self) -> None:
        if not self.is_notifier:
            self._notifier = self._record.changes[RecordField.NOTIFIER] = self._state.process

    # Streams

    def add(self, stream: StandaloneStream, exchange: Exchange) -> None:
        """Send messages on a stream from now on. The caller must save the record."""
        self.streams.append(stream)
        self._state.stream_shares.take(exchange.caller)
        stream.release_token = self._state.end_with_token(exchange, stream.detach)
        self._become_notifier()
        self.attending.notify()

    def remove(self, stream: StandaloneStream, caller: str | None) -> None:
        """Send messages on another stream, if there is one."""
        if stream in self.streams:
            self.streams.remove(stream)
            self._state.stream_shares.release(caller)
            if not self.streams and self.is_notifier:
                self._notifier = self._record.changes[RecordField.NOTIFIER] = None
                self._save_later()
            self.wake()

    # The channel

    @property
    def is_open(self) -> bool:
        """True if there is a stream in any process, as far as this one knows."""
        return bool(self.streams) or self.has_other_notifier

    def attend(self, changed: Callable[[], None]) -> Callable[[], object]:
        """Call a function when a stream is opened, in any process. Return a function that ends it."""
        return self.attending.add(changed)

    def send(self, message: bytes) -> None:
        """Send a message on the newest stream, in any process; it is lost if no stream is open."""
        if self.has_other_notifier:
            self._state.start_task(self._record.publish(MessageKind.STANDALONE_MESSAGE, message.decode()))
        else:
            self.send_here(message)

    def send_here(self, message: bytes) -> None:
        """Send a message on the newest stream, if it is in this process."""
        if self.streams and not self.has_other_notifier:
            self.streams[-1].send(message)

    async def ready(self) -> None:
        """Wait until the client keeps up, if its stream is in this process."""
        if self.streams:
            await self.streams[-1].ready()

    # Notifications of changes

    def add_change(self, change: Change) -> None:
        """Queue a change. It is sent at once, or when there is a stream.

        If too many changes are pending, the client is notified of all resources and templates that it has subscribed
        to, in place of each resource. So the number of pending changes is limited, and none is lost.
        """
        if self.streams and self.has_other_notifier:
            return
        if not self._pending.add(change):
            subscribed = self._state.hub.subscriptions(self._session)
            self._overflow.update((each, None) for each in subscribed if each.uri is not None)
        self.wake()

    def notify_all(self) -> None:
        """Notify the client of all its subscriptions, because it may have missed notifications."""
        self._overflow.update(dict.fromkeys(self._state.hub.subscriptions(self._session)))
        self.wake()

    def wake(self) -> None:
        """Make the newest stream send pending notifications."""
        if self.streams:
            exchange = self.streams[-1].exchange
            assert exchange is not None
            exchange.wake()

    def take_notifications(self, stream: StandaloneStream) -> list[bytes]:
        """Return the pending notifications for a stream, if it is the newest one."""
        if not self._negotiated.is_initialized or not self.streams or stream is not self.streams[-1]:
            return []
        changes = [*self._pending.take(), *self._overflow]
        self._overflow.clear()
        return [stream.event(notification(change)) for change in changes]

"""The event streams of a session, to which clients can reconnect.

Follows "Resumability and Redelivery" of basic/transports (2025-11-25): an event id contains the name of its stream and
its number in it, so only events of that stream are sent again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ...._utils.exceptions import INTERNAL_ERROR, ProtocolError
from ....protocol import jsonrpc
from ....protocol.jsonrpc import RequestId
from ....protocol.messages import invalid
from ..exchange import Exchange, Source, event
from .events import MOST_EVENTS, Events, Kept, Shelf
from .journal import Entry, Journal

RETRY = 1000
"""Milliseconds after which a client reconnects to a closed stream."""

_EVENT_ID = re.compile(r"(?P<stream>(?P<process>[0-9a-f]{8})(?P<kind>[cg])[0-9]+)-(?P<number>[0-9]{1,15})")


class Streams(Events):
    """The resumable streams of one session by name, and their latest events.

    Args:
        process: See `Events`.
        shelf: See `Events`.
        has_ids: Whether events have ids: from 2025-11-25 on. Older clients take the event without data that makes a
            stream resumable for a broken message.
        session: Id of the session, as in its token.
        journal: Stores events for other processes; None if there are none.
        tell: Notifies other processes of new events of a stream.
    """

    def __init__(
        self,
        process: str,
        shelf: Shelf,
        *,
        has_ids: bool,
        session: str,
        journal: Journal | None,
        tell: Callable[[str], Awaitable[None]],
    ) -> None:
        super().__init__(process, shelf)
        self.has_ids = has_ids
        self.session = session
        self.tell = tell
        self._journal = journal if has_ids else None
        self._by_name: dict[str, Stream] = {}

    def __len__(self) -> int:
        """Return the number of stored streams."""
        return len(self._by_name)

    def get(self, name: str) -> Stream | None:
        """Return the stream of a name, if it is kept."""
        return self._by_name.get(name)

    def open(self, exchange: Exchange, request_id: RequestId | None) -> Stream:
        """Make the answer to a POST a stream.

        Args:
            exchange: The connection.
            request_id: Of the request that it answers.
        """
        stream = Stream(self)
        stream.request_id = request_id
        stream.attach(exchange)
        self.remember(stream)
        exchange.push(stream.prime())
        self.note(stream)
        return stream

    def note(self, stream: Stream) -> None:
        """Write the new events of a stream to the journal, if there are other processes."""
        if self._journal is not None:
            self._journal.note(stream)

    def hand_over(self, stream: Stream) -> None:
        """Leave a stream to another process, to which its client has reconnected. A running call continues here."""
        stream.leave()
        if stream.kind != "c" and self._by_name.pop(stream.name, None) is not None:
            stream.is_finished = True
        stream.is_left = True
        self.note(stream)

    def drop(self) -> None:
        """Drop the oldest event, and its stream if it has no other event."""
        name = self.oldest
        super().drop()
        if self._journal is not None:
            stream = self._by_name.get(name)
            if stream is not None and stream.is_finished and not self.after(name, 0):
                self._journal.remove(stream)

    def end(self, *, is_over: bool) -> None:
        """Stop storing events in this process.

        Args:
            is_over: Whether the session has ended, so that no client reconnects to another process either.
        """
        journal, self._journal = self._journal, None
        if journal is not None and is_over:
            for stream in self._by_name.values():
                journal.remove(stream)
        self.clear()

    def remember(self, stream: Stream) -> None:
        """Store a stream for a client that reconnects. Ended streams are dropped first."""
        if self.has_ids:
            self._by_name[stream.name] = stream
            if len(self._by_name) > MOST_EVENTS:
                self._by_name = {name: kept for name, kept in self._by_name.items() if kept.is_alive}


class Stream(Source):
    """The event stream that answers a POST, and outlives its connection.

    Args:
        streams: Streams of its session.

    Attributes:
        kind: The letter in its name.
        name: Prefix of its event ids.
        exchange: Current connection for its events, or None.
        is_finished: Whether it has ended.
        is_left: Whether the client is disconnected, and may reconnect to another process.
        request_id: Id of the request that it answers; None if it answers none.
        entry: Progress of writing it to the journal.
    """

    __slots__ = ("_streams", "entry", "exchange", "is_finished", "is_left", "name", "request_id", "sent")
    kind = "c"

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.sent = 0
        self.name = streams.new_name(self.kind)
        self.exchange: Exchange | None = None
        self.is_finished = False
        self.is_left = False
        self.request_id: RequestId | None = None
        self.entry = Entry()

    @property
    def session(self) -> str:
        """Id of its session, as in the token."""
        return self._streams.session

    @property
    def is_awaited(self) -> bool:
        """True if another process may wait for its events."""
        return self.is_left

    def kept_after(self, number: int) -> list[Kept]:
        """Return its stored events after the one with this number."""
        return self._streams.after(self.name, number)

    async def tell(self) -> None:
        """Notify other processes of new events in the shared store."""
        await self._streams.tell(self.name)

    @property
    def is_alive(self) -> bool:
        """True if it has not ended, with a connection or without."""
        return not self.is_finished

    def attach(self, exchange: Exchange) -> None:
        """Send its events on a connection from now on."""
        self.exchange = exchange
        self.is_left = False
        exchange.attach(self)

    def lost(self, exchange: Exchange) -> None:
        """Continue without the connection, if it is still its own."""
        if self.exchange is exchange:
            self.exchange = None
            self.is_left = not self.is_finished

    def leave(self) -> None:
        """End the connection after the queued events. The stream continues without it."""
        exchange = self.exchange
        if exchange is not None:
            self.lost(exchange)
            exchange.finish()

    def finish(self) -> None:
        """End the stream after the queued events."""
        self.is_finished = True
        self.leave()
        self._streams.note(self)

    def send(self, message: bytes, id_: RequestId | None = None) -> None:
        """Send a message on the connection, if there is one; see `event`."""
        chunk = self.event(message, id_)
        if self.exchange is not None:
            self.exchange.push(chunk)

    def prime(self) -> bytes:
        """Return the first event, with which a client can reconnect before any other; a comment without event ids."""
        if not self._streams.has_ids:
            return b":\n\n"
        return b"id: %s\nretry: %d\ndata: \n\n" % (self._id(self.sent).encode(), RETRY)

    def event(self, message: bytes, id_: RequestId | None = None) -> bytes:
        """Return a message as the next event of the stream, stored for clients that reconnect.

        Args:
            message: The message.
            id_: Id of the request that it answers. If the message is too large to be stored, an error is stored for it.
        """
        streams = self._streams
        if not streams.has_ids:
            return event(message)
        self.sent += 1
        if not streams.keep(self.name, self.sent, message) and id_ is not None:
            problem = ProtocolError(
                INTERNAL_ERROR,
                "The response could not be delivered: the connection was lost, and the response is too "
                f"large to be stored ({len(message):,} bytes, the limit is {streams.most:,}). Send the "
                "request again",
            )
            streams.keep(self.name, self.sent, jsonrpc.error(id_, problem))
        streams.note(self)
        return event(message, self._id(self.sent))

    def has_more(self, number: int) -> bool:
        """Return True if there were events after the one with this number, stored or not."""
        return number < self.sent

    def again(self, number: int) -> list[bytes]:
        """Return the events after the one with this number."""
        return [event(kept.message, self._id(kept.number)) for kept in self._streams.after(self.name, number)]

    def _id(self, number: int) -> str:
        return f"{self.name}-{number}"


class EventId(NamedTuple):
    """Parts of an event id.

    Attributes:
        stream: Name of the stream.
        process: Process of the stream.
        is_for_call: Whether the stream answers a POST.
        number: Number of the event in the stream.
    """

    stream: str
    process: str
    is_for_call: bool
    number: int


def read_event_id(text: str) -> EventId:
    """Return the parts of an event id. An id of another form has empty parts."""
    found = _EVENT_ID.fullmatch(text)
    if found is None:
        return EventId("", "", False, 0)
    return EventId(found["stream"], found["process"], found["kind"] == "c", int(found["number"]))


def not_kept() -> ProtocolError:
    """Return the error for a client that resumes a stream which is not stored."""
    return invalid(
        "the stream of this Last-Event-ID is no longer stored. Send the request again, unless its "
        "response has arrived"
    )

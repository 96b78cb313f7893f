"""The event streams of a session, which clients can come back to.

Follows "Resumability and Redelivery" of basic/transports (2025-11-25): an id names its stream and the
event's place in it, so what is sent again is what that stream has said, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ....common.errors import INTERNAL_ERROR, ProtocolError
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
    """The streams of one session by name, as far as its client can come back to them, and their latest events.

    Args:
        process: See `Events`.
        shelf: See `Events`.
        has_ids: Whether events have ids: from 2025-11-25 on, as older clients take the event
            that makes a stream resumable, which has no data, for a broken message.
        session: The session, as its token has it.
        journal: Where other processes find what is said; None where there are none.
        tell: Tells the others that there is more of a stream.
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
        """Count the streams that are kept."""
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
        """Have other processes know what a stream has said, if there are some."""
        if self._journal is not None:
            self._journal.note(stream)

    def hand_over(self, stream: Stream) -> None:
        """Leave a stream to another process, to which its client has come back; a call goes on saying what it says."""
        stream.leave()
        if stream.kind != "c" and self._by_name.pop(stream.name, None) is not None:
            stream.is_finished = True
        stream.is_left = True
        self.note(stream)

    def drop(self) -> None:
        """Let go of the oldest event; and of its stream, where it was the last one of that."""
        name = self.oldest
        super().drop()
        if self._journal is not None:
            stream = self._by_name.get(name)
            if stream is not None and stream.is_finished and not self.after(name, 0):
                self._journal.remove(stream)

    def end(self, *, is_over: bool) -> None:
        """Keep nothing more here.

        Args:
            is_over: Whether the session has ended, so that nobody comes back to another process either.
        """
        journal, self._journal = self._journal, None
        if journal is not None and is_over:
            for stream in self._by_name.values():
                journal.remove(stream)
        self.clear()

    def remember(self, stream: Stream) -> None:
        """Remember a stream for a client that comes back; those that have said their last go first."""
        if self.has_ids:
            self._by_name[stream.name] = stream
            if len(self._by_name) > MOST_EVENTS:
                self._by_name = {name: kept for name, kept in self._by_name.items() if kept.is_alive}


class Stream(Source):
    """The event stream that answers a POST, which outlives the connection that it was opened by.

    Args:
        streams: Those of its session.

    Attributes:
        kind: The letter in its name.
        name: What its ids begin with.
        exchange: The connection that takes its events now, if there is one.
        is_finished: Whether it has said its last.
        is_left: Whether its client has lost the connection, and may come back to another process.
        request_id: Of the request that it answers; None where it answers none.
        entry: How far other processes know what it has said.
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
        """Of which session it is, as the token has it."""
        return self._streams.session

    @property
    def is_awaited(self) -> bool:
        """Whether another process may wait for what it says."""
        return self.is_left

    def kept_after(self, number: int) -> list[Kept]:
        """Return its events after the one with this number, as far as they are kept."""
        return self._streams.after(self.name, number)

    async def tell(self) -> None:
        """Tell other processes that there is more of it in the shared store."""
        await self._streams.tell(self.name)

    @property
    def is_alive(self) -> bool:
        """Whether it has more to say, here and now or to a client that comes back."""
        return not self.is_finished

    def attach(self, exchange: Exchange) -> None:
        """Send its events on a connection from now on."""
        self.exchange = exchange
        self.is_left = False
        exchange.attach(self)

    def lost(self, exchange: Exchange) -> None:
        """Go on without the connection, if it is still its own."""
        if self.exchange is exchange:
            self.exchange = None
            self.is_left = not self.is_finished

    def leave(self) -> None:
        """End the connection after what has been said; the stream goes on without it."""
        exchange = self.exchange
        if exchange is not None:
            self.lost(exchange)
            exchange.finish()

    def finish(self) -> None:
        """End, after what has been said."""
        self.is_finished = True
        self.leave()
        self._streams.note(self)

    def send(self, message: bytes, id_: RequestId | None = None) -> None:
        """Say a message, on the connection if there is one; see `event`."""
        chunk = self.event(message, id_)
        if self.exchange is not None:
            self.exchange.push(chunk)

    def prime(self) -> bytes:
        """Return the event that a client can come back with before it has seen any other; or a comment."""
        if not self._streams.has_ids:
            return b":\n\n"
        return b"id: %s\nretry: %d\ndata: \n\n" % (self._id(self.sent).encode(), RETRY)

    def event(self, message: bytes, id_: RequestId | None = None) -> bytes:
        """Return a message as the stream's next event, kept for clients that come back.

        Args:
            message: The message.
            id_: Of the request that it answers: where it is too large to be kept, an error that says so is.
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
        """Say whether it has said anything after the event with this number, kept or not."""
        return number < self.sent

    def again(self, number: int) -> list[bytes]:
        """Return the events after the one with this number."""
        return [event(kept.message, self._id(kept.number)) for kept in self._streams.after(self.name, number)]

    def _id(self, number: int) -> str:
        return f"{self.name}-{number}"


class EventId(NamedTuple):
    """What an event id says.

    Attributes:
        stream: The name of the stream.
        process: The process whose stream it is.
        is_for_call: Whether it answers a POST.
        number: The number of the event in it.
    """

    stream: str
    process: str
    is_for_call: bool
    number: int


def read_event_id(text: str) -> EventId:
    """Return what an event id says; of what is none of ours all is empty."""
    found = _EVENT_ID.fullmatch(text)
    if found is None:
        return EventId("", "", False, 0)
    return EventId(found["stream"], found["process"], found["kind"] == "c", int(found["number"]))


def not_kept() -> ProtocolError:
    """Return what a client is told that comes back for what is not kept."""
    return invalid(
        "the stream of this Last-Event-ID is no longer stored. Send the request again, unless its "
        "response has arrived"
    )

"""The event streams of a session, which clients can come back to.

Follows "Resumability and Redelivery" of basic/transports (2025-11-25): an id names its stream and the
event's place in it, so what is sent again is what that stream has said, and nothing else.
"""

from __future__ import annotations

import re

from ....errors import INTERNAL_ERROR, ProtocolError
from ....protocol import jsonrpc
from ....protocol.jsonrpc import RequestId
from ..exchange import Exchange, Source, event
from .events import MOST_EVENTS, Events, Shelf

RETRY = 1000
"""Milliseconds after which a client whose stream was closed comes back."""

_EVENT_ID = re.compile(r"(?P<stream>[0-9a-f]{8}(?P<kind>[cg])[0-9]+)-(?P<number>[0-9]{1,15})")


class Streams(Events):
    """The streams of one session by name, as far as its client can come back to them, and their latest events.

    Args:
        process: See `Events`.
        shelf: See `Events`.
        has_ids: Whether events have ids: from 2025-11-25 on, as older clients take the event
            that makes a stream resumable, which has no data, for a broken message.
    """

    def __init__(self, process: str, shelf: Shelf, *, has_ids: bool) -> None:
        super().__init__(process, shelf)
        self.has_ids = has_ids
        self._by_name: dict[str, Stream] = {}

    def __len__(self) -> int:
        """Count the streams that are kept."""
        return len(self._by_name)

    def get(self, name: str) -> Stream | None:
        """Return the stream of a name, if it is kept."""
        return self._by_name.get(name)

    def open(self, exchange: Exchange) -> Stream:
        """Make the answer to a POST a stream."""
        stream = Stream(self)
        stream.attach(exchange)
        self.remember(stream)
        exchange.push(stream.prime())
        return stream

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
    """

    __slots__ = ("_sent", "_streams", "exchange", "is_finished", "name")
    kind = "c"

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._sent = 0
        self.name = streams.new_name(self.kind)
        self.exchange: Exchange | None = None
        self.is_finished = False

    @property
    def is_alive(self) -> bool:
        """Whether it has more to say, here and now or to a client that comes back."""
        return not self.is_finished

    def attach(self, exchange: Exchange) -> None:
        """Send its events on a connection from now on."""
        self.exchange = exchange
        exchange.attach(self)

    def lost(self, exchange: Exchange) -> None:
        """Go on without the connection, if it is still its own."""
        if self.exchange is exchange:
            self.exchange = None

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

    def send(self, message: bytes, id_: RequestId | None = None) -> None:
        """Say a message, on the connection if there is one; see `event`."""
        chunk = self.event(message, id_)
        if self.exchange is not None:
            self.exchange.push(chunk)

    def prime(self) -> bytes:
        """Return the event that a client can come back with before it has seen any other; or a comment."""
        if not self._streams.has_ids:
            return b":\n\n"
        return b"id: %s\nretry: %d\ndata: \n\n" % (self._id(self._sent).encode(), RETRY)

    def event(self, message: bytes, id_: RequestId | None = None) -> bytes:
        """Return a message as the stream's next event, kept for clients that come back.

        Args:
            message: The message.
            id_: Of the request that it answers: where it is too large to be kept, an error that says so is.
        """
        streams = self._streams
        if not streams.has_ids:
            return event(message)
        self._sent += 1
        if not streams.keep(self.name, self._sent, message) and id_ is not None:
            problem = ProtocolError(
                INTERNAL_ERROR,
                "The response is too large to be kept for a client that has lost its connection "
                f"({len(message):,} bytes, of at most {streams.most:,}): send the request again",
            )
            streams.keep(self.name, self._sent, jsonrpc.error(id_, problem))
        return event(message, self._id(self._sent))

    def has_more(self, number: int) -> bool:
        """Say whether it has said anything after the event with this number, kept or not."""
        return number < self._sent

    def again(self, number: int) -> list[bytes]:
        """Return the events after the one with this number."""
        return [event(kept.message, self._id(kept.number)) for kept in self._streams.after(self.name, number)]

    def _id(self, number: int) -> str:
        return f"{self.name}-{number}"


def read_event_id(text: str) -> tuple[str, bool, int]:
    """Return the stream that an event id names, whether it answers a POST, and the event's number in it.

    Of what is none of ours the name is empty.
    """
    found = _EVENT_ID.fullmatch(text)
    return ("", False, 0) if found is None else (found["stream"], found["kind"] == "c", int(found["number"]))

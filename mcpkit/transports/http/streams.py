"""The event streams of a session, which clients can come back to.

Follows "Resumability and Redelivery" of basic/transports (2025-11-25): an id names its stream and the
event's place in it, so what is sent again is what that stream has said, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .events import MOST_EVENTS, Events
from .exchange import Exchange, Source, event

RETRY: Final = 1000
"""Milliseconds after which a client whose stream was closed comes back."""

_CALLS: Final = re.compile(r"[0-9a-f]{8}c[0-9]+")


class Streams:
    """The streams of one session by name, as far as its client can come back to them.

    Args:
        events: The session's events.
        has_ids: Whether events have ids: from 2025-11-25 on, as older clients take the event
            that makes a stream resumable, which has no data, for a broken message.
    """

    def __init__(self, events: Events, *, has_ids: bool) -> None:
        self.events = events
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
        self.keep(stream)
        exchange.push(stream.prime())
        return stream

    def keep(self, stream: Stream) -> None:
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

    __slots__ = ("_events", "_has_ids", "_sent", "exchange", "is_finished", "name")
    kind = "c"

    def __init__(self, streams: Streams) -> None:
        self._events = streams.events
        self._has_ids = streams.has_ids
        self._sent = 0
        self.name = streams.events.new_name(self.kind)
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

    def send(self, message: bytes, instead: Callable[[int, int], bytes] | None = None) -> None:
        """Say a message, on the connection if there is one; see `event`."""
        chunk = self.event(message, instead)
        if self.exchange is not None:
            self.exchange.push(chunk)

    def prime(self) -> bytes:
        """Return the event that a client can come back with before it has seen any other; or a comment."""
        if not self._has_ids:
            return b":\n\n"
        return b"id: %s\nretry: %d\ndata: \n\n" % (self._id(self._sent).encode(), RETRY)

    def event(self, message: bytes, instead: Callable[[int, int], bytes] | None = None) -> bytes:
        """Return a message as the stream's next event, kept for clients that come back.

        Args:
            message: The message.
            instead: Makes what is kept in its place where it is too large: of its bytes, and the most that there may
                be. Nothing is, without.
        """
        if not self._has_ids:
            return event(message)
        self._sent += 1
        if not self._events.keep(self.name, self._sent, message) and instead is not None:
            self._events.keep(self.name, self._sent, instead(len(message), self._events.most))
        return event(message, self._id(self._sent))

    def has_more(self, number: int) -> bool:
        """Say whether it has said anything after the event with this number, kept or not."""
        return number < self._sent

    def again(self, number: int) -> list[bytes]:
        """Return the events after the one with this number."""
        return [event(kept.message, self._id(kept.number)) for kept in self._events.after(self.name, number)]

    def _id(self, number: int) -> str:
        return f"{self.name}-{number}"


def was_for_call(name: str) -> bool:
    """Say whether a stream that is not kept, or never was here, has answered a POST."""
    return _CALLS.fullmatch(name) is not None


def read_event_id(text: str) -> tuple[str, int] | None:
    """Return the stream and the number that an event id names, or None for what is none of ours."""
    name, separator, number = text.rpartition("-")
    if not separator or not number.isascii() or not number.isdigit() or len(number) > 15:
        return None
    return name, int(number)

"""The event streams of a session, and their latest events for clients that come back.

Follows "Resumability and Redelivery" of basic/transports (2025-11-25): an id names its stream and the
event's place in it, so what is sent again is what that stream has said, and nothing else.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from .exchange import Exchange, Source, event

MOST_EVENTS: Final = 256
"""What one session keeps for clients that come back; the oldest goes first."""

SHARE: Final = 16
"""One session keeps this part of what all may keep together."""

_BESIDES: Final = 400
"""Bytes of memory that an event takes beside its message."""

RETRY: Final = 1000
"""Milliseconds after which a client whose stream was closed comes back."""


_CALL: Final = "c"
_LISTENER: Final = "g"
_CALLS: Final = re.compile(r"[0-9a-f]{8}c[0-9]+")


class _Kept(NamedTuple):
    serial: int
    stream: str
    number: int
    message: bytes

    @property
    def size(self) -> int:
        return len(self.message) + _BESIDES


class Shelf:
    """What all sessions of an app keep in one process, together no more than a number of bytes.

    Args:
        limit: That number.

    Attributes:
        most: The bytes that one session may keep, so that an event of more is not kept at all.
        size: The bytes that are kept.
    """

    def __init__(self, limit: int) -> None:
        self.most = limit // SHARE
        self.size = 0
        self._limit = limit
        self._serial = 0
        self._owners: OrderedDict[int, Events] = OrderedDict()  # of what is kept, the oldest first

    def put(self, owner: Events, stream: str, number: int, message: bytes) -> _Kept:
        """Take an event, which its session keeps, and have the oldest ones of all go for it."""
        self._serial += 1
        kept = _Kept(self._serial, stream, number, message)
        self.size += kept.size
        while self.size > self._limit:
            next(iter(self._owners.values())).drop()
        self._owners[kept.serial] = owner
        return kept

    def remove(self, kept: _Kept) -> None:
        """Let go of an event that its session has dropped."""
        del self._owners[kept.serial]
        self.size -= kept.size


class Events:
    """The latest events of one session.

    Args:
        process: A text that no other process has, so that ids of its streams are not mistaken for ours.
        shelf: Where the sessions of the process keep theirs.
    """

    def __init__(self, process: str, shelf: Shelf) -> None:
        self._process = process
        self._shelf = shelf
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        self._opened = 0

    def new_name(self, kind: str) -> str:
        """Return a name that no stream of the session has had."""
        self._opened += 1
        return f"{self._process}{kind}{self._opened}"

    def keep(self, stream: str, number: int, message: bytes) -> bool:
        """Keep an event, and let go of the oldest ones for it.

        Returns:
            Whether it is kept: one that is too large is not, and costs no other its place.
        """
        if len(message) + _BESIDES > self._shelf.most:
            return False
        kept = self._shelf.put(self, stream, number, message)
        self._kept.append(kept)
        self._bytes += kept.size
        while len(self._kept) > MOST_EVENTS or self._bytes > self._shelf.most:
            self.drop()
        return True

    def drop(self) -> None:
        """Let go of the oldest event."""
        kept = self._kept.popleft()
        self._bytes -= kept.size
        self._shelf.remove(kept)

    def clear(self) -> None:
        """Let go of all: nobody comes back."""
        while self._kept:
            self.drop()

    @property
    def most(self) -> int:
        """The bytes of the largest message that is kept."""
        return max(0, self._shelf.most - _BESIDES)

    def after(self, stream: str, number: int) -> list[_Kept]:
        """Return the events of a stream that came after one of them, as far as they are kept."""
        return [kept for kept in self._kept if kept.stream == stream and kept.number > number]


class Stream(Source):
    """One event stream of a session, which outlives the connection that it was opened by.

    Args:
        events: The session's events.
        is_for_call: Whether it answers a POST; otherwise a GET has opened it.
        has_ids: Whether its events have ids: from 2025-11-25 on, as older clients take the event
            that makes a stream resumable, which has no data, for a broken message.

    Attributes:
        name: What its ids begin with.
        exchange: The connection that takes its events now, if there is one.
        is_finished: Whether it has said its last.
    """

    __slots__ = ("_events", "_sent", "exchange", "has_ids", "is_finished", "is_for_call", "name")

    def __init__(self, events: Events, *, is_for_call: bool, has_ids: bool) -> None:
        self._events = events
        self._sent = 0
        self.is_for_call = is_for_call
        self.name = events.new_name(_CALL if is_for_call else _LISTENER)
        self.has_ids = has_ids
        self.exchange: Exchange | None = None
        self.is_finished = False

    @property
    def is_alive(self) -> bool:
        """Whether it has more to say, here and now or to a client that comes back."""
        return not self.is_finished and (self.is_for_call or self.exchange is not None)

    def attach(self, exchange: Exchange) -> None:
        """Send its events on a connection from now on."""
        self.exchange = exchange
        exchange.attach(self)

    def lost(self, exchange: Exchange) -> None:
        """Go on without the connection, if it is still its own."""
        if self.exchange is exchange:
            self.exchange = None

    def prime(self) -> bytes:
        """Return the event that a client can come back with before it has seen any other; or a comment."""
        if not self.has_ids:
            return b":\n\n"
        return b"id: %s\nretry: %d\ndata: \n\n" % (self._id(self._sent).encode(), RETRY)

    def event(self, message: bytes, instead: Callable[[int, int], bytes] | None = None) -> bytes:
        """Return a message as the stream's next event, kept for clients that come back.

        Args:
            message: The message.
            instead: Makes what is kept in its place where it is too large: of its bytes, and the most that there may
                be. Nothing is, without.
        """
        if not self.has_ids:
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

"""The event streams of a session, and their latest events for clients that come back.

Follows "Resumability and Redelivery" of basic/transports (2025-11-25): an id names its stream and the
event's place in it, so what is sent again is what that stream has said, and nothing else.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final, NamedTuple

from .exchange import Exchange, event

MOST_EVENTS: Final = 256
MOST_BYTES: Final = 4 * 1024 * 1024
"""What one session keeps for clients that come back; the oldest goes first."""

RETRY: Final = 1000
"""Milliseconds after which a client whose stream was closed comes back."""


_CALL: Final = "c"
_LISTENER: Final = "g"
_CALLS: Final = re.compile(r"[0-9a-f]{8}c[0-9]+")


class _Kept(NamedTuple):
    stream: str
    number: int
    message: bytes


class Events:
    """The latest events of one session.

    Args:
        process: A text that no other process has, so that ids of its streams are not mistaken for ours.
    """

    def __init__(self, process: str) -> None:
        self._process = process
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        self._opened = 0

    def new_name(self, kind: str) -> str:
        """Return a name that no stream of the session has had."""
        self._opened += 1
        return f"{self._process}{kind}{self._opened}"

    def keep(self, stream: str, number: int, message: bytes) -> None:
        """Keep an event, and let go of the oldest ones for it."""
        self._kept.append(_Kept(stream, number, message))
        self._bytes += len(message)
        while len(self._kept) > MOST_EVENTS or (self._bytes > MOST_BYTES and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft().message)

    def after(self, stream: str, number: int) -> list[_Kept]:
        """Return the events of a stream that came after one of them, as far as they are kept."""
        return [kept for kept in self._kept if kept.stream == stream and kept.number > number]


class Stream:
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
        caller: Who listens, where it belongs to no call; see `Shares`.
    """

    __slots__ = ("_events", "_sent", "caller", "exchange", "has_ids", "is_finished", "is_for_call", "name")

    def __init__(self, events: Events, *, is_for_call: bool, has_ids: bool) -> None:
        self._events = events
        self._sent = 0
        self.is_for_call = is_for_call
        self.name = events.new_name(_CALL if is_for_call else _LISTENER)
        self.has_ids = has_ids
        self.exchange: Exchange | None = None
        self.is_finished = False
        self.caller: str | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it has more to say, here and now or to a client that comes back."""
        return not self.is_finished and (self.is_for_call or self.exchange is not None)

    def prime(self) -> bytes:
        """Return the event that a client can come back with before it has seen any other; or a comment."""
        if not self.has_ids:
            return b":\n\n"
        return b"id: %s\nretry: %d\ndata: \n\n" % (self._id(self._sent).encode(), RETRY)

    def event(self, message: bytes) -> bytes:
        """Return a message as the stream's next event, kept for clients that come back."""
        if not self.has_ids:
            return event(message)
        self._sent += 1
        self._events.keep(self.name, self._sent, message)
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

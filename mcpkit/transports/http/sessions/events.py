"""The latest events of a session, for clients that reconnect, within a memory limit for all sessions."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

MOST_EVENTS = 256
"""What one session keeps for clients that come back; the oldest goes first."""

SHARE = 16
"""One session keeps this part of what all may keep together."""

_BESIDES = 400
"""Bytes of memory that an event takes beside its message."""


class Kept(NamedTuple):
    """An event that is kept."""

    serial: int
    stream: str
    number: int
    message: bytes

    @property
    def size(self) -> int:
        """Size in memory, in bytes."""
        return len(self.message) + _BESIDES


class Shelf:
    """Stored events of all sessions of an app in one process, within a limit.

    Args:
        limit: Maximum number of bytes.

    Attributes:
        most: Maximum number of bytes of one session. A larger event is not stored.
        size: Number of stored bytes.
    """

    def __init__(self, limit: int) -> None:
        self.most = limit // SHARE
        self.size = 0
        self._limit = limit
        self._serial = 0
        self._owners: OrderedDict[int, Events] = OrderedDict()  # of what is kept, the oldest first

    def put(self, owner: Events, stream: str, number: int, message: bytes) -> Kept:
        """Count an event that its session stores, and drop the oldest events of all sessions to make room."""
        self._serial += 1
        kept = Kept(self._serial, stream, number, message)
        self.size += kept.size
        while self.size > self._limit:
            next(iter(self._owners.values())).drop()
        self._owners[kept.serial] = owner
        return kept

    def remove(self, kept: Kept) -> None:
        """Uncount an event that its session has dropped."""
        del self._owners[kept.serial]
        self.size -= kept.size


class Events:
    """The latest events of one session.

    Args:
        process: Unique name of the process, which distinguishes the ids of its streams.
        shelf: Stored events of all sessions of the process.
    """

    def __init__(self, process: str, shelf: Shelf) -> None:
        self._process = process
        self._shelf = shelf
        self._kept: deque[Kept] = deque()
        self._bytes = 0
        self._opened = 0

    def new_name(self, kind: str) -> str:
        """Return a name that no stream of the session has had."""
        self._opened += 1
        return f"{self._process}{kind}{self._opened}"

    def keep(self, stream: str, number: int, message: bytes) -> bool:
        """Store an event, and drop the oldest ones to make room.

        Returns:
            Whether it is stored: an event that is too large is not, and no other is dropped for it.
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
        """Drop the oldest event."""
        kept = self._kept.popleft()
        self._bytes -= kept.size
        self._shelf.remove(kept)

    def clear(self) -> None:
        """Drop all events: no client reconnects for them."""
        while self._kept:
            self.drop()

    @property
    def oldest(self) -> str:
        """The stream of the oldest event."""
        return self._kept[0].stream

    @property
    def most(self) -> int:
        """The bytes of the largest message that is kept."""
        return max(0, self._shelf.most - _BESIDES)

    def after(self, stream: str, number: int) -> list[Kept]:
        """Return the stored events of a stream after one of them."""
        return [kept for kept in self._kept if kept.stream == stream and kept.number > number]

"""The latest events of a session, for clients that come back, and the memory that all sessions have for theirs."""

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
        """The bytes of memory that it takes."""
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

    def put(self, owner: Events, stream: str, number: int, message: bytes) -> Kept:
        """Take an event, which its session keeps, and have the oldest ones of all go for it."""
        self._serial += 1
        kept = Kept(self._serial, stream, number, message)
        self.size += kept.size
        while self.size > self._limit:
            next(iter(self._owners.values())).drop()
        self._owners[kept.serial] = owner
        return kept

    def remove(self, kept: Kept) -> None:
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
        self._kept: deque[Kept] = deque()
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
    def oldest(self) -> str:
        """The stream of the oldest event."""
        return self._kept[0].stream

    @property
    def most(self) -> int:
        """The bytes of the largest message that is kept."""
        return max(0, self._shelf.most - _BESIDES)

    def after(self, stream: str, number: int) -> list[Kept]:
        """Return the events of a stream that came after one of them, as far as they are kept."""
        return [kept for kept in self._kept if kept.stream == stream and kept.number > number]

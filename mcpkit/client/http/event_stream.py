"""The events of a stream, read from its bytes (WHATWG HTML, "Server-sent events").

The parser is our own: messages are bytes here, from the socket to the JSON parser, and that of httpx2 decodes them to
text that would have to be encoded again. It also is of later versions than 2.0, keeps a byte order mark, and mends
broken UTF-8 in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MILLISECONDS = re.compile(rb"[0-9]{1,12}")
_SENDABLE = re.compile(rb"[!-~\x80-\xff](?:[ -~\x80-\xff]*[!-~\x80-\xff])?")
"""An id that a header can carry; the specification has visible ASCII."""


class Event(NamedTuple):
    """A server-sent event with data.

    Args:
        name: Its event type; `message` by default.
        data: Its data, lines joined by newlines.
    """

    name: bytes
    data: bytes


class TooLargeEventError(ValueError):
    """An event is larger than what is taken."""


class EventStream:
    """Parses server-sent events, and keeps the position for resuming the stream.

    Args:
        most: The most bytes of an event.

    Attributes:
        last_id: The id of the last complete event; None if the stream cannot be resumed.
        retry: Seconds to wait before reconnecting, as the server requests; None if it does not.
        has_moved: Whether an event was complete since `begin`.
    """

    def __init__(self, most: int) -> None:
        self.last_id: bytes | None = None
        self.retry: float | None = None
        self.has_moved = False
        self._most = most
        self._is_first_line = True
        self._ends_with_return = False
        self._unfinished: list[bytes] = []
        self._unfinished_size = 0
        self._name = b""
        self._data: list[bytes] = []
        self._id: bytes | None = None
        self._size = 0

    def begin(self) -> None:
        """Begin with another connection; an event that was not complete is forgotten."""
        self.has_moved = False
        self._is_first_line = True
        self._ends_with_return = False
        self._unfinished.clear()
        self._unfinished_size = 0
        self._forget_event()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that are complete with another piece of the stream; those without data are not yielded.

        Raises:
            TooLargeEventError: An event is larger than it may be.
        """
        if self._ends_with_return and chunk[:1] == b"\n":
            chunk = chunk[1:]  # the second half of a line's end
            self._ends_with_return = False
        if not chunk:
            return
        self._ends_with_return = chunk[-1:] == b"\r"
        lines = chunk.splitlines()  # of bytes: at CR, LF and CRLF alone, as the standard has it
        rest = b"" if chunk[-1:] in {b"\r", b"\n"} else lines.pop()
        if lines and self._unfinished:
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished.clear()
            self._unfinished_size = 0
        for line in lines:
            if line:
                self._take(line)
            elif (event := self._complete()) is not None:
                yield event
        if rest:
            self._unfinished.append(rest)
            self._unfinished_size += len(rest)
            self._check_size()

    def _take(self, line: bytes) -> None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"id":
            if b"\0" not in value:
                self._id = value
        elif field == b"event":
            self._name = value
        elif field == b"retry" and _MILLISECONDS.fullmatch(value):
            self.retry = int(value) / 1000
        else:
            return  # a comment, or what nobody knows: nothing of it is kept
        self._size += len(line)
        self._check_size()

    def _check_size(self) -> None:
        if self._size + self._unfinished_size > self._most:
            raise TooLargeEventError(f"an event has more than {self._most:,} bytes")

    def _complete(self) -> Event | None:
        self._is_first_line = False
        name, data, id_ = self._name, b"\n".join(self._data), self._id
        if self._size:
            self.has_moved = True
        if id_ is not None:
            self.last_id = id_ if _SENDABLE.fullmatch(id_) else None
        self._forget_event()
        return Event(name or b"message", data) if data else None

    def _forget_event(self) -> None:
        self._name = b""
        self._data.clear()
        self._id = None
        self._size = 0

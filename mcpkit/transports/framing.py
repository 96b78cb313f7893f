"""One JSON message a line, without I/O: bytes in, lines out.

The framing of the stdio transport (revision 2026-07-28, "stdio", "Messages"), which the specification
recommends for every reliable byte stream, such as a Unix socket.
"""

from __future__ import annotations

from io import BytesIO

from .._utils.exceptions import ProtocolError, TooLongError
from ..protocol.jsonrpc import BYTE_ORDER_MARK

MAX_LINE = 64 * 1024 * 1024
"""The default limit of a line, in bytes: room for a large image or file in base64."""

_JSON_WHITESPACE = b" \t\r"
_BLANK = b" \t\r\n"

_BEGINNING = 4096
"""Bytes of an overlong line that are kept to find its request id."""

_ENDING = 1024
"""The same of its end."""


class Framing:
    r"""Splits a byte stream into messages.

    Only `\n` ends a line, because JSON strings can contain the other line separators of Unicode. White space around a
    message, such as the `\r` of `\r\n`, and a byte order mark before it are removed. Blank lines are ignored. Each
    connection needs its own framing:

        for line in framing.feed(chunk):
            connection.receive(line)

    Args:
        max_line: Maximum length of a line in bytes, without its newline. A longer line is reported once and skipped
            without being stored.
        waits_for_end: Report such a line with its end, once that has been received, instead of immediately.
    """

    __slots__ = ("_max_line", "_partial", "_skipped", "_waits_for_end")

    def __init__(self, max_line: int = MAX_LINE, *, waits_for_end: bool = False) -> None:
        self._max_line = max_line
        self._waits_for_end = waits_for_end
        self._partial: BytesIO | None = None  # its content becomes a line without being copied
        self._skipped: TooLongError | None = None

    def feed(self, chunk: bytes) -> list[bytes | ProtocolError]:
        """Process the next bytes of the stream.

        Args:
            chunk: Any number of bytes, split anywhere.

        Returns:
            The completed lines without their newlines, in order, with an error in place of each line that is too long.
        """
        end = chunk.find(b"\n")
        if (
            end == len(chunk) - 1
            and self._partial is None
            and self._skipped is None
            and end <= self._max_line
        ):
            line = chunk.strip(_BLANK)  # one whole line, as most chunks are
            # The comparison is the faster test, and false for any JSON.
            if line >= BYTE_ORDER_MARK and line.startswith(BYTE_ORDER_MARK):
                line = line[len(BYTE_ORDER_MARK) :].lstrip(_BLANK)
            return [line] if line else []
        lines: list[bytes | ProtocolError] = []
        start = 0
        while end >= 0:
            self._end_line(chunk[start:end], lines)
            start = end + 1
            end = chunk.find(b"\n", start)
        if start < len(chunk):
            self._extend(chunk[start:], lines)
        return lines

    def finish(self) -> list[bytes | ProtocolError]:
        """Process the end of the stream.

        Returns:
            The last line if no newline ended it; otherwise an empty list.
        """
        return self.feed(b"\n")

    def _end_line(self, piece: bytes, lines: list[bytes | ProtocolError]) -> None:
        if self._skipped is not None:
            if self._waits_for_end:
                self._skipped.ending = (self._skipped.ending + piece)[-_ENDING:]
                lines.append(self._skipped)
            self._skipped = None
            return
        partial, self._partial = self._partial, None
        if len(piece) + (partial.tell() if partial is not None else 0) > self._max_line:
            lines.append(self._too_long(partial, piece))
            return
        if partial is not None:
            partial.write(piece.rstrip(_JSON_WHITESPACE))
            piece = partial.getvalue()
        line = piece.strip(_JSON_WHITESPACE)
        if line.startswith(BYTE_ORDER_MARK):
            line = line[len(BYTE_ORDER_MARK) :].lstrip(_JSON_WHITESPACE)
        if line:
            lines.append(line)

    def _extend(self, piece: bytes, lines: list[bytes | ProtocolError]) -> None:
        if self._skipped is not None:
            self._skipped.ending = (self._skipped.ending + piece)[-_ENDING:]
            return
        if self._partial is None:
            self._partial = BytesIO()
        if self._partial.tell() + len(piece) > self._max_line:
            self._skipped = self._too_long(self._partial, piece)
            self._partial = None
            if not self._waits_for_end:
                lines.append(self._skipped)
            return
        self._partial.write(piece)

    def _too_long(self, partial: BytesIO | None, piece: bytes) -> TooLongError:
        begun = b"" if partial is None else bytes(partial.getbuffer()[:_BEGINNING])
        before = b"" if partial is None else bytes(partial.getbuffer()[-_ENDING:])
        beginning = (begun + piece[: _BEGINNING - len(begun)]).lstrip(_JSON_WHITESPACE)
        beginning = beginning.removeprefix(BYTE_ORDER_MARK).lstrip(_JSON_WHITESPACE)
        message = f"Message too long: the limit is {self._max_line} bytes per line"
        return TooLongError(message, beginning, (before + piece)[-_ENDING:])

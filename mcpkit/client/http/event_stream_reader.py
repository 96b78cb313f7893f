"""Event streams (WHATWG HTML, "Server-sent events"): their parser, and streams of messages that may be resumed.

The parser is our own: messages are bytes here, from the socket to the JSON parser, and that of httpx2 decodes them to
text that would have to be encoded again. It also requires versions after 2.0, keeps a byte order mark, and replaces
invalid UTF-8 silently.

Up to 2025-11-25 a stream may go on after its connection has ended (basic/transports, "Resumability and Redelivery"):
the client waits for the server's `retry` and requests the events after the last one with GET. In 2026-07-28 streams
cannot be resumed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..._utils.exceptions import StatusError, TransportError
from ...execution.coroutines import within
from ...protocol.jsonrpc import RequestId
from ..transport_interface_and_memory import TransportListener
from .headers_and_errors import Pairs, media_type
from .http_endpoint import FINISH_TIME, HttpEndpoint

if TYPE_CHECKING:
    import httpx2

# Events

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MILLISECONDS = re.compile(rb"[0-9]{1,12}")
_SENDABLE = re.compile(rb"[!-~\x80-\xff](?:[ -~\x80-\xff]*[!-~\x80-\xff])?")
"""Ids that can be sent in a header; the specification allows visible ASCII."""


class Event(NamedTuple):
    """A server-sent event with data.

    Args:
        name: Its event type; `message` by default.
        data: Its data, lines joined by newlines.
    """

    name: bytes
    data: bytes


class TooLargeEventError(ValueError):
    """An event is larger than the limit."""


class EventParser:
    """Parses server-sent events, and keeps the position for resuming the stream.

    Args:
        max_size: The most bytes of an event.

    Attributes:
        last_id: The id of the last complete event; None if the stream cannot be resumed.
        retry: Seconds to wait before reconnecting, as the server requests; None if it does not.
        has_event: Whether an event was complete since `begin`.
    """

    def __init__(self, max_size: int) -> None:
        self.last_id: bytes | None = None
        self.retry: float | None = None
        self._max_size = max_size
        self.begin()

    def begin(self) -> None:
        """Begin with another connection. An incomplete event is dropped."""
        self.has_event = False
        self._is_first_line = True
        self._ends_with_return = False
        self._unfinished: list[bytes] = []
        self._unfinished_size = 0
        self._begin_event()

    def _begin_event(self) -> None:
        self._name = b""
        self._data: list[bytes] = []
        self._id: bytes | None = None
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Process another chunk, and yield the complete events that have data.

        Raises:
            TooLargeEventError: An event is larger than the limit.
        """
        if self._ends_with_return and chunk[:1] == b"\n":
            chunk = chunk[1:]  # the rest of CRLF
            self._ends_with_return = False
        if not chunk:
            return
        self._ends_with_return = chunk[-1:] == b"\r"
        lines = chunk.splitlines()  # splits bytes at CR, LF and CRLF only, as the standard does
        rest = b"" if chunk[-1:] in {b"\r", b"\n"} else lines.pop()
        if lines and self._unfinished:
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished.clear()
            self._unfinished_size = 0
        for line in lines:
            if line:
                self._process_line(line)
            elif (event := self._complete()) is not None:
                yield event
        if rest:
            self._unfinished.append(rest)
            self._unfinished_size += len(rest)
            self._check_size()

    def _process_line(self, line: bytes) -> None:
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
            return  # a comment or unknown field
        self._size += len(line)
        self._check_size()

    def _check_size(self) -> None:
        if self._size + self._unfinished_size > self._max_size:
            raise TooLargeEventError(f"an event has more than {self._max_size:,} bytes")

    def _complete(self) -> Event | None:
        self._is_first_line = False
        name, data, id_ = self._name, b"\n".join(self._data), self._id
        if self._size:
            self.has_event = True
        if id_ is not None:
            self.last_id = id_ if _SENDABLE.fullmatch(id_) else None
        self._begin_event()
        return Event(name or b"message", data) if data else None


# Streams of messages

EVENT_STREAM = b"text/event-stream"
RETRY = 1.0
"""Seconds until a stream is resumed if the server has sent no `retry`."""
MAX_FAILURES = 5
"""The most failed attempts in a row to resume a stream before its response is given up."""
MAX_RETRY_AFTER = 30.0
"""Maximum seconds that a call waits for an unavailable server that sends `Retry-After`."""

_TEMPORARY = frozenset({408, 409, 429})
"""Statuses below 500 after which the same request may succeed: 409 comes from servers that have not noticed yet that a
connection was lost."""

_LONG_CONNECTION = 1.0
"""Seconds after which a connection without events is no failure: some servers end idle ones."""


@dataclass(eq=False)
class MessageStream:
    """The messages of one stream, which may use several connections in turn.

    Args:
        http: Sends requests.
        receiver: Receives the messages.
        headers: The headers of the session.
        id_: The id of the request to which the stream is the response; None for the stream of notifications.
        connected: Called at the beginning of each connection.
        missed: Called when a later connection does not go on after the last event.

    Attributes:
        events: The parser, with the position in the stream.
        connections: The number of connections so far.
        failures: The number of failed attempts in a row to connect again.
    """

    http: HttpEndpoint
    receiver: TransportListener
    headers: Pairs
    id_: RequestId | None = None
    connected: Callable[[], object] | None = None
    missed: Callable[[], object] | None = None
    connections: int = 0
    failures: int = 0

    def __post_init__(self) -> None:
        self.events = EventParser(self.http.max_answer)

    async def follow(self, response: httpx2.Response) -> TransportError | None:
        """Pass on the messages of one connection.

        Returns:
            Why it ended before the response to the request; None after the response.

        Raises:
            TransportError: The stream cannot be read.
        """
        http = self.http
        http.check_coding(response)
        if self.connections and self.events.last_id is None and self.missed is not None:
            self.missed()
        self.connections += 1
        if self.connected is not None:
            self.connected()
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.events.begin()
        try:
            async with aclosing(response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    if self._receive_piece(piece):
                        with suppress(TimeoutError, *http.errors):  # nothing is missing
                            await within(FINISH_TIME, _read_to_the_end(pieces))
                        return None
        except TooLargeEventError:
            raise http.too_large() from None
        except StatusError:
            raise
        except http.errors as error:
            broken = http.error_for(error)
        else:
            message = f"the event stream of {http.origin} ended before the response arrived"
            broken = TransportError(message, may_have_begun=True)
        if self.events.has_event or loop.time() - began >= _LONG_CONNECTION:
            self.failures = 0
        return broken

    def _receive_piece(self, piece: bytes) -> bool:
        """Pass on the messages in a piece of the stream, and return whether the response was among them."""
        receiver = self.receiver
        for event in self.events.feed(piece):
            if event.name == b"message":
                receiver.receive(event.data, self.id_)
                if self.id_ is not None and not receiver.is_pending(self.id_):
                    return True
            elif event.name == b"endpoint" and self.id_ is not None:  # some of its servers accept any method
                message = (
                    f"{self.http.origin} only supports the transport of 2024-11-05 (HTTP+SSE) at the path of "
                    "the URL"
                )
                raise StatusError(message, 405, may_have_begun=False)
        return False

    async def connect(self) -> TransportError | None:
        """Request the stream, after the last event if there was one, and pass on its messages.

        Returns:
            Why the response has not arrived yet, although it may later; None after the response.

        Raises:
            TransportError: The server does not have the stream, or it cannot be read.
        """
        headers: Pairs = [(b"Accept", EVENT_STREAM), *self.headers]
        if self.events.last_id is not None:
            headers.append((b"Last-Event-ID", self.events.last_id))
        self.failures += 1  # until an event arrives
        try:
            response = await self.http.request("GET", headers, may_ask=self.id_ is not None)
        except TransportError as error:
            return error
        try:
            if 200 <= response.status_code < 300:
                if media_type(response) != EVENT_STREAM:
                    raise await self.http.unexpected_response(response)
                return await self.follow(response)
            failure = (await self.http.error_response(response)).as_error(has_session=True)
            if failure.status < 500 and failure.status not in _TEMPORARY:
                raise failure
            return failure
        finally:
            await response.aclose()

    def wait(self, broken: TransportError) -> float:
        """Return the seconds to wait before connecting again, as the server requests."""
        retry = RETRY if self.events.retry is None else self.events.retry
        return max(retry, broken.retry_after or 0.0)

    async def follow_until_response(self, response: httpx2.Response, *, may_resume: bool) -> None:
        """Pass on messages, on as many connections as necessary, until the response to the request.

        Args:
            response: The HTTP response to the POST.
            may_resume: Whether streams can be resumed in the protocol version.

        Raises:
            TransportError: The response is lost.
        """
        broken = await self.follow(response)
        if broken is None:
            return
        await response.aclose()
        self.failures = 0
        try:
            while (
                may_resume
                and self.events.last_id is not None
                and self.failures < MAX_FAILURES
                and (broken.retry_after or 0.0) <= MAX_RETRY_AFTER
            ):
                await asyncio.sleep(self.wait(broken))
                broken = await self.connect()
                if broken is None:
                    return
            raise broken
        except TransportError as error:
            if self.connections == 1 and not self.failures:
                raise
            raise TransportError(
                "the event stream of the response could not be resumed, so the response is lost. The "
                f"server may have executed the request: {error}",
                may_have_begun=True,
                session_is_gone=error.session_is_gone,
            ) from error


async def _read_to_the_end(pieces: AsyncIterator[bytes]) -> None:
    async for _ in pieces:
        pass

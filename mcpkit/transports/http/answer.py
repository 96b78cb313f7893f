"""The answer to one POST of a session, which may outlive the connection that it was posted on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, BusyError, ProtocolError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import is_array, is_object
from .exchange import Exchange, Source, headers_of

if TYPE_CHECKING:
    from ...access.principal import Principal
    from ...asking.open_questions import OpenQuestions
    from .events import Stream
    from .session import Session


class Answer(Source):
    """The answer to one POST of a session, and the channel of its calls.

    The calls go on when the client drops the connection; what they say is kept, and sent when it comes back.

    Args:
        session: Whose it is.
        exchange: The connection.
        message: What was posted.
    """

    __slots__ = ("_exchange", "_is_over", "_message", "_session", "_stream")

    def __init__(self, session: Session, exchange: Exchange, message: Any) -> None:
        self._session = session
        self._exchange = exchange
        self._message = message
        self._stream: Stream | None = None
        self._is_over = False
        exchange.attach(self)

    @property
    def request_headers(self) -> Mapping[bytes, bytes]:
        """The headers of the POST."""
        return self._exchange.request_headers

    @property
    def principal(self) -> Principal:
        """Who has sent the POST."""
        return self._exchange.principal

    @property
    def caller(self) -> str | None:
        """What tells its client from others."""
        return self._session.caller

    @property
    def questions(self) -> OpenQuestions | None:
        """What the client is asked; nothing where it takes no event stream."""
        return self._session.questions if self._exchange.may_stream else None

    def send(self, message: bytes) -> None:
        """Send what a call says before its response."""
        if self._exchange.may_stream and not self._is_over:
            self._push(message)

    async def ready(self) -> None:
        """Wait until the client keeps up; nobody has to wait for one that has gone."""
        if self._stream is not None and self._stream.exchange is not None:
            await self._stream.exchange.ready()

    async def close(self) -> None:
        """End the connection, where the client can come back for the rest (SEP-1699)."""
        if not self._session.has_ids:
            return
        self._exchange.open_stream()
        if self._stream is not None:
            self._end_connection(self._stream)

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Send the response, or end without one."""
        if len(self._session.questions):
            self._session.questions.take_back(self)
        self._is_over = True
        exchange = self._exchange
        if self._stream is None:
            if message is not None:
                exchange.answer(message, _status_of(problem), headers_of(problem))
            elif exchange.may_stream and _has_request(self._message):
                exchange.finish()  # it was cancelled: an event stream may end without a response
            else:
                exchange.answer(None, 202)
            return
        if message is not None:
            self._push(message, self._not_kept)
        self._stream.is_finished = True
        self._end_connection(self._stream)

    @staticmethod
    def _end_connection(stream: Stream) -> None:
        """End what a stream is sent on, after what has been said, and let go of it."""
        exchange, stream.exchange = stream.exchange, None
        if exchange is not None:
            exchange.finish()

    def _push(self, message: bytes, instead: Callable[[int, int], bytes] | None = None) -> None:
        if self._stream is None:
            self.opened()
        stream = self._stream
        assert stream is not None
        chunk = stream.event(message, instead)
        if stream.exchange is not None:
            stream.exchange.push(chunk)

    def _not_kept(self, size: int, most: int) -> bytes:
        """Return the response for a client that has not got the one that is too large to be kept."""
        return jsonrpc.error(
            self._message["id"],  # revisions whose clients come back have no batches
            ProtocolError(
                INTERNAL_ERROR,
                f"The response is too large to be kept for a client that has lost its connection ({size:,} bytes, of "
                f"at most {most:,}): send the request again",
            ),
        )

    def opened(self) -> None:
        """Go on as a stream of the session."""
        if self._stream is None:
            self._stream = self._session.open(self._exchange)


def _has_request(message: Any) -> bool:
    messages: list[Any] = message if is_array(message) else [message]
    return any(is_object(each) and "id" in each and "method" in each for each in messages)


def _status_of(problem: BaseException | None) -> int:
    if problem is None:
        return 200
    if isinstance(problem, BusyError):
        return 503
    is_invalid = isinstance(problem, ProtocolError) and problem.code in {PARSE_ERROR, INVALID_REQUEST}
    return 400 if is_invalid else 200

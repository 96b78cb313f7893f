"""Response to one POST of a session, which may outlive its connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...._utils.exceptions import INVALID_REQUEST, PARSE_ERROR, ChallengeError
from ....protocol.jsonrpc import is_array, is_object
from ....requests.channel import OpenQuestions, StandaloneChannel
from ..exchange import Exchange, Source
from ..statuses import headers_of, status_of
from .streams import Stream, Streams

IN_SESSION = {PARSE_ERROR: 400, INVALID_REQUEST: 400}
"""The HTTP statuses of errors in the handshake era, by their codes."""


class Answer(Source):
    """Response to one POST of a session, and channel of its calls.

    The calls continue when the client disconnects. Their messages are stored, and sent when it reconnects.

    Args:
        exchange: The connection.
        message: The body of the POST.
        caller: Identifier of the client, for limits.
        standalone: Channel for messages that belong to no request.
        questions: Open requests to the client.
        streams: Streams of the session.

    Attributes:
        caller: Identifier of the client, for limits.
        standalone: Channel for messages that belong to no request.
        questions: Open requests to the client; None if it accepts no event stream.
        is_local: Always False; see `Channel`.
        request_headers: Headers of the POST.
        principal: Principal of the POST.
    """

    __slots__ = (
        "_exchange",
        "_is_over",
        "_message",
        "_stream",
        "_streams",
        "caller",
        "principal",
        "questions",
        "request_headers",
        "standalone",
    )
    is_local = False

    def __init__(
        self,
        exchange: Exchange,
        message: Any,
        caller: str | None,
        standalone: StandaloneChannel,
        questions: OpenQuestions,
        streams: Streams,
    ) -> None:
        self.caller = caller
        self.standalone = standalone
        self.questions: OpenQuestions | None = questions if exchange.may_stream else None
        self.request_headers = exchange.request_headers
        self.principal = exchange.principal
        self._exchange = exchange
        self._message = message
        self._streams = streams
        self._stream: Stream | None = None
        self._is_over = False
        exchange.attach(self)

    def send(self, message: bytes) -> None:
        """Send a message of a call before its response."""
        if self._exchange.may_stream and not self._is_over:
            self._open().send(message)

    async def ready(self) -> None:
        """Wait until the client keeps up, if it is connected."""
        if self._stream is not None and self._stream.exchange is not None:
            await self._stream.exchange.ready()

    async def close(self) -> None:
        """End the connection, if the client can reconnect for the rest (SEP-1699)."""
        if not self._streams.has_ids:
            return
        self._exchange.open_stream()
        if self._stream is not None:
            self._stream.leave()

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Send the response, or end without one."""
        if self.questions:
            self.questions.cancel(self)
        self._is_over = True
        exchange = self._exchange
        if self._stream is None:
            if problem is not None and message is not None:
                exchange.answer(message, status_of(problem, IN_SESSION), headers_of(problem))
            elif message is not None:
                exchange.answer(message)
            elif exchange.may_stream and _has_request(self._message):
                exchange.finish()  # it was cancelled: an event stream may end without a response
            else:
                exchange.answer(None, 202)
            return
        if message is not None:
            # Revisions whose clients come back have no batches.
            self._stream.send(message, self._message["id"] if self._streams.has_ids else None)
        self._stream.finish()

    def challenge(self, scopes: Sequence[str], revision: str) -> ChallengeError | None:
        """Return the challenge for missing scopes, if the status has not been sent yet."""
        return None if self._is_too_late else self._exchange.challenge(scopes, revision)

    def dismissal(self) -> ChallengeError | None:
        """Return the challenge for a token that is no longer valid, if the status has not been sent yet."""
        return None if self._is_too_late else self._exchange.dismissal()

    @property
    def _is_too_late(self) -> bool:
        """True if this request cannot have an HTTP status of its own any more."""
        # A batch has one status for all of its requests, of which others may have been served.
        return self._is_over or self._stream is not None or is_array(self._message)

    def defer_response(self) -> None:
        """Do not become an event stream just because time passes."""
        self._exchange.defer_response()

    def opened(self) -> None:
        """Continue as a stream of the session."""
        self._open()

    def _open(self) -> Stream:
        if self._stream is None:
            id_ = self._message.get("id") if self._streams.has_ids else None
            self._stream = self._streams.open(self._exchange, id_)
        return self._stream


def _has_request(message: Any) -> bool:
    messages: list[Any] = message if is_array(message) else [message]
    return any(is_object(each) and "id" in each and "method" in each for each in messages)

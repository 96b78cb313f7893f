"""One event stream of messages, resumed after a lost connection (basic/transports, "Resumability and Redelivery").

Up to 2025-11-25 a stream may go on after its connection has ended. The client waits for the server's `retry` and
requests the events after the last one with GET. In 2026-07-28 streams cannot be resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from ..._utils.exceptions import StatusError, TransportError
from ...execution.coroutines import within
from ...protocol.jsonrpc import RequestId
from ..link.transport import TransportListener
from .event_stream import EventStream, TooLargeEventError
from .headers import Pairs
from .http_client import FINISH, HttpClient
from .status import media_type, refused, unexpected

if TYPE_CHECKING:
    import httpx2

EVENT_STREAM = b"text/event-stream"
RETRY = 1.0
"""Seconds until a stream is resumed if the server has sent no `retry`."""
MOST_FAILURES = 5
"""The most failed attempts in a row to resume a stream before its response is given up."""
LONGEST_WAIT = 30.0
"""Maximum seconds that a call waits for an unavailable server that sends `Retry-After`."""

_PASSING = frozenset({408, 409, 429})
"""Statuses below 500 after which the same request may succeed: 409 comes from servers that have not noticed yet that a
connection has broken."""

_LASTING = 1.0
"""Seconds after which a connection that brings nothing is no failure: some servers end quiet ones."""


class MessageStream:
    """The messages of one stream, on however many connections they come.

    Args:
        http: Sends requests.
        receiver: Takes the messages.
        headers: The headers of the session.
        id_: The id of the request that the stream answers; None where it answers none.
        joined: Called each time the stream has been joined.
        missed: Called where it is joined again and does not go on where it broke.

    Attributes:
        events: What is known of the stream.
        connections: How many connections it has come on.
        failures: How often in a row it was joined in vain.
    """

    def __init__(
        self,
        http: HttpClient,
        receiver: TransportListener,
        headers: Pairs,
        id_: RequestId | None = None,
        joined: Callable[[], object] | None = None,
        missed: Callable[[], object] | None = None,
    ) -> None:
        self.events = EventStream(http.max_answer)
        self.connections = 0
        self.failures = 0
        self._joined = joined
        self._missed = missed
        self._http = http
        self._receiver = receiver
        self._headers = headers
        self._id = id_

    async def follow(self, response: httpx2.Response) -> TransportError | None:
        """Pass on what comes on one connection.

        Returns:
            Why it ended before there was an answer; None where that has come.

        Raises:
            TransportError: What comes cannot be read.
        """
        http = self._http
        http.check_coding(response)
        if self.connections and self.events.last_id is None and self._missed is not None:
            self._missed()
        self.connections += 1
        if self._joined is not None:
            self._joined()
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.events.begin()
        try:
            async with aclosing(response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    if self._is_answered_with(piece):
                        with suppress(TimeoutError, *http.failures):  # it has said all
                            await within(FINISH, _read_to_the_end(pieces))
                        return None
        except TooLargeEventError:
            raise http.too_large() from None
        except StatusError:
            raise
        except http.failures as error:
            broken = http.failure(error)
        else:
            message = f"the event stream of {http.origin} ended before the response arrived"
            broken = TransportError(message, may_have_begun=True)
        if self.events.has_moved or loop.time() - began >= _LASTING:
            self.failures = 0
        return broken

    def _is_answered_with(self, piece: bytes) -> bool:
        receiver = self._receiver
        for event in self.events.feed(piece):
            if event.name == b"message":
                receiver.receive(event.data, self._id)
                if self._id is not None and not receiver.is_pending(self._id):
                    return True
            elif event.name == b"endpoint" and self._id is not None:  # some such servers take any method
                message = (
                    f"{self._http.origin} only supports the transport of 2024-11-05 (HTTP+SSE) at the path of "
                    "the URL"
                )
                raise StatusError(message, 405, may_have_begun=False)
        return False

    async def join(self) -> TransportError | None:
        """Ask for the stream, from the last event on where there is one, and pass on what comes.

        Returns:
            Why there is no answer yet, though there may be one later; None where it has come.

        Raises:
            TransportError: The server does not have the stream, or what comes cannot be read.
        """
        headers: Pairs = [(b"Accept", EVENT_STREAM), *self._headers]
        if self.events.last_id is not None:
            headers.append((b"Last-Event-ID", self.events.last_id))
        self.failures += 1  # until something has come
        try:
            response = await self._http.ask("GET", headers, may_ask=self._id is not None)
        except TransportError as error:
            return error
        try:
            if 200 <= response.status_code < 300:
                if media_type(response) != EVENT_STREAM:
                    raise await unexpected(self._http, response)
                return await self.follow(response)
            refusal = (await refused(self._http, response)).as_error(has_session=True)
            if refusal.status < 500 and refusal.status not in _PASSING:
                raise refusal
            return refusal
        finally:
            await response.aclose()

    def wait(self, broken: TransportError) -> float:
        """Return how many seconds the server wants to have until its stream is joined again."""
        retry = RETRY if self.events.retry is None else self.events.retry
        return max(retry, broken.retry_after or 0.0)

    async def follow_to_the_answer(self, response: httpx2.Response, *, may_resume: bool) -> None:
        """Pass on what comes, on as many connections as it takes, until the answer has come.

        Args:
            response: The answer to the POST.
            may_resume: Whether the revision has streams that are joined again.

        Raises:
            TransportError: The answer cannot come any more.
        """
        broken = await self.follow(response)
        if broken is None:
            return
        await response.aclose()
        self.failures = 0
        try:
            while may_resume and self._is_worth_joining(broken):
                await asyncio.sleep(self.wait(broken))
                broken = await self.join()
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

    def _is_worth_joining(self, broken: TransportError) -> bool:
        if (broken.retry_after or 0.0) > LONGEST_WAIT:
            return False
        return self.events.last_id is not None and self.failures < MOST_FAILURES


async def _read_to_the_end(pieces: AsyncIterator[bytes]) -> None:
    async for _ in pieces:
        pass

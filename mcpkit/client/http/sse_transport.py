"""The transport of 2024-11-05: one event stream, and a POST for each message ("HTTP with SSE").

The first event of the stream is the URL for messages. The transport is deprecated since 2025-03-26.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

from typing_extensions import Unpack

from ..._utils.exceptions import TransportError
from ...execution.coroutines import within
from ...protocol.jsonrpc import RequestId
from ..client_messages import OutgoingMessage
from ..transport_interface_and_memory import TransportListener
from .event_stream_reader import EVENT_STREAM, EventParser, TooLargeEventError
from .http_endpoint import HttpEndpoint, HttpTransportBase, HttpTransportOptions, run_cancellable
from .http_errors import media_type, printable
from .request_authorization import Pairs

if TYPE_CHECKING:
    import httpx2

_POST_TIMEOUT: Final = 10.0
"""Seconds that a server has to accept a POST after it sent the response on another stream."""


class SseTransport(HttpTransportBase):
    """The HTTP+SSE transport of 2024-11-05.

    Args:
        url: The URL of the event stream.
        options: The options of `HttpTransport`. `connect_timeout` is also the time limit for the `endpoint` event.

    Raises:
        ValueError: The URL is not an HTTP URL, a header cannot be sent, or options contradict each other.
    """

    def __init__(self, url: str, **options: Unpack[HttpTransportOptions]) -> None:
        super().__init__(HttpEndpoint(url, **options))
        self._reader: asyncio.Task[None] | None = None
        self._endpoint: asyncio.Future[httpx2.URL] | None = None
        self._posting: set[asyncio.Task[None]] = set()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._answered: dict[RequestId, asyncio.Future[None]] = {}

    def __repr__(self) -> str:
        """Return a representation with the origin of the server, without secrets."""
        return f"SseTransport({self._http.origin!r})"

    async def open(self, receiver: TransportListener) -> None:
        """Open the event stream, and wait for the `endpoint` event.

        Raises:
            TransportError: There is no such stream, or it sent no endpoint of the same origin in time. An
                `AuthorizationError` is raised for 401 and 403.
        """
        self._http.open()
        loop = asyncio.get_running_loop()
        endpoint = self._endpoint = loop.create_future()
        read = partial(self._read, receiver, endpoint)
        self._reader = loop.create_task(run_cancellable(read), name="mcpkit-sse")
        # Reported when the task is done, so that messages that are sent from then on fail at once.
        self._reader.add_done_callback(partial(self._report_end, receiver, endpoint))
        seconds = self._http.connect_timeout
        try:
            await within(seconds, asyncio.shield(endpoint), lambda: self.is_authorizing)
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                message = f"{self._http.origin} did not send the endpoint for messages within {seconds:g} s"
                raise TransportError(message, may_have_begun=False) from None
            raise

    async def send(self, message: OutgoingMessage) -> None:
        """Post a message, and return when the server has accepted it, or responded on the stream.

        Raises:
            TransportError: The server did not accept it, or the stream has ended meanwhile.
        """
        reader, endpoint = self._reader, self._endpoint
        if reader is None or endpoint is None or reader.done():
            raise TransportError(
                f"{self!r} is closed. Open the client first: `async with Client(...)`", may_have_begun=False
            )
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        if message.id is not None:
            self._answered[message.id] = answered
        posting = loop.create_task(run_cancellable(partial(self._post, endpoint.result(), message)))
        self._posting.add(posting)
        posting.add_done_callback(self._posted)
        try:
            await asyncio.wait((posting, answered, reader), return_when=asyncio.FIRST_COMPLETED)
            if posting.done() and not posting.cancelled():  # the latter by `close`
                posting.result()
            elif not answered.done():
                raise self._ended()
        finally:
            if message.id is not None:
                del self._answered[message.id]
            if answered.done() and not posting.done():
                loop.call_later(_POST_TIMEOUT, self._cancel, posting)
            else:
                self._cancel(posting)
                await asyncio.wait((posting,))

    async def close(self) -> None:
        """Close the stream, which ends the session. Closing it again does nothing."""
        reader, self._reader = self._reader, None
        try:
            if reader is not None:
                reader.cancel()
                for posting in tuple(self._posting):
                    self._cancel(posting)
                await asyncio.wait((reader, *self._cancelled))
        finally:
            await self._http.close()

    def _cancel(self, posting: asyncio.Task[None]) -> None:
        """Cancel a POST request once: a second cancellation would keep it from closing its connection."""
        if posting in self._posting:
            self._posting.remove(posting)
            self._cancelled.add(posting)
            posting.cancel()

    def _posted(self, posting: asyncio.Task[None]) -> None:
        self._posting.discard(posting)
        self._cancelled.discard(posting)
        if not posting.cancelled():
            posting.exception()  # raised by `send`, unless the answer was there before

    async def _post(self, endpoint: httpx2.URL, message: OutgoingMessage) -> None:
        headers: Pairs = [(b"Content-Type", b"application/json")]
        if message.revision is not None:
            headers.append((b"MCP-Protocol-Version", message.revision.encode()))
        response = await self._http.request("POST", headers, message.line, endpoint)
        try:
            if not 200 <= response.status_code < 300:
                raise (await self._http.error_response(response)).as_error(has_session=True)
            await self._http.finish(response)
        finally:
            await response.aclose()

    async def _read(self, receiver: TransportListener, endpoint: asyncio.Future[httpx2.URL]) -> None:
        """Pass on the messages of the stream until its end."""
        http = self._http
        response = await http.request("GET", [(b"Accept", EVENT_STREAM)])
        try:
            if not 200 <= response.status_code < 300:
                raise (await http.error_response(response)).as_error(has_session=False)
            if media_type(response) != EVENT_STREAM:
                raise await http.unexpected_response(response)
            http.check_coding(response)
            events = EventParser(http.max_answer)
            async with aclosing(response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    for event in events.feed(piece):
                        if event.name == b"message":
                            receiver.receive(event.data)
                            for id_, answered in self._answered.items():
                                if not receiver.is_pending(id_) and not answered.done():
                                    answered.set_result(None)
                        elif event.name == b"endpoint" and not endpoint.done():
                            endpoint.set_result(self._endpoint_url(response.url, event.data))
        except TooLargeEventError:
            raise http.too_large() from None
        finally:
            await response.aclose()

    def _endpoint_url(self, url: httpx2.URL, data: bytes) -> httpx2.URL:
        reference = data.decode("utf-8", "replace")
        target = self._http.within_origin(url, reference)
        if target is None:
            raise TransportError(
                f"{self._http.origin} sent {printable(reference)} as the endpoint for messages, which has "
                "another origin. The client sends nothing there. The server must use its own origin",
                may_have_begun=False,
                may_pass=False,
            )
        return target

    def _report_end(
        self,
        receiver: TransportListener,
        endpoint: asyncio.Future[httpx2.URL],
        reader: asyncio.Task[None],
    ) -> None:
        if reader.cancelled() or reader is not self._reader:
            return  # by `close`
        error = reader.exception()
        if error is None:
            error = self._ended()
        elif not isinstance(error, TransportError):
            cause, error = error, self._http.error_for(error)
            error.__cause__ = cause
        if endpoint.done():
            receiver.connection_lost(error)
        else:
            error.may_have_begun = False  # no message has been sent
            endpoint.set_exception(error)

    def _ended(self) -> TransportError:
        return TransportError(f"{self._http.origin} closed its event stream", may_have_begun=True)

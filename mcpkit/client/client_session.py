"""The session with one server: its transport, the negotiated version, pending requests and notifications."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from .._utils.concurrency import Listeners, LoopAffinity, require_loop
from .._utils.exceptions import INTERNAL_ERROR, ProtocolError, TransportError
from ..execution.coroutines import within
from ..protocol.jsonrpc import BYTE_ORDER_MARK, Json, RequestId, is_id, whole_number
from ..protocol.revisions import LATEST
from .client_messages import (
    NO_HEADERS,
    ClientWire,
    ErrorReceived,
    Event,
    InvalidMessageReceived,
    InvalidRequestReceived,
    NotificationReceived,
    OutgoingMessage,
    ProgressReceived,
    RequestReceived,
    ResultReceived,
)
from .timeouts_retries_and_progress import PendingRequest, ProgressCallback
from .transport_interface_and_memory import Transport, is_authorizing

if TYPE_CHECKING:
    from ..protocol.objects import Implementation, ServerCapabilities
    from .http.asgi_lifespan import AppLifespan

logger = logging.getLogger(__name__)

CLOSED: Final = "the client is closed"
NOT_OPEN: Final = "the client is not open: write `async with Client(...) as client:`"
FOR_OTHERS: Final = "or use SyncClient in a thread, which needs no event loop"

_FOR_EACH_LOOP: Final = "use one client for each event loop, or SyncClient, which all threads may use"

_CLOSE_TIMEOUT: Final = 0.1
"""Seconds in which the cancellation of pending requests must be sent."""

Direction = Literal["sent", "received"]


class RequestHandler(Protocol):
    """Handles requests from the server."""

    def capabilities(self, revision: str) -> Json:
        """Return the capabilities that the client declares in a revision."""
        ...

    async def answer(self, method: str, params: Json) -> Json:
        """Handle a request from the server and return its result.

        Args:
            method: The method of the request.
            params: Its params.

        Raises:
            ProtocolError: The error to respond with.
            BaseException: The handler failed; pending calls raise this exception.
        """
        ...


@dataclass(slots=True)
class NegotiationResult:
    """The outcome of the negotiation between client and server.

    Attributes:
        revision: The negotiated protocol version.
        reason: An explanation why it was chosen.
        info: The server's `Implementation`.
        capabilities: The capabilities that the server declares.
        instructions: The server's instructions for a model, or None.
    """

    revision: str
    reason: str
    info: Implementation
    capabilities: ServerCapabilities
    instructions: str | None


class NegotiatedProperties:
    """The outcome of the negotiation as properties of a client."""

    def _negotiated(self, name: str) -> NegotiationResult:
        raise NotImplementedError

    @property
    def protocol_version(self) -> str:
        """The negotiated protocol version.

        Raises:
            ConnectionError: The client has not been opened yet.
            ValueError: The client has several servers, so that this has several values; see `ClientGroup.servers`.
        """
        return self._negotiated("protocol_version").revision

    @property
    def protocol_version_reason(self) -> str:
        """An explanation why this protocol version was chosen.

        Raises:
            ConnectionError: The client has not been opened yet.
            ValueError: The client has several servers, so that this has several values; see `ClientGroup.servers`.
        """
        return self._negotiated("protocol_version_reason").reason

    @property
    def server_info(self) -> Implementation:
        """The `Implementation` of the server, such as `name` and `version`.

        Raises:
            ConnectionError: The client has not been opened yet.
            ValueError: The client has several servers, so that this has several values; see `ClientGroup.servers`.
        """
        return self._negotiated("server_info").info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declares.

        Raises:
            ConnectionError: The client has not been opened yet.
            ValueError: The client has several servers, so that this has several values; see `ClientGroup.servers`.
        """
        return self._negotiated("server_capabilities").capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model, or None.

        Raises:
            ConnectionError: The client has not been opened yet.
            ValueError: The client has several servers, so that this has several values; see `ClientGroup.servers`.
        """
        return self._negotiated("instructions").instructions


class ClientSession:
    """The session with one server. It opens on first use, and again after the connection was lost.

    It belongs to one event loop. Several tasks may use it, and any of them may close it.

    Args:
        transports: The possible transports to the server, in the order in which they are tried.
        negotiate: Opens one of them with `use`, and negotiates a protocol version.
        lifecycle: Keeps a server in this process running until the session is closed; None for other servers.
        info: The client's `Implementation`.
        handler: The handler of requests from the server.

    Attributes:
        wire: The client's protocol state.
        transport: The transport in use.
        handler: The handler of requests from the server.
        negotiated: The outcome of the last negotiation; None before it.
        generation: How often the session has been opened.
        is_open: Whether requests can be sent at once.
        is_closed: Whether the session is closed. Only `open` opens it then.
        listeners: Called with method and params of each notification that belongs to no request.
        renewals: Awaited after each opening and before other requests, to set up the session again.
        losses: Called with the error each time the connection is lost, and once the session is closed.
        frames: Called with the direction and bytes of each message, before it is parsed.
    """

    def __init__(
        self,
        transports: Sequence[Transport],
        negotiate: Callable[[ClientSession], Awaitable[NegotiationResult]],
        *,
        lifecycle: AppLifespan | None = None,
        info: Json,
        handler: RequestHandler,
    ) -> None:
        self.transport = transports[0]
        self.transports = transports
        self.handler = handler
        self.wire = ClientWire(LATEST, info=info, capabilities=handler.capabilities(LATEST))
        self.negotiated: NegotiationResult | None = None
        self.generation = 0
        self.listeners: Listeners[[str, Json | None]] = Listeners()
        self.renewals: list[Callable[[], Awaitable[None]]] = []
        self.losses: Listeners[[Exception]] = Listeners()
        self.frames: list[Callable[[Direction, bytes], object]] = []
        self.is_open = False
        self.is_closed = True
        self.affinity = LoopAffinity("the client", _FOR_EACH_LOOP)
        self._negotiate = negotiate
        self._lifecycle = lifecycle
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._loss: Exception | None = None  # of the transport that was opened last
        self._responses: dict[RequestId, asyncio.Future[Json]] = {}
        self._pending: dict[RequestId, PendingRequest] = {}  # of these, those with progress or a time limit
        self._background: set[asyncio.Future[Any]] = set()
        self._server_requests: dict[RequestId, asyncio.Task[None]] = {}

    # Opening and closing

    async def open(self) -> None:
        """Open the session, for the first time or after it was closed; raises what `ensure_open` raises."""
        self.affinity.check()
        while self._closing is not None:
            await asyncio.wait((self._closing,))
        self.affinity.bind(require_loop("the client", FOR_OTHERS))
        self.is_closed = False
        await self.ensure_open()

    async def ensure_open(self) -> None:
        """Return once the session is open. Concurrent callers wait for the same opening.

        Raises:
            ConnectionError: The server cannot be reached, or the client is not open.
            ProtocolError: The server refuses.
            TimeoutError: The server did not respond in time.
        """
        if self.is_open:
            return
        if self.is_closed:
            raise ConnectionError(NOT_OPEN)
        if self._opening is None:

            def end_opening(opening: asyncio.Task[None]) -> None:
                self._opening = None
                if not opening.cancelled():
                    opening.exception()  # the callers that wait raise it

            self._opening = self.affinity.loop().create_task(self._open())
            self._opening.add_done_callback(end_opening)
        try:
            await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            if self.is_closed:
                raise ConnectionError(CLOSED) from None
            raise

    async def _open(self) -> None:
        try:
            self.negotiated = await self._negotiate(self)
            self.use_revision(self.negotiated.revision)
            self.generation += 1
            for renew in self.renewals:
                await renew()
            if self._loss is not None:  # since the last response
                raise self._loss
        except BaseException as error:
            await self.transport.close()
            if isinstance(error, TransportError):
                error.may_have_begun = False  # the requests that wait for the opening have not been sent
            raise
        self.is_open = True

    async def use(self, transport: Transport) -> None:
        """Open a transport, and close the one before.

        Raises:
            TransportError: The server cannot be reached.
        """
        self._fail_all(TransportError("the connection is reopened", may_have_begun=True))
        await self.transport.close()
        self.transport = transport
        self._loss = None
        if self._lifecycle is not None:
            await self._lifecycle.__aenter__()
        await transport.open(self)

    def use_revision(self, revision: str) -> None:
        """Use a revision for all further messages, and declare the client's capabilities in it."""
        self.wire.revision = revision
        self.wire.capabilities = self.handler.capabilities(revision)

    async def close(self) -> None:
        """Cancel pending requests and close the transport. Does nothing if the event loop has been closed."""
        if self.affinity.is_lost:
            return
        pending = list(self.wire.pending) if self.is_open else []
        cancellations = [self.wire.cancel(id_, "the client is closing") for id_ in pending]
        self.is_closed = True
        self.connection_lost(ConnectionError(CLOSED))
        for message in cancellations:
            if message is not None:
                self.send_soon(message)
        closing = self._closing = require_loop("the client", FOR_OTHERS).create_future()
        try:
            await self._finish_background()
            if self._opening is not None:
                self._opening.cancel()
                await asyncio.wait((self._opening,))
        finally:
            try:
                await self.transport.close()
                if self._lifecycle is not None:
                    await self._lifecycle.__aexit__()
            finally:
                closing.set_result(None)
                if self._closing is closing:
                    self._closing = None
                    self.affinity.bind(None)

    async def _finish_background(self) -> None:
        """Wait for messages that are being sent, within a time limit."""
        last = self._background - {asyncio.current_task()}
        try:
            if last:
                await asyncio.wait(last, timeout=_CLOSE_TIMEOUT)
        finally:
            for task in last:
                task.cancel()
            await asyncio.gather(*last, return_exceptions=True)

    # Requests

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        progress: ProgressCallback | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Awaitable[Json]:
        """Send a request and return an awaitable of its result. The session opens first if it is not open.

        Args:
            method: The method.
            params: The params. The `_meta` of the revision is added.
            progress: Called for each progress notification.
            timeout: Seconds without a response or a progress notification after which the request times out; None for
                no limit.
            max_timeout: Seconds after which the request times out in any case; None for no limit.
            headers: Arguments repeated in HTTP headers.

        Raises:
            ProtocolError: The server responded with an error.
            TimeoutError: A time limit has passed. The request has been cancelled.
            TransportError: The request did not reach the server, or its response was lost.
            ConnectionError: The client is not open, or has been closed meanwhile.
        """
        if self.is_open:
            return self.exchange(method, params, progress, timeout, max_timeout, headers)
        exchange = partial(self.exchange, method, params, progress, timeout, headers=headers)
        return self._open_and_send(method, max_timeout, exchange)

    async def _open_and_send(
        self, method: str, max_timeout: float | None, exchange: Callable[..., Awaitable[Json]]
    ) -> Json:
        if max_timeout is None:
            await self.ensure_open()
        else:
            loop = asyncio.get_running_loop()
            ends = loop.time() + max_timeout
            try:
                await within(max_timeout, self.ensure_open())
            except TimeoutError:
                raise TimeoutError(
                    f"the client could not connect to send {method} within {max_timeout:g} s, the timeout of the "
                    "request. Check that the server is running, or raise the timeout"
                ) from None
            max_timeout = max(ends - loop.time(), 1e-3)
        return await exchange(max_timeout=max_timeout)

    async def exchange(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        progress: ProgressCallback | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        on_id: Callable[[RequestId], object] | None = None,
    ) -> Json:
        """Do what `request` does, on a transport that is open; `on_id` gets the id before the request is sent."""
        generation = self.generation
        request = self.wire.request(method, params, reports_progress=progress is not None, headers=headers)
        response: asyncio.Future[Json] = self.affinity.loop().create_future()
        self._responses[request.id] = response
        pending: PendingRequest | None = None
        try:
            if progress is not None or timeout is not None or max_timeout is not None:
                pending = self._pending[request.id] = PendingRequest(
                    method, response, progress, timeout, max_timeout, self._is_waiting_for_client
                )
            if on_id is not None:
                on_id(request.id)
            if self.frames:
                self._show("sent", request.line)
            sending = self.transport.send(request)
            if sending is not None:
                await sending
            return await (response if pending is None else pending.result())
        except asyncio.CancelledError:
            if pending is not None and pending.has_cancelled_sender():
                return pending.last_result()
            raise
        except TransportError as error:
            if response.done():  # it arrived before the connection failed
                return response.result()
            self.wire.cancel(request.id, "")  # the server cannot be notified
            if error.session_is_gone and generation == self.generation and self.is_open:
                self.is_open = False
                self.losses.notify(error)
            raise
        finally:
            del self._responses[request.id]
            if pending is not None:
                pending.end()
                del self._pending[request.id]
            if request.id in self.wire.pending:
                self._abandon(request.id, is_late=pending is not None and pending.is_late)

    def _abandon(self, id_: RequestId, *, is_late: bool) -> None:
        """Notify the server that a request is cancelled."""
        why = "the request timed out" if is_late else "the result is no longer needed"
        if (cancellation := self.wire.cancel(id_, why)) is not None:
            self.send_soon(cancellation)

    def _is_waiting_for_client(self) -> bool:
        """Return whether the server waits for the client, or requests wait for an authorization."""
        return bool(self._server_requests) or is_authorizing(self.transport)

    # Notifications and responses

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Send a notification. Awaiting the returned awaitable is optional; it is done when more may be sent.

        Raises:
            ConnectionError: The client is not open.
        """
        if self.is_closed:
            raise ConnectionError(NOT_OPEN)
        return self.send_soon(self.wire.notification(method, params))

    def send_soon(self, message: OutgoingMessage) -> asyncio.Future[None]:
        """Send a notification or response in the background.

        Returns:
            A future that is done when the message has been sent, or sending it has failed. The loss of the connection
            is reported by `losses`.
        """
        return self._run_in_background(self.affinity.loop().create_task(self._send_if_possible(message)))

    async def _send_if_possible(self, message: OutgoingMessage) -> None:
        try:
            await self.send(message)
        except TransportError as error:
            logger.debug(
                "a notification or response was not sent to the server, and is not repeated: %s", error
            )

    async def send(self, message: OutgoingMessage) -> None:
        """Send a notification or response, and return when more may be sent.

        Raises:
            TransportError: The message could not be sent.
        """
        if self.frames:
            self._show("sent", message.line)
        sending = self.transport.send(message)
        if sending is not None:
            await sending

    def _show(self, direction: Direction, line: bytes) -> None:
        for show in self.frames:
            try:
                show(direction, line)
            except Exception:
                logger.exception(
                    "tracing or recording a message (trace=, record=) failed. The message itself is "
                    "not affected"
                )

    def _run_in_background(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    # Received messages (`TransportListener`)

    def receive(self, line: bytes, request_id: RequestId | None = None) -> None:
        """Process a JSON text from the transport; see `TransportListener`. A leading byte order mark is ignored."""
        line = line.removeprefix(BYTE_ORDER_MARK)
        if self.frames:
            self._show("received", line)
        for event in self.wire.receive(line, request_id):
            if isinstance(event, ResultReceived):
                response = self._responses.get(event.id)
                if response is not None and not response.done():
                    response.set_result(event.result)
            else:
                self._process(event)

    def is_pending(self, id_: RequestId) -> bool:
        """Return whether a request is pending."""
        return id_ in self.wire.pending

    def fail(self, id_: RequestId, error: BaseException) -> None:
        """Fail one pending request. Its id may come from a response that was not read."""
        response = self._responses.get(whole_number(id_) or id_)
        if response is not None and not response.done():
            response.set_exception(error)
            response.exception()  # retrieved, also if the task that waits is being cancelled

    def connection_lost(self, error: Exception) -> None:
        """Handle the loss of the connection, which the transport reports."""
        self.is_open = False
        self._loss = error
        self._fail_all(error)
        self.losses.notify(error)

    def _fail_all(self, error: Exception) -> None:
        """Fail all pending requests, and cancel the handlers of the server's requests."""
        self.wire.end()
        for id_ in self._responses:
            self.fail(id_, error)
        for task in self._server_requests.values():
            task.cancel()

    def _process(self, event: Event) -> None:
        """Process an event other than a result."""
        if isinstance(event, ErrorReceived):
            self.fail(event.id, ProtocolError(event.code, event.message, event.data))
        elif isinstance(event, ProgressReceived):
            if (pending := self._pending.get(event.id)) is not None:
                pending.on_progress(event)
        elif isinstance(event, RequestReceived):
            task = self._server_requests[event.id] = self.affinity.loop().create_task(self._respond(event))
            self._run_in_background(task).add_done_callback(
                lambda _: self._server_requests.pop(event.id, None)
            )
        elif isinstance(event, InvalidRequestReceived):
            self.send_soon(self.wire.refuse(event.id, event.code, event.message))
        elif isinstance(event, InvalidMessageReceived):
            logger.warning("ignored an invalid message from the server: %s", event.problem)
        elif isinstance(event, NotificationReceived):
            if event.method == "notifications/cancelled" and event.params is not None:
                self._cancel(event.params.get("requestId"), event.params.get("reason"))
            try:
                self.listeners.notify(event.method, event.params)
            except Exception:
                logger.exception(
                    "a listener of the notification %.100r raised an exception. The connection stays open",
                    event.method,
                )

    def _cancel(self, id_: object, reason: object) -> None:
        """Cancel a request from the server, or in 2026-07-28 a subscription that the server has ended."""
        if is_id(id_) and self.wire.pending.get(id_) == "subscriptions/listen":
            self.wire.cancel(id_, "")  # the server knows
            why = f"the server cancelled the subscription: {str(reason)[:200]}"
            self.fail(id_, TransportError(why, may_have_begun=True))
        elif is_id(id_) and (task := self._server_requests.get(id_)) is not None:
            task.cancel()

    async def _respond(self, request: RequestReceived) -> None:
        """Pass a request of the server to the handler, and send its response."""
        try:
            is_ping = request.method == "ping"
            result = {} if is_ping else await self.handler.answer(request.method, request.params)
            response = self.wire.answer(request.id, result)
        except ProtocolError as error:
            response = self.wire.refuse(request.id, error.code, error.message)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - such as a failed assertion of a test: pending calls raise it
            response = self.wire.refuse(
                request.id, INTERNAL_ERROR, "the client's handler raised an exception"
            )
            for id_ in self._responses:
                self.fail(id_, error)
        await self._send_if_possible(response)

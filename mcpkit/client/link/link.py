"""The connection to one server: its transport, the negotiated version and the pending requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal

from ..._utils.concurrency import Listeners, LoopAffinity, require_loop
from ..._utils.exceptions import INTERNAL_ERROR, ProtocolError, TransportError
from ...protocol.jsonrpc import BYTE_ORDER_MARK, Json, RequestId, is_id, whole_number
from ...protocol.revisions import LATEST
from ..client_messages import (
    NO_HEADERS,
    ClientWire,
    ErrorReceived,
    InvalidMessageReceived,
    InvalidRequestReceived,
    NotificationReceived,
    OutgoingMessage,
    ProgressReceived,
    Request,
    RequestReceived,
    ResultReceived,
)
from .agreed import Negotiated
from .answerer import Answerer
from .awaited import Awaited, ProgressCallback, opened
from .errors import CLOSED, FOR_EACH_LOOP, FOR_OTHERS, NOT_OPEN
from .transport import Stay, Transport, is_authorizing

logger = logging.getLogger(__name__)

_FAREWELL: Final = 0.1
"""Seconds in which the cancellation of open requests must be sent."""

Direction = Literal["sent", "received"]


class Link:
    """The connection to one server. It opens on first use, and again after it was lost.

    It belongs to one event loop. Several tasks may use it, and any of them may close it.

    Args:
        transports: The possible transports to the server, in the order in which they are tried.
        negotiate: Opens one of them with `use`, and negotiates a protocol version.
        stay: Keeps a server in this process running until the link is closed; None for other servers.
        info: The client's `Implementation`.
        answerer: The handler of requests from the server.

    Attributes:
        wire: The client's protocol state.
        transport: The transport in use.
        negotiated: The outcome of the last negotiation; None before it.
        generation: How often the link has been opened.
        is_open: Whether requests can be sent at once.
        is_closed: Whether the link is closed. Only `begin` opens it then.
        listeners: Called with method and params of each notification that belongs to no request.
        renewals: Awaited after each opening and before other requests, to set up a new session.
        losses: Called with the error each time the connection is lost, and once the link is closed.
        frames: Called with the direction and bytes of each message, before it is parsed.
    """

    def __init__(
        self,
        transports: Sequence[Transport],
        negotiate: Callable[[Link], Awaitable[Negotiated]],
        *,
        stay: Stay | None = None,
        info: Json,
        answerer: Answerer,
    ) -> None:
        self.transports = transports
        self.transport = transports[0]
        self.answerer = answerer
        self.wire = ClientWire(LATEST, info=info, capabilities=answerer.capabilities(LATEST))
        self.negotiated: Negotiated | None = None
        self.generation = 0
        self.listeners: Listeners[[str, Json | None]] = Listeners()
        self.renewals: list[Callable[[], Awaitable[None]]] = []
        self.losses: Listeners[[Exception]] = Listeners()
        self.frames: list[Callable[[Direction, bytes], object]] = []
        self.is_open = False
        self.is_closed = True
        self.affinity = LoopAffinity("the client", FOR_EACH_LOOP)
        self._negotiate = negotiate
        self._stay = stay
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._loss: Exception | None = None  # of the transport that was opened last
        self._waiting: dict[RequestId, asyncio.Future[Json]] = {}
        self._watched: dict[RequestId, Awaited] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._asked: dict[RequestId, asyncio.Task[None]] = {}

    # Its life

    async def begin(self) -> None:
        """Open it, for the first time or after it was closed; raises what `ready` raises."""
        self.affinity.check()
        while self._closing is not None:
            await asyncio.wait((self._closing,))
        self.affinity.bind(require_loop("the client", FOR_OTHERS))
        self.is_closed = False
        await self.ready()

    async def ready(self) -> None:
        """Return once the link is open. Concurrent callers wait for the same opening.

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
            self._opening = self.affinity.loop().create_task(self._open())
            self._opening.add_done_callback(self._has_opened)
        try:
            await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            if self.is_closed:
                raise ConnectionError(CLOSED) from None
            raise

    async def _open(self) -> None:
        try:
            self.negotiated = await self._negotiate(self)
            self.speak(self.negotiated.revision)
            self.generation += 1
            for renew in self.renewals:
                await renew()
            if self._loss is not None:  # since the last answer came
                raise self._loss
        except BaseException as error:
            await self.transport.close()
            if isinstance(error, TransportError):
                error.may_have_begun = False  # whoever waits for the opening has sent nothing
            raise
        self.is_open = True

    def _has_opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # whoever waited has it

    async def use(self, transport: Transport) -> None:
        """Open a transport in the place of the one before, which is closed.

        Raises:
            TransportError: There is no server to talk to.
        """
        self._fail(TransportError("the connection is reopened", may_have_begun=True))
        await self.transport.close()
        self.transport = transport
        self._loss = None
        if self._stay is not None:
            await self._stay.enter()
        await transport.open(self)

    def speak(self, revision: str) -> None:
        """Use a revision for all further messages, and declare the client's capabilities in it."""
        self.wire.revision = revision
        self.wire.capabilities = self.answerer.capabilities(revision)

    async def close(self) -> None:
        """Cancel pending requests and close the transport. Does nothing if the link or its event loop is closed."""
        if self.affinity.is_lost:
            return
        given_up = self._given_up()
        self.is_closed = True
        self.connection_lost(ConnectionError(CLOSED))
        for message in given_up:
            self.send_soon(message)
        closing = self._closing = require_loop("the client", FOR_OTHERS).create_future()
        try:
            await self._say_farewell()
            if self._opening is not None:
                self._opening.cancel()
                await asyncio.wait((self._opening,))
        finally:
            try:
                await self.transport.close()
                if self._stay is not None:
                    await self._stay.leave()
            finally:
                closing.set_result(None)
                if self._closing is closing:
                    self._closing = None
                    self.affinity.bind(None)

    async def _say_farewell(self) -> None:
        """Send the cancellations of pending requests, within a time limit."""
        last = self._tasks - {asyncio.current_task()}
        try:
            if last:
                await asyncio.wait(last, timeout=_FAREWELL)
        finally:
            for task in last:
                task.cancel()
            await asyncio.gather(*last, return_exceptions=True)

    def _given_up(self) -> list[OutgoingMessage]:
        """Cancel all pending requests, and return the cancellation notifications."""
        pending = list(self.wire.pending) if self.is_open else []
        return list(filter(None, (self.wire.cancel(id_, "the client is closing") for id_ in pending)))

    # What is asked

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        progress: ProgressCallback | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Awaitable[Json]:
        """Send a request and return an awaitable of its result. The link opens first if it is not open.

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
        ask = self.exchange if self.is_open else self._open_and_ask
        return ask(method, params, progress, timeout, max_timeout, headers)

    async def _open_and_ask(self, method: str, *rest: Any) -> Json:
        params, progress, timeout, max_timeout, headers = rest
        max_timeout = await opened(self.ready(), max_timeout, method)
        return await self.exchange(method, params, progress, timeout, max_timeout, headers)

    async def exchange(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        progress: ProgressCallback | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        begins: Callable[[RequestId], object] | None = None,
    ) -> Json:
        """Do what `request` does, on a transport that is open; `begins` gets the id before the request is sent."""
        generation = self.generation
        loop = self.affinity.loop()
        request = self.wire.request(method, params, reports_progress=progress is not None, headers=headers)
        answer: asyncio.Future[Json] = loop.create_future()
        self._waiting[request.id] = answer
        watch: Awaited | None = None
        try:
            if progress is not None or timeout is not None or max_timeout is not None:
                watch = self._watched[request.id] = Awaited(
                    method, answer, progress, timeout, max_timeout, self._is_held_up
                )
            if begins is not None:
                begins(request.id)
            if self.frames:
                self._show("sent", request.line)
            sending = self.transport.send(request)
            if sending is not None:
                await sending
            return await (answer if watch is None else watch.result())
        except asyncio.CancelledError:
            if watch is not None and watch.has_interrupted():
                return watch.last_result()
            raise
        except TransportError as error:
            return self._could_not_be_carried(request, answer, error, generation)
        finally:
            del self._waiting[request.id]
            if watch is not None:
                watch.end()
                del self._watched[request.id]
            if request.id in self.wire.pending:
                self._give_up(request, is_late=watch is not None and watch.is_late)

    def _is_held_up(self) -> object:
        return self._asked or is_authorizing(self.transport)

    def _could_not_be_carried(
        self, request: Request, answer: asyncio.Future[Json], error: TransportError, generation: int
    ) -> Json:
        if answer.done():  # before the way back broke
            return answer.result()
        self.wire.cancel(request.id, "")  # whose answer cannot come: there is nobody to tell
        if error.session_is_gone and generation == self.generation and self.is_open:
            self.is_open = False
            self.losses.notify(error)
        raise error

    def _give_up(self, request: Request, *, is_late: bool) -> None:
        """Notify the server that a request is cancelled."""
        why = "the request timed out" if is_late else "the result is no longer needed"
        if (given_up := self.wire.cancel(request.id, why)) is not None:
            self.send_soon(given_up)

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
        return self._keep(self.affinity.loop().create_task(self._send_if_possible(message)))

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
        for look in self.frames:
            try:
                look(direction, line)
            except Exception:
                logger.exception(
                    "tracing or recording a message (trace=, record=) failed. The message itself is "
                    "not affected"
                )

    # What comes

    def receive(self, line: bytes, request_id: RequestId | None = None) -> None:
        """Process a JSON text from the transport; see `TransportListener`. A leading byte order mark is ignored."""
        line = line.removeprefix(BYTE_ORDER_MARK)
        if self.frames:
            self._show("received", line)
        for event in self.wire.receive(line, request_id):
            if isinstance(event, ResultReceived):
                answer = self._waiting.get(event.id)
                if answer is not None and not answer.done():
                    answer.set_result(event.result)
            else:
                self._take(event)

    def is_pending(self, id_: RequestId) -> bool:
        """Return whether a request is pending."""
        return id_ in self.wire.pending

    def connection_lost(self, error: Exception) -> None:
        """Handle the loss of the connection, which the transport reports."""
        self.is_open = False
        self._loss = error
        self._fail(error)
        self.losses.notify(error)

    def _take(
        self,
        event: ErrorReceived
        | ProgressReceived
        | RequestReceived
        | NotificationReceived
        | InvalidRequestReceived
        | InvalidMessageReceived,
    ) -> None:
        if isinstance(event, ErrorReceived):
            self.fail(event.id, ProtocolError(event.code, event.message, event.data))
        elif isinstance(event, ProgressReceived):
            if (watch := self._watched.get(event.id)) is not None:
                watch.has_come(event)
        elif isinstance(event, RequestReceived):
            task = self._asked[event.id] = self.affinity.loop().create_task(self._reply(event))
            self._keep(task).add_done_callback(lambda _: self._asked.pop(event.id, None))
        elif isinstance(event, InvalidRequestReceived):
            self.send_soon(self.wire.refuse(event.id, event.code, event.message))
        elif isinstance(event, InvalidMessageReceived):
            logger.warning("ignored an invalid message from the server: %s", event.problem)
        else:
            if event.method == "notifications/cancelled" and event.params is not None:
                self._withdraw(event.params.get("requestId"), event.params.get("reason"))
            try:
                self.listeners.notify(event.method, event.params)
            except Exception:
                logger.exception(
                    "a listener of the notification %.100r raised an exception. The connection stays open",
                    event.method,
                )

    def _withdraw(self, id_: object, reason: object) -> None:
        """Cancel a request from the server, or in 2026-07-28 a request that the server has dropped."""
        if is_id(id_) and self.wire.pending.get(id_) == "subscriptions/listen":
            self.wire.cancel(id_, "")  # the server knows
            why = f"the server cancelled the subscription: {str(reason)[:200]}"
            self.fail(id_, TransportError(why, may_have_begun=True))
        elif is_id(id_) and (asked := self._asked.get(id_)) is not None:
            asked.cancel()

    async def _reply(self, asked: RequestReceived) -> None:
        try:
            is_ping = asked.method == "ping"
            result = {} if is_ping else await self.answerer.answer(asked.method, asked.params)
            reply = self.wire.answer(asked.id, result)
        except ProtocolError as error:
            reply = self.wire.refuse(asked.id, error.code, error.message)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - an assertion of a test's, say: the calls that wait raise it
            reply = self.wire.refuse(asked.id, INTERNAL_ERROR, "the client's handler raised an exception")
            for id_ in self._waiting:
                self.fail(id_, error)
        await self._send_if_possible(reply)

    def _fail(self, error: Exception) -> None:
        """Fail all pending requests."""
        self.wire.end()
        for id_ in self._waiting:
            self.fail(id_, error)
        for asked in self._asked.values():
            asked.cancel()

    def fail(self, id_: RequestId, error: BaseException) -> None:
        """Fail one pending request. Its id may come from a response that was not read."""
        answer = self._waiting.get(whole_number(id_) or id_)
        if answer is not None and not answer.done():
            answer.set_exception(error)
            answer.exception()  # heard, also where whoever waits is being cancelled

    def _keep(self, task: asyncio.Future[Any]) -> asyncio.Future[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

"""One session of the handshake era over HTTP, in this process.

Follows "Streamable HTTP" of basic/transports (2025-11-25), and the older versions where they differ.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

from ...._utils.exceptions import INVALID_REQUEST, PARSE_ERROR, BusyError, ChallengeError, ProtocolError
from ....engine.message_dispatch import BaseSession
from ....identity.principals_and_scopes import Change, Principal, owner_of
from ....protocol import jsonrpc
from ....protocol.jsonrpc import Json, is_array, is_id, is_object
from ....protocol.jsonrpc_validation import invalid
from ....protocol.revisions import RESUMABLE, SEVERITY, Envelope, Handshake
from ....requests.requests_to_client import OpenQuestions, StandaloneChannel
from ....requests.running_requests import Calls, Reply, server_ended
from ..response import Exchange, headers_of, status_of
from .event_store import EventId, RemoteStream, read_event_id, stream_not_stored
from .event_streams import EventBuffer, EventStream, EventStreams, StandaloneStream, StandaloneStreams
from .loop_state import LoopState
from .session_store import MessageKind, RecordField, SessionRecord

logger = logging.getLogger(__name__)

# HTTP statuses of errors in the handshake era, by their codes.
SESSION_STATUSES = {PARSE_ERROR: 400, INVALID_REQUEST: 400}

_NO_STREAM = ((b"allow", b"POST, DELETE"),)

_QUESTION_ID = re.compile(r"[0-9a-f]{8}-\d+")  # id of a request to the client, of any process

_SEVERAL_PROCESSES_HINT = (
    ". If several processes serve clients, its answer may have reached another process; see the log of "
    "that process"
)

_SAVE_RETRY_DELAY = 1.0


class HttpSession(BaseSession):
    """A session, its running requests and its streams.

    Args:
        state: State of the app.
        buffer: Events that are kept for clients that resume a stream.
        id_: Its id.
        record: Its record in the storage, which has been read.
        client: Its client.
        forget: Called when another process has ended the session.
        leave: Called when an anonymous session has been adopted.

    Attributes:
        id: Its id.
        record: Its record in the storage.
        principal: Principal of the client, with the scopes of its latest request.
        owner: Its owner; see `owner_of`.
        caller: Identifier of the client, for limits; see `Shares`.
        used: Time of its latest request, by the loop's clock.
        negotiated: Negotiated values, log level and subscriptions.
        streams: Its streams in this process.
        standalone: Its standalone streams, for notifications.
        is_local: Always False; see `Channel`.
    """

    is_local = False
    _ignores_strange_answers = False

    def __init__(
        self,
        state: LoopState,
        buffer: EventBuffer,
        id_: str,
        record: SessionRecord,
        client: Exchange,
        forget: Callable[[HttpSession], None],
        leave: Callable[[HttpSession], None],
    ) -> None:
        token = record.token
        hint = "" if state.is_shared else _SEVERAL_PROCESSES_HINT
        questions = OpenQuestions(f"{state.process}-", self._open_question, self._close_question, hint)
        super().__init__(state.engine, Calls(), questions)
        self.session = self.negotiated = Handshake(token.revision, token.client, self._subscribed)
        self.id, self.record = id_, record
        self.principal: Principal = client.principal
        self.owner = owner_of(client.principal)
        self.caller: str | None = client.caller
        self.used = state.loop.time()
        self.streams = EventStreams(buffer, state, token.id, has_ids=token.revision in RESUMABLE)
        self.standalone = StandaloneStreams(state, self, self.negotiated, record, questions, self.save_later)
        self._state, self._forget, self._leave = state, forget, leave
        self._adopted_by = record.fields.get(RecordField.OWNER)
        self._level = self.negotiated.log_level
        self._remote_streams: dict[str, RemoteStream] = {}
        self._unpublished: list[tuple[str, str]] = []  # messages to other processes
        self._has_ended = self._must_refresh = False
        self._retrying: asyncio.Task[None] | None = None
        for name in token.lists:
            state.hub.subscribe(self, Change(name))
        self._load()

    @property
    def is_busy(self) -> bool:
        """True if a request or a stream is active, so that the session is in use without new requests."""
        return bool(self._calls or self.standalone.streams or self._remote_streams)

    # The shared record

    def load_changes(self) -> None:
        """Process a new state of the record. If an anonymous session was adopted, leave it."""
        if self.record.fields is self._loaded:
            return
        if self.record.fields.get(RecordField.OWNER) == self._adopted_by:
            self._load()
        else:
            self._leave(self)

    def _load(self) -> None:
        self._loaded: Mapping[str, str] = self.record.fields
        fields, session, hub = self._loaded, self.negotiated, self._state.hub
        level = fields.get(RecordField.LEVEL)
        if level in SEVERITY:
            session.log_level = self._level = level
        uris = {name[len(RecordField.URI) :] for name in fields if name.startswith(RecordField.URI)}
        for uri in uris - session.subscriptions:
            hub.subscribe(self, Change("resource", uri))
        for uri in session.subscriptions - uris:
            hub.unsubscribe(self, Change("resource", uri))
        session.subscriptions.clear()
        session.subscriptions.update(uris)
        self.standalone.load(fields)

    async def save(self) -> None:
        """Save the changes of this process for others, if there are any, with retries in the background.

        Raises:
            BusyError: The storage does not answer, and a message of the client must reach other processes now.
        """
        record = self.record
        if self.negotiated.log_level != self._level:
            self._level = record.changes[RecordField.LEVEL] = self.negotiated.log_level
        if record.changes and self._retrying is None:
            # The process that sends notifications must know a new subscription before the client is answered.
            changes = record.changes.items()
            has_subscribed = any(name.startswith(RecordField.URI) and text for name, text in changes)
            must_confirm = has_subscribed and self.standalone.has_other_notifier
            try:
                await record.save(MessageKind.CONFIRM if must_confirm else MessageKind.CHANGED)
            except BusyError:  # it has been logged
                self._retrying = self._state.loop.create_task(self._retry_save())
        if self._unpublished:
            messages, self._unpublished = self._unpublished, []
            for kind, text in messages:
                await record.publish(kind, text)

    async def _retry_save(self) -> None:
        while self.record.changes:
            await asyncio.sleep(_SAVE_RETRY_DELAY)
            with suppress(OSError):
                await self.record.try_save()
                await self.record.announce(MessageKind.CHANGED)
        self._retrying = None

    def save_later(self) -> None:
        """Save changes in the background."""
        if not self._has_ended:
            self._state.start_task(self.save())

    def _subscribed(self, uri: str, is_subscribed: bool) -> Coroutine[object, object, None] | None:
        self.record.changes[RecordField.URI + uri] = "1" if is_subscribed else None
        hub = self._state.hub
        (hub.subscribe if is_subscribed else hub.unsubscribe)(self, Change("resource", uri))
        return hub.listening() if is_subscribed else None

    # Messages of other processes

    def receive(self, kind: str, text: str) -> None:
        """Receive a message of another process about the session. Unknown kinds are ignored."""
        if kind in {MessageKind.CHANGED, MessageKind.CONFIRM}:
            self.record.is_stale = True
            if kind == MessageKind.CONFIRM and self.standalone.is_notifier:
                self._state.start_task(self._refresh(confirmation=text))
            elif not self._must_refresh and (self.is_busy or self.questions or self.standalone.attending):
                self._must_refresh = True  # until the task begins to read
                self._state.start_task(self._refresh())
        elif kind == MessageKind.ENDED:
            self._forget(self)
        elif kind == MessageKind.RESPONSE:
            self.questions.answer(jsonrpc.decode(text.encode()))
        elif kind == MessageKind.STANDALONE_MESSAGE:
            self.standalone.send_here(text.encode())
        elif kind == MessageKind.CANCELLED:
            id_: object = jsonrpc.decode(text.encode())
            if is_id(id_) and self.has_request(id_):
                self._cancel(id_)
        elif kind == MessageKind.EVENTS_STORED and text in self._remote_streams:
            self._remote_streams[text].has_news.set()
        elif kind == MessageKind.STREAM_RESUMED and (stream := self.streams.by_name.get(text)) is not None:
            self.streams.release(stream)
        elif kind == MessageKind.STREAM_RESUMED and text in self._remote_streams:
            self._remote_streams[text].leave()

    async def _refresh(self, confirmation: str | None = None) -> None:
        """Process the changes of other processes, and confirm that."""
        self._must_refresh = False
        try:
            is_open = await self.record.read()
            if not (self._has_ended or is_open):
                self._forget(self)
            elif not self._has_ended:
                self.load_changes()
                if confirmation is not None:
                    await self.record.publish(MessageKind.CONFIRMED, confirmation)
        except (OSError, BusyError):
            logger.exception(
                "the shared store does not answer: changes of a session by other processes take effect late"
            )

    # Requests of the client

    def post(self, message: Any, exchange: Exchange) -> None:
        """Start to serve one POST."""
        response = PostResponse(self, exchange, message)
        if is_array(message):
            self._receive_batch(message, response.reply, response, where="a POST")
        else:
            self._receive(message, response.reply, response)

    def envelope(self, method: str, params: Json, meta: Json) -> Envelope:
        """Return the negotiated values; a session is initialized only once."""
        if method == "initialize":
            raise invalid("this session is already initialized")
        return self.negotiated

    def _receive_notification(self, method: str, params: object) -> None:
        if method == "notifications/cancelled" and self._state.is_shared and is_object(params):
            id_ = params.get("requestId")
            if is_id(id_) and not self.has_request(id_):
                self._unpublished.append((MessageKind.CANCELLED, jsonrpc.encode(id_).decode()))
        super()._receive_notification(method, params)

    def _initialized(self) -> None:
        self.standalone.wake()

    def changed(self, change: Change) -> None:
        """Send a change on one standalone stream, at once or when there is one."""
        self.standalone.add_change(change)

    # Requests of the server to the client

    async def _open_question(self, id_: str) -> None:
        """Save a request to the client before it is sent, so that any process accepts the response."""
        if (listening := self._state.hub.listening()) is not None:
            await listening
        self.record.changes[RecordField.QUESTION + id_] = "1"
        await self.record.save()

    def _close_question(self, id_: str) -> None:
        self.record.changes[RecordField.QUESTION + id_] = None
        self.save_later()

    def answers_other_process(self, message: object) -> bool:
        """Return True if a message responds to a request of another process, which only the latest record shows."""
        if is_array(message):
            return any(map(self.answers_other_process, message))
        return is_object(message) and "method" not in message and self._is_of_other_process(message.get("id"))

    def _is_of_other_process(self, id_: object) -> TypeGuard[str]:
        return isinstance(id_, str) and bool(_QUESTION_ID.fullmatch(id_)) and id_[:8] != self._state.process

    def _receive_response(self, message: Json, reply: Reply) -> None:
        id_: object = message.get("id")
        if self._is_of_other_process(id_):
            if RecordField.QUESTION + id_ in self.record.fields:
                self._unpublished.append((MessageKind.RESPONSE, jsonrpc.encode(message).decode()))
                reply(None, None)
                return
            self._state.log_unexpected_response()
        super()._receive_response(message, reply)

    # GET streams

    async def get(self, exchange: Exchange, last_event_id: str) -> ProtocolError | None:
        """Open a standalone stream, or resume a stream of this or another process.

        Args:
            exchange: The connection.
            last_event_id: Id of the last event that a reconnecting client has received; else empty.

        Returns:
            The error if the stream cannot be resumed, or None.

        Raises:
            BusyError: The storage does not answer.
        """
        event_id = read_event_id(last_event_id)
        stream = self.streams.by_name.get(event_id.stream)
        if stream is not None:
            missed = stream.chunks_after(event_id.number)
            if stream.is_finished and not missed:
                if event_id.number < stream.sent:
                    return stream_not_stored()
                # It was cancelled, or the client has all: for an empty stream, the client would reconnect for ever.
                exchange.answer(None, 405, _NO_STREAM)
                return None
            if stream.is_detached and self._state.is_shared:  # another process may send its events
                self._state.start_task(self.record.publish(MessageKind.STREAM_RESUMED, stream.name))
            stream.detach()  # the client has lost the connection, or leaves it
            self._attach(stream, exchange, missed)
        elif event_id.stream and self.streams.has_ids and self._state.event_store is not None:
            return await self._resume_remote(event_id, exchange)
        elif event_id.is_of_response:
            return stream_not_stored()
        else:
            self._open_standalone(exchange)
            if event_id.stream:  # this process was restarted, so it does not know what the client has missed
                self.standalone.notify_all()
        return None

    async def _resume_remote(self, event_id: EventId, exchange: Exchange) -> ProtocolError | None:
        store, streams = self._state.event_store, self._remote_streams
        assert store is not None, "streams of other processes need the event store"
        remote = RemoteStream(store, self.record.token.id, event_id, self._state.is_gone, streams)
        try:
            record = await remote.begin()
            if not event_id.is_of_response:
                missed, is_complete = await remote.take_over(record)
                self._open_standalone(exchange, missed)
                if not is_complete:
                    self.standalone.notify_all()
            elif record is None:
                return stream_not_stored()
            elif record.is_over and record.sent <= event_id.number:
                exchange.answer(None, 405, _NO_STREAM)
            else:
                remote.relay(record, exchange)
        except OSError:
            raise BusyError("The events of the stream are not available. Try again later") from None
        finally:
            if not remote.is_relaying:
                remote.leave()
        return None

    def _open_standalone(self, exchange: Exchange, missed: Sequence[bytes] = ()) -> None:
        """Open a standalone stream, after events that the client has missed."""
        stream = StandaloneStream(self.streams, self.standalone)
        self._attach(stream, exchange, [*missed, stream.first_event()])

    def _attach(self, stream: EventStream, exchange: Exchange, chunks: list[bytes]) -> None:
        stream.attach(exchange)
        exchange.open_stream()
        for chunk in chunks:
            exchange.push(chunk)
        if stream.is_finished:
            stream.detach()
        elif isinstance(stream, StandaloneStream) and stream.exchange is not None:
            if self._state.is_shared:  # another process may have received notifications/initialized
                self.negotiated.is_initialized = True
            self.streams.add(stream)
            self.standalone.add(stream, exchange)

    # Ends

    def end_streams(self) -> None:
        """End the standalone streams, and those of other processes, since the server or the session ends."""
        for stream in tuple(self.standalone.streams):
            stream.detach()
        for remote in tuple(self._remote_streams.values()):
            remote.leave()

    def end(self, *, is_over: bool, problem: ProtocolError | None = None) -> None:
        """Cancel running requests, end the streams, and unsubscribe from changes.

        Args:
            is_over: Whether the session has ended for all processes.
            problem: Error for running requests; None for no response.
        """
        self._calls.cancel_all(problem)
        self._stop()
        self.streams.close(is_over=is_over)

    async def leave(self) -> None:
        """Leave an anonymous session after its adoption, once the requests that have begun are answered."""
        self._stop()
        reason = "The client cannot receive requests in this session any more, as it has authenticated"
        self.questions.close(reason)
        try:
            await self.drain()
        finally:
            self.end(is_over=False)

    def _stop(self) -> None:
        self._has_ended = self.standalone.has_ended = True
        if self._retrying is not None:
            self._retrying.cancel()
        self._state.hub.unsubscribe_all(self)
        self.end_streams()

    async def aclose(self) -> None:
        """Cancel running requests with an error, because the server ends, and wait until they have stopped."""
        self._state.hub.unsubscribe_all(self)
        self.end_streams()
        await self._calls.aclose(server_ended())


class PostResponse(EventStream):
    """Response to one POST of a session, and channel of its calls.

    It becomes an event stream if a message precedes the response. The calls go on when the client disconnects. Their
    messages are kept, and sent when it resumes the stream.

    Args:
        session: The session.
        exchange: The connection.
        message: The body of the POST.

    Attributes:
        caller: Identifier of the client, for limits.
        standalone: Channel for messages that belong to no request.
        questions: Open requests to the client; None if it accepts no event stream.
        is_local: Always False; see `Channel`.
        request_headers: Headers of the POST.
        principal: Principal of the POST.
    """

    is_local = False
    _is_over = False

    def __init__(self, session: HttpSession, exchange: Exchange, message: Any) -> None:
        # As `super()` does, without its cost for each request: most are answered without a stream.
        streams = session.streams
        self.streams, self.session_id, self.name, self.parts = streams, streams.session_id, "", {}
        self.caller = session.caller
        self.standalone: StandaloneChannel = session.standalone
        self.questions: OpenQuestions | None = session.questions if exchange.may_stream else None
        self.request_headers = exchange.request_headers
        self.principal = exchange.principal
        self._post, self._message = exchange, message
        exchange.attach(self)

    def opened(self) -> None:
        """Begin a stream, unless that has happened."""
        if not self.name:
            # Versions with resumable streams have no batches.
            self.request_id = self._message.get("id") if self.streams.has_ids else None
            self.streams.open(self, self._post)

    def send(self, message: bytes, *, is_response: bool = False) -> None:
        """Send a message of a call before its response, or the response on the stream."""
        if is_response or (self._post.may_stream and not self._is_over):
            self.opened()
            super().send(message, is_response=is_response)

    async def close(self) -> None:
        """End the connection, if the client can resume the stream for the rest (SEP-1699)."""
        if self.streams.has_ids:
            self._post.open_stream()
            self.detach()

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Send the response, or end without one."""
        if self.name and self.questions is not None:  # a request to the client has begun the stream
            self.questions.cancel(self)
        self._is_over = True
        exchange = self._post
        if self.name:
            if message is not None:
                self.send(message, is_response=True)
            self.finish()
        elif problem is not None and message is not None:
            exchange.answer(message, status_of(problem, SESSION_STATUSES), headers_of(problem))
        elif message is not None:
            exchange.answer(message)
        elif exchange.may_stream and _has_request(self._message):
            exchange.finish()  # it was cancelled: an event stream may end without a response
        else:
            exchange.answer(None, 202)

    def challenge(self, scopes: Sequence[str], revision: str) -> ChallengeError | None:
        """Return the challenge for missing scopes, if the status has not been sent yet."""
        return None if self._has_status else self._post.challenge(scopes, revision)

    def dismissal(self) -> ChallengeError | None:
        """Return the challenge for a token that is no longer valid, if the status has not been sent yet."""
        return None if self._has_status else self._post.dismissal()

    @property
    def _has_status(self) -> bool:
        """True if this request cannot have an HTTP status of its own any more."""
        # A batch has one status for all of its requests, of which others may have been served.
        return self._is_over or self.name != "" or is_array(self._message)

    def defer_response(self) -> None:
        """Do not become an event stream just because time passes."""
        self._post.defer_response()


def _has_request(message: Any) -> bool:
    messages: list[Any] = message if is_array(message) else [message]
    return any(is_object(each) and "id" in each and "method" in each for each in messages)

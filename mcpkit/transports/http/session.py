"""One session of the handshake era over HTTP, as far as it lives in this process.

Follows "Streamable HTTP" of basic/transports (2025-11-25), and what was different before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...calls import server_ended
from ...changes import Change, Pending, notification
from ...errors import INVALID_REQUEST, PARSE_ERROR, BusyError, ProtocolError
from ...peer import Peer, invalid
from ...protocol.eras import Envelope, Handshake
from ...protocol.jsonrpc import is_array, is_object
from ...protocol.revisions import RESUMABLE, SEVERITY
from .events import MOST_EVENTS, Events, Stream, read_event_id, was_for_call
from .exchange import Exchange
from .stateless import headers_of

if TYPE_CHECKING:
    from .following import Following
    from .service import Service
    from .token import SessionToken

_LEVEL: Final = "level"
_URI: Final = "uri:"


class Session(Peer):
    """A session, its running requests and its streams.

    Args:
        service: What serves it.
        id_: Its id.
        token: What its id says.
        key: Under which the broker has the rest.
        handshake: What was negotiated.

    Attributes:
        id: Its id.
        token: What its id says.
        key: Under which the broker has the rest.
        record: What the broker had there when it was last looked at; the very object.
        used: When a request of its came last, by the loop's clock.
        prolonged: When the broker was last told that it lives on, by the same clock.
        edition: A number that changes when a change made here leaves for the broker, and when it has come there.
        saving: How many such changes are on their way.
    """

    def __init__(
        self, service: Service, id_: str, token: SessionToken, key: str, handshake: Handshake
    ) -> None:
        super().__init__(service.server)
        self.session = self._negotiated = handshake
        self.id = id_
        self.token = token
        self.key = key
        self.record: Mapping[str, str] | None = None
        self.used = service.loop.time()
        self.prolonged = self.used
        self.edition = 0
        self.saving = 0
        self._service = service
        self._unsaved: dict[str, str | None] = {}
        self._level = handshake.log_level
        self._events = Events(service.sessions.process)
        self._streams: dict[str, Stream] = {}
        self._pending = Pending()
        self._crowd: dict[Change, None] = {}
        self._listening: list[Stream] = []
        self._following: Following | None = None
        handshake.on_subscription = self._subscribed
        for name in token.lists:
            service.changes.want(self, (name, None))

    # State that other processes share

    def load(self, record: Mapping[str, str]) -> None:
        """Take over what the broker has about the session."""
        self.record = record
        session = self._negotiated
        level = record.get(_LEVEL)
        if level in SEVERITY:
            session.log_level = self._level = level
        uris = {name[len(_URI) :] for name in record if name.startswith(_URI)}
        for uri in uris - session.subscriptions:
            self._service.changes.want(self, ("resource", uri))
        for uri in session.subscriptions - uris:
            self._service.changes.unwant(self, ("resource", uri))
        session.subscriptions.clear()
        session.subscriptions.update(uris)

    def unsaved(self) -> dict[str, str | None]:
        """Return what the broker does not have yet; it is taken for saved from now on."""
        unsaved = self._unsaved
        if self._negotiated.log_level != self._level:
            self._level = unsaved[_LEVEL] = self._negotiated.log_level
        if unsaved:
            self._unsaved = {}
        return unsaved

    def _subscribed(self, uri: str, is_subscribed: bool) -> None:
        self._unsaved[_URI + uri] = "1" if is_subscribed else None
        if is_subscribed:
            self._service.changes.want(self, ("resource", uri))
        else:
            self._service.changes.unwant(self, ("resource", uri))

    # Requests

    def post(self, message: Any, exchange: Exchange) -> None:
        """Begin to serve what one POST brings."""
        answer = Answer(self, exchange, message)
        if is_array(message):
            self._receive_batch(message, answer.reply, answer, where="a POST")
        else:
            self._receive(message, answer.reply, answer)

    def get(self, exchange: Exchange, last_event_id: str | None) -> ProtocolError | None:
        """Open a stream for what belongs to no call, or take one up again.

        Args:
            exchange: The connection.
            last_event_id: The last event that the client has seen, if it comes back.

        Returns:
            Why the stream cannot be taken up.
        """
        name, number = (last_event_id and read_event_id(last_event_id)) or ("", 0)
        stream = self._streams.get(name)
        if stream is None:
            if was_for_call(name):
                return _not_kept()
            stream = Stream(self._events, is_for_call=False, has_ids=self.has_ids)
        missed = stream.again(number) if name == stream.name else [stream.prime()]
        if stream.is_finished and not missed:
            if stream.has_more(number):
                return _not_kept()
            # It was cancelled, or the client has it all: an empty stream would bring the client back for ever.
            exchange.answer(None, 405, ((b"allow", b"POST, DELETE"),))
            return None
        if stream.exchange is not None:
            stream.exchange.finish()  # the client has lost it, or takes leave of it
            self._detach(stream)
        stream.exchange = exchange
        exchange.on_gone = lambda: self._lost(stream, exchange)
        exchange.open_stream()
        for chunk in missed:
            exchange.push(chunk)
        if stream.is_finished:
            exchange.finish()
            self._detach(stream)
        elif not stream.is_for_call:
            self.keep(stream)
            self._listening.append(stream)
            self._service.sessions.listening += 1
            if self._following is None:
                self._following = self._service.sessions.follow(self)
            exchange.refill = lambda: self._tell(stream)
        return None

    @property
    def is_busy(self) -> bool:
        """Whether something of it runs or listens, so that it is in use though no request comes."""
        return len(self._calls) > 0 or bool(self._listening)

    @property
    def has_ids(self) -> bool:
        """Whether its events have ids, so that clients can come back to a stream."""
        return self._negotiated.revision in RESUMABLE

    def _envelope(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Envelope:
        if method == "initialize":
            raise invalid("this session is initialized already")
        return self._negotiated

    # Changes

    def changed(self, change: Change) -> None:
        """Take a change: it is told on one listening stream, at once or when there is one.

        Where too many wait, the client is told of what it has subscribed to, be it a template, instead of
        each resource: so as many can wait as there are subscriptions, and nothing is lost.
        """
        if not self._pending.add(change):
            self._crowd.update(dict.fromkeys(self._subscribed_as(change)))
        self._initialized()

    def _subscribed_as(self, change: Change) -> list[Change]:
        uri = change[1]
        assert uri is not None, "for lists there is always room"
        subscriptions = self._negotiated.subscriptions
        if uri in subscriptions:
            return [change]
        templates = self._server.resource_templates
        return [
            ("resource", text)
            for text in subscriptions
            if (template := templates.get(text)) is not None and template.template.match(uri) is not None
        ]

    def _initialized(self) -> None:
        if self._listening:
            exchange = self._listening[-1].exchange
            assert exchange is not None
            exchange.wake()

    def _tell(self, stream: Stream) -> list[bytes]:
        if not self._negotiated.is_initialized or not self._listening or stream is not self._listening[-1]:
            return []
        changes = [*self._pending.take(), *self._crowd]
        self._crowd.clear()
        return [stream.event(notification(change)) for change in changes]

    # Streams

    def open(self, exchange: Exchange) -> Stream:
        """Make the answer to a POST a stream."""
        stream = Stream(self._events, is_for_call=True, has_ids=self.has_ids)
        stream.exchange = exchange
        exchange.on_gone = lambda: self._lost(stream, exchange)
        self.keep(stream)
        exchange.push(stream.prime())
        return stream

    def keep(self, stream: Stream) -> None:
        """Remember a stream for a client that comes back; those that have said their last go first."""
        if not stream.has_ids:
            return
        self._streams[stream.name] = stream
        if len(self._streams) > MOST_EVENTS:
            self._streams = {name: kept for name, kept in self._streams.items() if kept.is_alive}

    def _lost(self, stream: Stream, exchange: Exchange) -> None:
        if stream.exchange is exchange:
            self._detach(stream)

    def _detach(self, stream: Stream) -> None:
        stream.exchange = None
        if stream in self._listening:
            self._listening.remove(stream)
            self._service.sessions.listening -= 1
            if not self._listening and self._following is not None:
                self._following.close()
                self._following = None
            self._initialized()

    def end_streams(self) -> None:
        """End the streams that listen, since the server or the session ends."""
        for stream in tuple(self._listening):
            exchange = stream.exchange
            self._detach(stream)
            if exchange is not None:
                exchange.finish()

    def end(self) -> None:
        """Cancel what runs, end the streams, and hear of changes no more."""
        self._service.changes.forget(self)
        self.end_streams()
        self._calls.cancel_all()

    async def aclose(self) -> None:
        """Tell what runs that the server ends, cancel it, and wait until it has stopped."""
        self._service.changes.forget(self)
        self.end_streams()
        await self._calls.aclose(server_ended())


class Answer:
    """The answer to one POST of a session, and the channel of its calls.

    The calls go on when the client drops the connection; what they say is kept, and sent when it comes back.

    Args:
        session: Whose it is.
        exchange: The connection.
        message: What was posted.
    """

    __slots__ = ("_exchange", "_message", "_session", "_stream")

    def __init__(self, session: Session, exchange: Exchange, message: Any) -> None:
        self._session = session
        self._exchange = exchange
        self._message = message
        self._stream: Stream | None = None
        exchange.on_open = self._open

    def send(self, message: bytes) -> None:
        """Send what a call says before its response."""
        if self._exchange.may_stream:
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
        if self._stream is not None and self._stream.exchange is not None:
            exchange, self._stream.exchange = self._stream.exchange, None
            exchange.finish()

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Send the response, or end without one."""
        exchange = self._exchange
        if self._stream is None:
            if message is not None:
                exchange.answer(message, _status_of(problem), headers_of(problem))
                return
            if exchange.may_stream and _has_request(self._message):
                exchange.is_streaming = True  # it was cancelled: an event stream may end without a response
            exchange.answer(None, 202)
            return
        if message is not None:
            self._push(message)
        self._stream.is_finished = True
        if self._stream.exchange is not None:
            self._stream.exchange.finish()

    def _push(self, message: bytes) -> None:
        if self._stream is None:
            self._open()
        stream = self._stream
        assert stream is not None
        chunk = stream.event(message)
        if stream.exchange is not None:
            stream.exchange.push(chunk)

    def _open(self) -> None:
        if self._stream is None:
            self._stream = self._session.open(self._exchange)


def _has_request(message: Any) -> bool:
    messages: list[Any] = message if is_array(message) else [message]
    return any(is_object(each) and "id" in each and "method" in each for each in messages)


def _not_kept() -> ProtocolError:
    return invalid("the stream of this Last-Event-ID is not kept any more; send the request again")


def _status_of(problem: BaseException | None) -> int:
    if problem is None:
        return 200
    if isinstance(problem, BusyError):
        return 503
    is_invalid = isinstance(problem, ProtocolError) and problem.code in {PARSE_ERROR, INVALID_REQUEST}
    return 400 if is_invalid else 200

"""One session of the handshake era over HTTP, as far as it lives in this process.

Follows "Streamable HTTP" of basic/transports (2025-11-25), and what was different before.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...access.principal import Principal
from ...asking.open_questions import OpenQuestions
from ...errors import ProtocolError
from ...peer import Peer, invalid
from ...protocol import jsonrpc
from ...protocol.eras import Envelope, Handshake
from ...protocol.jsonrpc import is_array
from ...protocol.revisions import RESUMABLE, SEVERITY
from ...running.calls import Calls, Reply, server_ended
from ...updates.changes import Change, Pending, notification
from .answer import Answer
from .events import MOST_EVENTS, Events, Stream, read_event_id, was_for_call
from .exchange import Exchange
from .workers import CURE

if TYPE_CHECKING:
    from .following import Following
    from .service import Service
    from .token import SessionToken

logger = logging.getLogger("mcpkit")

_LEVEL: Final = "level"
_URI: Final = "uri:"
_QUESTION: Final = "question:"
_ASKED_ELSEWHERE: Final = re.compile(r"[0-9a-f]{8}-\d+")
"""The id of a question of a process."""

_PERHAPS_ELSEWHERE: Final = (
    "; where several processes serve, its answer may have reached another one, whose log says what to do"
)

_TELLER: Final = "teller"
"""The process with the newest stream that listens: it alone tells what changes."""


class Session(Peer):
    """A session, its running requests and its streams.

    Args:
        service: What serves it.
        id_: Its id.
        token: What its id says.
        key: Under which the broker has the rest.
        handshake: What was negotiated.
        principal: Who its client is.
        caller: What tells its client from others; see `Shares`.

    Attributes:
        id: Its id.
        token: What its id says.
        key: Under which the broker has the rest.
        principal: Who its client is, with the scopes that its latest request had.
        caller: Whose place it takes.
        record: What the broker had there when it was last taken over; the very object.
        latest: What the broker had there when it was last looked at.
        answers: What the client has answered to other processes, and they have not been given yet.
        used: When a request of its came last, by the loop's clock.
        prolonged: When the broker was last told that it lives on, by the same clock.
        edition: A number that changes when a change made here leaves for the broker, and when it has come there.
        saving: How many such changes are on their way.
    """

    def __init__(
        self,
        service: Service,
        id_: str,
        token: SessionToken,
        key: str,
        handshake: Handshake,
        principal: Principal,
        caller: str | None,
    ) -> None:
        self._process = service.sessions.process
        self._is_shared = service.server.broker is not None
        questions = OpenQuestions(
            f"{self._process}-",
            self._ask,
            self._ask_no_more,
            late="" if self._is_shared else _PERHAPS_ELSEWHERE,
        )
        super().__init__(service.server, Calls(service.server), questions)
        self.session = self._negotiated = handshake
        self.id = id_
        self.token = token
        self.key = key
        self.principal = principal
        self.caller = caller
        self.record: Mapping[str, str] | None = None
        self.latest: Mapping[str, str] = {}
        self.answers: list[str] = []
        self.used = service.loop.time()
        self.prolonged = self.used
        self.edition = 0
        self.saving = 0
        self._service = service
        self._unsaved: dict[str, str | None] = {}
        self._level = handshake.log_level
        self._events = Events(self._process, service.sessions.shelf)
        self._streams: dict[str, Stream] = {}
        self._pending = Pending()
        self._crowd: dict[Change, None] = {}
        self._listening: list[_Listener] = []
        self._following: Following | None = None
        self._teller: str | None = None
        handshake.on_subscription = self._subscribed
        for name in token.lists:
            service.changes.want(self, (name, None))

    _ignores_strange_answers = False

    # State that other processes share

    def load(self, record: Mapping[str, str]) -> None:
        """Take over what the broker has about the session."""
        self.record = self.latest = record
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
        self._teller = record.get(_TELLER)
        if self._is_told_elsewhere:
            self._pending.take()
            self._crowd.clear()
        elif self._listening and self._teller is None:
            self._claim()
            self._service.sessions.save_later(self)

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
            stream = _Listener(self, self._events, has_ids=self.has_ids)
        missed = stream.again(number) if name == stream.name else [stream.prime()]
        if stream.is_finished and not missed:
            if stream.has_more(number):
                return _not_kept()
            # It was cancelled, or the client has it all: an empty stream would bring the client back for ever.
            exchange.answer(None, 405, ((b"allow", b"POST, DELETE"),))
            return None
        if stream.exchange is not None:
            stream.exchange.finish()  # the client has lost it, or takes leave of it
            stream.lost(stream.exchange)
        stream.attach(exchange)
        exchange.open_stream()
        for chunk in missed:
            exchange.push(chunk)
        if stream.is_finished:
            exchange.finish()
            stream.lost(exchange)
        elif isinstance(stream, _Listener):
            self.keep(stream)
            self._listening.append(stream)
            stream.caller = exchange.caller
            self._service.streams.take(stream.caller)
            self._claim()
            self._follow()
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

    # What other processes have a part in

    def _follow(self) -> None:
        """Hear what is done to it elsewhere, as long as it listens or asks here."""
        is_needed = bool(self._listening) or len(self.questions) > 0
        if is_needed and self._following is None:
            self._following = self._service.sessions.follow(self)
        elif not is_needed and self._following is not None:
            self._following.close()
            self._following = None

    async def _ask(self, id_: str) -> None:
        """Have all processes know a question before it is asked, so that any of them takes the answer."""
        self._follow()
        await self._service.sessions.save(self, {_QUESTION + id_: "1"})

    def _ask_no_more(self, id_: str) -> None:
        self._unsaved[_QUESTION + id_] = None
        self._service.sessions.save_later(self)
        self._follow()

    def hear_answer(self, answer: str) -> None:
        """Take an answer that another process was given; nothing happens where it is not to a question of ours."""
        self.questions.answer(jsonrpc.decode(answer.encode()))

    def _receive_response(self, message: dict[str, Any], reply: Reply) -> None:
        id_ = message.get("id")
        is_ours = not isinstance(id_, str) or id_.startswith(f"{self._process}-")
        if is_ours or f"{_QUESTION}{id_}" not in self.latest:
            if not is_ours and not self._is_shared:
                self._note_strange_answer(id_)
            super()._receive_response(message, reply)
        else:
            self.answers.append(jsonrpc.encode(message).decode())
            reply(None, None)

    def _note_strange_answer(self, id_: object) -> None:
        service = self._service
        if isinstance(id_, str) and _ASKED_ELSEWHERE.fullmatch(id_) and not service.has_met_strange_answer:
            service.has_met_strange_answer = True
            logger.warning(
                "an answer has come to a question that another process has asked, or this one before it was started "
                "again, so it is lost; where several processes serve, %s",
                CURE,
            )

    # Changes

    @property
    def _is_told_elsewhere(self) -> bool:
        """Whether it listens here, but a newer stream in another process is told what changes."""
        return bool(self._listening) and self._teller not in {None, self._process}

    def _claim(self) -> None:
        if self._teller != self._process:
            self._teller = self._unsaved[_TELLER] = self._process

    def changed(self, change: Change) -> None:
        """Take a change: it is told on one listening stream, at once or when there is one.

        Where too many wait, the client is told of what it has subscribed to, be it a template, instead of
        each resource: so as many can wait as there are subscriptions, and nothing is lost.
        """
        if self._is_told_elsewhere:
            return
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

    def tell(self, stream: Stream) -> list[bytes]:
        """Return what a stream that listens is to tell: all that has changed, if it is the newest one."""
        if not self._negotiated.is_initialized or not self._listening or stream is not self._listening[-1]:
            return []
        changes = [*self._pending.take(), *self._crowd]
        self._crowd.clear()
        return [stream.event(notification(change)) for change in changes]

    # Streams

    def open(self, exchange: Exchange) -> Stream:
        """Make the answer to a POST a stream."""
        stream = Stream(self._events, is_for_call=True, has_ids=self.has_ids)
        stream.attach(exchange)
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

    def listen_no_more(self, stream: _Listener) -> None:
        """Tell changes on another stream, if there is one."""
        if stream in self._listening:
            self._listening.remove(stream)
            self._service.streams.give_back(stream.caller)
            if not self._listening and self._teller == self._process:
                self._teller = self._unsaved[_TELLER] = None
                self._service.sessions.save_later(self)
            self._follow()
            self._initialized()

    def end_streams(self) -> None:
        """End the streams that listen, since the server or the session ends."""
        for stream in tuple(self._listening):
            exchange = stream.exchange
            assert exchange is not None, "it listens"
            exchange.finish()
            stream.lost(exchange)

    def end(self) -> None:
        """Cancel what runs, end the streams, and hear of changes no more."""
        self._service.changes.forget(self)
        self.end_streams()
        self._calls.cancel_all()
        self._events.clear()

    async def aclose(self) -> None:
        """Tell what runs that the server ends, cancel it, and wait until it has stopped."""
        self._service.changes.forget(self)
        self.end_streams()
        await self._calls.aclose(server_ended())


class _Listener(Stream):
    """A stream of a session that a GET has opened: it tells what changes.

    Args:
        session: Whose it is.
        events: See `Stream`.
        has_ids: See `Stream`.

    Attributes:
        caller: Who listens; see `Shares`.
    """

    __slots__ = ("_session", "caller")

    def __init__(self, session: Session, events: Events, *, has_ids: bool) -> None:
        super().__init__(events, is_for_call=False, has_ids=has_ids)
        self._session = session
        self.caller: str | None = None

    def refill(self) -> list[bytes]:
        """Return what has changed."""
        return self._session.tell(self)

    def lost(self, exchange: Exchange) -> None:
        """Listen no more, unless the client has come back already."""
        if self.exchange is exchange:
            self.exchange = None
            self._session.listen_no_more(self)


def _not_kept() -> ProtocolError:
    return invalid("the stream of this Last-Event-ID is not kept any more; send the request again")

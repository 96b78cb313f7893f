"""One session of the handshake era over HTTP, as far as it lives in this process.

Follows "Streamable HTTP" of basic/transports (2025-11-25), and what was different before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ....calls.asking.pending import OpenQuestions
from ....calls.tasks import Calls, Reply, server_ended
from ....engine.peer import Peer
from ....engine.subscriptions.listen import notification
from ....engine.subscriptions.mailbox import Pending
from ....errors import BusyError, ProtocolError
from ....protocol import jsonrpc
from ....protocol.eras import Envelope, Handshake
from ....protocol.jsonrpc import is_array
from ....protocol.messages import invalid
from ....protocol.revisions import RESUMABLE, SEVERITY
from ....protocol.types import Json
from ....state.change import Change
from ....state.owner import owner_of
from ....state.principal import Principal
from ..environment import Environment
from ..exchange import Exchange
from .record import Record
from .remote import Following
from .response import Answer
from .streams import Stream, Streams, read_event_id

_LEVEL = "level"
_URI = "uri:"
QUESTION = "question:"
OWNER = "owner"
"""Who it belongs to that was opened by nobody; see `owner_of`."""
_ASKED_ELSEWHERE = re.compile(r"[0-9a-f]{8}-\d+")
"""The id of a question of a process."""

_PERHAPS_ELSEWHERE = (
    "; where several processes serve, its answer may have reached another one, whose log says what to do"
)

_TELLER = "teller"
"""The process with the newest stream that listens: it alone tells what changes."""


class Session(Peer):
    """A session, its running requests and its streams.

    Args:
        environment: What it lives in.
        id_: Its id.
        record: What other processes share of it.
        fields: What that says.
        client: Who its client is.
        forget: Called when another process has ended it.
        leave: Called when it is somebody's now, and this has been nobody's.

    Attributes:
        id: Its id.
        record: What other processes share of it.
        fields: What of its record has been taken over; the very object.
        principal: Who its client is, with the scopes that its latest request had.
        owner: What stands for them; see `owner_of`.
        caller: Whose place it takes; see `Shares`.
        used: When a request of its came last, by the loop's clock.
        is_local: Never; see `Channel`.
    """

    is_local = False

    def __init__(
        self,
        environment: Environment,
        id_: str,
        record: Record,
        fields: Mapping[str, str],
        client: Exchange | Session,
        forget: Callable[[Session], None],
        leave: Callable[[Session], None],
    ) -> None:
        token = record.token
        questions = OpenQuestions(
            f"{environment.process}-",
            self._ask,
            self._ask_no_more,
            late="" if environment.is_shared else _PERHAPS_ELSEWHERE,
        )
        super().__init__(environment.engine, Calls(), questions)
        self.session = self._negotiated = Handshake(token.revision, token.client, self._subscribed)
        self.id = id_
        self.record = record
        self.principal: Principal = client.principal
        self.owner = owner_of(client.principal)
        self.caller: str | None = client.caller
        self.used = environment.loop.time()
        self.streams = Streams(environment.process, environment.shelf, has_ids=token.revision in RESUMABLE)
        self._environment = environment
        self._forget = forget
        self._leave = leave
        self._heir = fields.get(OWNER)
        self._level = self._negotiated.log_level
        self._has_ended = False
        self._answers: list[str] = []
        self._pending = Pending()
        self._crowd: dict[Change, None] = {}
        self._listening: list[_Listener] = []
        self._following: Following | None = None
        self._teller: str | None = None
        for name in token.lists:
            environment.changes.want(self, Change(name))
        self.load(fields)

    _ignores_strange_answers = False

    def resume(self) -> None:
        """Take its client for ready for notifications, as it has been for another process, or before."""
        self._negotiated.is_initialized = True

    # State that other processes share

    def load(self, fields: Mapping[str, str]) -> None:
        """Take over what the record says."""
        self.fields = fields
        session = self._negotiated
        level = fields.get(_LEVEL)
        if level in SEVERITY:
            session.log_level = self._level = level
        changes = self._environment.changes
        uris = {name[len(_URI) :] for name in fields if name.startswith(_URI)}
        for uri in uris - session.subscriptions:
            changes.want(self, Change("resource", uri))
        for uri in session.subscriptions - uris:
            changes.unwant(self, Change("resource", uri))
        session.subscriptions.clear()
        session.subscriptions.update(uris)
        self._teller = fields.get(_TELLER)
        if self._is_told_elsewhere:
            self._pending.take()
            self._crowd.clear()
        elif self._listening and self._teller is None:
            self._claim()
            self._save_later()

    def take_over(self, fields: Mapping[str, str]) -> None:
        """Take over what the record says by now; where it says that it is somebody's now, this has been nobody's."""
        if fields.get(OWNER) == self._heir:
            self.load(fields)
        else:
            self._leave(self)

    async def save(self) -> None:
        """Have other processes know what has changed here, if something has.

        Raises:
            BusyError: The shared store does not answer.
        """
        level = self._negotiated.log_level
        if level != self._level:
            self._level = self.record.changes[_LEVEL] = level
        if self.record.changes:
            await self.record.save()
        if self._answers:
            answers, self._answers = self._answers, []
            for answer in answers:
                await self.record.pass_on(answer)

    async def save_rest(self) -> None:
        """Save what has changed where nobody can be told that it fails; then it is logged alone."""
        with suppress(BusyError):
            await self.save()

    def _save_later(self) -> None:
        if not self._has_ended:
            self._environment.begin(self.save_rest())

    def _subscribed(self, uri: str, is_subscribed: bool) -> None:
        self.record.changes[_URI + uri] = "1" if is_subscribed else None
        changes = self._environment.changes
        (changes.want if is_subscribed else changes.unwant)(self, Change("resource", uri))

    # Requests

    def post(self, message: Any, exchange: Exchange) -> None:
        """Begin to serve what one POST brings."""
        answer = Answer(exchange, message, self.caller, self.questions, self.streams)
        if is_array(message):
            self._receive_batch(message, answer.reply, answer, where="a POST")
        else:
            self._receive(message, answer.reply, answer)

    def get(self, exchange: Exchange, last_event_id: str) -> ProtocolError | None:
        """Open a stream for what belongs to no call, or take one up again.

        Args:
            exchange: The connection.
            last_event_id: The last event that the client has seen, if it comes back; else empty.

        Returns:
            Why the stream cannot be taken up.
        """
        name, is_for_call, number = read_event_id(last_event_id)
        stream = self.streams.get(name)
        if stream is None:
            if is_for_call:
                return _not_kept()
            stream = _Listener(self)
        missed = stream.again(number) if name == stream.name else [stream.prime()]
        if stream.is_finished and not missed:
            if stream.has_more(number):
                return _not_kept()
            # It was cancelled, or the client has it all: an empty stream would bring the client back for ever.
            exchange.answer(None, 405, ((b"allow", b"POST, DELETE"),))
            return None
        stream.leave()  # the client has lost what it is sent on, or takes leave of it
        stream.attach(exchange)
        exchange.open_stream()
        for chunk in missed:
            exchange.push(chunk)
        if stream.is_finished:
            stream.leave()
        elif isinstance(stream, _Listener):
            if self._environment.is_shared:  # the notification that says so may have come to another process
                self.resume()
            self.streams.remember(stream)
            self._listening.append(stream)
            self._environment.streams.take(exchange.caller)
            stream.let_go = self._environment.hold(exchange, stream.leave)
            self._claim()
            self._follow()
        return None

    @property
    def is_busy(self) -> bool:
        """Whether something of it runs or listens, so that it is in use though no request comes."""
        return bool(self._calls or self._listening)

    def envelope(self, method: str, params: Json, meta: Json) -> Envelope:
        """Return what was negotiated; a session is initialized once."""
        if method == "initialize":
            raise invalid("this session is initialized already")
        return self._negotiated

    # What other processes have a part in

    def _follow(self) -> None:
        """Hear what is done to it elsewhere, as long as it listens or asks here."""
        is_needed = bool(self._listening or self.questions)
        if is_needed and self._following is None:
            broker = self._environment.broker
            self._following = Following(broker, self.record.key, self._refresh, self._hear_answer)
        elif not is_needed and self._following is not None:
            self._following.close()
            self._following = None

    async def _refresh(self) -> None:
        """Take over what other processes have done to it, though nothing is asked here."""
        fields = await self.record.look()
        if fields is None:
            self._forget(self)
        elif fields is not self.fields:
            self.take_over(fields)

    async def _ask(self, id_: str) -> None:
        """Have all processes know a question before it is asked, so that any of them takes the answer."""
        self._follow()
        self.record.changes[QUESTION + id_] = "1"
        await self.record.save()

    def _ask_no_more(self, id_: str) -> None:
        self.record.changes[QUESTION + id_] = None
        self._save_later()
        self._follow()

    def _hear_answer(self, answer: str) -> None:
        """Take an answer that another process was given; nothing happens where it is not to a question of ours."""
        self.questions.answer(jsonrpc.decode(answer.encode()))

    def _receive_response(self, message: Json, reply: Reply) -> None:
        id_ = message.get("id")
        if isinstance(id_, str) and not id_.startswith(f"{self._environment.process}-"):
            if QUESTION + id_ in self.record.fields:
                self._answers.append(jsonrpc.encode(message).decode())
                reply(None, None)
                return
            if _ASKED_ELSEWHERE.fullmatch(id_):
                self._environment.note_strange_answer()
        super()._receive_response(message, reply)

    # Changes

    @property
    def _is_told_elsewhere(self) -> bool:
        """Whether it listens here, but a newer stream in another process is told what changes."""
        return bool(self._listening) and self._teller not in {None, self._environment.process}

    def _claim(self) -> None:
        if self._teller != self._environment.process:
            self._teller = self._environment.process
            self.record.changes[_TELLER] = self._teller

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
        uri = change.uri
        assert uri is not None, "for lists there is always room"
        subscriptions = self._negotiated.subscriptions
        if uri in subscriptions:
            return [change]
        templates = self._engine.registry.resource_templates
        return [
            Change("resource", text)
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

    def listen_no_more(self, stream: _Listener, caller: str | None) -> None:
        """Tell changes on another stream, if there is one."""
        if stream in self._listening:
            self._listening.remove(stream)
            self._environment.streams.give_back(caller)
            if not self._listening and self._teller == self._environment.process:
                self._teller = None
                self.record.changes[_TELLER] = None
                self._save_later()
            self._follow()
            self._initialized()

    def end_streams(self) -> None:
        """End the streams that listen, since the server or the session ends."""
        for stream in tuple(self._listening):
            stream.leave()

    def end(self) -> None:
        """Cancel what runs, end the streams, and hear of changes no more."""
        self._stop()
        self._calls.cancel_all()
        self.streams.clear()

    def revoke(self, problem: ProtocolError) -> None:
        """Cancel what runs, and tell why: its client has been sent away."""
        self._calls.cancel_all(problem)

    async def leave(self) -> None:
        """Have no part in the session any more, as it is somebody's now: what was begun before is answered yet.

        Returns:
            When all of it has been.
        """
        self._stop()
        self.questions.close("The client cannot be asked any more: it has said who it is")
        try:
            await self.drain()
        finally:
            self.end()

    def _stop(self) -> None:
        self._has_ended = True
        self._environment.changes.forget(self)
        self.end_streams()

    async def aclose(self) -> None:
        """Tell what runs that the server ends, cancel it, and wait until it has stopped."""
        self._environment.changes.forget(self)
        self.end_streams()
        await self._calls.aclose(server_ended())


class _Listener(Stream):
    """A stream of a session that a GET has opened: it tells what changes.

    Args:
        session: Whose it is.

    Attributes:
        let_go: Called when it listens no more.
    """

    __slots__ = ("_session", "let_go")
    kind = "g"

    def __init__(self, session: Session) -> None:
        super().__init__(session.streams)
        self._session = session
        self.let_go: Callable[[], None] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether somebody listens."""
        return self.exchange is not None

    def refill(self) -> list[bytes]:
        """Return what has changed."""
        return self._session.tell(self)

    def lost(self, exchange: Exchange) -> None:
        """Listen no more, unless the client has come back already."""
        if self.exchange is exchange:
            self.exchange = None
            if self.let_go is not None:
                self.let_go()
            self._session.listen_no_more(self, exchange.caller)


def _not_kept() -> ProtocolError:
    return invalid(
        "the stream of this Last-Event-ID is not kept any more; send the request again, unless its answer has come"
    )

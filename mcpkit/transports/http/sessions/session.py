"""One session of the handshake era over HTTP, as far as it lives in this process.

Follows "Streamable HTTP" of basic/transports (2025-11-25), and what was different before.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ....calls.asking.pending import OpenQuestions
from ....calls.tasks import Calls, Reply, server_ended
from ....common.errors import BusyError, ProtocolError
from ....engine.peer import Peer
from ....protocol import jsonrpc
from ....protocol.eras import Envelope, Handshake
from ....protocol.jsonrpc import is_array, is_id, is_object
from ....protocol.messages import invalid
from ....protocol.revisions import RESUMABLE, SEVERITY
from ....protocol.types import Json
from ....state.change import Change
from ....state.owner import owner_of
from ....state.principal import Principal
from ..environment import Environment
from ..exchange import Exchange
from .beside import Beside
from .checks import Checks
from .record import OWNER, QUESTION, Record
from .relay import Relay
from .remote import ANSWERED, CANCELLED, CHANGED, CHECK, CHECKED, ENDED, SAID, TAKEN, TOLD, Refreshing
from .response import Answer
from .streams import Stream, Streams, not_kept, read_event_id
from .telling import Listening, Telling

_LEVEL = "level"
_URI = "uri:"
_ASKED_ELSEWHERE = re.compile(r"[0-9a-f]{8}-\d+")
"""The id of a question of a process."""

_PERHAPS_ELSEWHERE = (
    ". If several processes serve clients, its answer may have reached another process; see the log of "
    "that process"
)

_PAUSE = 1.0
"""Seconds until what has changed is saved again, where the shared store does not answer."""


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
        streams: Its streams here.
        negotiated: What was negotiated, its log level, and what it is subscribed to.
        telling: Tells what changes.
        relays: Streams of other processes that are taken up here, by name.
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
            timeout_hint="" if environment.is_shared else _PERHAPS_ELSEWHERE,
        )
        super().__init__(environment.engine, Calls(), questions)
        self.session = self.negotiated = Handshake(token.revision, token.client, self._subscribed)
        self.id = id_
        self.record = record
        self.principal: Principal = client.principal
        self.owner = owner_of(client.principal)
        self.caller: str | None = client.caller
        self.used = environment.loop.time()
        self.streams = Streams(
            environment.process,
            environment.shelf,
            has_ids=token.revision in RESUMABLE,
            session=token.id,
            journal=environment.journal,
            tell=partial(record.tell, TOLD),
        )
        self.relays: dict[str, Relay] = {}
        self._environment = environment
        self._forget = forget
        self._leave = leave
        self._heir = fields.get(OWNER)
        self._level = self.negotiated.log_level
        self._has_ended = False
        self._is_saving = False
        self._checks = Checks(record, environment.process)
        self._said: list[tuple[str, str]] = []  # what others are to be told
        self.telling = Telling(environment, self)
        self._beside = Beside(self.questions, self.telling)
        self._refreshing = Refreshing(self._refresh)
        for name in token.lists:
            environment.changes.want(self, Change(name))
        self.load(fields)

    _ignores_strange_answers = False

    def resume(self) -> None:
        """Take its client for ready for notifications, as it has been for another process, or before."""
        self.negotiated.is_initialized = True

    # State that other processes share

    def load(self, fields: Mapping[str, str]) -> None:
        """Take over what the record says."""
        self.fields = fields
        session = self.negotiated
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
        self.telling.load(fields)

    def take_over(self, fields: Mapping[str, str]) -> None:
        """Take over what the record says by now; where it says that it is somebody's now, this has been nobody's."""
        if fields.get(OWNER) == self._heir:
            self.load(fields)
        else:
            self._leave(self)

    async def save(self) -> None:
        """Have other processes know what has changed here, if something has; where that fails, again later.

        Raises:
            BusyError: The shared store does not answer, and what the client has said has to reach others now.
        """
        level = self.negotiated.log_level
        if level != self._level:
            self._level = self.record.changes[_LEVEL] = level
        if self.record.changes and not self._is_saving:
            is_wanted = any(name.startswith(_URI) and text for name, text in self.record.changes.items())
            try:
                await self.record.save()
                if is_wanted and self.telling.has_other:
                    await self._checks.ask()
            except BusyError:  # it has been logged
                self._is_saving = True
                self._environment.insist(self._save_again())
        if self._said:
            said, self._said = self._said, []
            for verb, text in said:
                await self.record.tell(verb, text)

    async def _save_again(self) -> None:
        while self.record.changes and not self._has_ended:
            await asyncio.sleep(_PAUSE)
            with suppress(OSError):
                await self.record.try_save()
                await self.record.announce()
        self._is_saving = False

    async def save_rest(self) -> None:
        """Save what has changed where nobody can be told that it fails; then it is logged alone."""
        with suppress(BusyError):
            await self.save()

    def save_later(self) -> None:
        """Save what has changed, which nobody waits for."""
        if not self._has_ended:
            self._environment.begin(self.save_rest())

    def _subscribed(self, uri: str, is_subscribed: bool) -> Coroutine[object, object, None] | None:
        self.record.changes[_URI + uri] = "1" if is_subscribed else None
        changes = self._environment.changes
        (changes.want if is_subscribed else changes.unwant)(self, Change("resource", uri))
        return changes.listening() if is_subscribed else None

    # Requests

    def post(self, message: Any, exchange: Exchange) -> None:
        """Begin to serve what one POST brings."""
        answer = Answer(exchange, message, self.caller, self._beside, self.questions, self.streams)
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
        seen = read_event_id(last_event_id)
        stream = self.streams.get(seen.stream)
        if stream is None:
            if seen.is_for_call:
                return not_kept()
            self.listen(exchange)
            if seen.stream:  # what it has missed nobody here knows, as the process has been started anew
                self.telling.note_gap()
            return None
        missed = stream.again(seen.number)
        if stream.is_finished and not missed:
            if stream.has_more(seen.number):
                return not_kept()
            # It was cancelled, or the client has it all: an empty stream would bring the client back for ever.
            exchange.answer(None, 405, ((b"allow", b"POST, DELETE"),))
            return None
        if stream.is_left and self._environment.is_shared:  # it may be read elsewhere
            self._environment.begin(self._take_back(stream))
        stream.leave()  # the client has lost what it is sent on, or takes leave of it
        self._attach(stream, exchange, missed)
        return None

    def listen(self, exchange: Exchange) -> None:
        """Open a stream for what belongs to no call."""
        stream = Listening(self.streams, self.telling)
        self._attach(stream, exchange, [stream.prime()])

    def _attach(self, stream: Stream, exchange: Exchange, missed: list[bytes]) -> None:
        stream.attach(exchange)
        exchange.open_stream()
        for chunk in missed:
            exchange.push(chunk)
        if stream.is_finished:
            stream.leave()
        elif isinstance(stream, Listening) and stream.exchange is not None:
            if self._environment.is_shared:  # the notification that says so may have come to another process
                self.resume()
            self.streams.remember(stream)
            self.telling.open(stream, exchange)

    async def _take_back(self, stream: Stream) -> None:
        with suppress(BusyError):
            await self.record.tell(TAKEN, stream.name)

    @property
    def is_busy(self) -> bool:
        """Whether something of it runs or listens, so that it is in use though no request comes."""
        return bool(self._calls or self.telling.streams or self.relays)

    def envelope(self, method: str, params: Json, meta: Json) -> Envelope:
        """Return what was negotiated; a session is initialized once."""
        if method == "initialize":
            raise invalid("this session is already initialized")
        return self.negotiated

    # What other processes have a part in

    def hear(self, verb: str, text: str) -> None:
        """Take what another process says of it."""
        if verb == CHANGED:
            self.record.is_stale = True
            if self.is_busy or self.questions or self.telling.is_attended:
                self._refreshing.begin()
        elif verb == ENDED:
            self._forget(self)
        elif verb == ANSWERED:  # nothing happens where it is not to a question of ours
            self.questions.answer(jsonrpc.decode(text.encode()))
        elif verb == SAID:
            self.telling.say_here(text.encode())
        elif verb == CANCELLED:
            self._hear_cancellation(text)
        elif verb in {CHECK, CHECKED}:
            self._hear_of_check(verb, text)
        elif verb in {TAKEN, TOLD}:  # a later version may say more
            self._hear_of_stream(verb, text)

    def _hear_cancellation(self, text: str) -> None:
        id_: object = jsonrpc.decode(text.encode())
        if is_id(id_) and self.has_request(id_):
            self._cancel(id_)

    def _hear_of_check(self, verb: str, number: str) -> None:
        if verb == CHECKED:
            self._checks.hear(number)
        elif self.telling.is_here:
            self._environment.begin(self._confirm(number))

    async def _confirm(self, number: str) -> None:
        with suppress(OSError, BusyError):
            await self._refresh()
            await self.record.tell(CHECKED, number)

    def _hear_of_stream(self, verb: str, name: str) -> None:
        stream, relay = self.streams.get(name), self.relays.get(name)
        if verb == TOLD:
            if relay is not None:
                relay.hear()
        elif stream is not None:
            self.streams.hand_over(stream)
        elif relay is not None:
            relay.leave()

    async def _refresh(self) -> None:
        """Take over what other processes have done to it, though nothing is asked here."""
        fields = await self.record.look()
        if fields is None:
            self._forget(self)
        elif fields is not self.fields:
            self.take_over(fields)

    async def _ask(self, id_: str) -> None:
        """Have all processes know a question before it is asked, so that any of them takes the answer."""
        if (listening := self._environment.changes.listening()) is not None:
            await listening
        self.record.changes[QUESTION + id_] = "1"
        await self.record.save()

    def _ask_no_more(self, id_: str) -> None:
        self.record.changes[QUESTION + id_] = None
        self.save_later()

    def may_lack(self, message: object) -> bool:
        """Say whether a message answers a question that another process may have asked without being heard yet."""
        if is_array(message):
            return any(map(self.may_lack, message))
        id_ = message.get("id") if is_object(message) and "method" not in message else None
        return (
            isinstance(id_, str)
            and _ASKED_ELSEWHERE.fullmatch(id_) is not None
            and not id_.startswith(f"{self._environment.process}-")
            and QUESTION + id_ not in self.record.fields
        )

    def _receive_notification(self, method: str, params: object) -> None:
        if method == "notifications/cancelled" and self._environment.is_shared and is_object(params):
            id_ = params.get("requestId")
            if is_id(id_) and not self.has_request(id_):
                self._said.append((CANCELLED, jsonrpc.encode(id_).decode()))
        super()._receive_notification(method, params)

    def _receive_response(self, message: Json, reply: Reply) -> None:
        id_ = message.get("id")
        if isinstance(id_, str) and not id_.startswith(f"{self._environment.process}-"):
            if QUESTION + id_ in self.record.fields:
                self._said.append((ANSWERED, jsonrpc.encode(message).decode()))
                reply(None, None)
                return
            if _ASKED_ELSEWHERE.fullmatch(id_):
                self._environment.note_strange_answer()
        super()._receive_response(message, reply)

    # Changes

    def changed(self, change: Change) -> None:
        """Take a change, which is told on one listening stream, at once or when there is one."""
        self.telling.add(change)

    def _initialized(self) -> None:
        self.telling.wake()

    # Streams

    def end_streams(self) -> None:
        """End the streams that listen, and those of other processes, since the server or the session ends."""
        for stream in tuple(self.telling.streams):
            stream.leave()
        for relay in tuple(self.relays.values()):
            relay.leave()

    def end(self, *, is_over: bool) -> None:
        """Cancel what runs, end the streams, and hear of changes no more.

        Args:
            is_over: Whether the session has ended for all processes.
        """
        self._stop()
        self._calls.cancel_all()
        self.streams.end(is_over=is_over)

    def revoke(self, problem: ProtocolError) -> None:
        """Cancel what runs, and tell why: its client has been sent away."""
        self._calls.cancel_all(problem)

    async def leave(self) -> None:
        """Have no part in the session any more, as it is somebody's now: what was begun before is answered yet.

        Returns:
            When all of it has been.
        """
        self._stop()
        self.questions.close(
            "The client cannot receive requests in this session any more, as it has authenticated"
        )
        try:
            await self.drain()
        finally:
            self.end(is_over=False)

    def _stop(self) -> None:
        self._has_ended = self._beside.has_ended = True
        self._refreshing.end()
        self._environment.changes.forget(self)
        self.end_streams()

    async def aclose(self) -> None:
        """Tell what runs that the server ends, cancel it, and wait until it has stopped."""
        self._environment.changes.forget(self)
        self.end_streams()
        await self._calls.aclose(server_ended())

"""One session of the handshake era over HTTP, in this process.

Follows "Streamable HTTP" of basic/transports (2025-11-25), and the older versions where they differ.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ...._utils.exceptions import BusyError, ProtocolError
from ....engine.message_dispatch import BaseSession
from ....identity.principal import Change, Principal, owner_of
from ....protocol import jsonrpc
from ....protocol.eras import Envelope, Handshake
from ....protocol.jsonrpc import is_array, is_id, is_object
from ....protocol.messages import invalid
from ....protocol.revisions import RESUMABLE, SEVERITY
from ....protocol.types import Json
from ....requests.channel import OpenQuestions
from ....requests.running import Calls, Reply, server_ended
from ..exchange import Exchange
from .beside import Beside
from .checks import Checks
from .environment import Environment
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


class Session(BaseSession):
    """A session, its running requests and its streams.

    Args:
        environment: Shared objects of the app.
        id_: Its id.
        record: Its record in the shared store.
        fields: Fields of the record.
        client: Its client.
        forget: Called when another process has ended the session.
        leave: Called when an anonymous session has been adopted.

    Attributes:
        id: Its id.
        record: Its record in the shared store.
        fields: Fields of the record that were processed last; the same object.
        principal: Principal of the client, with the scopes of its latest request.
        owner: Its owner; see `owner_of`.
        caller: Identifier of the client, for limits; see `Shares`.
        used: Time of its latest request, by the loop's clock.
        streams: Its streams in this process.
        negotiated: Negotiated values, log level and subscriptions.
        telling: Its listening streams, for notifications.
        relays: Streams of other processes that are continued here, by name.
        is_local: Always False; see `Channel`.
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
            environment.changes.subscribe(self, Change(name))
        self.load(fields)

    _ignores_strange_answers = False

    def resume(self) -> None:
        """Treat the client as initialized, because it was in another process, or before."""
        self.negotiated.is_initialized = True

    # State that other processes share

    def load(self, fields: Mapping[str, str]) -> None:
        """Process the fields of the record."""
        self.fields = fields
        session = self.negotiated
        level = fields.get(_LEVEL)
        if level in SEVERITY:
            session.log_level = self._level = level
        changes = self._environment.changes
        uris = {name[len(_URI) :] for name in fields if name.startswith(_URI)}
        for uri in uris - session.subscriptions:
            changes.subscribe(self, Change("resource", uri))
        for uri in session.subscriptions - uris:
            changes.unsubscribe(self, Change("resource", uri))
        session.subscriptions.clear()
        session.subscriptions.update(uris)
        self.telling.load(fields)

    def take_over(self, fields: Mapping[str, str]) -> None:
        """Process new fields of the record. If an anonymous session was adopted, leave it."""
        if fields.get(OWNER) == self._heir:
            self.load(fields)
        else:
            self._leave(self)

    async def save(self) -> None:
        """Save the changes of this process for others, if there are any, with retries in the background.

        Raises:
            BusyError: The shared store does not respond, and a message of the client must reach other processes now.
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
        """Save changes when no request can report a failure, which is only logged."""
        with suppress(BusyError):
            await self.save()

    def save_later(self) -> None:
        """Save changes in the background."""
        if not self._has_ended:
            self._environment.begin(self.save_rest())

    def _subscribed(self, uri: str, is_subscribed: bool) -> Coroutine[object, object, None] | None:
        self.record.changes[_URI + uri] = "1" if is_subscribed else None
        changes = self._environment.changes
        (changes.subscribe if is_subscribed else changes.unsubscribe)(self, Change("resource", uri))
        return changes.listening() if is_subscribed else None

    # Requests

    def post(self, message: Any, exchange: Exchange) -> None:
        """Start to serve one POST."""
        answer = Answer(exchange, message, self.caller, self._beside, self.questions, self.streams)
        if is_array(message):
            self._receive_batch(message, answer.reply, answer, where="a POST")
        else:
            self._receive(message, answer.reply, answer)

    def get(self, exchange: Exchange, last_event_id: str) -> ProtocolError | None:
        """Open a stream for messages that belong to no call, or resume a stream.

        Args:
            exchange: The connection.
            last_event_id: Id of the last event that a reconnecting client has received; else empty.

        Returns:
            The error if the stream cannot be resumed, or None.
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
        """Open a stream for messages that belong to no call."""
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
        """True if a request or a stream is active, so that the session is in use without new requests."""
        return bool(self._calls or self.telling.streams or self.relays)

    def envelope(self, method: str, params: Json, meta: Json) -> Envelope:
        """Return the negotiated values; a session is initialized only once."""
        if method == "initialize":
            raise invalid("this session is already initialized")
        return self.negotiated

    # What other processes have a part in

    def hear(self, verb: str, text: str) -> None:
        """Handle a message of another process."""
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
        """Process the changes of other processes without a request."""
        fields = await self.record.look()
        if fields is None:
            self._forget(self)
        elif fields is not self.fields:
            self.take_over(fields)

    async def _ask(self, id_: str) -> None:
        """Save a request to the client before it is sent, so that any process accepts the response."""
        if (listening := self._environment.changes.listening()) is not None:
            await listening
        self.record.changes[QUESTION + id_] = "1"
        await self.record.save()

    def _ask_no_more(self, id_: str) -> None:
        self.record.changes[QUESTION + id_] = None
        self.save_later()

    def may_lack(self, message: object) -> bool:
        """Return True if a message responds to a request of another process that may not be known here yet."""
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
        """Handle a change. It is sent on one listening stream, at once or when there is one."""
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
        """Cancel running requests, end the streams, and unsubscribe from changes.

        Args:
            is_over: Whether the session has ended for all processes.
        """
        self._stop()
        self._calls.cancel_all()
        self.streams.end(is_over=is_over)

    def revoke(self, problem: ProtocolError) -> None:
        """Cancel running requests with an error, after a revocation of the client's access."""
        self._calls.cancel_all(problem)

    async def leave(self) -> None:
        """Leave an anonymous session after its adoption. Requests that have begun are still answered.

        Returns:
            None, once they have been answered.
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
        self._environment.changes.unsubscribe_all(self)
        self.end_streams()

    async def aclose(self) -> None:
        """Cancel running requests with an error, because the server ends, and wait until they have stopped."""
        self._environment.changes.unsubscribe_all(self)
        self.end_streams()
        await self._calls.aclose(server_ended())

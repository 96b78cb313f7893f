"""Session manager: opens, finds and ends the sessions of the handshake protocol versions.

A session id contains the negotiated values, signed, so that any process with the same secret can serve it. The other
state is in the shared storage under the key of the id. If the storage outlives the processes, it contains everything,
and ids are short.

A session has ended if its record was in this storage and is missing. A session with its record in another storage, of a
process that has ended or runs in parallel, is restored without it. So is a session that was dropped here to make room.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import os
import time
from itertools import islice
from typing import TYPE_CHECKING

from ...._utils.exceptions import BusyError, ChallengeError, ProtocolError
from ....execution.coroutines import within
from ....identity.principals_and_scopes import LIST_NAMES, owner_of
from ....protocol.revisions import Handshake
from ....requests.timeouts_and_concurrency import Shares
from ....storage.encryption_keys import Keys
from ....storage.memory import Memory
from ..response import Exchange
from .event_streams import EventBuffer
from .http_session import HttpSession
from .loop_state import LoopState
from .session_store import NewSessionId, RecordField, SessionRecord, SessionStore, SessionToken, or_busy

if TYPE_CHECKING:
    from ....identity.audit_and_revocation import Revocation

logger = logging.getLogger(__name__)

_EXTEND_INTERVAL = 10.0  # seconds, or a tenth of a session's idle timeout, between two extensions of a record

# Seconds, or a session's idle timeout, that a session lives without a request after `initialize`, and for which any
# other session must have been idle before it makes room: clients that only open sessions cannot lock others out.
UNUSED_TIMEOUT = 60.0

# Sessions that are examined, from the one that has been idle longest, for one to make room.
_MAX_EXAMINED = 64

_MAX_AGE = 1.0  # seconds for which changes of other processes to a session may be unknown here
_READ_TIMEOUT = 2.0
_RETRY_INTERVAL = 1.0  # seconds in which a storage that has not answered is not read again


class SessionManager:
    """The sessions of one service, least recently used first.

    Args:
        state: State of the app.
        keys: Keys that sign the ids.
    """

    def __init__(self, state: LoopState, keys: Keys) -> None:
        timeouts, storage = state.settings.timeouts, state.storage
        self._state, self._loop, self._timeouts = state, state.loop, timeouts
        self._limit = state.settings.limits.max_sessions
        self._extend_interval = min(timeouts.session_idle / 10, _EXTEND_INTERVAL)
        self._unused_timeout = min(timeouts.session_idle, UNUSED_TIMEOUT)
        self._store = SessionStore(storage, keys, state.bus, timeouts.session_idle + self._extend_interval)
        # A storage in memory, or in a file of this machine, is read with each request.
        self._is_local = not storage.is_persistent
        self._has_fast_reads = getattr(storage, "has_local_reads", False)
        self._buffer = EventBuffer(state.settings.limits.replay_buffer_bytes)
        self._by_id: dict[str, HttpSession] = {}
        self._unused: dict[str, HttpSession] = {}  # those without a request after `initialize`
        self._shares = Shares()
        self._revocations = state.engine.revocations
        self._leaving: set[HttpSession] = set()  # those that were adopted while requests were running
        self._is_closed = False
        self._retry_at = 0.0  # time of the next read from a storage that does not answer
        self._sweep_timer: asyncio.TimerHandle | None = None
        if state.membership is not None:
            state.membership.on_poll = self._replace_dead_notifiers

    def __len__(self) -> int:
        """Return the number of sessions in this process."""
        return len(self._by_id)

    # Opening

    def new_id(self, handshake: Handshake, client: Exchange, *, may_register: bool) -> NewSessionId:
        """Return the id of a new session. It is not valid before `open`.

        Args:
            handshake: The negotiated values.
            client: The client.
            may_register: Whether lists may still be declared before the session is opened.
        """
        is_declared = self._state.hub.is_declared
        token = SessionToken(
            id=os.urandom(16).hex(),
            home=self._state.storage.store_id,
            revision=handshake.revision,
            client=handshake.client,
            lists=frozenset(name for name in LIST_NAMES if may_register or is_declared(name)),
            expires=time.time() + self._timeouts.session_max_age,
            principal=owner_of(client.principal),
        )
        return self._store.new_id(token)

    async def open(self, new_id: NewSessionId, client: Exchange) -> HttpSession:
        """Open a session with a new id.

        It expires soon unless a request uses it. Its information about the client is that of the id, as in every
        process that may serve it.

        Args:
            new_id: The id.
            client: The client.

        Raises:
            BusyError: There are too many sessions, or the storage does not answer.
        """
        self._take_place(client.caller)
        try:
            record = await self._store.open(new_id, self._unused_timeout)
        except BaseException:
            self._shares.release(client.caller)
            raise
        session = self._unused[new_id.id] = self._add(new_id.id, record, client)
        return session

    # Finding

    async def find(self, id_: str, client: Exchange) -> HttpSession | None:
        """Return the session of an id; None if the id is invalid, or the session has ended or expired.

        The session is in use from now on: its lifetime is extended, unless that was done a moment ago. A session of a
        protected server that was opened without an access token is adopted by the first client that sends one.

        Args:
            id_: The id that a client has sent.
            client: The client: sessions of other clients are not found.

        Raises:
            BusyError: The session is not in this process, and there are too many; or the storage does not answer.
        """
        session, principal = self._by_id.get(id_), client.principal
        if session is None or (session.principal is not principal and session.owner != owner_of(principal)):
            return await self._restore(id_, client, session)
        record = session.record
        try:
            if self._is_local:  # as `record.read` does: each request passes here
                writes = record.writes
                is_open = record.update(await self._state.storage.read(record.key), writes)
            else:
                is_open = self._is_current(record) or await self._read(record)
        except OSError:
            logger.exception("the shared store does not answer: using the last known state of a session")
            is_open = True
            self._retry_at = self._loop.time() + _RETRY_INTERVAL
        if not is_open:
            self._end(session)
            return None
        if self._by_id.get(id_) is session:
            session.load_changes()
        now = self._loop.time()
        if now - record.extended >= self._extend_interval:
            self._unused.pop(id_, None)
            record.extended = now
            self._state.start_task(self._extend(record))
        if self._by_id.get(id_) is not session:  # it has ended, made room or been adopted meanwhile
            return await self.find(id_, client)
        session.principal = client.principal
        self._use(session, now)
        return session

    def _is_current(self, record: SessionRecord) -> bool:
        """Return True if the known state of a session may be used without reading the storage."""
        now = self._loop.time()
        if now < self._retry_at:
            return True
        return now - record.read_at < _MAX_AGE and not (record.is_stale or self._has_fast_reads)

    async def _read(self, record: SessionRecord) -> bool:
        """Read a record with a timeout; return False if the session has ended.

        Raises:
            OSError: The storage does not answer.
        """
        if self._retry_at:  # other requests do not wait for a storage that may still not answer
            self._retry_at = self._loop.time() + _READ_TIMEOUT
        is_open = await within(_READ_TIMEOUT, record.read())
        self._retry_at = 0.0
        return is_open

    async def _extend(self, record: SessionRecord) -> None:
        """Extend the lifetime of a session. After a failure, a request a second later tries again."""
        try:
            await record.extend(record.extended)
        except BusyError:  # it has been logged
            record.extended += 1 - self._extend_interval

    async def _restore(self, id_: str, client: Exchange, other: HttpSession | None) -> HttpSession | None:
        """Return a session that is not in this process yet as one of this client.

        Args:
            id_: The id that a client has sent.
            client: The client.
            other: The session with this id in this process, of another owner or anonymous; None if there is none.
        """
        owner = owner_of(client.principal)
        record = await self._store.find(id_) if other is None else other.record
        # The owner of a session that was opened without authentication is not in its token.
        owners = {owner} if self._revocations is None else {owner, None}
        if record is None or record.token.principal not in owners:
            return None
        if not await or_busy(record.read()):
            if other is not None:
                self._end(other)
            return None
        holder = record.token.principal or record.fields.get(RecordField.OWNER)
        if holder is None and owner is not None:
            await self._adopt(record, client, owner)
            return await self.find(id_, client)
        if other is not None and other.owner != holder:
            self._leave(other)
        if holder != owner or await self._is_revoked(record, client):
            return None
        await record.extend(self._loop.time())
        if id_ in self._by_id:  # another request has been faster
            return await self.find(id_, client)
        self._take_place(client.caller)
        session = self._add(id_, record, client)
        session.negotiated.is_initialized = True  # in another process, or before
        return session

    async def _adopt(self, record: SessionRecord, client: Exchange, owner: str) -> None:
        """Make a principal the owner of an anonymous session, unless another one was faster."""
        storage, key, holder = self._state.storage, f"{record.key}/{RecordField.OWNER}", owner
        ttl = max(record.token.expires - time.time(), 1)
        if await or_busy(storage.put(key, owner.encode(), version=None, ttl=ttl)) is not None:
            self._state.engine.runtime.audit.emit("adoption", client.principal)
        else:
            stored = await or_busy(storage.get(key))
            holder = "" if stored is None else stored.value.decode()  # it has just expired
        # Responses to requests that the anonymous client has received are not accepted any more.
        questions = [name for name in record.fields if name.startswith(RecordField.QUESTION)]
        record.changes.update(dict.fromkeys(questions))
        record.changes[RecordField.OWNER] = holder
        await record.save()

    async def _is_revoked(self, record: SessionRecord, client: Exchange) -> bool:
        """Return True, and end a session, if its client's access was revoked after the session was opened."""
        if client.principal.id is None or self._revocations is None:
            return False
        at = await or_busy(self._revocations.latest(client.principal.id))
        if self._opened(record) > at:
            return False
        await record.end()
        return True

    def _opened(self, record: SessionRecord) -> float:
        return record.token.expires - self._timeouts.session_max_age

    async def read_record(self, session: HttpSession) -> None:
        """Read the changes of other processes to a session.

        Raises:
            BusyError: The storage does not answer.
        """
        if not await or_busy(session.record.read()):
            self._end(session)
        elif self._by_id.get(session.id) is session:
            session.load_changes()

    def _replace_dead_notifiers(self) -> None:
        """Send the notifications of ended processes in their place."""
        for session in tuple(self._by_id.values()):
            session.standalone.replace_dead_notifier()

    # Limits

    def _take_place(self, caller: str | None) -> None:
        self._make_room(caller)
        self._shares.take(caller)

    def _make_room(self, caller: str | None) -> None:
        """Drop a session if there are too many, in total or of one client: the one with the least need of its place.

        Its id stays valid: its next request restores it. If a client has half of all places, only its own sessions are
        dropped for it.

        Raises:
            BusyError: All sessions were used recently, or the server is shutting down.
        """
        if self._is_closed:
            raise BusyError("The server is shutting down. Try again later")
        limit, now, left = self._limit, self._loop.time(), 1.0
        if self._shares.has_room(limit, caller):
            return
        for session in islice(self._unused.values(), _MAX_EXAMINED):
            if self._shares.may_yield(limit, caller, session.caller):
                self._drop(session)
                return
        for session in tuple(islice(self._by_id.values(), _MAX_EXAMINED)):
            if session.is_busy:
                self._use(session, now)
            elif self._shares.may_yield(limit, caller, session.caller):
                left = session.used + self._unused_timeout - now
                if left <= 0:
                    self._drop(session)
                    return
                break
        raise BusyError(
            f"Too many sessions are open {self._shares.excess(limit, caller)}. Try again later",
            retry_after=max(1, math.ceil(left)),
        )

    def _use(self, session: HttpSession, now: float) -> None:
        """Put a session behind those that have been used less recently."""
        self._by_id[session.id] = self._by_id.pop(session.id)
        session.used = now

    # The sessions of this process

    def _add(self, id_: str, record: SessionRecord, client: Exchange) -> HttpSession:
        session = HttpSession(self._state, self._buffer, id_, record, client, self._end, self._leave)
        self._by_id[id_] = session
        self._state.bus.add(record.token.id, session.receive)
        record.is_stale = True  # messages between the last read and now were not received
        if self._sweep_timer is None:
            self._sweep_later()
        return session

    def _remove(self, session: HttpSession) -> bool:
        if self._by_id.get(session.id) is not session:
            return False
        del self._by_id[session.id]
        self._state.bus.remove(session.record.token.id, session.receive)
        self._shares.release(session.caller)
        self._unused.pop(session.id, None)
        return True

    def _drop(self, session: HttpSession) -> None:
        """Drop a session from this process; its id stays valid."""
        self._remove(session)
        session.end(is_over=False)

    def _end(self, session: HttpSession, problem: ProtocolError | None = None) -> None:
        """Drop a session that has ended; see `HttpSession.end`."""
        self._remove(session)
        session.end(is_over=True, problem=problem)

    def _leave(self, session: HttpSession) -> None:
        """Drop an anonymous session after its adoption, when its running requests have been answered."""
        if self._remove(session):
            self._leaving.add(session)
            task = self._loop.create_task(session.leave())
            task.add_done_callback(lambda _: self._leaving.discard(session))

    def _sweep_later(self) -> None:
        delay = min(self._timeouts.session_idle / 4, self._timeouts.session_max_age / 4, 60.0)
        # The timer belongs to no request, so it has an empty context.
        self._sweep_timer = self._loop.call_later(delay, self._sweep, context=contextvars.Context())

    def _sweep(self) -> None:
        """End expired sessions, drop idle ones, and extend the records of those in use without requests."""
        self._sweep_timer = None
        idle_timeout = self._timeouts.session_idle
        date, now = time.time(), self._loop.time()
        in_use: list[HttpSession] = []
        for session in tuple(self._by_id.values()):
            if session.record.token.expires <= date:
                self._end(session)
            elif session.is_busy:
                if now - session.record.extended >= idle_timeout / 2:
                    in_use.append(session)
            elif now - session.used >= (self._unused_timeout if session.id in self._unused else idle_timeout):
                self._drop(session)
        if in_use:
            self._state.start_task(self._extend_all(in_use, now))
        has_records = False
        if isinstance(storage := self._state.storage, Memory):
            storage.sweep()
            has_records = len(storage) > 0  # they outlive their sessions by a little
        if self._by_id or has_records:
            self._sweep_later()

    async def _extend_all(self, sessions: list[HttpSession], now: float) -> None:
        for session in sessions:
            await session.record.extend(now)
            await self.read_record(session)

    # Ends

    async def end(self, session: HttpSession) -> None:
        """End a session for all processes, at its client's request.

        Raises:
            BusyError: The storage does not answer.
        """
        await session.record.end()
        self._end(session)

    def revoke(self, revocation: Revocation, problem: ChallengeError) -> None:
        """End the sessions of a principal after a revocation.

        Args:
            revocation: The revocation.
            problem: Error for running requests.
        """
        for session in tuple(self._by_id.values()):
            if revocation.means(session.principal) and self._opened(session.record) <= revocation.at:
                self._end(session, problem)
                self._state.start_task(session.record.end())

    def end_streams(self) -> None:
        """End all standalone streams."""
        for session in tuple(self._by_id.values()):
            session.end_streams()

    async def drain(self) -> None:
        """Wait until all requests of all sessions have been answered."""
        for session in (*self._by_id.values(), *self._leaving):
            await session.drain()

    async def aclose(self) -> None:
        """Cancel all requests, and wait until they have stopped."""
        for session in (*self._by_id.values(), *self._leaving):
            await session.aclose()
        if tasks := tuple(self._state.tasks):
            await asyncio.wait(tasks)
        if self._state.event_store is not None:
            await self._state.event_store.flush()

    def close(self) -> None:
        """Drop all sessions, and accept no more; their ids stay valid for other processes."""
        self._is_closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for task in self._state.tasks:
            task.cancel()
        for session in (*self._by_id.values(), *self._leaving):
            self._drop(session)
        if self._state.event_store is not None:
            self._state.event_store.close()

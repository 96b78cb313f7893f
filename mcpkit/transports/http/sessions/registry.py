"""The sessions of handshake clients: opening, finding and ending them.

A session id contains the negotiated values, signed, so that any process with the same secret can serve it. The other
state is in the shared store under the key of the id. If the store outlives the processes, it contains everything, and
ids are short.

A session has ended if its state was in this store and is missing. A session with its state in another store, of a
process that has ended or runs in parallel, is taken over. So is a session that was dropped here to make room.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ...._utils.exceptions import BusyError, ChallengeError
from ....identity.principal import LIST_NAMES, owner_of
from ....protocol.eras import Handshake
from ....requests.limits import Shares
from ....storage.encryption_keys import Keys
from ....storage.memory import Memory
from ..exchange import Exchange
from .belonging import adopt, is_revoked
from .environment import Environment
from .freshness import Freshness, in_time
from .record import OWNER, Record, unreachable
from .remote import ENDED
from .session import Session
from .succession import Succession
from .token import Minted, SessionToken, issue, read

if TYPE_CHECKING:
    from ....identity.revocation import Revocation

logger = logging.getLogger(__name__)

_SPACING = 10.0
"""Seconds, or a tenth of a session's time to live, between two renewals in the shared store."""

_BRIEF = 60.0
"""Seconds, or a session's time to live, that one lives of which nothing has come after `initialize`, and for
which any other must have been idle before it makes room: clients that only open sessions cannot lock others out."""

_LOOKED_AT = 64
"""Sessions that are looked at, from the one that has been idle for the longest time, for one to make room."""


class Sessions:
    """The sessions of one service, least recently used first.

    Args:
        environment: Shared objects of the app.
        keys: Keys that sign the ids.
    """

    def __init__(self, environment: Environment, keys: Keys) -> None:
        self._environment = environment
        self._keys = keys
        self._succession = Succession(environment.engine.runtime.storage, keys)
        self._loop = environment.loop
        self._settings = environment.settings
        self._spacing = min(environment.settings.timeouts.session_idle / 10, _SPACING)
        ttl = environment.settings.timeouts.session_idle + self._spacing
        name, remote = environment.engine.runtime.name, environment.remote
        self._record = partial(Record, environment.broker, remote, name, ttl)
        shared = environment.engine.runtime.storage
        # What lives and dies with the process is looked at with each request.
        self._freshness: Freshness | None = None
        self._has_short_ids = shared.is_persistent
        if shared.is_persistent:
            self._freshness = Freshness(remote, has_local_reads=getattr(shared, "has_local_reads", False))
        self._brief = min(environment.settings.timeouts.session_idle, _BRIEF)
        self._by_id: dict[str, Session] = {}
        self._unused: dict[str, Session] = {}  # those of which nothing has come after `initialize`
        self._shares = Shares()  # of those that live here, or are about to
        self._revocations = environment.engine.revocations
        if environment.presence is not None:
            environment.presence.on_poll = self.mend
        self._leaving: set[Session] = set()  # which were nobody's, and whose calls have still to be answered
        self._is_over = False
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of sessions in this process."""
        return len(self._by_id)

    def mint(self, handshake: Handshake, client: Exchange, *, may_come: bool) -> Minted:
        """Return the id of a new session. It is not valid before `open`.

        Args:
            handshake: The negotiated values.
            client: The client.
            may_come: Whether lists may still be declared before the session is opened.
        """
        token = SessionToken(
            id=os.urandom(16).hex(),
            home=self._environment.broker.store_id,
            revision=handshake.revision,
            client=handshake.client,
            lists=frozenset(
                name for name in LIST_NAMES if may_come or self._environment.changes.is_declared(name)
            ),
            expires=time.time() + self._settings.timeouts.session_max_age,
            principal=owner_of(client.principal),
        )
        text = issue(self._keys, token)
        return Minted(token.id if self._has_short_ids else text, text)

    async def open(self, minted: Minted, client: Exchange) -> Session:
        """Open a session with a new id.

        It expires soon unless a request uses it. Its information about the client is that of the id, as in every
        process that may serve it.

        Args:
            minted: The id, and its token.
            client: The client.

        Raises:
            BusyError: There are too many sessions, or the shared store does not respond.
        """
        id_, text = minted
        token = read(self._keys, text, -math.inf)
        assert token is not None, "the token must be valid, as it was just signed"
        caller = client.caller
        self._make_room(caller)
        self._shares.take(caller)
        try:
            record = self._record(token)
            session = self._add(
                id_, record, await record.open(self._brief, None if id_ == text else text), client
            )
        except BaseException:
            self._shares.release(caller)
            raise
        self._unused[id_] = session
        return session

    async def find(self, id_: str, client: Exchange | Session) -> Session | None:
        """Return the session of an id; None if the id is invalid, or the session has ended or expired.

        The session is in use from now on: its lifetime is extended, unless that was done a moment ago. A session of a
        protected server that was opened without an access token is adopted by the first client that sends one.

        Args:
            id_: The id that a client has sent.
            client: The client: sessions of other clients are not found.

        Raises:
            BusyError: The session is not in this process, and there are too many; or the shared store does not respond.
        """
        session = self._by_id.get(id_)
        if session is None or session.owner != owner_of(client.principal):
            return await self._take_in(id_, client, session)
        record, freshness = session.record, self._freshness
        if freshness is None or not freshness.holds(record):
            try:
                if freshness is None:  # as `look` does: each request comes by here
                    saves = record.saves
                    fields = record.take(await self._environment.broker.read(record.key), saves)
                else:
                    fields = await in_time(record.look())
            except OSError:
                logger.exception("the shared store does not answer: using the last known state of a session")
                fields = session.fields
                if freshness is not None:
                    freshness.fail()
            if fields is None:
                self._end(session)
                return None
            if fields is not session.fields and self._by_id.get(id_) is session:
                session.take_over(fields)
        now = self._loop.time()
        if now - record.prolonged >= self._spacing:
            self._unused.pop(id_, None)
            record.prolonged = now
            if freshness is None:
                await self._prolong(record)
            else:
                self._environment.begin(self._prolong(record))
        if self._by_id.get(id_) is not session:  # it has ended meanwhile, made room, or is somebody's now
            return await self.find(id_, client)
        session.principal = client.principal
        self._use(session, now)
        return session

    async def look_again(self, session: Session) -> None:
        """Read the changes of other processes to a session.

        Raises:
            BusyError: The shared store does not respond.
        """
        try:
            fields = await session.record.look()
        except OSError:
            raise unreachable() from None
        if fields is not None and fields is not session.fields and self._by_id.get(session.id) is session:
            session.take_over(fields)

    def mend(self) -> None:
        """Send the notifications of ended processes in their place."""
        for session in tuple(self._by_id.values()):
            session.telling.mend()

    async def _prolong(self, record: Record) -> None:
        """Extend the lifetime of a session in the shared store. After a failure, a request a second later retries."""
        try:
            await record.prolong(record.prolonged)
        except BusyError:  # it has been logged
            record.prolonged += 1 - self._spacing

    async def _take_in(self, id_: str, client: Exchange | Session, other: Session | None) -> Session | None:
        """Return a session that is not in this process as its client's, after it may have been anonymous.

        Args:
            id_: The id that a client has sent.
            client: The client.
            other: The session with this id in this process, of another owner or anonymous; None if there is none.
        """
        owner = owner_of(client.principal)
        record = await self._record_of(id_) if other is None else other.record
        if record is None or not self._may_be(record, owner):
            return None
        try:
            fields = await record.look()
        except OSError:
            raise unreachable() from None
        if fields is None:
            if other is not None:
                self._end(other)
            return None
        holder = record.token.principal or fields.get(OWNER)
        if holder is None and owner is not None:
            await adopt(self._environment.engine.runtime, record, client.principal, owner)
            return await self.find(id_, client)
        if other is not None and other.owner != holder:
            self._leave(other)
        if holder != owner or await is_revoked(
            self._revocations, record, client.principal, self._opened(record)
        ):
            return None
        await record.prolong(self._loop.time())
        if id_ in self._by_id:  # another request has been faster
            return await self.find(id_, client)
        self._make_room(client.caller)
        self._shares.take(client.caller)
        session = self._add(id_, record, fields, client)
        session.resume()
        return session

    def _may_be(self, record: Record, owner: str | None) -> bool:
        """Return True if a session may belong to an owner: its own, or an anonymous one of a protected server."""
        whose = record.token.principal
        return whose == owner or (whose is None and self._revocations is not None)

    async def _record_of(self, id_: str) -> Record | None:
        try:
            token = await self._succession.read(id_, time.time())
        except OSError:
            raise unreachable() from None
        return None if token is None else self._record(token)

    def _leave(self, session: Session) -> None:
        """Drop an anonymous session after its adoption, when its running requests have been answered."""
        if self._remove(session):
            self._leaving.add(session)
            task = self._loop.create_task(session.leave())
            task.add_done_callback(lambda _: self._leaving.discard(session))

    def _opened(self, record: Record) -> float:
        return record.token.expires - self._settings.timeouts.session_max_age

    def revoke(self, revocation: Revocation, problem: ChallengeError) -> None:
        """End the sessions of a principal after a revocation.

        Args:
            revocation: The revocation.
            problem: Error for running requests.
        """
        for session in tuple(self._by_id.values()):
            if revocation.means(session.principal) and self._opened(session.record) <= revocation.at:
                session.revoke(problem)
                self._end(session)
                self._environment.begin(self._end_record(session.record))

    async def _end_record(self, record: Record) -> None:
        with suppress(BusyError):  # it has been logged
            await record.end()
            await record.announce(ENDED)

    async def end(self, session: Session) -> None:
        """End a session at its client's request. Then its id is not found any more.

        Raises:
            BusyError: The shared store does not respond.
        """
        await session.record.end()
        self._end(session)
        await session.record.announce(ENDED)

    def end_streams(self) -> None:
        """End all streams that listen."""
        for session in tuple(self._by_id.values()):
            session.end_streams()

    async def drain(self) -> None:
        """Return once every call of every session has been answered."""
        for session in (*self._by_id.values(), *self._leaving):
            await session.drain()

    async def aclose(self) -> None:
        """Cancel all calls, and wait until they have stopped."""
        for session in (*self._by_id.values(), *self._leaving):
            await session.aclose()
        if tasks := tuple(self._environment.tasks):
            await asyncio.wait(tasks)
        if self._environment.journal is not None:
            await self._environment.journal.flush()

    def forget_all(self) -> None:
        """Drop all sessions, and accept no more; their ids stay valid for other processes."""
        self._is_over = True
        if self._freshness is not None:
            self._freshness.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for task in (*self._environment.tasks, *self._environment.retries):
            task.cancel()
        for session in (*self._by_id.values(), *self._leaving):
            self._forget(session)
        if self._environment.journal is not None:
            self._environment.journal.close()

    def _make_room(self, caller: str | None) -> None:
        """Drop a session if there are too many, in total or of one client: the one with the least need of its place.

        Its id stays valid: its next request restores it. If a client has half of all places, only its own sessions are
        dropped for it.

        Raises:
            BusyError: All sessions were used recently, or the server is shutting down.
        """
        if self._is_over:
            raise BusyError("The server is shutting down. Try again later")
        limit = self._settings.limits.max_sessions
        if self._shares.has_room(limit, caller):
            return
        for session in islice(self._unused.values(), _LOOKED_AT):
            if self._shares.may_yield(limit, caller, session.caller):
                self._forget(session)
                return
        left = 1.0
        now = self._loop.time()
        for session in tuple(islice(self._by_id.values(), _LOOKED_AT)):
            if session.is_busy:
                self._use(session, now)
            elif self._shares.may_yield(limit, caller, session.caller):
                left = session.used + self._brief - now
                if left <= 0:
                    self._forget(session)
                    return
                break
        raise BusyError(
            f"Too many sessions are open {self._shares.excess(limit, caller)}. Try again later",
            retry_after=max(1, math.ceil(left)),
        )

    def _use(self, session: Session, now: float) -> None:
        """Put a session behind those that have been used less recently."""
        self._by_id[session.id] = self._by_id.pop(session.id)
        session.used = now

    def _add(
        self, id_: str, record: Record, fields: Mapping[str, str], client: Exchange | Session
    ) -> Session:
        session = Session(self._environment, id_, record, fields, client, self._end, self._leave)
        self._by_id[id_] = session
        self._environment.remote.follow(record.token.id, session)
        record.is_stale = True  # what has happened between the look at it and now was not heard
        if self._sweeping is None:
            self._sweep_later()
        return session

    def _forget(self, session: Session, *, is_over: bool = False) -> None:
        self._remove(session)
        session.end(is_over=is_over)

    def _end(self, session: Session) -> None:
        self._forget(session, is_over=True)

    def _remove(self, session: Session) -> bool:
        if self._by_id.get(session.id) is not session:
            return False
        del self._by_id[session.id]
        self._environment.remote.leave(session.record.token.id, session)
        self._shares.release(session.caller)
        self._unused.pop(session.id, None)
        return True

    def _sweep_later(self) -> None:
        delay = min(
            self._settings.timeouts.session_idle / 4, self._settings.timeouts.session_max_age / 4, 60.0
        )
        nobody = contextvars.Context()  # it is no part of the call that opens a session
        self._sweeping = self._loop.call_later(delay, self._sweep, context=nobody)

    def _sweep(self) -> None:
        self._sweeping = None
        ttl = self._settings.timeouts.session_idle
        date, now = time.time(), self._loop.time()
        in_use: list[Session] = []
        for session in tuple(self._by_id.values()):
            if session.record.token.expires <= date:
                self._end(session)
            elif session.is_busy:
                if now - session.record.prolonged >= ttl / 2:
                    in_use.append(session)
            elif now - session.used >= (self._brief if session.id in self._unused else ttl):
                self._forget(session)
        if in_use:
            self._environment.begin(self._prolong_all(in_use))
        has_records = False
        if isinstance(broker := self._environment.broker, Memory):
            broker.sweep()
            has_records = len(broker) > 0  # they outlive their sessions by a little
        if self._by_id or has_records:
            self._sweep_later()

    async def _prolong_all(self, sessions: list[Session]) -> None:
        """Extend the lifetime of sessions in use without a request, and catch up on missed changes."""
        with suppress(BusyError):  # it has been logged
            for session in sessions:
                if session.is_busy:
                    await self.find(session.id, session)

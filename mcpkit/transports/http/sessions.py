"""The sessions of handshake clients: opening, finding and ending them.

An id holds what was negotiated, signed, so that any process with the same secret serves it; the rest is in
the broker under the id's key. A session whose state was here once and is not any more has ended; one whose
state was elsewhere, in a process that has died or that lives beside this one, is taken in. So is one that
made room for others here.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from ...access.principal import Principal
from ...broker import Broker, MemoryBroker
from ...errors import BusyError
from ...keys import Keys
from ...protocol.eras import Handshake
from ...running.shares import Shares
from ...updates.changes import LISTS
from .events import Shelf
from .following import CHANGED, Following
from .session import Session
from .token import SessionToken, issue, read

if TYPE_CHECKING:
    from .exchange import Exchange
    from .service import Service

logger = logging.getLogger("mcpkit")

T = TypeVar("T")

_OPEN: Final = "open"
_ENDED: Final = "ended"

_SPACING: Final = 10.0
"""Seconds, or a tenth of a session's time to live, in which the broker is told once that it is in use."""

_BRIEF: Final = 60.0
"""Seconds, or a session's time to live, that one lives of which nothing has come after `initialize`, and for
which any other must have been idle before it makes room: whoever only opens sessions locks nobody out."""

_LOOKED_AT: Final = 64
"""Sessions that are looked at, from the one that has been idle for the longest time, for one to make room."""


class Sessions:
    """The sessions of one service, least recently used first.

    Args:
        service: Whose they are.
        keys: What signs the ids.
        broker: Where the rest of their state is.

    Attributes:
        shelf: What they keep for clients that come back.
        process: A text that no other process has, nor any other event loop of this one.
    """

    def __init__(self, service: Service, keys: Keys, broker: Broker) -> None:
        self.process = os.urandom(4).hex()
        self._service = service
        self._keys = keys
        self._broker = broker
        self._settings = service.settings
        self._spacing = min(service.settings.session_ttl / 10, _SPACING)
        self._brief = min(service.settings.session_ttl, _BRIEF)
        self.shelf = Shelf(service.settings.max_kept)
        self._by_id: dict[str, Session] = {}
        self._unused: dict[str, Session] = {}  # those of which nothing has come after `initialize`
        self._shares = Shares()  # of those that live here, or are about to
        self._is_over = False
        self._sweeping: asyncio.TimerHandle | None = None
        self._prolonging: asyncio.Task[None] | None = None
        self._saving: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Count the sessions that live in this process."""
        return len(self._by_id)

    async def open(self, handshake: Handshake, client: Exchange) -> str:
        """Open a session and return its id.

        It lives briefly until the first request that names it. Of its client it knows what the id says, as
        every process does that may serve it.

        Args:
            handshake: What was negotiated.
            client: Who the client is.

        Raises:
            BusyError: There are too many, or the broker does not answer.
        """
        caller = client.caller
        self._make_room(caller)
        self._shares.take(caller)
        session: Session | None = None
        try:
            server = self._service.server
            token = SessionToken(
                id=os.urandom(16).hex(),
                home=self._broker.home,
                revision=handshake.revision,
                client=handshake.client,
                lists=frozenset(name for name in LISTS.values() if server._declared.has(name)),
                expires=time.time() + self._settings.session_max_age,
                principal=_owner(client.principal),
            )
            id_ = issue(self._keys, token)
            kept = read(self._keys, id_, -math.inf)
            assert kept is not None, "it has just been signed"
            key = self._key(kept)
            await _reach(self._broker.write(key, {_OPEN: "1"}, self._brief))
            record = await _reach(self._broker.read(key))
            session = Session(
                self._service, id_, kept, key, Handshake(kept.revision, kept.client), client.principal, caller
            )
            session.prolonged = -math.inf
            self._unused[id_] = self._add(session)
            session.load(record)
        finally:
            if session is None:
                self._shares.give_back(caller)
        return id_

    async def find(self, id_: str, client: Exchange | Session) -> Session | None:
        """Return the session of an id; None when it is none, has ended, or has not been used for too long.

        It is in use from now on: its life is prolonged, where that has not been done a moment ago.

        Args:
            id_: What a client has sent as the id.
            client: Who the client is: the sessions of others are none.

        Raises:
            BusyError: It would be taken in, but there are too many; or the broker does not answer.
        """
        session = self._by_id.get(id_)
        if session is None:
            return await self._take_in(id_, client)
        if session.token.principal != _owner(client.principal):
            return None
        session.principal = client.principal
        edition = session.edition
        try:  # as _reach does: each request comes by here
            record = await self._broker.read(session.key)
        except OSError:
            raise _unreachable() from None
        if record is not session.record or session.token.expires <= time.time():
            if self._has_ended(session.token, record):
                self._forget(session)
                return None
            self._load(session, record, edition)
        now = self._service.loop.time()
        if now - session.prolonged >= self._spacing:
            await self._write(session.key, {})
            session.prolonged = now
            self._unused.pop(id_, None)
        if self._by_id.get(id_) is not session:  # it has ended meanwhile, or made room
            return await self._take_in(id_, client)
        self._use(session, now)
        return session

    async def save(self, session: Session, changes: Mapping[str, str | None]) -> None:
        """Give the broker what has changed here, and tell others that it has.

        Raises:
            BusyError: The broker does not answer.
        """
        session.edition += 1
        session.saving += 1
        try:
            await self._write(session.key, changes)
        finally:
            session.edition += 1
            session.saving -= 1
        await self._publish(session)

    def save_later(self, session: Session) -> None:
        """Save what changes though no request waits for it."""
        if self._by_id.get(session.id) is session:
            task = self._service.loop.create_task(self.save_rest(session))
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)

    async def save_rest(self, session: Session) -> None:
        """Save what has changed where nobody can be told that it fails; then it is logged alone."""
        with suppress(BusyError):
            if changes := session.unsaved():
                await self.save(session, changes)

    async def pass_on(self, session: Session) -> None:
        """Give what the client has answered to the processes that have asked it.

        Raises:
            BusyError: The broker does not answer.
        """
        answers, session.answers = session.answers, []
        for answer in answers:
            await _reach(self._broker.publish(session.key, answer))

    async def refresh(self, session: Session) -> None:
        """Take over what other processes have done to a session, though nothing is asked here.

        Raises:
            OSError: The broker does not answer.
        """
        edition = session.edition
        record = await self._broker.read(session.key)
        if self._has_ended(session.token, record):
            self._forget(session)
        else:
            self._load(session, record, edition)

    def follow(self, session: Session) -> Following:
        """Take over what other processes do to a session, until what is returned is closed."""
        return Following(self._broker, session.key, partial(self.refresh, session), session.hear_answer)

    async def end(self, session: Session) -> None:
        """End a session because its client says so; from now on its id is not found.

        Raises:
            BusyError: The broker does not answer.
        """
        if session.token.home == self._broker.home:
            await _reach(self._broker.delete(session.key))
        else:  # its state was elsewhere, so that its absence here says nothing
            left = session.token.expires - time.time()
            await _reach(self._broker.write(session.key, {_ENDED: "1"}, left))
        self._forget(session)
        await self._publish(session)

    def end_streams(self) -> None:
        """End all streams that listen."""
        for session in tuple(self._by_id.values()):
            session.end_streams()

    async def drain(self) -> None:
        """Return once every call of every session has been answered."""
        for session in tuple(self._by_id.values()):
            await session.drain()

    async def aclose(self) -> None:
        """Cancel all calls, and wait until they have stopped."""
        for session in tuple(self._by_id.values()):
            await session.aclose()
        if self._saving:
            await asyncio.wait(tuple(self._saving))

    def forget_all(self) -> None:
        """Let go of all sessions, and take no more; their ids stay good for other processes."""
        self._is_over = True
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        if self._prolonging is not None:
            self._prolonging.cancel()
        for task in self._saving:
            task.cancel()
        for session in tuple(self._by_id.values()):
            self._forget(session)

    def _key(self, token: SessionToken) -> str:
        return f"{self._service.server.name}/session/{token.id}"

    def _make_room(self, caller: str | None) -> None:
        """Let go of the session that needs its place the least, where there are too many, of all or of one client.

        Its id stays good: the next request of its has it taken in again. Of a client that has half of all places,
        its own sessions alone make room for it.

        Raises:
            BusyError: All of them have been in use lately, or the server ends.
        """
        if self._is_over:
            raise BusyError("The server is shutting down; try again later")
        limit = self._settings.max_sessions
        if self._shares.has_room(limit, caller):
            return
        is_share_full = 0 < limit <= 2 * self._shares.taken_by(caller)
        for session in islice(self._unused.values(), _LOOKED_AT):
            if not is_share_full or session.caller == caller:
                self._forget(session)
                return
        left = 1.0
        now = self._service.loop.time()
        for session in tuple(islice(self._by_id.values(), _LOOKED_AT)):
            if session.is_busy:
                self._use(session, now)
            elif not is_share_full or session.caller == caller:
                left = session.used + self._brief - now
                if left <= 0:
                    self._forget(session)
                    return
                break
        raise BusyError(
            f"Too many sessions are open {self._shares.excess(limit, caller)}; try again later",
            retry_after=max(1, math.ceil(left)),
        )

    def _use(self, session: Session, now: float) -> None:
        """Put a session behind those that have been used less recently."""
        self._by_id[session.id] = self._by_id.pop(session.id)
        session.used = now

    async def _take_in(self, id_: str, client: Exchange | Session) -> Session | None:
        """Return the session of an id that is not known here, if it is good: another process may have it."""
        token = read(self._keys, id_, time.time())
        if token is None or token.principal != _owner(client.principal):
            return None
        key = self._key(token)
        record = await _reach(self._broker.read(key))
        if self._has_ended(token, record):
            return None
        await self._write(key, {})
        session = self._by_id.get(id_)
        if session is None:  # else another request of its has been faster
            caller = client.caller
            self._make_room(caller)
            self._shares.take(caller)
            handshake = Handshake(token.revision, token.client)
            handshake.is_initialized = True
            session = self._add(Session(self._service, id_, token, key, handshake, client.principal, caller))
            session.load(record)
        return session

    def _has_ended(self, token: SessionToken, record: Mapping[str, str]) -> bool:
        if _ENDED in record or token.expires <= time.time():
            return True
        return _OPEN not in record and token.home == self._broker.home

    def _load(self, session: Session, record: Mapping[str, str], edition: int) -> None:
        """Take over a record, unless what has changed here since it was asked for may be missing in it."""
        session.latest = record
        is_here = self._by_id.get(session.id) is session
        if session.edition == edition and not session.saving and is_here:
            session.load(record)

    def _add(self, session: Session) -> Session:
        self._by_id[session.id] = session
        if self._sweeping is None:
            self._sweep_later()
        return session

    def _forget(self, session: Session) -> None:
        if self._by_id.get(session.id) is session:
            del self._by_id[session.id]
            self._shares.give_back(session.caller)
            self._unused.pop(session.id, None)
        session.end()

    async def _write(self, key: str, changes: Mapping[str, str | None]) -> None:
        await _reach(self._broker.write(key, changes, self._settings.session_ttl + self._spacing))

    async def _publish(self, session: Session) -> None:
        try:
            await self._broker.publish(session.key, CHANGED)
        except OSError:  # others know from its next request on
            logger.exception("the broker does not answer: others do not hear of what happened to a session")

    def _sweep_later(self) -> None:
        delay = min(self._settings.session_ttl / 4, self._settings.session_max_age / 4, 60.0)
        self._sweeping = self._service.loop.call_later(delay, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        ttl = self._settings.session_ttl
        date, now = time.time(), self._service.loop.time()
        in_use: list[Session] = []
        for session in tuple(self._by_id.values()):
            if session.token.expires <= date:
                self._forget(session)
            elif session.is_busy:
                if now - session.prolonged >= ttl / 2:
                    in_use.append(session)
            elif now - session.used >= (self._brief if session.id in self._unused else ttl):
                self._forget(session)
        if in_use and (self._prolonging is None or self._prolonging.done()):
            self._prolonging = self._service.loop.create_task(self._prolong_all(in_use))
        has_records = False
        if isinstance(self._broker, MemoryBroker):
            self._broker.sweep()
            has_records = len(self._broker) > 0  # they outlive their sessions by a little
        if self._by_id or has_records:
            self._sweep_later()

    async def _prolong_all(self, sessions: list[Session]) -> None:
        """Keep alive what is in use though no request comes, and make up for what was not heard."""
        with suppress(BusyError):  # it has been logged
            for session in sessions:
                if session.is_busy:
                    await self.find(session.id, session)


def _owner(principal: Principal) -> str | None:
    """Return what an id says of whose session it is: short, and no name, as whoever has the id can read it."""
    if principal.id is None:
        return None
    return hashlib.sha256(principal.id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


async def _reach(asked: Awaitable[T]) -> T:
    """Await what the broker is asked for.

    Raises:
        BusyError: It does not answer, which has been logged.
    """
    try:
        return await asked
    except OSError:
        raise _unreachable() from None


def _unreachable() -> BusyError:
    logger.exception("the broker does not answer")
    return BusyError("The state of sessions cannot be reached; try again later")

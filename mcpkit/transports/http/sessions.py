"""The sessions of handshake clients: opening, finding and ending them.

An id holds what was negotiated, signed, so that any process with the same secret serves it; the rest is in
the broker under the id's key. A session whose state was here once and is not any more has ended; one whose
state was elsewhere, in a process that has died or that lives beside this one, is taken in.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from ...broker import Broker, MemoryBroker
from ...changes import LISTS
from ...errors import BusyError
from ...keys import Keys
from ...protocol.eras import Handshake
from .following import Following
from .session import Session
from .token import SessionToken, issue, read

if TYPE_CHECKING:
    from .service import Service

logger = logging.getLogger("mcpkit")

_OPEN: Final = "open"
_ENDED: Final = "ended"

_SPACING: Final = 10.0
"""Seconds, or a tenth of a session's time to live, in which the broker is told once that it is in use."""


class Sessions:
    """The sessions of one service, least recently used first.

    Args:
        service: Whose they are.
        keys: What signs the ids.
        broker: Where the rest of their state is.

    Attributes:
        listening: How many streams they have that belong to no call.
        process: A text that no other process has, nor any other event loop of this one.
    """

    def __init__(self, service: Service, keys: Keys, broker: Broker) -> None:
        self.process = os.urandom(4).hex()
        self._service = service
        self._keys = keys
        self._broker = broker
        self._settings = service.settings
        self._spacing = min(service.settings.session_ttl / 10, _SPACING)
        self._by_id: dict[str, Session] = {}
        self.listening = 0
        self._sweeping: asyncio.TimerHandle | None = None
        self._prolonging: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Count the sessions that live in this process."""
        return len(self._by_id)

    async def open(self, handshake: Handshake) -> str:
        """Open a session and return its id.

        Raises:
            BusyError: There are too many.
            OSError: The broker does not answer.
        """
        self._check_room()
        server = self._service.server
        token = SessionToken(
            id=os.urandom(16).hex(),
            home=self._broker.home,
            revision=handshake.revision,
            client=handshake.client,
            lists=frozenset(name for name in LISTS.values() if server._declares(name)),
            expires=time.time() + self._settings.session_max_age,
        )
        id_, key = issue(self._keys, token), self._key(token)
        await self._write(key, {_OPEN: "1"})
        record = await self._broker.read(key)
        self._add(Session(self._service, id_, token, key, handshake)).load(record)
        return id_

    async def find(self, id_: str) -> Session | None:
        """Return the session of an id; None when it is none, has ended, or has not been used for too long.

        It is in use from now on: its life is prolonged, where that has not been done a moment ago.

        Raises:
            BusyError: It would be taken in, but there are too many.
            OSError: The broker does not answer.
        """
        session = self._by_id.get(id_)
        if session is None:
            return await self._take_in(id_)
        edition = session.edition
        record = await self._broker.read(session.key)
        if record is not session.record or session.token.expires <= time.time():
            if self._is_over(session.token, record):
                self._forget(session)
                return None
            self._load(session, record, edition)
        now = self._service.loop.time()
        if now - session.prolonged >= self._spacing:
            await self._write(session.key, {})
            session.prolonged = now
        if self._by_id.get(id_) is not session:  # it has ended meanwhile
            return None
        self._by_id[id_] = self._by_id.pop(id_)
        session.used = now
        return session

    async def save(self, session: Session, changes: Mapping[str, str | None]) -> None:
        """Give the broker what has changed here, and tell others that it has.

        Raises:
            OSError: The broker does not answer.
        """
        session.edition += 1
        session.saving += 1
        try:
            await self._write(session.key, changes)
        finally:
            session.edition += 1
            session.saving -= 1
        await self._publish(session)

    async def refresh(self, session: Session) -> None:
        """Take over what other processes have done to a session, though nothing is asked here.

        Raises:
            OSError: The broker does not answer.
        """
        edition = session.edition
        record = await self._broker.read(session.key)
        if session.id not in self._by_id:
            return
        if self._is_over(session.token, record):
            self._forget(session)
        else:
            self._load(session, record, edition)

    def follow(self, session: Session) -> Following:
        """Take over what other processes do to a session, until what is returned is closed."""
        return Following(self._broker, session.key, partial(self.refresh, session))

    async def end(self, session: Session) -> None:
        """End a session because its client says so; from now on its id is not found.

        Raises:
            OSError: The broker does not answer.
        """
        if session.token.home == self._broker.home:
            await self._broker.delete(session.key)
        else:  # its state was elsewhere, so that its absence here says nothing
            left = session.token.expires - time.time()
            await self._broker.write(session.key, {_ENDED: "1"}, left)
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

    def forget_all(self) -> None:
        """Let go of all sessions; their ids stay good for other processes."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        if self._prolonging is not None:
            self._prolonging.cancel()
        for session in tuple(self._by_id.values()):
            self._forget(session)

    def _key(self, token: SessionToken) -> str:
        return f"{self._service.server.name}/session/{token.id}"

    def _check_room(self) -> None:
        if len(self._by_id) < self._settings.max_sessions:
            return
        oldest = next(iter(self._by_id.values()))
        left = oldest.used + self._settings.session_ttl - self._service.loop.time()
        raise BusyError("Too many sessions are open; try again later", retry_after=max(1, round(left)))

    async def _take_in(self, id_: str) -> Session | None:
        """Return the session of an id that is not known here, if it is good: another process may have it."""
        token = read(self._keys, id_, time.time())
        if token is None:
            return None
        key = self._key(token)
        record = await self._broker.read(key)
        if self._is_over(token, record):
            return None
        await self._write(key, {})
        session = self._by_id.get(id_)
        if session is None:  # else another request of its has been faster
            self._check_room()
            handshake = Handshake(token.revision, token.client)
            handshake.is_initialized = True
            session = self._add(Session(self._service, id_, token, key, handshake))
            session.load(record)
        return session

    def _is_over(self, token: SessionToken, record: Mapping[str, str]) -> bool:
        if _ENDED in record or token.expires <= time.time():
            return True
        return _OPEN not in record and token.home == self._broker.home

    def _load(self, session: Session, record: Mapping[str, str], edition: int) -> None:
        """Take over a record, unless what has changed here since it was asked for may be missing in it."""
        if session.edition == edition and not session.saving:
            session.load(record)

    def _add(self, session: Session) -> Session:
        self._by_id[session.id] = session
        if self._sweeping is None:
            self._sweep_later()
        return session

    def _forget(self, session: Session) -> None:
        if self._by_id.get(session.id) is session:
            del self._by_id[session.id]
        session.end()

    async def _write(self, key: str, changes: Mapping[str, str | None]) -> None:
        await self._broker.write(key, changes, self._settings.session_ttl + self._spacing)

    async def _publish(self, session: Session) -> None:
        try:
            await self._broker.publish(session.key, "changed")
        except OSError:  # others know from its next request on
            logger.exception("the broker does not answer: others do not hear of what happened to a session")

    def _sweep_later(self) -> None:
        delay = min(self._settings.session_ttl / 4, 60.0)
        self._sweeping = self._service.loop.call_later(delay, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        ttl = self._settings.session_ttl
        now = self._service.loop.time()
        in_use: list[Session] = []
        for session in tuple(self._by_id.values()):
            idle = now - session.used
            if idle < ttl / 2:
                break
            if session.is_busy:
                in_use.append(session)
            elif idle >= ttl:
                self._forget(session)
        if in_use and (self._prolonging is None or self._prolonging.done()):
            self._prolonging = self._service.loop.create_task(self._prolong(in_use))
        if isinstance(self._broker, MemoryBroker):
            self._broker.sweep()
        if self._by_id:
            self._sweep_later()

    async def _prolong(self, sessions: list[Session]) -> None:
        """Keep alive what is in use though no request comes, and make up for what was not heard."""
        try:
            for session in sessions:
                if session.is_busy:
                    await self.find(session.id)
        except OSError:
            logger.exception("the broker does not answer: the life of sessions in use is not prolonged")

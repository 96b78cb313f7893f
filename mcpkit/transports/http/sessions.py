"""The sessions of handshake clients: opening, finding and ending them.

An id holds what was negotiated, signed, so that any process with the same secret serves it; the rest is in
the broker under the id's key. A session whose state was here once and is not any more has ended; one whose
state was elsewhere, in a process that has died or that lives beside this one, is taken in.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final

from ...broker import Broker, MemoryBroker
from ...changes import LISTS
from ...errors import BusyError
from ...keys import Keys
from ...protocol.eras import Handshake
from .session import Session
from .token import MAX_LENGTH, SessionToken, issue, read

if TYPE_CHECKING:
    from .service import Service

_OPEN: Final = "open"
_ENDED: Final = "ended"


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
        id_ = issue(self._keys, token)
        await self._broker.write(self._key(token), {_OPEN: "1"}, self._settings.session_ttl)
        session = Session(self._service, token, handshake)
        session.load(await self._broker.read(self._key(token)))
        self._add(id_, session)
        return id_

    async def find(self, id_: str) -> Session | None:
        """Return the session of an id; None when it is none, has ended, or has not been used for too long.

        Raises:
            BusyError: It would be taken in, but there are too many.
            OSError: The broker does not answer.
        """
        if len(id_) > MAX_LENGTH:
            return None
        session = self._by_id.get(id_)
        token = session.token if session is not None else read(self._keys, id_, time.time())
        if token is None:
            return None
        key = self._key(token)
        record = await self._broker.read(key)
        is_over = _ENDED in record or (_OPEN not in record and token.home == self._broker.home)
        if is_over or token.expires <= time.time():
            self._forget(id_)
            return None
        if _OPEN not in record:
            await self._broker.write(key, {_OPEN: "1"}, self._settings.session_ttl)
            record = await self._broker.read(key)
        session = self._by_id.get(id_)
        if session is None:
            session = self._take_in(id_, token)
        session.load(record)
        self._use(id_, session)
        return session

    async def save(self, session: Session) -> None:
        """Give the broker what has changed, and prolong the life of the session.

        Raises:
            OSError: The broker does not answer.
        """
        await self._broker.write(self._key(session.token), session.unsaved(), self._settings.session_ttl)

    async def end(self, id_: str) -> None:
        """End a session because its client says so; from now on its id is not found.

        Raises:
            OSError: The broker does not answer.
        """
        session = self._by_id[id_]
        key = self._key(session.token)
        if session.token.home == self._broker.home:
            await self._broker.delete(key)
        else:  # its state was elsewhere, so that its absence here says nothing
            await self._broker.write(key, {_ENDED: "1"}, session.token.expires - time.time())
        self._forget(id_)
        await session.aclose()

    def end_streams(self) -> None:
        """End all streams that listen."""
        for session in tuple(self._by_id.values()):
            session.end_streams()

    async def drain(self) -> None:
        """Return once every call of every session has been answered."""
        for session in tuple(self._by_id.values()):
            await session.drain()

    async def aclose(self) -> None:
        """Cancel all calls."""
        for session in tuple(self._by_id.values()):
            await session.aclose()

    def forget_all(self) -> None:
        """Let go of all sessions; their ids stay good for other processes."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for id_ in tuple(self._by_id):
            self._forget(id_)

    def _key(self, token: SessionToken) -> str:
        return f"{self._service.server.name}/session/{token.id}"

    def _check_room(self) -> None:
        if len(self._by_id) < self._settings.max_sessions:
            return
        oldest = next(iter(self._by_id.values()))
        left = oldest.used + self._settings.session_ttl - self._service.loop.time()
        raise BusyError("Too many sessions are open; try again later", retry_after=max(1, round(left)))

    def _take_in(self, id_: str, token: SessionToken) -> Session:
        self._check_room()
        handshake = Handshake(token.revision, token.client)
        handshake.is_initialized = True
        session = Session(self._service, token, handshake)
        self._add(id_, session)
        return session

    def _add(self, id_: str, session: Session) -> None:
        self._by_id[id_] = session
        if self._sweeping is None:
            self._sweep_later()

    def _use(self, id_: str, session: Session) -> None:
        session.used = self._service.loop.time()
        self._by_id[id_] = self._by_id.pop(id_)

    def _forget(self, id_: str) -> None:
        session = self._by_id.pop(id_, None)
        if session is not None:
            session.forget()
            session.end_streams()

    def _sweep_later(self) -> None:
        delay = min(self._settings.session_ttl / 4, 60.0)
        self._sweeping = self._service.loop.call_later(delay, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        ttl = self._settings.session_ttl
        now = self._service.loop.time()
        in_use: list[SessionToken] = []
        for id_, session in tuple(self._by_id.items()):
            idle = now - session.used
            if idle < ttl / 2:
                break
            if session.is_busy:
                self._use(id_, session)
                in_use.append(session.token)
            elif idle >= ttl:
                self._forget(id_)
        if in_use:
            self._prolonging = self._service.loop.create_task(self._prolong(in_use))
        if isinstance(self._broker, MemoryBroker):
            self._broker.sweep()
        if self._by_id:
            self._sweep_later()

    async def _prolong(self, tokens: list[SessionToken]) -> None:
        for token in tokens:
            await self._broker.write(self._key(token), {}, self._settings.session_ttl)

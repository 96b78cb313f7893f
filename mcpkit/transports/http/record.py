"""What all processes that may serve a session share of it: its record, at the broker."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from ...broker import Broker
from ...errors import BusyError
from .following import CHANGED, Following
from .token import SessionToken

logger = logging.getLogger("mcpkit")

T = TypeVar("T")

_OPEN: Final = "open"
_ENDED: Final = "ended"


class Store:
    """The records of the sessions of one server.

    Each method that is awaited raises a BusyError where the broker does not answer, which has been logged.

    Args:
        broker: Where they are.
        name: The name of the server.
        ttl: Seconds that a record lives for after it was written.

    Attributes:
        broker: Where they are.
    """

    def __init__(self, broker: Broker, name: str, ttl: float) -> None:
        self.broker = broker
        self._name = name
        self._ttl = ttl

    def key(self, token: SessionToken) -> str:
        """Return the key of a session's record, and its topic."""
        return f"{self._name}/session/{token.id}"

    async def open(self, token: SessionToken, seconds: float) -> Mapping[str, str]:
        """Make the record of a new session, for some seconds, and return it; where that fails, there is none."""
        key = self.key(token)
        try:
            await reach(self.broker.write(key, {_OPEN: "1"}, seconds))
            return await reach(self.broker.read(key))
        except BaseException:
            with suppress(OSError):  # then it ends by itself, unused
                await self.broker.delete(key)
            raise

    async def take_in(self, token: SessionToken) -> Mapping[str, str] | None:
        """Return the record of a session that is not known here, and prolong its life; None when it has ended."""
        record = await reach(self.broker.read(self.key(token)))
        if self.has_ended(token, record):
            return None
        await self.write(token, {})
        return record

    async def write(self, token: SessionToken, changes: Mapping[str, str | None]) -> None:
        """Write to a session's record, and prolong its life."""
        await reach(self.broker.write(self.key(token), changes, self._ttl))

    async def end(self, token: SessionToken) -> None:
        """Have no process find a session any more."""
        if token.home == self.broker.home:
            await reach(self.broker.delete(self.key(token)))
        else:  # its state was elsewhere, so that its absence here says nothing
            left = token.expires - time.time()
            await reach(self.broker.write(self.key(token), {_ENDED: "1"}, left))

    def has_ended(self, token: SessionToken, record: Mapping[str, str]) -> bool:
        """Say whether a session has ended whose record is this."""
        if _ENDED in record or token.expires <= time.time():
            return True
        return _OPEN not in record and token.home == self.broker.home

    async def announce(self, token: SessionToken) -> None:
        """Tell other processes that something has happened to a session; it is logged alone where that fails."""
        try:
            await self.broker.publish(self.key(token), CHANGED)
        except OSError:  # others know from its next request on
            logger.exception("the broker does not answer: others do not hear of what happened to a session")


class Record:
    """The record of one session, as one process has it: read, changed, and followed.

    Args:
        store: Where it is.
        token: What the id of the session says.
        fields: What the store has.
        load: Takes what the store has now, when others have changed it.

    Attributes:
        token: What the id of the session says.
        key: Its key at the broker.
        fields: What the broker had when it was last looked at.
        is_closed: Whether nothing is taken over any more.
        prolonged: When its life was last prolonged here, by the event loop's clock.
    """

    def __init__(
        self,
        store: Store,
        token: SessionToken,
        fields: Mapping[str, str],
        load: Callable[[Mapping[str, str]], None],
    ) -> None:
        self.token = token
        self.key = store.key(token)
        self.fields = self._loaded = fields
        self.prolonged = -math.inf
        self._store = store
        self._load = load
        self._changes: dict[str, str | None] = {}
        self._saves_begun = self._saves_done = 0
        self.is_closed = False

    @property
    def has_changed(self) -> bool:
        """Whether the store lacks what has changed here."""
        return bool(self._changes)

    def change(self, name: str, value: str | None) -> None:
        """Change a field, or remove it; `save` tells the store."""
        self._changes[name] = value

    async def look(self) -> bool:
        """Take over what others have changed, and say whether the session lives.

        What may lack a change of ours, which was on its way meanwhile, is not taken over: the next look does it.

        Raises:
            OSError: The broker does not answer.
        """
        saves = self._saves_done
        fields = await self._store.broker.read(self.key)
        if fields is self._loaded and self.token.expires > time.time():
            return True
        if self._store.has_ended(self.token, fields):
            return False
        self.fields = fields
        if self._saves_begun == saves and not self.is_closed:
            self._loaded = fields
            self._load(fields)
        return True

    async def save(self) -> None:
        """Give the store what has changed here, and tell others that it has.

        Raises:
            BusyError: The broker does not answer.
        """
        changes, self._changes = self._changes, {}
        self._saves_begun += 1
        try:
            await self._store.write(self.token, changes)
        finally:
            self._saves_done += 1
        await self._store.announce(self.token)

    async def save_rest(self) -> None:
        """Save what has changed where nobody can be told that it fails; then it is logged alone."""
        if self._changes:
            with suppress(BusyError):
                await self.save()

    async def prolong(self, now: float) -> None:
        """Tell the store that the session is in use.

        Raises:
            BusyError: The broker does not answer.
        """
        await self._store.write(self.token, {})
        self.prolonged = now

    async def pass_on(self, answer: str) -> None:
        """Give the processes that follow the session what its client has answered.

        Raises:
            BusyError: The broker does not answer.
        """
        await reach(self._store.broker.publish(self.key, answer))

    def follow(self, refresh: Callable[[], Awaitable[None]], answered: Callable[[str], None]) -> Following:
        """Hear what other processes do to the session, until what is returned is closed."""
        return Following(self._store.broker, self.key, refresh, answered)

    def close(self) -> None:
        """Take nothing over any more: the session has ended, or has made room."""
        self.is_closed = True


async def reach(asked: Awaitable[T]) -> T:
    """Await what the broker is asked for.

    Raises:
        BusyError: It does not answer, which has been logged.
    """
    try:
        return await asked
    except OSError:
        raise unreachable() from None


def unreachable() -> BusyError:
    """Log that the broker does not answer, and return what a client is told."""
    logger.exception("the broker does not answer")
    return BusyError("The state of sessions cannot be reached; try again later")

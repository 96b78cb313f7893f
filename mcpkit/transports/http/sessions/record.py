"""What all processes that may serve a session share of it: its record, in the shared store."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ....common.errors import BusyError
from .remote import CHANGED
from .token import SessionToken

if TYPE_CHECKING:
    from ....state.broker import PubSub
    from .remote import Remote

logger = logging.getLogger(__name__)

T = TypeVar("T")

QUESTION = "question:"
"""What a process asks its client, by the id of the question."""

OWNER = "owner"
"""The owner of a session that was opened without authentication; see `owner_of`."""

TOKEN = "token"
"""What was negotiated, signed, where the session id does not hold it."""

_OPEN = "open"
_ENDED = "ended"


class Record:
    """The record of one session, as one process has it.

    Where the shared store does not answer, what is awaited raises a BusyError, and it is logged;
    `look` raises an OSError.

    Args:
        broker: Where it is.
        remote: What tells other processes of it.
        name: The name of the server.
        ttl: Seconds that it lives for after it was written.
        token: What its id says.

    Attributes:
        token: What its id says.
        key: The key of the record in the shared store.
        fields: What the shared store had when it was last looked at.
        changes: What has changed here, and the store is not told of yet: fields to set, and None for those to remove.
        saves: How many times changes have been saved.
        prolonged: When the shared store was last told that the session is in use, by the event loop's clock.
        looked: When the latest look at it began, by the same clock.
        is_stale: Whether something is known to have happened since.
    """

    def __init__(self, broker: PubSub, remote: Remote, name: str, ttl: float, token: SessionToken) -> None:
        self.token = token
        self.key = key_of(name, token.id)
        self.fields: Mapping[str, str] = {}
        self.changes: dict[str, str | None] = {}
        self.prolonged = -math.inf
        self.looked = -math.inf
        self.is_stale = False
        self._broker = broker
        self._remote = remote
        self._loop = asyncio.get_running_loop()
        self._ttl = ttl
        self._loaded: Mapping[str, str] = self.fields
        self._saves_begun = self.saves = 0

    async def open(self, seconds: float, text: str | None) -> Mapping[str, str]:
        """Make the record of a new session, and return it; where that fails, there is none.

        Args:
            seconds: How long it lives, unless a request follows.
            text: The signed token, where the session id does not hold it.
        """
        opened = {_OPEN: "1"} if text is None else {_OPEN: "1", TOKEN: text}
        try:
            await _reach(self._broker.write(self.key, opened, seconds))
            self.fields = self._loaded = await _reach(self._broker.read(self.key))
        except BaseException:
            with suppress(OSError):  # then it ends by itself, unused
                await self._broker.erase(self.key)
            raise
        return self.fields

    async def look(self) -> Mapping[str, str] | None:
        """Read the record again; see `take`.

        Raises:
            OSError: The shared store does not answer.
        """
        saves, began = self.saves, self._loop.time()
        self.is_stale = False
        try:
            fields = await self._broker.read(self.key)
        except BaseException:
            self.is_stale = True
            raise
        self.looked = began
        return self.take(fields, saves)

    def take(self, fields: Mapping[str, str], saves: int) -> Mapping[str, str] | None:
        """Take what the shared store has.

        Args:
            fields: That.
            saves: What `saves` was before it was asked for that.

        Returns:
            What the record says; None when the session has ended. While changes of ours are on their way, it is what
            it was before, as what was read may lack them: the next look sees all.
        """
        if self.changes:  # which the shared store has not been told of yet
            merged = {**fields, **self.changes}
            fields = {name: text for name, text in merged.items() if text is not None}
        token = self.token
        is_old = token.expires <= time.time()
        loaded = self._loaded
        if (fields is loaded or (fields and fields == loaded)) and not is_old:
            return loaded
        if is_old or _ENDED in fields or (_OPEN not in fields and token.home == self._broker.store_id):
            return None
        self.fields = fields
        if self._saves_begun == saves:
            self._loaded = fields
        return self._loaded

    async def save(self) -> None:
        """Give the shared store what has changed here, and tell others that it has; where that fails, it is kept."""
        await _reach(self.try_save())
        await self.announce()

    async def try_save(self) -> None:
        """Give the shared store what has changed here.

        Raises:
            OSError: The shared store does not answer.
        """
        changes, self.changes = self.changes, {}
        self._saves_begun += 1
        try:
            await self._broker.write(self.key, changes, self._ttl)
        except BaseException:
            self.changes = {**changes, **self.changes}
            raise
        else:  # what is read next may be what it was before that
            merged = {**self._loaded, **changes}
            self._loaded = {name: text for name, text in merged.items() if text is not None}
        finally:
            self.saves += 1

    async def prolong(self, now: float) -> None:
        """Tell the shared store that the session is in use."""
        await _reach(self._broker.write(self.key, {}, self._ttl))
        self.prolonged = now

    async def end(self) -> None:
        """Have no process find the session any more."""
        token = self.token
        if token.home == self._broker.store_id:
            await _reach(self._broker.erase(self.key))
        else:  # its state was elsewhere, so that its absence here says nothing
            await _reach(self._broker.write(self.key, {_ENDED: "1"}, token.expires - time.time()))

    async def tell(self, verb: str, text: str = "") -> None:
        """Tell other processes something of the session."""
        await _reach(self._remote.tell(self.token.id, verb, text))

    async def announce(self, verb: str = CHANGED) -> None:
        """Tell other processes what has happened to the session; it is logged alone where that fails."""
        try:
            number = await self._remote.tell(self.token.id, verb)
        except OSError:  # others know from its next request on
            logger.exception(
                "the shared store does not answer: other processes were not notified of a change of a session"
            )
        else:
            await self._remote.told(number)


def key_of(name: str, id_: str) -> str:
    """Return the key of a session's record in the shared store.

    Args:
        name: The name of the server.
        id_: The `SessionToken.id` of the session.
    """
    return f"{name}/session/{id_}"


async def _reach(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except OSError:
        raise unreachable() from None


def unreachable() -> BusyError:
    """Log that the shared store does not answer, and return what a client is told."""
    logger.exception("the shared store does not answer, so the state of a session cannot be read or written")
    return BusyError("The state of sessions is not available. Try again later")

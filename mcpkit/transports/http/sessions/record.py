"""What all processes that may serve a session share of it: its record, in the shared store."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ....errors import BusyError
from .remote import CHANGED
from .token import SessionToken

if TYPE_CHECKING:
    from ....state.broker import Broker

logger = logging.getLogger("mcpkit")

T = TypeVar("T")

_OPEN = "open"
_ENDED = "ended"


class Record:
    """The record of one session, as one process has it.

    Where the shared store does not answer, what is awaited raises a BusyError, and it is logged;
    `look` raises an OSError.

    Args:
        broker: Where it is.
        name: The name of the server.
        ttl: Seconds that it lives for after it was written.
        token: What its id says.

    Attributes:
        token: What its id says.
        key: The key of the record in the shared store, and its topic.
        fields: What the shared store had when it was last looked at.
        changes: What has changed here, and the store is not told of yet: fields to set, and None for those to remove.
        saves: How many times changes have been saved.
        prolonged: When the shared store was last told that the session is in use, by the event loop's clock.
    """

    def __init__(self, broker: Broker, name: str, ttl: float, token: SessionToken) -> None:
        self.token = token
        self.key = f"{name}/session/{token.id}"
        self.fields: Mapping[str, str] = {}
        self.changes: dict[str, str | None] = {}
        self.prolonged = -math.inf
        self._broker = broker
        self._ttl = ttl
        self._loaded: Mapping[str, str] = self.fields
        self._saves_begun = self.saves = 0

    async def open(self, seconds: float) -> Mapping[str, str]:
        """Make the record of a new session, which lives for some seconds, and return it; or none, where that fails."""
        try:
            await _reach(self._broker.write(self.key, {_OPEN: "1"}, seconds))
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
        saves = self.saves
        return self.take(await self._broker.read(self.key), saves)

    def take(self, fields: Mapping[str, str], saves: int) -> Mapping[str, str] | None:
        """Take what the shared store has.

        Args:
            fields: That.
            saves: What `saves` was before it was asked for that.

        Returns:
            What the record says; None when the session has ended. While changes of ours are on their way, it is what
            it was before, as what was read may lack them: the next look sees all.
        """
        token = self.token
        is_old = token.expires <= time.time()
        loaded = self._loaded
        if (fields is loaded or (fields and fields == loaded)) and not is_old:
            return loaded
        if is_old or _ENDED in fields or (_OPEN not in fields and token.home == self._broker.home):
            return None
        self.fields = fields
        if self._saves_begun == saves:
            self._loaded = fields
        return self._loaded

    async def save(self) -> None:
        """Give the shared store what has changed here, and tell others that it has."""
        changes, self.changes = self.changes, {}
        self._saves_begun += 1
        try:
            await self._write(changes)
        finally:
            self.saves += 1
        await self.announce()

    async def prolong(self, now: float) -> None:
        """Tell the shared store that the session is in use."""
        await self._write({})
        self.prolonged = now

    async def end(self) -> None:
        """Have no process find the session any more."""
        token = self.token
        if token.home == self._broker.home:
            await _reach(self._broker.erase(self.key))
        else:  # its state was elsewhere, so that its absence here says nothing
            await _reach(self._broker.write(self.key, {_ENDED: "1"}, token.expires - time.time()))

    async def pass_on(self, answer: str) -> None:
        """Give the processes that follow the session what its client has answered."""
        await _reach(self._broker.publish(self.key, answer))

    async def _write(self, changes: Mapping[str, str | None]) -> None:
        await _reach(self._broker.write(self.key, changes, self._ttl))

    async def announce(self) -> None:
        """Tell other processes that something has happened to the session; it is logged alone where that fails."""
        try:
            await self._broker.publish(self.key, CHANGED)
        except OSError:  # others know from its next request on
            logger.exception(
                "the shared store does not answer: others do not hear of what happened to a session"
            )


async def _reach(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except OSError:
        raise unreachable() from None


def unreachable() -> BusyError:
    """Log that the shared store does not answer, and return what a client is told."""
    logger.exception("the shared store does not answer")
    return BusyError("The state of sessions cannot be reached; try again later")

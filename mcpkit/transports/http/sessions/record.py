"""The record of a session in the shared store, for all processes that may serve it."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ...._utils.exceptions import BusyError
from .remote import CHANGED
from .token import SessionToken

if TYPE_CHECKING:
    from ....storage.base import PubSub
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
    """The record of one session, as known to one process.

    If the shared store does not respond, methods log that and raise a BusyError; `look` raises an OSError.

    Args:
        broker: The shared store.
        remote: Notifies other processes.
        name: Name of the server.
        ttl: Lifetime in seconds after a write.
        token: Content of the session id.

    Attributes:
        token: Content of the session id.
        key: Key of the record in the shared store.
        fields: Fields in the shared store when it was last read.
        changes: Unsaved changes of this process: fields to set, and None for fields to remove.
        saves: Number of saves.
        prolonged: Time when the lifetime was last extended, by the event loop's clock.
        looked: Time when the latest read began, by the same clock.
        is_stale: Whether the record has changed since.
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
        """Create the record of a new session, and return its fields. After a failure, there is no record.

        Args:
            seconds: Lifetime in seconds, unless a request follows.
            text: The signed token, if the session id does not contain it.
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
        """Process the fields in the shared store.

        Args:
            fields: The fields.
            saves: The value of `saves` before they were read.

        Returns:
            The current fields; None if the session has ended. While changes of this process are being saved, the
            previous fields, because the read may lack the changes. The next read has them.
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
        """Write the changes of this process to the shared store, and notify others. On failure, they are kept."""
        await _reach(self.try_save())
        await self.announce()

    async def try_save(self) -> None:
        """Write the changes of this process to the shared store.

        Raises:
            OSError: The shared store does not respond.
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
        """Extend the lifetime of the session in the shared store."""
        await _reach(self._broker.write(self.key, {}, self._ttl))
        self.prolonged = now

    async def end(self) -> None:
        """End the session for all processes."""
        token = self.token
        if token.home == self._broker.store_id:
            await _reach(self._broker.erase(self.key))
        else:  # its state was elsewhere, so that its absence here says nothing
            await _reach(self._broker.write(self.key, {_ENDED: "1"}, token.expires - time.time()))

    async def tell(self, verb: str, text: str = "") -> None:
        """Send a message about the session to other processes."""
        await _reach(self._remote.tell(self.token.id, verb, text))

    async def announce(self, verb: str = CHANGED) -> None:
        """Notify other processes of a change of the session. A failure is only logged."""
        try:
            number = await self._remote.tell(self.token.id, verb)
        except OSError:  # others know from its next request on
            logger.exception(
                "the shared store does not answer: other processes were not notified of a change of a session. "
                "They notice it at its next request"
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
    """Log that the shared store does not respond, and return the error for the client."""
    logger.exception(
        "the shared store does not answer, so the state of a session cannot be read or written. The "
        "client must repeat its request later"
    )
    return BusyError("The state of sessions is not available. Try again later")

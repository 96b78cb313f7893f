"""Revocations of principals, which invalidate access tokens in all processes that share a storage."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from .._utils.concurrency import Listeners
from .._utils.exceptions import ProtocolError
from ..protocol import jsonrpc
from .owner import digest_of
from .principal import Principal

if TYPE_CHECKING:
    from ..storage.base import Storage

logger = logging.getLogger(__name__)

KEPT_FOR = 30 * 24 * 3600.0
"""Seconds for which a revocation is stored by default: longer than the lifetime of access tokens."""

MOST_HEARD = 10_000
"""Number of revocations that a process caches; it reads older ones from the storage."""

_AGAIN = 1.0
"""Seconds until the storage is read again after a failure."""


class _Heard(NamedTuple):
    at: float
    until: float


class Revocations:
    """The revocations of one server, stored under a digest of the principal's id, and published to all processes.

    The verification of a token checks them, so processes that start later know them as well. Running processes receive
    new revocations and end sessions and requests. If messages were missed, they read all stored revocations. All
    methods except `covers`, `latest` and `listen` may be called in any thread.

    Args:
        shared: Storage of the server.
        name: Name of the server.
        clock: Returns the time in Unix seconds.
    """

    def __init__(self, shared: Storage, name: str, clock: Callable[[], float] = time.time) -> None:
        self._shared = shared
        self._name = name
        self._clock = clock
        self._heard: dict[str, _Heard] = {}  # by digest
        self._listeners: Listeners[[Revocation]] = Listeners()

    async def revoke(self, id_: str, seconds: float | None = None) -> None:
        """Revoke a principal: in this process at once, in others as soon as they receive the message.

        Args:
            id_: Id of the principal.
            seconds: Time for which the revocation is stored; None for 30 days.

        Raises:
            OSError: The storage does not answer. Other processes may not know the revocation.
        """
        digest, at = digest_of(id_), self._clock()
        seconds = KEPT_FOR if seconds is None else seconds
        told = jsonrpc.encode({"who": digest, "at": at, "until": at + seconds})
        key, is_kept = self._beginning + digest, None
        while is_kept is None:
            before = await self._shared.get(key)
            version = None if before is None else before.version
            is_kept = await self._shared.put(key, told, version=version, ttl=seconds)
        self._take(digest, _Heard(at, at + seconds))
        await self._shared.publish(self._topic, told.decode())

    async def latest(self, id_: str) -> float:
        """Return the time of a principal's latest revocation, in Unix seconds; minus infinity if there is none.

        Raises:
            OSError: The storage does not answer.
        """
        digest = digest_of(id_)
        stored = await self._shared.get(self._beginning + digest)
        heard = self._heard.get(digest)  # last, as it may come meanwhile
        kept = -math.inf if stored is None else _read(stored.value)[1].at
        return kept if heard is None or heard.until <= self._clock() else max(kept, heard.at)

    async def covers(self, principal: Principal, issued: float | None) -> bool:
        """Return True if an access token was issued before its principal was revoked.

        Args:
            principal: Principal of the token.
            issued: Time of issue in Unix seconds; None if unknown, which counts as earlier.

        Raises:
            OSError: The storage does not answer.
        """
        if principal.id is None:
            return False
        at = await self.latest(principal.id)
        return at > -math.inf and (issued is None or issued <= at)

    def has_heard(self, principal: Principal, issued: float | None) -> bool:
        """Return the same from the revocations that this process has received, without the storage."""
        if not self._heard or principal.id is None:
            return False
        heard = self._heard.get(digest_of(principal.id))
        return heard is not None and heard.until > self._clock() and (issued is None or issued <= heard.at)

    def listen(self, hear: Callable[[Revocation], None]) -> Callable[[], None]:
        """Call a function with each revocation from now on, of any process, in any thread.

        Args:
            hear: Receives each revocation.

        Returns:
            A function that ends it.
        """
        loop = asyncio.get_running_loop()
        looking: set[asyncio.Task[None]] = set()

        def look() -> None:
            task = loop.create_task(self._look_at_all())
            looking.add(task)
            task.add_done_callback(looking.discard)

        def missed() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(look)

        ends = (self._listeners.add(hear), self._shared.subscribe(self._topic, self._told, missed))

        def end() -> None:
            for each in ends:
                each()
            for task in looking:
                task.cancel()

        return end

    async def _look_at_all(self) -> None:
        """Take note of all that are kept."""
        while True:
            try:
                async for _, stored in self._shared.items(self._beginning):
                    self._take(*_read(stored.value))
            except OSError:
                logger.exception(
                    "the shared store does not answer: the list of revoked users could not be read; "
                    "mcpkit tries again"
                )
                await asyncio.sleep(_AGAIN)
            else:
                return

    def _told(self, message: str) -> None:
        try:
            digest, heard = _read(message.encode())
        except (ProtocolError, TypeError, KeyError, ValueError):
            logger.warning(
                "the shared store delivered a message that is not a revocation; it is ignored. Check "
                "that no other program writes to the store: %.200r",
                message,
            )
            return
        self._take(digest, heard)

    def _take(self, digest: str, heard: _Heard) -> None:
        known = self._heard.get(digest)
        if known is not None and known.at >= heard.at:
            return
        self._heard.pop(digest, None)
        while len(self._heard) >= MOST_HEARD:
            self._heard.pop(next(iter(self._heard)), None)
        self._heard[digest] = heard
        self._listeners.tell(Revocation(digest, heard.at))

    @property
    def _topic(self) -> str:
        return f"{self._name}/revoked"

    @property
    def _beginning(self) -> str:
        return f"{self._topic}/"


class Revocation(NamedTuple):
    """Revocation of a principal.

    Attributes:
        digest: Digest of the principal's id; see `digest_of`.
        at: Time of the revocation, in Unix seconds.
    """

    digest: str
    at: float

    def means(self, principal: Principal) -> bool:
        """Return True if it concerns a principal, with any client."""
        return principal.id is not None and digest_of(principal.id) == self.digest

    def covers(self, principal: Principal, issued: float | None) -> bool:
        """Return True if it concerns a principal's token that was issued at that time; None counts as earlier."""
        return (issued is None or issued <= self.at) and self.means(principal)


def _read(told: bytes) -> tuple[str, _Heard]:
    """Return the digest, the time and the expiry of a stored revocation."""
    read = jsonrpc.decode(told)
    return str(read["who"]), _Heard(float(read["at"]), float(read["until"]))

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
from .principals_and_scopes import Principal, digest_of

if TYPE_CHECKING:
    from ..storage.base import Storage

logger = logging.getLogger(__name__)

DEFAULT_TTL = 30 * 24 * 3600.0  # seconds: longer than the lifetime of access tokens
MAX_CACHED_REVOCATIONS = 10_000  # in each process, which reads older ones from the storage
_RETRY_DELAY = 1.0  # seconds until the storage is read again after a failure


class Revocation(NamedTuple):
    """Revocation of a principal.

    Attributes:
        digest: Digest of the principal's id; see `digest_of`.
        at: Time of the revocation, in Unix seconds.
        until: Time until which it is stored, in Unix seconds.
    """

    digest: str
    at: float
    until: float

    def means(self, principal: Principal) -> bool:
        """Return True if it concerns a principal, with any client."""
        return principal.id is not None and digest_of(principal.id) == self.digest

    def covers(self, principal: Principal, issued: float | None) -> bool:
        """Return True if it concerns a principal's token that was issued at that time; None counts as earlier."""
        return (issued is None or issued <= self.at) and self.means(principal)


class Revocations:
    """The revocations of one server, stored under a digest of the principal's id, and published to all processes.

    The verification of a token checks them, so processes that start later know them as well. Running processes receive
    new revocations and end sessions and requests. If messages were missed, they read all stored revocations. All
    methods except `covers`, `latest` and `listen` may be called in any thread.

    Args:
        storage: Storage of the server.
        name: Name of the server.
        clock: Returns the time in Unix seconds.
    """

    def __init__(self, storage: Storage, name: str, clock: Callable[[], float] = time.time) -> None:
        self._storage = storage
        self._topic = f"{name}/revoked"
        self._clock = clock
        self._cache: dict[str, Revocation] = {}  # by digest
        self._listeners: Listeners[[Revocation]] = Listeners()

    async def revoke(self, id_: str, seconds: float | None = None) -> None:
        """Revoke a principal: in this process at once, in others as soon as they receive the message.

        Args:
            id_: Id of the principal.
            seconds: Time for which the revocation is stored; None for 30 days.

        Raises:
            OSError: The storage does not answer. Other processes may not know the revocation.
        """
        seconds = DEFAULT_TTL if seconds is None else seconds
        now = self._clock()
        revocation = Revocation(digest_of(id_), now, now + seconds)
        data = jsonrpc.encode({"who": revocation.digest, "at": revocation.at, "until": revocation.until})
        key, version = f"{self._topic}/{revocation.digest}", None
        while version is None:
            before = await self._storage.get(key)
            before_version = None if before is None else before.version
            version = await self._storage.put(key, data, version=before_version, ttl=seconds)
        self._add(revocation)
        await self._storage.publish(self._topic, data.decode())

    async def latest(self, id_: str) -> float:
        """Return the time of a principal's latest revocation, in Unix seconds; minus infinity if there is none.

        Raises:
            OSError: The storage does not answer.
        """
        digest = digest_of(id_)
        stored = await self._storage.get(f"{self._topic}/{digest}")
        stored_at = -math.inf if stored is None else _read(stored.value).at
        cached = self._cache.get(digest)  # after the storage, because a message may arrive meanwhile
        return stored_at if cached is None or cached.until <= self._clock() else max(stored_at, cached.at)

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

    def covers_cached(self, principal: Principal, issued: float | None) -> bool:
        """Return the same from the revocations that this process has received, without the storage."""
        if not self._cache or principal.id is None:
            return False
        cached = self._cache.get(digest_of(principal.id))
        return cached is not None and cached.until > self._clock() and (issued is None or issued <= cached.at)

    def listen(self, listener: Callable[[Revocation], None]) -> Callable[[], None]:
        """Call a function with each revocation from now on, of any process, in any thread.

        Args:
            listener: Receives each revocation.

        Returns:
            A function that ends it.
        """
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()

        def read_all() -> None:
            task = loop.create_task(self._read_all())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        def missed() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(read_all)

        remove = self._listeners.add(listener)
        unsubscribe = self._storage.subscribe(self._topic, self._receive, missed)

        def end() -> None:
            remove()
            unsubscribe()
            for task in tasks:
                task.cancel()

        return end

    async def _read_all(self) -> None:
        """Read all stored revocations, after messages were missed."""
        while True:
            try:
                async for _, stored in self._storage.items(f"{self._topic}/"):
                    self._add(_read(stored.value))
            except OSError:
                logger.exception(
                    "the shared store does not answer: the list of revoked users could not be read; "
                    "mcpkit tries again"
                )
                await asyncio.sleep(_RETRY_DELAY)
            else:
                return

    def _receive(self, message: str) -> None:
        try:
            revocation = _read(message.encode())
        except (ProtocolError, TypeError, KeyError, ValueError):
            logger.warning(
                "the shared store delivered a message that is not a revocation; it is ignored. Check "
                "that no other program writes to the store: %.200r",
                message,
            )
        else:
            self._add(revocation)

    def _add(self, revocation: Revocation) -> None:
        known = self._cache.get(revocation.digest)
        if known is not None and known.at >= revocation.at:
            return
        self._cache.pop(revocation.digest, None)  # the new one comes last, as the newest
        while len(self._cache) >= MAX_CACHED_REVOCATIONS:
            self._cache.pop(next(iter(self._cache)), None)
        self._cache[revocation.digest] = revocation
        self._listeners.notify(revocation)


def _read(data: bytes) -> Revocation:
    record = jsonrpc.decode(data)
    return Revocation(str(record["who"]), float(record["at"]), float(record["until"]))

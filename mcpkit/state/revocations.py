"""Who has been sent away: their access tokens up to then are worth nothing, in all processes that share a store."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ..common.errors import ProtocolError
from ..common.listeners import Listeners
from ..protocol import jsonrpc
from .owner import digest_of
from .principal import Principal

if TYPE_CHECKING:
    from .shared import Storage

logger = logging.getLogger(__name__)

KEPT_FOR = 30 * 24 * 3600.0
"""Seconds for which a revocation is kept by default: longer than access tokens live."""

MOST_HEARD = 10_000
"""Revocations that a process knows without asking the store; of more, the oldest it asks for."""

_AGAIN = 1.0
"""Seconds after which a store that has not answered is asked again."""


class _Heard(NamedTuple):
    at: float
    until: float


class Revocations:
    """The revocations of one server: kept in the store, under a digest of who it is, and told to all processes.

    Whether a token is covered is asked when it is verified, so that processes that start later know as well; those that
    run hear of a revocation, and end what goes on; where messages were lost, they look at all that are kept. All but
    `covers`, `latest` and `listen` may be called in any thread.

    Args:
        shared: Where they are kept and told.
        name: The server's name.
        clock: The time, in Unix seconds.
    """

    def __init__(self, shared: Storage, name: str, clock: Callable[[], float] = time.time) -> None:
        self._shared = shared
        self._name = name
        self._clock = clock
        self._heard: dict[str, _Heard] = {}  # by digest
        self._listeners: Listeners[[Revocation]] = Listeners()

    async def revoke(self, id_: str, seconds: float | None = None) -> None:
        """Send a principal away, here at once, and elsewhere as soon as that is heard.

        Args:
            id_: Their id.
            seconds: How long it is kept; None for 30 days.

        Raises:
            OSError: The store does not answer: others may not have heard of it.
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
        """Return when a principal was sent away for the last time, in Unix seconds; minus infinity where never.

        Raises:
            OSError: The store does not answer.
        """
        digest = digest_of(id_)
        stored = await self._shared.get(self._beginning + digest)
        heard = self._heard.get(digest)  # last, as it may come meanwhile
        kept = -math.inf if stored is None else _read(stored.value)[1].at
        return kept if heard is None or heard.until <= self._clock() else max(kept, heard.at)

    async def covers(self, principal: Principal, issued: float | None) -> bool:
        """Say whether an access token was issued before its principal was sent away.

        Args:
            principal: Whose token it is.
            issued: When it was issued, in Unix seconds; where nobody knows, it may have been before.

        Raises:
            OSError: The store does not answer.
        """
        if principal.id is None:
            return False
        at = await self.latest(principal.id)
        return at > -math.inf and (issued is None or issued <= at)

    def has_heard(self, principal: Principal, issued: float | None) -> bool:
        """Say the same, as far as it has been heard here while the process runs."""
        if not self._heard or principal.id is None:
            return False
        heard = self._heard.get(digest_of(principal.id))
        return heard is not None and heard.until > self._clock() and (issued is None or issued <= heard.at)

    def listen(self, hear: Callable[[Revocation], None]) -> Callable[[], None]:
        """Call a function with each revocation from now on, here or elsewhere, in any thread.

        Returns:
            A function that ends that.
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
                "the shared store delivered a message that is not a revocation; it is ignored: %.200r",
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
    """Somebody has been sent away.

    Attributes:
        digest: What stands for who it is; see `digest_of`.
        at: When, in Unix seconds.
    """

    digest: str
    at: float

    def means(self, principal: Principal) -> bool:
        """Say whether it is about a principal, by whichever client."""
        return principal.id is not None and digest_of(principal.id) == self.digest

    def covers(self, principal: Principal, issued: float | None) -> bool:
        """Say whether it is about a token of theirs that was issued then; where nobody knows when, it is."""
        return (issued is None or issued <= self.at) and self.means(principal)


def _read(told: bytes) -> tuple[str, _Heard]:
    """Return whom a revocation is about, and when it was and ends."""
    read = jsonrpc.decode(told)
    return str(read["who"]), _Heard(float(read["at"]), float(read["until"]))

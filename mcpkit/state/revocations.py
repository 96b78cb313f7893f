"""Who has been sent away: their access tokens up to then are worth nothing, in all processes that share a store."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..common.listeners import Listeners
from ..errors import ProtocolError
from ..protocol import jsonrpc
from .owner import digest_of
from .principal import Principal

if TYPE_CHECKING:
    from .broker import Broker

logger = logging.getLogger("mcpkit")

KEPT_FOR = 30 * 24 * 3600.0
"""Seconds for which a revocation is kept by default: longer than access tokens live."""

MOST_HEARD = 10_000
"""Revocations that a process knows without asking the store; of more, the oldest it asks for."""

_AT = "at"


class _Heard(NamedTuple):
    at: float
    until: float


class Revocations:
    """The revocations of one server: kept in the store, under a digest of who it is, and told to all processes.

    Whether a token is covered is asked when it is verified, so that processes that start later know as well; those that
    run hear of a revocation, and end what goes on. All but `covers` and `latest` may be called in any thread.

    Args:
        broker: Where they are kept and told.
        name: The server's name.
        clock: The time, in Unix seconds.
    """

    def __init__(self, broker: Broker, name: str, clock: Callable[[], float] = time.time) -> None:
        self._broker = broker
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
        await self._broker.write(self._key(digest), {_AT: repr(at)}, seconds)
        self._take(digest, _Heard(at, at + seconds))
        told = {"who": digest, "at": at, "until": at + seconds}
        await self._broker.publish(self._topic, jsonrpc.encode(told).decode())

    async def latest(self, id_: str) -> float:
        """Return when a principal was sent away for the last time, in Unix seconds; minus infinity where never.

        Raises:
            OSError: The store does not answer.
        """
        digest = digest_of(id_)
        fields = await self._broker.read(self._key(digest))
        heard = self._heard.get(digest)  # last, as it may come meanwhile
        kept = float(fields.get(_AT, -math.inf))
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
        ends = (self._listeners.add(hear), self._broker.subscribe(self._topic, self._told))

        def end() -> None:
            for each in ends:
                each()

        return end

    def _told(self, message: str) -> None:
        try:
            told = jsonrpc.decode(message.encode())
            digest, heard = str(told["who"]), _Heard(float(told["at"]), float(told["until"]))
        except (ProtocolError, TypeError, KeyError, ValueError):
            logger.warning("the shared store brought something else than a revocation: %.200r", message)
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

    def _key(self, digest: str) -> str:
        return f"{self._topic}/{digest}"


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

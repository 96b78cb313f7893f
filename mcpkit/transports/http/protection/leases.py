"""Lifetime of listening streams: they end with the access token of their request."""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from ....identity.principals_and_scopes import owner_of
from ..exchange import Exchange, RefusedError

if TYPE_CHECKING:
    from ....auth.verifier import AccessToken
    from ....identity.revocation import Revocation
    from ..challenger import Challenger

logger = logging.getLogger(__name__)

GRACE = 60.0
"""Seconds for which a stream continues while its token cannot be verified again."""

AGAIN = 5.0
"""Seconds after which a failed verification is repeated."""

_AT_A_TIME = 16
"""Maximum concurrent verifications."""

_LONGEST = 3600.0
"""Maximum seconds of the timer, because clocks can be adjusted."""


class Leases:
    """Listening streams of one event loop, by access token.

    A stream ends when its token expires. A token with limited freshness is verified again while a stream is open, once
    for all its streams. All tokens share one timer.

    Args:
        clock: Returns the Unix time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._tokens: dict[tuple[Challenger, bytes], _Token] = {}
        self._wakes: list[tuple[float, int, _Token]] = []  # a heap: when to look at a token
        self._count = count()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def hold(self, exchange: Exchange, end: Callable[[], None]) -> Callable[[], None]:
        """End a stream when the access token of its request expires or is revoked.

        Args:
            exchange: The request, which has a token.
            end: Ends the stream.

        Returns:
            A function to call after the stream has ended.
        """
        endpoint, grant = exchange.challenger, exchange.grant
        assert endpoint is not None, "the request must have an access token"
        assert grant is not None
        key = endpoint, _digest(exchange.request_headers)
        token = self._tokens.get(key)
        if token is None:
            token = self._tokens[key] = _Token(endpoint, exchange.request_headers, grant)
            self._wake_for(token)
        elif grant is not token.grant:
            token.grant = grant
            self._wake_for(token)
        held = next(self._count)
        token.streams[held] = end

        def let_go() -> None:
            token.streams.pop(held, None)
            if not token.streams and token.wakes == math.inf:  # else it goes when its time comes
                self._forget(token)

        return let_go

    def revoke(self, revocation: Revocation) -> None:
        """End the streams of a revoked principal."""
        for token in tuple(self._tokens.values()):
            if revocation.covers(token.grant.principal, token.grant.issued):
                token.end()

    def close(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _forget(self, token: _Token) -> None:
        key = token.endpoint, _digest(token.headers)
        if self._tokens.get(key) is token:
            del self._tokens[key]

    def _wake_for(self, token: _Token) -> None:
        self._wake(token, (token.expires, token.fresh_until))

    def _wake(self, token: _Token, times: Iterable[float]) -> None:
        for when in times:
            if when < math.inf:
                heapq.heappush(self._wakes, (when, next(self._count), token))
        if self._wakes:
            delay = min(max(self._wakes[0][0] - self._clock(), 0), _LONGEST)
            when = self._loop.time() + delay
            if self._timer is None or self._timer.when() > when:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        """End streams with an expired token, and verify stale tokens again."""
        self._timer = None
        now, stale = self._clock(), list[_Token]()
        while self._wakes and self._wakes[0][0] <= now:
            token = heapq.heappop(self._wakes)[2]
            if not token.streams:
                self._forget(token)
            elif token.expires <= now:
                token.end()
            elif token.fresh_until <= now and not token.is_asked:
                token.is_asked = True
                stale.append(token)
        if stale:
            task = self._loop.create_task(self._ask_all(stale))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._wakes:
            self._wake(self._wakes[0][2], ())

    async def _ask_all(self, tokens: list[_Token]) -> None:
        for start in range(0, len(tokens), _AT_A_TIME):
            await asyncio.gather(*map(self._ask, tokens[start : start + _AT_A_TIME]))

    async def _ask(self, token: _Token) -> None:
        """Verify a token again. Its streams end if it is invalid or changed, or after the grace period."""
        try:
            grant = await token.endpoint.admit(token.headers, None, may_be_anybody=False)
        except RefusedError as error:
            now = self._clock()
            if error.status in {401, 403, 400}:
                token.end()
            elif now < token.fresh_until + GRACE:
                self._wake(token, (now + AGAIN,))
            else:
                logger.warning(
                    "closing event streams, as their access token could not be verified again within "
                    "%d s. Clients can open them again later",
                    GRACE,
                )
                token.end()
        else:
            before, now_ = token.grant.principal, grant.principal
            if owner_of(before) != owner_of(now_) or before.scopes != now_.scopes:
                token.end()
            token.grant = grant
            self._wake_for(token)
        finally:
            token.is_asked = False


class _Token:
    """An access token, and the streams opened with it."""

    __slots__ = ("endpoint", "grant", "headers", "is_asked", "streams")

    def __init__(self, endpoint: Challenger, headers: Mapping[bytes, bytes], grant: AccessToken) -> None:
        self.endpoint = endpoint
        self.headers = headers
        self.grant = grant
        self.streams: dict[int, Callable[[], None]] = {}
        self.is_asked = False

    @property
    def expires(self) -> float:
        return math.inf if self.grant.expires is None else self.grant.expires

    @property
    def fresh_until(self) -> float:
        return math.inf if self.grant.fresh_until is None else self.grant.fresh_until

    @property
    def wakes(self) -> float:
        return min(self.expires, self.fresh_until)

    def end(self) -> None:
        for end in tuple(self.streams.values()):
            with suppress(Exception):  # one that fails keeps no other one open
                end()


def _digest(headers: Mapping[bytes, bytes]) -> bytes:
    return hashlib.sha256(headers[b"authorization"]).digest()

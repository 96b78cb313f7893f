"""So many requests a second for each client, and no more."""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from time import monotonic
from typing import Any

from ..context import Context
from ..errors import BusyError
from ..middleware import UNWRAPPED, CallNext, Request, Result
from ..protocol.revisions import METHODS

RUNNING_CODE = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
"""The requests of the core protocol that run code of the author's."""


class RateLimitError(BusyError):
    """A client has asked too much (-32603, with `data.retryAfterSeconds`; over HTTP 503 with `Retry-After`).

    Args:
        rate: How many requests a second there may be.
        seconds: After how many seconds the next one is taken.
    """

    def __init__(self, rate: float, seconds: float) -> None:
        wait = max(1, math.ceil(seconds))
        often = f"{rate:g} a second" if rate >= 1 else f"one every {1 / rate:g} seconds"
        unit = "second" if wait == 1 else "seconds"
        super().__init__(
            f"Rate limit exceeded ({often}); try again in {wait} {unit}",
            retry_after=wait,
        )
        self.data = {"retryAfterSeconds": wait}


class RateLimit:
    """Refuses a client that asks too often: a token bucket for each (server/tools, "Security Considerations").

    A bucket holds `burst` requests and fills up again at `rate`. Each process counts for itself.

    Args:
        rate: Requests a second in the long run; 0.1 is one every ten seconds.
        burst: Requests that may come at once.
        key: Says who asks: of the same key, all have one bucket. By default that is the principal, where nobody has
            been authenticated the session, and where there is none the address that the ASGI server names, unless it
            is one of this machine, where a proxy may stand: of all those, and of what is no HTTP, clients share one.
            Of a server with `auth=` it is the address even in a session, for whoever has not said who they are.
        methods: Which requests of the core protocol count; when None those that run the author's code, and
            those of methods outside it.
        most_clients: Buckets that are kept. Beyond that, the one that was not used for the longest time is
            forgotten, and its client begins with a full one.

    Raises:
        ValueError: One of the numbers is out of range.
    """

    def __init__(
        self,
        rate: float,
        *,
        burst: int = 10,
        key: Callable[[Context[Any]], Hashable] | None = None,
        methods: Collection[str] | None = None,
        most_clients: int = 10_000,
    ) -> None:
        if not 0 < rate < float("inf"):
            raise ValueError(f"rate must be a number of requests a second above 0, got {rate!r}")
        if burst < 1:
            raise ValueError(f"burst must be at least 1, got {burst!r}")
        if most_clients < 1:
            raise ValueError(f"most_clients must be at least 1, got {most_clients!r}")
        counted = [method for method in METHODS if method not in UNWRAPPED]
        if unknown := set(methods or ()).difference(counted):
            raise ValueError(
                f"methods: {min(unknown)!r} cannot be counted; write a list of {', '.join(counted)}"
            )
        self.rate = rate
        self.burst = burst
        self._key = key if key is not None else _client
        self._methods = RUNNING_CODE if methods is None else frozenset(methods)
        self._counts_own = methods is None
        self._most = most_clients
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Pass the request on, unless there are too many.

        Raises:
            RateLimitError: There are.
        """
        if request.method in self._methods or (self._counts_own and _is_own(request)):
            self._take(self._key(request.ctx))
        return await call_next(request)

    def _take(self, key: Hashable) -> None:
        """Take one token out of a bucket, which is known by the time at which it will be full."""
        now = monotonic()
        full_at = max(self._full_at.pop(key, now), now) + 1 / self.rate
        wait = full_at - now - self.burst / self.rate
        is_refused = wait > 1e-9 / self.rate  # what floating point leaves over
        self._full_at[key] = full_at - 1 / self.rate if is_refused else full_at
        if len(self._full_at) > self._most:
            self._full_at.popitem(last=False)
        if is_refused:
            raise RateLimitError(self.rate, wait)


def _is_own(request: Request) -> bool:
    """Say whether there is a method of the author's, for who asks: one that is hidden must not count, as none would."""
    return request.ctx.server.methods.shown(request.method, request.ctx.principal) is not None


def _client(ctx: Context[Any]) -> Hashable:
    """Return the principal, or what stands for the session without keeping it, or where the client is."""
    if ctx.principal.id is not None:
        return ctx.principal.id
    if (
        ctx.call.runtime.is_protected
    ):  # a new session costs nothing there, while others have said who they are
        return ctx.call.channel.caller
    session = ctx.call.envelope
    # Over HTTP there is none yet at `initialize`, and none at all with `stateless=True`: what stands for it is new, or
    # shared.
    return weakref.ref(session) if session.has_session else ctx.call.channel.caller

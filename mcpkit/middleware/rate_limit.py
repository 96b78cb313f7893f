"""Rate limits for each client."""

from __future__ import annotations

import hashlib
import logging
import math
import weakref
from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Any, TypeGuard

from .._utils.exceptions import BusyError
from ..context import Context
from ..protocol.revisions import METHODS
from ..requests.call import call_of
from .base import UNWRAPPED, CallNext, Middlewares, Request, Result
from .buckets import Buckets

if TYPE_CHECKING:
    from ..requests.call import Runtime
    from .shared_buckets import SharedBuckets

logger = logging.getLogger(__name__)

RUNNING_CODE = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
"""The requests of the core protocol that run code of the author's."""


class RateLimitError(BusyError):
    """The client exceeded the rate limit (-32603 with `data.retryAfterSeconds`; over HTTP 503 with `Retry-After`).

    Args:
        rate: Allowed requests per second.
        seconds: Seconds until the next request is accepted.
    """

    def __init__(self, rate: float, seconds: float) -> None:
        wait = max(1, math.ceil(seconds))
        often = f"{rate:g} a second" if rate >= 1 else f"one every {1 / rate:g} seconds"
        unit = "second" if wait == 1 else "seconds"
        super().__init__(
            f"Rate limit exceeded ({often}). Try again in {wait} {unit}",
            retry_after=wait,
        )
        self.data = {"retryAfterSeconds": wait}


class RateLimit:
    """Limits the rate of requests with a token bucket for each client (server/tools, "Security Considerations").

    A bucket holds `burst` requests and is refilled at `rate`. Processes with a common `Server(storage=)` share the
    buckets. While the storage does not answer, each process allows its share. Without a common storage each process
    counts separately.

    Args:
        rate: Requests per second; 0.1 is one every ten seconds.
        burst: Requests that may arrive at once.
        key: Returns the key of the bucket for a request. By default it is the principal; without one the session; and
            without a session the client's IP address. Requests from loopback addresses, which may come through a
            proxy, and requests over stdio share one bucket each. On a server with `auth=`, requests without a
            principal are counted by address even in a session. For common buckets, the key must be a string, a number,
            or a tuple of these.
        methods: Methods of the core protocol that count; None for those that run the author's code, and custom
            methods.
        max_clients: Maximum number of buckets in a process; beyond it, the least recently used one is dropped, and its
            client begins with a full one. A common storage keeps each bucket until it is full.

    Raises:
        ValueError: A number is out of range, or a method is unknown.

    Attributes:
        methods: Methods of the core protocol that count.
    """

    def __init__(
        self,
        rate: float,
        *,
        burst: int = 10,
        key: Callable[[Context[Any]], Hashable] | None = None,
        methods: Collection[str] | None = None,
        max_clients: int = 10_000,
    ) -> None:
        if not 0 < rate < float("inf"):
            raise ValueError(f"rate must be a finite number of requests per second above 0, got {rate!r}")
        if burst < 1:
            raise ValueError(f"burst must be at least 1, got {burst!r}")
        if max_clients < 1:
            raise ValueError(f"max_clients must be at least 1, got {max_clients!r}")
        counted = [method for method in METHODS if method not in UNWRAPPED]
        if unknown := set(methods or ()).difference(counted):
            raise ValueError(
                f"methods: {min(unknown)!r} is not a method that can be limited. Supported are "
                f"{', '.join(counted)}"
            )
        self.rate = rate
        self.burst = burst
        self._key = key if key is not None else _client
        self.methods = RUNNING_CODE if methods is None else frozenset(methods)
        self._counts_own = methods is None
        self._most = max_clients
        self._here = Buckets(rate, burst, max_clients)
        self._shared: weakref.WeakKeyDictionary[Runtime, SharedBuckets] = weakref.WeakKeyDictionary()
        self._has_warned = False

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Process the request, if the client has a token left.

        Raises:
            RateLimitError: The client has sent too many requests.
        """
        if request.ctx.task is not None:  # which was counted when it was made
            return await call_next(request)
        if request.method in self.methods or (self._counts_own and _is_own(request)):
            wait = await self._take(request.ctx)
            if wait:
                raise RateLimitError(self.rate, wait)
        return await call_next(request)

    async def _take(self, ctx: Context[Any]) -> float:
        """Take a token of the client and return 0.0, or return the seconds until there is one."""
        key = self._key(ctx)
        runtime = call_of(ctx).runtime
        if runtime.is_alone:
            return self._here.take(key)
        client = _text(key)
        if client is None:
            if self._key is not _client and not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "RateLimit(key=) returned %r, which processes cannot share, so each process limits "
                    "this client separately. Return a string, a number or a tuple of these",
                    key,
                )
            return self._here.take(key)
        return await self._buckets(runtime).take(client, runtime.replicas)

    def _buckets(self, runtime: Runtime) -> SharedBuckets:
        """Return the common buckets of all processes of a server."""
        buckets = self._shared.get(runtime)
        if buckets is None:
            from .shared_buckets import SharedBuckets

            buckets = self._shared[runtime] = SharedBuckets(
                runtime.storage,
                f"{runtime.name}/limit/{self._name_at(runtime.server)}/",
                rate=self.rate,
                burst=self.burst,
                most=self._most,
            )
        return buckets

    def _name_at(self, server: object) -> str:
        """Return the name of this limit, which is the same in all processes of a server."""
        middleware = getattr(server, "middleware", None)
        hooks = middleware.hooks if isinstance(middleware, Middlewares) else ()
        about = self.rate, self.burst, sorted(self.methods)
        alike = [
            each
            for _, each in hooks
            if isinstance(each, RateLimit) and (each.rate, each.burst, sorted(each.methods)) == about
        ]
        turn = alike.index(self) if self in alike else 0
        return hashlib.sha256(repr((about, turn)).encode()).hexdigest()[:16]


def _text(key: object) -> str | None:
    """Return a key in a form that all processes share; None if the key is only valid in this one."""
    if _is_tuple(key):
        parts = [_text(each) for each in key]
        return None if None in parts else f"({','.join(map(str, parts))})"
    return repr(key) if key is None or isinstance(key, (bool, int, float, str, bytes)) else None


def _is_tuple(key: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(key, tuple)


def _is_own(request: Request) -> bool:
    """Return whether the request is for a custom method that the principal can see."""
    return request.ctx.server.catalog.methods.shown(request.method, request.ctx.principal) is not None


_PIPE = object()
"""The key of all stdio clients of one process, which have no other identity."""


def _client(ctx: Context[Any]) -> Hashable:
    """Return the principal's id, else a key of the session, else the client's address."""
    if ctx.principal.id is not None:
        return ctx.principal.id
    channel, session = call_of(ctx).channel, call_of(ctx).envelope
    # On a protected server a new session costs nothing, while others have said who they are. Over HTTP there is none
    # yet at `initialize`, and none at all with `stateless=True`: what stands for it is new, or shared.
    if session.has_session and not call_of(ctx).runtime.is_protected:
        return channel.request_headers.get(b"mcp-session-id") or weakref.ref(session)
    return channel.caller if channel.request_headers else _PIPE

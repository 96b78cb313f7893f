"""So many requests a second for each client, and no more."""

from __future__ import annotations

import hashlib
import logging
import math
import weakref
from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Any, TypeGuard

from ..calls.call import call_of
from ..common.errors import BusyError
from ..components.context import Context
from ..protocol.revisions import METHODS
from .base import UNWRAPPED, CallNext, Middlewares, Request, Result
from .buckets import Buckets

if TYPE_CHECKING:
    from ..calls.runtime import Runtime
    from .shared_buckets import SharedBuckets

logger = logging.getLogger(__name__)

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
            f"Rate limit exceeded ({often}). Try again in {wait} {unit}",
            retry_after=wait,
        )
        self.data = {"retryAfterSeconds": wait}


class RateLimit:
    """Refuses a client that asks too often: a token bucket for each (server/tools, "Security Considerations").

    A bucket holds `burst` requests and fills up again at `rate`. Processes that share an engine, by `Server(storage=)`,
    count together; while it does not answer, each of them goes on with its share. Else each process counts for itself.

    Args:
        rate: Requests a second in the long run; 0.1 is one every ten seconds.
        burst: Requests that may come at once.
        key: Says who asks: of the same key, all have one bucket. By default that is the principal, where nobody has
            been authenticated the session, and where there is none the address that the ASGI server names, unless it
            is one of this machine, where a proxy may stand: of all those, and of what is no HTTP, clients share one.
            Of a server with `auth=` it is the address even in a session, for whoever has not said who they are.
            To be counted by processes together it has to be text, a number, or a tuple of these.
        methods: Which requests of the core protocol count; when None those that run the author's code, and
            those of methods outside it.
        max_clients: Buckets that a process keeps. Beyond that, the one that was not used for the longest time is
            forgotten, and its client begins with a full one. An engine keeps each until it is full.

    Raises:
        ValueError: One of the numbers is out of range.

    Attributes:
        methods: Which requests of the core protocol count.
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
        """Pass the request on, unless there are too many.

        Raises:
            RateLimitError: There are.
        """
        if request.ctx.task is not None:  # which was counted when it was made
            return await call_next(request)
        if request.method in self.methods or (self._counts_own and _is_own(request)):
            wait = await self._take(request.ctx)
            if wait:
                raise RateLimitError(self.rate, wait)
        return await call_next(request)

    async def _take(self, ctx: Context[Any]) -> float:
        """Take one out of the bucket of whoever asks, and return 0.0; else the seconds until there is one."""
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
        """Return where the requests of a server are counted by all processes."""
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
        """Return what tells this limit from others of a server, in all processes that serve it."""
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
    """Return a key as it is in all processes; None where it means something in this one alone."""
    if _is_tuple(key):
        parts = [_text(each) for each in key]
        return None if None in parts else f"({','.join(map(str, parts))})"
    return repr(key) if key is None or isinstance(key, (bool, int, float, str, bytes)) else None


def _is_tuple(key: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(key, tuple)


def _is_own(request: Request) -> bool:
    """Say whether there is a method of the author's, for who asks: one that is hidden must not count, as none would."""
    return request.ctx.server.methods.shown(request.method, request.ctx.principal) is not None


_PIPE = object()
"""The key of all stdio clients of one process, which have no other identity."""


def _client(ctx: Context[Any]) -> Hashable:
    """Return the principal, or what stands for the session without keeping it, or where the client is."""
    if ctx.principal.id is not None:
        return ctx.principal.id
    channel, session = call_of(ctx).channel, call_of(ctx).envelope
    # On a protected server a new session costs nothing, while others have said who they are. Over HTTP there is none
    # yet at `initialize`, and none at all with `stateless=True`: what stands for it is new, or shared.
    if session.has_session and not call_of(ctx).runtime.is_protected:
        return channel.request_headers.get(b"mcp-session-id") or weakref.ref(session)
    return channel.caller if channel.request_headers else _PIPE

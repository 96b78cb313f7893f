"""Rate limits for each client, and a size limit for results of tools."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from .._utils.exceptions import BusyError, ToolError
from ..context import Context
from ..execution.coroutines import within
from ..identity.principals_and_scopes import digest_of
from ..protocol.revisions import METHODS
from ..requests.request_record import call_of
from ..storage.base import take_tokens
from .base import UNWRAPPED, CallNext, MiddlewareStack, Request, Result

if TYPE_CHECKING:
    from ..requests.request_record import Runtime
    from ..storage.base import PubSub

logger = logging.getLogger(__name__)

# Methods of the core protocol that run the author's code.
RUNNING_CODE = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})

_STDIO = object()  # the key of all stdio clients of one process, which have no other identity
_TIMEOUT = 1.0  # seconds that a request waits for a storage that does not answer
_RETRY = 1.0  # seconds between attempts to reach it again
_MAX_NAMES = 10  # arguments in the advice of `SizeLimit`


# Rate limits


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
        super().__init__(f"Rate limit exceeded ({often}). Try again in {wait} {unit}", retry_after=wait)
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
        supported = [method for method in METHODS if method not in UNWRAPPED]
        if unknown := set(methods or ()).difference(supported):
            raise ValueError(
                f"methods: {min(unknown)!r} is not a method that can be limited. Supported are {', '.join(supported)}"
            )
        self.rate = rate
        self.burst = burst
        self.methods = RUNNING_CODE if methods is None else frozenset(methods)
        self._counts_custom_methods = methods is None
        self._key = key if key is not None else _client
        self._max_clients = max_clients
        self._local = _Buckets(rate, burst, max_clients)
        self._shared: weakref.WeakKeyDictionary[Runtime, _SharedBuckets] = weakref.WeakKeyDictionary()
        self._has_warned = False

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Process the request, if the client has a token left.

        Raises:
            RateLimitError: The client has sent too many requests.
        """
        ctx = request.ctx
        if ctx.task is not None:  # it was counted when it was created
            return await call_next(request)
        is_counted = request.method in self.methods
        if not is_counted and self._counts_custom_methods:
            is_counted = ctx.server.catalog.methods.shown(request.method, ctx.principal) is not None
        if is_counted and (wait := await self._take(ctx)):
            raise RateLimitError(self.rate, wait)
        return await call_next(request)

    async def _take(self, ctx: Context[Any]) -> float:
        """Take a token of the client and return 0.0, or return the seconds until there is one."""
        key = self._key(ctx)
        runtime = call_of(ctx).runtime
        if runtime.is_alone:
            return self._local.take(key)
        shared_key = _shared_key(key)
        if shared_key is None:
            if self._key is not _client and not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "RateLimit(key=) returned %r, which processes cannot share, so each process limits "
                    "this client separately. Return a string, a number or a tuple of these",
                    key,
                )
            return self._local.take(key)
        buckets = self._shared.get(runtime)
        if buckets is None:
            prefix = f"{runtime.name}/limit/{self._name_at(runtime.server)}/"
            buckets = _SharedBuckets(runtime.storage, prefix, self.rate, self.burst, self._max_clients)
            self._shared[runtime] = buckets
        return await buckets.take(shared_key, runtime.replicas)

    def _name_at(self, server: object) -> str:
        """Return the name of this limit, which is the same in all processes of a server."""
        middleware = getattr(server, "middleware", None)
        hooks = middleware.hooks if isinstance(middleware, MiddlewareStack) else ()
        about = self.rate, self.burst, sorted(self.methods)
        limits = [each for _, each in hooks if isinstance(each, RateLimit)]
        equal = [each for each in limits if (each.rate, each.burst, sorted(each.methods)) == about]
        number = equal.index(self) if self in equal else 0
        return hashlib.sha256(repr((about, number)).encode()).hexdigest()[:16]


def _client(ctx: Context[Any]) -> Hashable:
    """Return the principal's id, else a key of the session, else the client's address."""
    if ctx.principal.id is not None:
        return ctx.principal.id
    call = call_of(ctx)
    # Anyone can open new sessions on a protected server, where other clients are authenticated. Over HTTP there is no
    # session yet at `initialize`, and none at all with `stateless=True`: their objects are new, or shared.
    if call.envelope.has_session and not call.runtime.is_protected:
        return call.channel.request_headers.get(b"mcp-session-id") or weakref.ref(call.envelope)
    return call.channel.caller if call.channel.request_headers else _STDIO


def _shared_key(key: object) -> str | None:
    """Return a key in a form that all processes share; None if the key is only valid in this one."""
    if isinstance(key, tuple):
        parts = [_shared_key(each) for each in cast("tuple[object, ...]", key)]
        return None if None in parts else f"({','.join(map(str, parts))})"
    return repr(key) if key is None or isinstance(key, (bool, int, float, str, bytes)) else None


class _Buckets:
    """Token buckets of clients in one process; new clients begin with a full one.

    Args:
        rate: Tokens added to a bucket per second.
        burst: Capacity of a bucket.
        max_clients: Maximum number of buckets; beyond it, the least recently used one is dropped.
    """

    def __init__(self, rate: float, burst: float, max_clients: int) -> None:
        self._every = 1 / rate
        self._burst = burst
        self._max_clients = max_clients
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self._full_at)

    def take(self, key: Hashable) -> float:
        """Take a token and return 0.0, or return the seconds until there is one."""
        now = monotonic()
        full_at = self._full_at.pop(key, now)
        self._full_at[key], wait = take_tokens(full_at, now, every=self._every, burst=self._burst, cost=1)
        if len(self._full_at) > self._max_clients:
            self._full_at.popitem(last=False)
        return wait


class _SharedBuckets:
    """Token buckets of clients in a storage. While it does not answer, each process allows its share of the rate.

    Args:
        storage: The storage.
        prefix: Prefix of the keys of the buckets.
        rate: Tokens added to a bucket per second.
        burst: Capacity of a bucket.
        max_clients: Maximum number of buckets in this process while the storage does not answer.
    """

    def __init__(self, storage: PubSub, prefix: str, rate: float, burst: int, max_clients: int) -> None:
        self._storage = storage
        self._prefix = prefix
        self._rate = rate
        self._burst = burst
        self._max_clients = max_clients
        self._is_away = False
        self._answers = 0
        self._share = 1  # the number of processes that share the rate in `_local`
        self._local = _Buckets(rate, burst, max_clients)
        self._next_retry = 0.0
        self._retry: asyncio.Task[None] | None = None

    async def take(self, client: str, replicas: Callable[[], int]) -> float:
        """Take a token of a client.

        Args:
            client: Key of the client.
            replicas: Returns the known number of processes.

        Returns:
            0.0, or the seconds until there is a token.
        """
        key = f"{self._prefix}{digest_of(client)[:32]}"
        if not self._is_away:
            try:
                return await self._take_from_storage(key)
            except OSError as error:
                if not self._is_away:  # else another request has found it first
                    self._switch_to_local(replicas(), error)
        if monotonic() >= self._next_retry:
            self._next_retry = monotonic() + _RETRY
            self._retry = asyncio.get_running_loop().create_task(self._switch_back(key))
        return self._local.take(key)

    async def _take_from_storage(self, key: str) -> float:
        seen = -1

        def has_progress() -> bool:
            """Return True if the storage has answered another request since the last check."""
            nonlocal seen
            before, seen = seen, self._answers
            return seen != before

        taking = self._storage.take_tokens(key, every=1 / self._rate, burst=self._burst)
        wait = await within(_TIMEOUT / 2, taking, has_progress)
        self._answers += 1
        return wait

    def _switch_to_local(self, share: int, error: OSError) -> None:
        """Count in this process from now on. Its earlier buckets have been refilled meanwhile."""
        logger.warning(
            "the shared store does not answer (%s): until it does, each of %d processes allows each "
            "client %g requests per second instead of a common limit of %g",
            error,
            share,
            self._rate / share,
            self._rate,
        )
        if share != self._share:
            self._share = share
            self._local = _Buckets(self._rate / share, max(self._burst / share, 1), self._max_clients)
        self._next_retry = monotonic() + _RETRY
        self._is_away = True

    async def _switch_back(self, key: str) -> None:
        """Use the storage again if it answers."""
        try:
            await self._take_from_storage(key)
        except OSError:
            return
        if self._is_away:
            self._is_away = False
            logger.warning("the shared store answers again: rate limits apply to all processes together")


# Size limit


class SizeLimit:
    """Replaces tool results that are too large for a model by an error with advice.

    Only results of `tools/call` are limited, and not those of extensions or task handles.

    Args:
        max_bytes: Maximum size of a result as JSON, in bytes.
        advice: Sentence for the model with the next step. None advises to request less data, and lists the
            arguments of the tool.

    Raises:
        ValueError: `max_bytes` is below 1.
    """

    def __init__(self, max_bytes: int, *, advice: str | None = None) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be a number of bytes above 0, got {max_bytes!r}")
        self.max_bytes = max_bytes
        self._advice = advice

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Process the request and check the size of its result.

        Raises:
            ToolError: The result is too large.
        """
        result = await call_next(request)
        if request.method != "tools/call" or (size := len(result.rendered())) <= self.max_bytes:
            return result
        if result.type != "complete":  # a task handle or the result of an extension, which programs read
            return result
        advice = self._advice if self._advice is not None else _advice(request)
        raise ToolError(
            f"The result is too large: it has {size:,} bytes, and the limit is {self.max_bytes:,}. {advice}"
        )


def _advice(request: Request) -> str:
    tool = request.ctx.server.catalog.tools.get(str(request.target))
    if tool is None:  # it comes from a dynamic provider
        return "Request less data."
    properties: Mapping[str, Any] = tool.schemas(request.ctx.protocol_version)[0].get("properties", {})
    if not properties:
        return "The tool has no arguments to limit its result. Do without it."
    return f"Request less data with its arguments: {', '.join(list(properties)[:_MAX_NAMES])}"

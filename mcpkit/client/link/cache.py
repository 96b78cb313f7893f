"""Cache of results that a server allows its clients to reuse (server/utilities/caching)."""

from __future__ import annotations

import marshal
import time
from asyncio import Future, sleep, wait
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

from ..._utils.concurrency import require_loop
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Json

METHODS: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""The methods with a `ttlMs` in the result."""

MAX_TTL: Final = 24 * 60 * 60 * 1000
"""Maximum milliseconds for which a result is cached, also where the server sends a larger `ttlMs`."""

MOST_ENTRIES: Final = 1000
MAX_SIZE: Final = 32 * 1024 * 1024

_STALE: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
_OF_ROUNDS: Final = frozenset({"inputResponses", "requestState"})
_OF_TRACES: Final = frozenset({"traceparent", "tracestate", "baggage"})
"""Members of `_meta` that change no result (basic/index, "OpenTelemetry trace context")."""


class _Question(NamedTuple):
    """The key of a cached result."""

    method: str
    params: bytes
    uri: str | None

    def is_answered_otherwise_after(self, method: str, params: Json | None) -> bool:
        """Return whether a change notification makes earlier results stale."""
        if self.uri is None or method != "notifications/resources/updated":
            return self.method in _STALE.get(method, ())
        changed = (params or {}).get("uri")
        return isinstance(changed, str) and (
            changed == self.uri or changed.startswith(self.uri.rstrip("/") + "/")
        )


@dataclass(slots=True)
class _Kept:
    """A cached result: the time until which it is fresh, and the sequence number of its request."""

    value: bytes
    expires: float
    asked: int


@dataclass(slots=True, eq=False)
class _Asking:
    """A pending request."""

    question: _Question
    number: int
    answered: Future[bytes | None] = field(default_factory=lambda: require_loop("the client").create_future())
    """The response for all requests that wait for it; None where it is for the first request only."""
    is_stale: bool = False
    """Whether a change was received since it was sent."""
    is_awaited: bool = False
    """Whether another request waits for it."""


class ResultCache:
    """Caches results for their `ttlMs`, and drops them when the server notifies of a change.

    Each caller receives a copy, which it may change. When the cache is full, it drops the least recently used result.

    Args:
        max_entries: The most results in the cache. 0 turns the cache off. None takes the default of 1,000.
        max_size: The most bytes of all results together.
        keeps_private: Whether to cache results for a single authorization (`cacheScope`). This requires that all
            requests have the same authorization.
        clock: A monotonic clock in seconds.

    Attributes:
        keeps_any: Whether the cache is on.
    """

    def __init__(
        self,
        max_entries: int | None = None,
        *,
        max_size: int = MAX_SIZE,
        keeps_private: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._max_entries = MOST_ENTRIES if max_entries is None else max_entries
        self.keeps_any = bool(self._max_entries)
        self._max_size = max_size
        self._keeps_private = keeps_private
        self._size = 0
        self._kept: dict[_Question, _Kept] = {}  # what was used last stands last
        self._asking: set[_Asking] = set()
        self._shared: dict[_Question, _Asking] = {}
        self._changes: Counter[str] = Counter()
        self._numbers = count()

    def __len__(self) -> int:
        """Return the number of results, including stale ones that have not been dropped yet."""
        return sum(1 for each in self._kept.values() if each.value)

    async def answer(
        self,
        method: str,
        params: Mapping[str, Any],
        ask: Callable[[], Awaitable[Json]],
        *,
        fresh: bool = False,
        is_shared: bool = True,
    ) -> Json:
        """Return a fresh result from the cache, or send the request.

        Concurrent requests for the same result are sent once. If that result cannot be cached, or the request fails or
        is cancelled, the others send their own request.

        Args:
            method: The method. Only results of `METHODS` are cached.
            params: The params. Results are not cached if the params belong to an input round, or have members of
                `_meta` that may change the result.
            ask: Sends the request and returns its result.
            fresh: Whether to send the request in any case and replace the cached result.
            is_shared: Whether concurrent requests may share this result. Requests with their own time limit do not.

        Raises:
            Exception: `ask` failed. Errors are never cached.
        """
        asked = {name: value for name, value in params.items() if name != "_meta"}
        is_plain = _OF_TRACES.issuperset(params.get("_meta") or ()) and _OF_ROUNDS.isdisjoint(params)
        if method not in METHODS or not self.keeps_any or not is_plain:
            return await ask()
        uri = asked.get("uri")
        question = _Question(method, jsonrpc.encode(asked), uri if isinstance(uri, str) else None)
        if not fresh:
            value = self._find(question)
            other = self._shared.get(question)
            if value is None and other is not None and is_shared and question not in self._kept:
                other.is_awaited = True
                await wait((other.answered,))
                value = other.answered.result()
            if value is not None:
                await sleep(0)  # so that who asks again and again lets others run
                return _copied(value)
        return await self._ask(question, ask, is_shared)

    def hear(self, method: str, params: Json | None) -> None:
        """Drop the results that a notification makes stale; ignore other notifications."""
        self._changes.update(_STALE.get(method, ()))
        if method in _STALE or method == "notifications/resources/updated":
            self._drop(
                [each for each in self._kept if each.is_answered_otherwise_after(method, params)],
                [each for each in self._asking if each.question.is_answered_otherwise_after(method, params)],
            )

    def changes(self, method: str) -> int:
        """Return how many changes of a list the server has notified of. The method names the list."""
        return self._changes[method]

    def clear(self) -> None:
        """Drop all results, for example because another server may respond now."""
        self._drop(list(self._kept), list(self._asking))

    def _drop(self, kept: Iterable[_Question], asking: Iterable[_Asking]) -> None:
        for question in kept:
            self._forget(question)
        for each in asking:
            each.is_stale = True
            if self._shared.get(each.question) is each:
                del self._shared[each.question]

    def _find(self, question: _Question) -> bytes | None:
        kept = self._kept.get(question)
        if kept is None or not kept.value:
            return None
        if self.clock() < kept.expires:
            self._kept[question] = self._kept.pop(question)
            return kept.value
        self._forget(question)
        return None

    async def _ask(self, question: _Question, ask: Callable[[], Awaitable[Json]], is_shared: bool) -> Json:
        asking = _Asking(question, next(self._numbers))
        self._asking.add(asking)
        if is_shared:
            self._shared[question] = asking
        value: bytes | None = None
        try:
            result = await ask()
            value = self._keep(asking, result)
        finally:
            self._asking.discard(asking)
            if self._shared.get(question) is asking:
                del self._shared[question]
            asking.answered.set_result(value)
        return result

    def _keep(self, asking: _Asking, result: Json) -> bytes | None:
        """Cache a result if that is allowed, and return it for the requests that wait for it."""
        if asking.is_stale:
            return None
        question = asking.question
        is_in_vain = asking.is_awaited
        before = self._kept.get(question)
        if before is not None:
            if before.asked > asking.number:
                return None
            is_in_vain |= not before.value
            self._forget(question)
        seconds = time_to_live(result)
        if seconds <= 0 or not (self._keeps_private or result.get("cacheScope") == "public"):
            if is_in_vain:  # has it been waited for: the next ones need not wait
                self._put(question, _Kept(b"", 0, asking.number))
            return None
        # The bytes cannot be changed, and are half as many as those of the JSON; to copy them takes a tenth of what
        # `copy.deepcopy` does. They never leave the process.
        value = marshal.dumps(result)
        self._put(question, _Kept(value, self.clock() + seconds, asking.number))
        return value

    def _put(self, question: _Question, kept: _Kept) -> None:
        size = len(question.params) + len(kept.value)
        if size > self._max_size:
            return
        self._kept[question] = kept
        self._size += size
        while len(self._kept) > self._max_entries or self._size > self._max_size:
            self._forget(next(iter(self._kept)))

    def _forget(self, question: _Question) -> None:
        self._size -= len(question.params) + len(self._kept.pop(question).value)


def time_to_live(result: Json) -> float:
    """Return the seconds for which a result is fresh: 0 without `ttlMs`, and for a partial result."""
    ttl = result.get("ttlMs")
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)):
        return 0
    return min(ttl, MAX_TTL) / 1000 if result.get("resultType", "complete") == "complete" else 0


def _copied(value: bytes) -> Json:
    result: Json = marshal.loads(value)
    return result

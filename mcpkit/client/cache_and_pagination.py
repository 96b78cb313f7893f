"""Cached results, and lists of several pages that are combined into one result.

server/utilities/caching, server/utilities/pagination.
"""

from __future__ import annotations

import marshal
import time
from asyncio import Future, sleep, wait
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

from .._utils.concurrency import require_loop
from .._utils.exceptions import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json
from ..protocol.revisions import CACHEABLE, ROUND_PARAMS
from .call_results import malformed, objects

# Cache

MAX_TTL: Final = 24 * 60 * 60 * 1000
"""Maximum milliseconds for which a result is cached, also where the server sends a larger `ttlMs`."""

MAX_ENTRIES: Final = 1000
MAX_SIZE: Final = 32 * 1024 * 1024

_CHANGED_LISTS: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
_UPDATED: Final = "notifications/resources/updated"
_TRACE_META: Final = frozenset({"traceparent", "tracestate", "baggage"})
"""Members of `_meta` that change no result (basic/index, "OpenTelemetry trace context")."""


class _Key(NamedTuple):
    """The key of a cached result."""

    method: str
    params: bytes
    uri: str | None

    def is_stale_after(self, method: str, params: Json | None) -> bool:
        """Return whether a change notification makes earlier results stale."""
        if self.uri is None or method != _UPDATED:
            return self.method in _CHANGED_LISTS.get(method, ())
        changed = (params or {}).get("uri")
        return isinstance(changed, str) and (
            changed == self.uri or changed.startswith(self.uri.rstrip("/") + "/")
        )


@dataclass(slots=True)
class _Entry:
    """A cached result, with the sequence number of its request.

    An empty value records that the result may not be cached, so that concurrent requests do not wait for each other.
    """

    value: bytes
    expires: float
    number: int


@dataclass(slots=True, eq=False)
class _Pending:
    """A pending request."""

    key: _Key
    number: int
    result: Future[bytes | None] = field(default_factory=lambda: require_loop("the client").create_future())
    """The result for the requests that wait for it; None if it is for the first request only."""
    is_stale: bool = False
    """Whether a change was received since the request was sent."""
    is_awaited: bool = False
    """Whether another request waits for the result."""


class ResultCache:
    """Caches results for their `ttlMs`, and drops them when the server notifies of a change.

    Each caller receives a copy, which it may change. When the cache is full, it drops the least recently used result.

    Args:
        max_entries: The most results in the cache. 0 turns the cache off.
        max_size: The most bytes of all results together.
        keeps_private: Whether to cache results for a single authorization (`cacheScope`). This requires that all
            requests have the same authorization.
        clock: A monotonic clock in seconds.

    Attributes:
        is_on: Whether results are cached.
    """

    def __init__(
        self,
        max_entries: int = MAX_ENTRIES,
        *,
        max_size: int = MAX_SIZE,
        keeps_private: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._max_entries = max_entries
        self.is_on = max_entries > 0
        self._max_size = max_size
        self._keeps_private = keeps_private
        self._size = 0
        self._entries: dict[_Key, _Entry] = {}  # the least recently used one first
        self._pending: set[_Pending] = set()
        self._shared: dict[_Key, _Pending] = {}
        self._changes: Counter[str] = Counter()
        self._numbers = count()

    def __len__(self) -> int:
        """Return the number of results, including stale ones that have not been dropped yet."""
        return sum(1 for entry in self._entries.values() if entry.value)

    async def answer(
        self,
        method: str,
        params: Mapping[str, Any],
        send: Callable[[], Awaitable[Json]],
        *,
        fresh: bool = False,
        is_shared: bool = True,
    ) -> Json:
        """Return a fresh result from the cache, or send the request.

        Concurrent requests for the same result are sent once. If that result cannot be cached, or the request fails or
        is cancelled, the others send their own request.

        Args:
            method: The method. Only results of `CACHEABLE` are cached.
            params: The params. Results are not cached if the params belong to an input round, or have members of
                `_meta` that may change the result.
            send: Sends the request and returns its result.
            fresh: Whether to send the request in any case and replace the cached result.
            is_shared: Whether concurrent requests may share this result. Requests with their own time limit do not.

        Raises:
            Exception: `send` failed. Errors are never cached.
        """
        is_plain = _TRACE_META.issuperset(params.get("_meta") or ()) and ROUND_PARAMS.isdisjoint(params)
        if method not in CACHEABLE or not self.is_on or not is_plain:
            return await send()
        own = {name: value for name, value in params.items() if name != "_meta"}
        uri = own.get("uri")
        key = _Key(method, jsonrpc.encode(own), uri if isinstance(uri, str) else None)
        value: bytes | None = None
        if not fresh:
            value = self._find(key)
            other = self._shared.get(key)
            if value is None and other is not None and is_shared and key not in self._entries:
                other.is_awaited = True
                await wait((other.result,))
                value = other.result.result()
            if value is not None:
                await sleep(0)  # a loop of requests must let other tasks run
                copy: Json = marshal.loads(value)
                return copy

        pending = _Pending(key, next(self._numbers))
        self._pending.add(pending)
        if is_shared:
            self._shared[key] = pending
        try:
            result = await send()
            value = self._store(pending, result)
        finally:
            self._pending.discard(pending)
            if self._shared.get(key) is pending:
                del self._shared[key]
            pending.result.set_result(value)
        return result

    def on_notification(self, method: str, params: Json | None) -> None:
        """Drop the results that a notification makes stale; ignore other notifications."""
        self._changes.update(_CHANGED_LISTS.get(method, ()))
        if method in _CHANGED_LISTS or method == _UPDATED:
            self._drop(lambda key: key.is_stale_after(method, params))

    def changes(self, method: str) -> int:
        """Return how many changes of a list the server has notified of. The method names the list."""
        return self._changes[method]

    def clear(self) -> None:
        """Drop all results, for example because another server may respond now."""
        self._drop(lambda _: True)

    def _drop(self, is_stale: Callable[[_Key], bool]) -> None:
        for key in [key for key in self._entries if is_stale(key)]:
            self._remove(key)
        for pending in self._pending:
            if is_stale(pending.key):
                pending.is_stale = True
                if self._shared.get(pending.key) is pending:
                    del self._shared[pending.key]

    def _find(self, key: _Key) -> bytes | None:
        entry = self._entries.get(key)
        if entry is None or not entry.value:
            return None
        if self.clock() < entry.expires:
            self._entries[key] = self._entries.pop(key)
            return entry.value
        self._remove(key)
        return None

    def _store(self, pending: _Pending, result: Json) -> bytes | None:
        """Cache a result if that is allowed, and return it for the requests that wait for it."""
        if pending.is_stale:
            return None
        key = pending.key
        is_awaited_in_vain = pending.is_awaited
        before = self._entries.get(key)
        if before is not None:
            if before.number > pending.number:
                return None
            is_awaited_in_vain |= not before.value
            self._remove(key)
        seconds = time_to_live(result)
        if seconds <= 0 or not (self._keeps_private or result.get("cacheScope") == "public"):
            if is_awaited_in_vain:
                self._insert(key, _Entry(b"", 0, pending.number))
            return None
        # Half as many bytes as JSON, and a tenth of the time of `copy.deepcopy`. They never leave the process.
        value = marshal.dumps(result)
        self._insert(key, _Entry(value, self.clock() + seconds, pending.number))
        return value

    def _insert(self, key: _Key, entry: _Entry) -> None:
        size = len(key.params) + len(entry.value)
        if size > self._max_size:
            return
        self._entries[key] = entry
        self._size += size
        while len(self._entries) > self._max_entries or self._size > self._max_size:
            self._remove(next(iter(self._entries)))

    def _remove(self, key: _Key) -> None:
        self._size -= len(key.params) + len(self._entries.pop(key).value)


def time_to_live(result: Json) -> float:
    """Return the seconds for which a result is fresh: 0 without `ttlMs`, and for a partial result."""
    ttl = result.get("ttlMs")
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)):
        return 0
    return min(ttl, MAX_TTL) / 1000 if result.get("resultType", "complete") == "complete" else 0


# Pagination

MAX_PAGES: Final = 10_000
"""The most pages of a list. A server that has more is assumed to repeat its pages."""

ALL_PAGES: Final[Json] = {"cursor": None}
"""Cache key of a whole list. Single pages are not cached, as they might be of different times."""

_MAX_ATTEMPTS: Final = 3


class IncompleteListError(ProtocolError):
    """The pages of a list do not end. The pages received so far are in `items`.

    Args:
        message: The reason.
        items: The items of the pages received so far.
        cursor: The cursor of the next page.
    """

    def __init__(self, message: str, items: list[Json], cursor: str) -> None:
        super().__init__(INTERNAL_ERROR, message)
        self.items = items
        self.cursor = cursor


IncompleteListError.__module__ = "mcpkit.exceptions"


async def all_pages(
    method: str,
    member: str,
    send: Callable[[Json], Awaitable[Json]],
    *,
    changes: Callable[[], int],
    clock: Callable[[], float] = time.monotonic,
) -> Json:
    """Request all pages of a list, one after the other.

    If the list changes meanwhile, or a cursor is no longer valid, the client starts again, up to three times.

    Args:
        method: The method, such as `tools/list`.
        member: The member of its result with the items.
        send: Sends a request with the given params and returns its result.
        changes: Returns how many changes of the list the server has notified of.
        clock: A monotonic clock in seconds.

    Returns:
        The first page with the items of all pages. Its `ttlMs` is the shortest of all pages, and it is public only if
        all pages are.

    Raises:
        IncompleteListError: The pages do not end.
        ProtocolError: The server responded with an error, or with a malformed page.
        Exception: `send` failed.
    """
    attempts = 0
    while True:
        attempts += 1
        before = changes()
        first = await send({})
        try:
            whole = await _complete_list(first, method, member, send, clock)
        except ProtocolError as error:
            if error.code != INVALID_PARAMS or attempts == _MAX_ATTEMPTS:
                raise
        else:
            if changes() == before or attempts == _MAX_ATTEMPTS:
                return whole


async def _complete_list(
    page: Json, method: str, member: str, send: Callable[[Json], Awaitable[Json]], clock: Callable[[], float]
) -> Json:
    """Request the pages after the first one, and return a result with all items."""
    whole = {**page}
    items = [*objects(page, member, method)]
    expires = clock() + time_to_live(page)
    cursors: set[str] = set()
    while (cursor := page.get("nextCursor")) is not None:
        if not isinstance(cursor, str):
            raise malformed(method, "a string as nextCursor")
        if cursor in cursors or len(cursors) == MAX_PAGES:
            what = f"has more than {MAX_PAGES:,} pages"
            if cursor in cursors:
                what = f"repeats the cursor {cursor!r:.200}"
            text = f"the server's answer to {method} {what}. The client stopped reading the list"
            raise IncompleteListError(
                f"{text}; the {len(items):,} items received so far are in `items`", items, cursor
            )
        cursors.add(cursor)
        page = await send({"cursor": cursor})
        items += objects(page, member, method)
        expires = min(expires, clock() + time_to_live(page))
        if page.get("cacheScope") != "public":
            whole["cacheScope"] = "private"
    whole.pop("nextCursor", None)
    return {**whole, member: items, "ttlMs": max(0, int((expires - clock()) * 1000))}

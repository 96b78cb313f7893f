"""Combines the pages of a list into one result (server/utilities/pagination)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from ..._utils.exceptions import INVALID_PARAMS, ProtocolError
from ...protocol.jsonrpc import Json
from .answers import malformed, objects
from .cache import time_to_live
from .errors import IncompleteListError

MAX_PAGES: Final = 10_000
"""The most pages of a list. A server that has more is assumed to repeat its pages."""

ALL_PAGES: Final[Json] = {"cursor": None}
"""Cache key of a whole list. Single pages are not cached, as they might be of different times."""

_ATTEMPTS: Final = 3


async def all_pages(
    method: str,
    member: str,
    ask: Callable[[Json], Awaitable[Json]],
    *,
    changes: Callable[[], int],
    clock: Callable[[], float] = time.monotonic,
) -> Json:
    """Request all pages of a list, one after the other.

    If the list changes meanwhile, or a cursor is no longer valid, the client starts again, up to three times.

    Args:
        method: The method, such as `tools/list`.
        member: The member of its result with the items.
        ask: Sends a request with the given params and returns its result.
        changes: Returns how many changes of the list the server has notified of.
        clock: A monotonic clock in seconds.

    Returns:
        The first page with the items of all pages. Its `ttlMs` is the shortest of all pages, and it is public only if
        all pages are.

    Raises:
        IncompleteListError: The pages do not end.
        ProtocolError: The server responded with an error, or with a malformed page.
        Exception: `ask` failed.
    """
    attempts = 0
    while True:
        attempts += 1
        before = changes()
        first = await ask({})
        try:
            whole = await _with_the_rest(first, method, member, ask, clock)
        except ProtocolError as error:
            if error.code != INVALID_PARAMS or attempts == _ATTEMPTS:
                raise
        else:
            if changes() == before or attempts == _ATTEMPTS:
                return whole


async def _with_the_rest(
    page: Json,
    method: str,
    member: str,
    ask: Callable[[Json], Awaitable[Json]],
    clock: Callable[[], float],
) -> Json:
    whole = {**page}
    items = [*objects(page, member, method)]
    ends = clock() + time_to_live(page)
    asked: set[str] = set()
    while (cursor := page.get("nextCursor")) is not None:
        if not isinstance(cursor, str):
            raise malformed(method, "a string as nextCursor")
        if cursor in asked or len(asked) == MAX_PAGES:
            what = (
                f"repeats the cursor {cursor!r:.200}"
                if cursor in asked
                else f"has more than {MAX_PAGES:,} pages"
            )
            text = f"the server's answer to {method} {what}. The client stopped reading the list"
            raise IncompleteListError(
                f"{text}; the {len(items):,} items received so far are in `items`", items, cursor
            )
        asked.add(cursor)
        page = await ask({"cursor": cursor})
        items += objects(page, member, method)
        ends = min(ends, clock() + time_to_live(page))
        if page.get("cacheScope") != "public":
            whole["cacheScope"] = "private"
    whole.pop("nextCursor", None)
    return {**whole, member: items, "ttlMs": max(0, int((ends - clock()) * 1000))}

"""The pages of a list, as one result (server/utilities/pagination)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from ...common.errors import INVALID_PARAMS, ProtocolError
from ...protocol.types import Json
from .answers import malformed, objects
from .cache import time_to_live
from .errors import IncompleteListError

MAX_PAGES: Final = 10_000
"""As many pages of a list are asked for; a server that has more is taken to go round in a circle."""

ALL_PAGES: Final[Json] = {"cursor": None}
"""Params that no request has, under which all pages are kept together: kept one by one, they might be of two times."""

_ATTEMPTS: Final = 3


async def all_pages(
    method: str,
    member: str,
    ask: Callable[[Json], Awaitable[Json]],
    *,
    changes: Callable[[], int],
    clock: Callable[[], float] = time.monotonic,
) -> Json:
    """Ask for all pages of a list, one after the other.

    Where the list changes meanwhile, it is asked for from the beginning, three times at most: when a change is heard,
    and when a cursor does not hold any more.

    Args:
        method: The method, such as `tools/list`.
        member: The member of its result with the items.
        ask: Sends a request with the params that it is given, and returns its result.
        changes: Counts the changes of the list that have been heard.
        clock: Seconds.

    Returns:
        The first page with the items of all. It holds for as long as each of its pages does (`ttlMs`), and it is
        public where all of them are.

    Raises:
        IncompleteListError: The pages do not come to an end.
        ProtocolError: What the server has answered with an error, or with what is no page.
        Exception: Whatever else `ask` raises.
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

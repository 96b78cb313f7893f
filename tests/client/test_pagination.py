"""Lists of several pages as one result: consistent, with the shortest ttl, and never without end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import ProtocolError
from mcpkit.client.link.cache import ResultCache
from mcpkit.client.link.pages import MAX_PAGES, all_pages
from mcpkit.exceptions import IncompleteListError

pytestmark = pytest.mark.anyio

Ask = Callable[[dict[str, Any]], dict[str, Any]]


async def listed(
    answer: Ask, cache: ResultCache | None = None, clock: Callable[[], float] = lambda: 0.0
) -> Any:
    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        return answer(params)

    received = ResultCache() if cache is None else cache
    whole = await all_pages(
        "tools/list", "tools", ask, changes=lambda: received.changes("tools/list"), clock=clock
    )
    return {**whole, "tools": [each["n"] for each in whole["tools"]]}


def pages(*all_: dict[str, Any]) -> Ask:
    def answer(params: dict[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", 0))
        more = {"nextCursor": str(number + 1)} if number + 1 < len(all_) else {}
        return {"tools": [{"n": number}], **more, **all_[number]}

    return answer


async def test_all_pages_joins_items() -> None:
    whole = await listed(pages({"other": 1}, {}, {}))
    assert whole == {"tools": [0, 1, 2], "other": 1, "ttlMs": 0, "cacheScope": "private"}
    assert (await listed(pages({})))["tools"] == [0]


async def test_all_pages_empty_cursor_is_a_cursor_and_null_is_none() -> None:
    def answer(params: dict[str, Any]) -> dict[str, Any]:
        return (
            {"tools": [{"n": 1}], "nextCursor": None}
            if params == {"cursor": ""}
            else {"tools": [{"n": 0}], "nextCursor": ""}
        )

    assert (await listed(answer))["tools"] == [0, 1]


async def test_all_pages_invalid_cursor_starts_over() -> None:
    asked: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        if len(asked) == 2:
            raise ProtocolError(-32602, "no such cursor")
        return {"tools": [{"n": len(asked)}]} if params else {"tools": [{"n": len(asked)}], "nextCursor": "2"}

    assert (await listed(answer))["tools"] == [3, 4]
    assert asked == [{}, {"cursor": "2"}, {}, {"cursor": "2"}]


@pytest.mark.parametrize(("page", "output"), [
    ({}, "an array of objects as tools"),
    ({"tools": None}, "an array of objects as tools"),
    ({"tools": [1]}, "an array of objects as tools"),
    ({"tools": {"a": 1}}, "an array of objects as tools"),
    ({"tools": [], "nextCursor": 1}, "a string as nextCursor"),
])  # fmt: skip
async def test_all_pages_malformed_page_is_error(page: dict[str, Any], output: str) -> None:
    with pytest.raises(
        ProtocolError, match=f"the server's answer to tools/list is malformed: expected {output}"
    ):
        await listed(lambda _: page)


@pytest.mark.parametrize("cursor", ["", "same", "x" * 10_000])
async def test_all_pages_repeated_cursor_raises_incomplete_list(cursor: str) -> None:
    with pytest.raises(IncompleteListError, match="repeats the cursor") as caught:
        await listed(lambda params: {"tools": [{"n": len(params)}], "nextCursor": cursor})
    assert caught.value.cursor == cursor
    assert caught.value.items == [{"n": 0}, {"n": 1}]
    assert repr(cursor)[:100] in str(caught.value)
    assert len(str(caught.value)) < 500


async def test_all_pages_are_limited() -> None:
    asked = 0

    def answer(_: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"tools": [{"n": asked}], "nextCursor": str(asked)}

    with pytest.raises(IncompleteListError, match="more than 10,000 pages") as caught:
        await listed(answer)
    assert asked == MAX_PAGES + 1
    assert len(caught.value.items) == asked

"""What `ctx.once` keeps: values that every round gets as the function has returned them, in both eras."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context
from tests.helpers.asked import ELICITING, City, Person, outcome, tool

pytestmark = pytest.mark.anyio

LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize("revision", ELICITING)
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ((1, 2), "a tuple"),
        (date(2026, 7, 28), "a date"),
        (Decimal("1.5"), "a Decimal"),
        ({1, 2}, "a set"),
        (City("Rome", 3), "a City"),
        (Path("/srv"), "a PosixPath"),
        (b"raw", "a bytes"),
        (object(), "an object"),
        ("\ud800", "a str"),
        (float("nan"), "a float"),
        ([1, (2, 3)], "a list that holds something else"),
        ({1: "one"}, "a dict that holds something else"),
        (LOOP, "a list that holds something else"),
    ],
)
async def test_what_would_come_back_as_something_else_is_refused(
    revision: str, is_async: bool, value: Any, kind: str
) -> None:
    async def order(ctx: Context) -> str:
        try:
            await ctx.once("order", lambda: value)
        except TypeError as error:
            return str(error)
        return ""

    def order_in_thread(ctx: Context) -> str:
        try:
            ctx.sync.once("order", lambda: value)
        except TypeError as error:
            return str(error)
        return ""

    function: Any = order if is_async else order_in_thread
    assert await outcome(tool(function), Person(), revision) == (
        f"what ctx.once('order', ...) calls has returned {kind}, which later rounds would not get as it is: return a "
        "string, number, boolean or None, or a list or dict with string keys of these"
    )


@pytest.mark.parametrize("revision", ELICITING)
@pytest.mark.parametrize(
    "value", [None, True, 0, 10**30, 1.5, "Ä\n😀", [], [1, [None]], {"a": {"b": [1.0]}}], ids=repr
)
async def test_what_is_json_is_kept_as_it_is(revision: str, value: Any) -> None:
    calls: list[int] = []
    seen: list[Any] = []

    async def order(ctx: Context) -> str:
        def place() -> Any:
            calls.append(1)
            return value

        seen.append(await ctx.once("order", place))
        return (await ctx.elicit("Who?", str)).value

    assert await outcome(tool(order), Person({"value": "Ada"}), revision) == "Ada"
    assert seen == [value] * (2 if revision == "2026-07-28" else 1)
    assert len(calls) == 1

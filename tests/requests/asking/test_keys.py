"""The keys of questions and of what is done once: each is used once in a run of the handler, in both eras."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from mcpkit import AnswerError, Context, Elicit, MissingCapabilityError, Server, ToolError
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.testing import connect
from tests.helpers.asked import ELICITING, Person, outcome, tool

pytestmark = pytest.mark.anyio

USED = (
    "there is a {what} with the key {key!r} in this call already: each needs a key of its own, "
    'in a loop for example f"{key}-{{number}}"'
)
MORE = USED.format(what="question", key="more")
ORDER = USED.format(what="ctx.once", key="order")


@pytest.mark.parametrize("revision", ELICITING)
async def test_a_loop_that_asks_under_one_key_is_told_so(revision: str) -> None:
    async def count(ctx: Context) -> str:
        number = 0
        try:
            while (await ctx.elicit("Another?", bool, key="more")).value:
                number += 1
        except ValueError as error:
            return f"{number}: {error}"
        return str(number)

    assert await outcome(tool(count), Person({"value": True}), revision) == f"1: {MORE}"


@pytest.mark.parametrize("revision", ELICITING)
async def test_two_questions_at_once_have_two_keys(revision: str) -> None:
    async def both(ctx: Context) -> str:
        try:
            await ctx.ask(Elicit("This?", bool, key="more"), Elicit("That?", bool, key="more"))
        except ValueError as error:
            return str(error)
        return ""

    assert await outcome(tool(both), Person(), revision) == MORE


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_page_has_a_key_of_its_own_too(revision: str) -> None:
    async def pay(ctx: Context) -> str:
        await ctx.elicit_url("Pay", "https://example.com", key="more")
        try:
            await ctx.elicit_url("Pay again", "https://example.com", key="more")
        except ValueError as error:
            return str(error)
        return ""

    assert await outcome(tool(pay), Person({"action": "accept"}), revision) == MORE


@pytest.mark.parametrize("revision", ELICITING)
async def test_a_loop_may_number_its_keys_or_leave_them_out(revision: str) -> None:
    async def count(ctx: Context) -> str:
        # Explicit keys, whatever they are, are none that questions without one get.
        named = [(await ctx.elicit("Who?", str, key=f"q{n}")).value for n in (1, 2)]
        return " ".join(named + [(await ctx.elicit("Who?", str)).value for _ in range(2)])

    person = Person({"value": "a"}, {"value": "b"}, {"value": "c"}, {"value": "d"})
    assert await outcome(tool(count), person, revision) == "a b c d"


async def test_a_key_is_none_that_questions_without_one_get() -> None:
    with pytest.raises(ValueError, match="key must not begin with #, as those of questions without one do"):
        Elicit("Who?", str, key="#1")


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_question_that_could_not_be_put_has_not_used_its_key(revision: str) -> None:
    async def name(ctx: Context) -> str:
        try:
            await ctx.elicit_url("Log in", "https://example.com", key="who")
        except (AnswerError, MissingCapabilityError):
            return (await ctx.elicit("Who?", str, key="who")).value
        return ""

    capabilities = {"elicitation": {"form": {}}}
    told = await outcome(tool(name), Person({"value": "Ada"}), revision, capabilities=capabilities)
    assert told == "Ada"


@pytest.mark.parametrize("revision", ELICITING)
async def test_a_handler_that_a_middleware_runs_again_may_use_its_keys_again(revision: str) -> None:
    server = Server("asking")
    runs: list[str] = []

    @server.tool
    async def name(ctx: Context) -> str:
        who = (await ctx.elicit("Who?", str, key="who")).value
        await ctx.once("order", lambda: 7)
        runs.append(who)
        if len(runs) == 1:
            raise ToolError("not yet")
        return who

    @server.middleware("tools/call")
    async def twice(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        return await call_next(request) if result.get("isError") else result

    person = Person({"value": "Ada"}, {"value": "Ada"})
    async with connect(server, revision=revision, answers=person) as client:
        assert (await client.call("name")).text == "Ada"
    assert runs == ["Ada", "Ada"]


@pytest.mark.parametrize("revision", ELICITING)
async def test_a_loop_that_does_two_things_once_under_one_key_is_told_so(revision: str) -> None:
    done: list[int] = []

    async def order(ctx: Context) -> str:
        try:
            for number in range(2):
                await ctx.once("order", lambda number=number: done.append(number))
        except ValueError as error:
            return str(error)
        return ""

    assert await outcome(tool(order), Person(), revision) == ORDER
    assert done == [0]


@pytest.mark.parametrize("revision", ELICITING)
async def test_two_things_at_once_are_not_done_under_one_key(revision: str) -> None:
    done: list[int] = []

    async def order(ctx: Context) -> str:
        async def place() -> None:
            await asyncio.sleep(0)
            done.append(1)

        both = [ctx.once("order", place), ctx.once("order", place)]
        _, error = await asyncio.gather(*both, return_exceptions=True)
        return str(error)

    assert await outcome(tool(order), Person(), revision) == ORDER
    assert done == [1]


@pytest.mark.parametrize("revision", ELICITING)
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_failed_may_be_tried_again_under_its_key(revision: str, is_async: bool) -> None:
    tries: list[int] = []

    def place() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("no connection")
        return len(tries)

    async def order(ctx: Context) -> str:
        number = None
        while number is None:
            with contextlib.suppress(OSError):
                number = await ctx.once("order", place)
        return f"{number} {(await ctx.elicit('Size?', int)).value}"

    def order_in_thread(ctx: Context) -> str:
        number = None
        while number is None:
            with contextlib.suppress(OSError):
                number = ctx.sync.once("order", place)
        return f"{number} {ctx.sync.elicit('Size?', int).value}"

    function: Any = order if is_async else order_in_thread
    assert await outcome(tool(function), Person({"value": 4}), revision) == "3 4"
    assert len(tries) == 3


@pytest.mark.parametrize("revision", ELICITING)
async def test_a_key_of_a_question_may_be_that_of_something_done_once(revision: str) -> None:
    async def order(ctx: Context) -> str:
        size = (await ctx.elicit("Size?", int, key="order")).value
        return f"{await ctx.once('order', lambda: 7)} {size}"

    assert await outcome(tool(order), Person({"value": 1}), revision) == "7 1"


async def test_what_is_done_once_has_a_key() -> None:
    keys: list[Any] = [3, "", "k" * 101]

    async def order(ctx: Context) -> str:
        with pytest.raises(ValueError, match="key must be a string of 1 to 100 characters"):
            await ctx.once(keys.pop(), lambda: 7)
        return str(len(keys))

    server = tool(order)
    assert [await outcome(server, Person(), "2026-07-28") for _ in range(3)] == ["2", "1", "0"]

"""How long `ctx.elicit_url(..., done=)` goes on asking a client that accepts, and never does what is needed."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import AnswerError, Context, ProtocolError, Server
from mcpkit.testing import connect
from tests.helpers.clock import Clock

pytestmark = pytest.mark.anyio

ERAS = ["2025-11-25", "2026-07-28"]
PAGE = "https://example.com/pay"
MISSED = "The user agreed to visit the page, but what is needed was not done there within 600 s"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time, which passes when the test says so; a page is looked at once for each accept."""
    clock = Clock()
    monkeypatch.setattr("time.time", clock)
    monkeypatch.setattr("mcpkit.calls.asking.api._POLLS", ())
    return clock


class Person:
    """Accepts at once whatever comes, and counts the pages."""

    def __init__(self) -> None:
        self.pages = 0

    def __call__(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("mode") != "url":
            return {"action": "accept", "content": {"value": 7}}
        self.pages += 1
        return {"action": "accept"}


def never(clock: Clock, seconds: float) -> Any:
    """Return what says no, and takes its time for it."""

    def done() -> bool:
        clock.now += seconds
        return False

    return done


@pytest.mark.parametrize("revision", ERAS)
async def test_who_always_accepts_is_not_asked_for_ever(revision: str, clock: Clock) -> None:
    server = Server("till")

    @server.tool
    async def pay(ctx: Context) -> str:
        await ctx.elicit_url("Pay", PAGE, done=never(clock, 100))
        return "paid"

    person = Person()
    async with connect(server, revision=revision, answers=person) as client:
        result = await client.call("pay")
    assert (result.is_error, result.text) == (True, MISSED)
    # The time begins as the first accept is there, before it is looked at the page.
    assert person.pages == 6


@pytest.mark.parametrize("revision", ERAS)
async def test_a_function_that_is_not_async_is_told_so_too(revision: str, clock: Clock) -> None:
    server = Server("till", question_timeout=50)

    @server.tool
    def pay(ctx: Context) -> str:
        try:
            ctx.sync.elicit_url("Pay", PAGE, done=never(clock, 100))
        except AnswerError as error:
            return f"gave up: {error}"
        return "paid"

    async with connect(server, revision=revision, answers=Person()) as client:
        assert (await client.call("pay")).text == f"gave up: {MISSED.replace('600', '50')}"


async def test_a_prompt_fails_with_the_same_words(clock: Clock) -> None:
    server = Server("till")

    @server.prompt
    async def pay(ctx: Context) -> str:
        await ctx.elicit_url("Pay", PAGE, done=never(clock, 100))
        return "paid"

    async with connect(server, answers=Person()) as client:
        with pytest.raises(ProtocolError) as error:
            await client.get_prompt("pay")
    assert (error.value.code, error.value.message) == (-32603, MISSED)


@pytest.mark.parametrize("revision", ERAS)
async def test_until_it_accepts_the_time_has_not_begun(revision: str, clock: Clock) -> None:
    server = Server("till")
    looks: list[float] = []

    @server.tool
    async def pay(ctx: Context) -> str:
        def done() -> bool:
            looks.append(clock.now)
            clock.now += 500
            return len(looks) == 2

        await ctx.elicit_url("Pay", PAGE, done=done)
        return "paid"

    def hesitate(method: str, params: dict[str, Any]) -> dict[str, Any]:
        clock.now += 90 if looks else 590  # within the time that a question may be open
        return {"action": "accept"}

    async with connect(server, revision=revision, answers=hesitate) as client:
        assert (await client.call("pay")).text == "paid"


@pytest.mark.parametrize("revision", ERAS)
async def test_each_page_has_its_own_time(revision: str, clock: Clock) -> None:
    server = Server("till")
    paid: dict[str, int] = {}

    @server.tool
    async def pay(ctx: Context) -> str:
        for name in ("first", "second", "third"):

            def done(name: str = name) -> bool:
                if paid.get(name, 0) < 2:
                    clock.now += 250
                    paid[name] = paid.get(name, 0) + 1
                    return False
                return True

            await ctx.elicit_url("Pay", f"{PAGE}/{name}", done=done)
        return "paid"

    person = Person()
    async with connect(server, revision=revision, answers=person) as client:
        assert (await client.call("pay")).text == "paid"
    assert person.pages == 9


async def test_what_is_undone_by_a_later_round_has_its_time_anew(clock: Clock) -> None:
    server = Server("till")
    looks: list[bool] = [False, True, False, False, False, False, False, False]

    @server.tool
    async def pay(ctx: Context) -> str:
        def done() -> bool:
            clock.now += 200
            return looks.pop(0)

        await ctx.elicit_url("Pay", PAGE, done=done)
        await ctx.elicit("Receipt?", int)
        return "paid"

    person = Person()
    async with connect(server, answers=person) as client:
        assert (await client.call("pay")).text == MISSED
    # Twice until it was done, and twice more when it was not any longer.
    assert person.pages == 4

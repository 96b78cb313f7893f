"""The secret is replaced while logins are under way: with both all go on, with the new one alone they begin anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from tests.helpers.held_provider import HeldProvider
from tests.helpers.login_workers import SECRET, Journey, Workers
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.long]

NEW = "another secret of the tests, as long"
STEPS = ("register", "open_page", "allow", "log_in", "come_back", "redeem", "refresh", "ask_provider")
"""After each of them is a journey that has come as far."""


@pytest.fixture
async def under_way(workers: Workers, openid: HeldProvider) -> AsyncIterator[dict[str, Journey]]:
    """Journeys, by the step to which each has come."""
    journeys = {}
    async with AsyncExitStack() as stack:
        for count, last in enumerate(STEPS, 1):
            journey = journeys[last] = await stack.enter_async_context(Journey(workers))
            for step in STEPS[:count]:
                await does(journey, step)
        yield journeys
    await workers.restart(SECRETS=json.dumps([SECRET]))


def does(journey: Journey, step: str) -> Awaitable[None]:
    method: Callable[[], Awaitable[None]] = getattr(journey, step)
    return method()


async def test_with_both_secrets_all_goes_on(workers: Workers, under_way: dict[str, Journey]) -> None:
    await workers.restart(SECRETS=json.dumps([NEW, SECRET]))
    for last, journey in under_way.items():
        for step in (*STEPS[STEPS.index(last) + 1 :], "whoami", "refresh", "ask_provider"):
            await does(journey, step)
    assert b"none of the secrets opens" not in workers.notes()


async def test_with_the_new_one_alone_clients_and_users_are_told_to_begin_anew(
    workers: Workers, under_way: dict[str, Journey]
) -> None:
    await workers.restart(SECRETS=json.dumps([NEW]))
    page = await under_way["register"].page()
    assert (page.status_code, page.headers.get("location")) == (400, None)
    assert "register" in page.text
    form = {"request": "of another secret", "answer": "allow"}
    page = await under_way["open_page"].browser.post("/authorize", data=form)
    assert (page.status_code, page.headers.get("location")) == (400, None)
    page = await under_way["log_in"].browser.get(under_way["log_in"].callback_url)
    assert (page.status_code, page.headers.get("location")) == (400, None)
    assert "begin anew" in page.text
    for answer in (
        await under_way["come_back"].redeemed(under_way["come_back"].got),
        await under_way["redeem"].refreshed(under_way["redeem"].held),
    ):
        # By which clients know that they have to register anew.
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert (await under_way["redeem"].call("whoami")).status_code == 401
    for journey in under_way.values():
        await journey.to_tokens()
        await journey.ask_provider()


async def test_what_was_kept_under_the_old_secret_is_soon_kept_under_the_new_one(
    workers: Workers, under_way: dict[str, Journey]
) -> None:
    """So that the old one can be left out once all who are there have come by: their tokens, not their registration."""
    await workers.restart(SECRETS=json.dumps([NEW, SECRET]))
    user = under_way["redeem"]
    await user.refresh()
    await user.ask_provider()
    await workers.restart(SECRETS=json.dumps([NEW]))
    await user.whoami()
    await user.ask_provider()


async def test_processes_that_have_the_new_secret_first_and_those_that_have_it_last_serve_one_login(
    workers: Workers, under_way: dict[str, Journey]
) -> None:
    """As while it is rolled out: when all know the new one, it may be the first, of one process after the other."""
    await asyncio.gather(
        workers.restart(*workers.processes[::2], SECRETS=json.dumps([SECRET, NEW])),
        workers.restart(*workers.processes[1::2], SECRETS=json.dumps([NEW, SECRET])),
    )
    for last, journey in under_way.items():
        for step in STEPS[STEPS.index(last) + 1 :]:
            await does(journey, step)
    for _ in workers.processes:
        for step in ("whoami", "ask_provider", "refresh"):
            await does(under_way["redeem"], step)


async def test_who_logged_in_under_the_old_secret_is_sent_away_under_the_new_one(
    workers: Workers, openid: HeldProvider, under_way: dict[str, Journey]
) -> None:
    await workers.restart(SECRETS=json.dumps([NEW, SECRET]))
    before = [login for login in openid.logins[-5:] if login.access]
    assert len(before) == 4, "of the five who have logged in there four have come back"
    await under_way["redeem"].call("leave")
    await until(lambda: all(login.is_over for login in before))
    for last in ("redeem", "refresh", "ask_provider"):
        await under_way[last].be_refused()

"""A provider that is away, and processes that are killed while they ask it: nothing is lost that it has not ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.helpers.held_provider import HeldProvider
from tests.helpers.login_workers import Journey, Workers, result_of, text_of
from tests.helpers.processes import Process
from tests.helpers.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.long]

SETTINGS = {"LEASE": 3}
"""Seconds after which a refresh is taken for lost, for all processes here; of the product's own they are more."""


@pytest.fixture
async def user(workers: Workers, openid: HeldProvider) -> AsyncIterator[Journey]:
    """A user who has logged in, and whose tokens at the provider are due."""
    openid.seconds = 1
    async with Journey(workers) as journey:
        await journey.to_tokens()
        openid.seconds = 3600
        await asyncio.sleep(1)
        yield journey


async def killed_in_the_midst(user: Journey, workers: Workers, openid: HeldProvider) -> None:
    """Have a process begin a refresh at the provider, and kill it when it has."""
    calling = asyncio.create_task(user.call("at_provider"))
    assert await asyncio.to_thread(openid.is_held.wait, PATIENCE)
    killed = workers.turn
    workers.processes[killed].kill()
    with pytest.raises(httpx2.TransportError):
        await calling
    assert await asyncio.to_thread(openid.is_dropped.wait, PATIENCE)
    openid.release()
    workers.replace(killed)


async def test_whoever_refreshes_is_killed_and_another_does_it(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    openid.before.clear()
    await killed_in_the_midst(user, workers, openid)
    before = openid.refreshed
    await asyncio.gather(*(user.ask_provider() for _ in range(8)))
    assert openid.refreshed == before + 1
    assert not openid.latest.is_over
    await user.refresh()
    await user.ask_provider()


async def test_new_tokens_that_have_died_with_a_process_cost_a_login_and_nothing_else(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    """The provider takes the old token for a stolen one, and ends the login: the user has to log in again."""
    openid.after.clear()
    await killed_in_the_midst(user, workers, openid)
    answer = await user.call("at_provider")
    assert answer.status_code in {200, 401, 403}, answer.text
    if answer.status_code == 200:
        assert result_of(answer)["isError"]
    await user.be_refused()
    for step in (user.open_page, user.allow, user.log_in, user.come_back, user.redeem, user.ask_provider):
        await step()


async def test_a_provider_that_is_away_costs_nothing(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    openid.break_down()
    for _ in workers.processes:
        refused = await user.refreshed(user.held)
        assert (refused.status_code, refused.json()["error"]) == (503, "temporarily_unavailable")
        assert int(refused.headers["retry-after"]) > 0
        result = result_of(await user.call("at_provider"))
        assert result["isError"]
        assert "later" in result["content"][0]["text"] or "does not answer" in result["content"][0]["text"]
        await user.whoami()  # which needs nothing of the provider
    openid.mend()
    await user.ask_provider()
    await user.refresh()
    await user.ask_provider()


async def test_a_provider_that_is_away_at_the_login_is_said_to_the_client(
    workers: Workers, openid: HeldProvider
) -> None:
    async with Journey(workers) as user:
        for step in (user.register, user.open_page, user.allow, user.log_in):
            await step()
        openid.break_down()
        answer = await user.browser.get(user.callback_url)
        said = httpx2.URL(answer.headers["location"]).params
        assert (said["error"], said["state"]) == (
            "temporarily_unavailable",
            (await user.begun()).query["state"],
        )
        openid.mend()
        for step in (user.open_page, user.allow, user.log_in, user.come_back, user.redeem):
            await step()
        assert text_of(await user.call("whoami"))


async def test_a_provider_that_does_not_hear_of_a_revocation_does_not_keep_it_from_being_one(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    openid.break_down()
    await user.revoke()
    await user.be_refused()


async def test_a_process_that_is_told_to_end_keeps_what_the_provider_gives_it_still(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    before = openid.refreshed
    openid.after.clear()
    calling = asyncio.create_task(user.call("at_provider"))
    assert await asyncio.to_thread(openid.is_held.wait, PATIENCE)
    ending = workers.processes[workers.turn]
    stopping = asyncio.create_task(ending.stop())
    await is_closed(ending)
    openid.release()
    assert text_of(await calling)
    await stopping
    await workers.start(ending)
    for _ in workers.processes:
        await user.ask_provider()
    assert openid.refreshed == before + 1


async def is_closed(process: Process) -> None:
    """Wait until a process takes no more connections."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", process.port)
        except OSError:
            return
        writer.close()
        assert time.monotonic() < deadline, "it does not begin to end"
        await asyncio.sleep(0.02)

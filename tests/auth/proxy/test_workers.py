"""A login at a provider goes through four processes without affinity, each of which is killed when it has served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.helpers.held_provider import SUBJECT, HeldProvider
from tests.helpers.login_workers import Journey, Workers, text_of
from tests.helpers.redis_server import RedisServer
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.long]


async def test_a_login_survives_that_whoever_has_served_a_step_is_killed_before_the_next(
    workers: Workers, openid: HeldProvider
) -> None:
    before = len(openid.revoked)
    async with Journey(workers) as user:
        for step in (
            user.discover,
            user.read_metadata,
            user.register,
            user.open_page,
            user.allow,
            user.log_in,
            user.come_back,
            user.redeem,
            user.whoami,
            user.ask_provider,
            user.refresh,
            user.ask_provider,
            user.refresh,
            user.whoami,
            user.revoke,
        ):
            await step()
            workers.replace_the_last()
        await user.be_refused()
    assert openid.latest.is_over, "the provider has not heard of the revocation"
    assert len(openid.revoked) > before


async def test_a_login_survives_that_all_are_killed_at_once_in_its_midst(workers: Workers) -> None:
    async with Journey(workers) as user:
        for step in (user.register, user.open_page, user.allow, user.log_in):
            await step()
        await workers.restart()
        await user.come_back()
        await workers.restart()
        await user.redeem()
        assert {text_of(await user.call("whoami")) for _ in workers.processes} == {SUBJECT}


async def test_a_revocation_is_known_to_all(workers: Workers) -> None:
    async with Journey(workers) as user:
        await user.to_tokens()
        await user.revoke()
        for _ in workers.processes:
            await user.be_refused()


async def test_who_is_sent_away_is_so_everywhere_and_at_the_provider(
    workers: Workers, openid: HeldProvider
) -> None:
    async with Journey(workers) as user, Journey(workers) as elsewhere:
        await user.to_tokens()
        await elsewhere.to_tokens()
        logins = openid.logins[-2:]
        await user.call("leave")  # which ends with all else that is theirs
        await until(lambda: all(login.is_over for login in logins))
        for _ in workers.processes:
            await user.be_refused()
            await elsewhere.be_refused()
        await asyncio.sleep(1)  # tokens say in whole seconds when they were issued
        await user.to_tokens()  # who was sent away may come again
        await user.ask_provider()


async def test_a_store_that_dies_and_comes_back_costs_no_login(workers: Workers) -> None:
    if workers.redis is None:
        pytest.skip("a file cannot be killed")
    async with Journey(workers) as user:
        for step in (user.register, user.open_page, user.allow, user.log_in):
            await step()
        await loses(user, workers.redis, user.come_back)
        await loses(user, workers.redis, user.redeem)
        await loses(user, workers.redis, user.refresh)
        await user.whoami()
        await user.ask_provider()


async def loses(user: Journey, redis: RedisServer, step: Callable[[], Awaitable[None]]) -> None:
    """Kill the store, see that nothing can be done without it, start it anew, and do one step."""
    redis.kill()
    if user.got:
        refused = await user.redeemed(user.got)
        assert (refused.status_code, refused.json()["error"]) == (503, "temporarily_unavailable")
    else:
        page = await user.browser.get(user.callback_url)
        assert (page.status_code, page.headers.get("location")) == (503, None)
    redis.start()
    await step()

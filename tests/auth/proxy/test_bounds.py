"""Logins that nobody goes on with cost the server nothing that grows."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import pytest

from tests.helpers.held_provider import HeldProvider
from tests.helpers.login_workers import Journey, Workers

pytestmark = [pytest.mark.anyio, pytest.mark.long]

MANY = 30


def kept(workers: Workers) -> dict[str, float]:
    """What is in the store that authorization has put there, each with the seconds that are left to it."""
    if workers.redis is not None:
        keys = [key for key in workers.redis.ask("KEYS", "*") if b"/sealed/" in key]
        return {key.decode(): workers.redis.ask("PTTL", key) / 1000 for key in keys}
    with closing(sqlite3.connect(workers.file)) as connection:
        rows = connection.execute("SELECT key, expires FROM stored WHERE key LIKE '%/sealed/%'")
        return {str(key): float(expires) - time.time() for key, expires in rows}


async def test_nothing_is_kept_before_the_user_comes_back(workers: Workers) -> None:
    async with Journey(workers) as user:
        await user.register()
        before = kept(workers)
        for _ in range(MANY):
            await user.register()
            await user.open_page()
            await user.allow()
        assert kept(workers) == before


async def test_a_code_that_nobody_redeems_is_kept_for_two_minutes(workers: Workers) -> None:
    async with Journey(workers) as user:
        before = kept(workers)
        await user.to_code()
        left = sorted(kept(workers)[key] for key in kept(workers).keys() - before.keys())
        assert len(left) == 2, "that it is answered, and the grant"
        assert left[0] <= 120
        assert left[1] <= 1200


async def test_a_browser_keeps_few_of_the_logins_that_it_has_abandoned(workers: Workers) -> None:
    async with Journey(workers) as user:
        await user.register()
        for _ in range(MANY):
            await user.open_page()
            await user.allow()
        cookies = "; ".join(f"{each.name}={each.value}" for each in user.browser.cookies.jar)
        assert len(cookies) < 8000, "what proxies take for one header"
        await user.log_in()
        await user.come_back()
        await user.redeem()


async def test_what_is_kept_ends_with_the_login(workers: Workers, openid: HeldProvider) -> None:
    async with Journey(workers) as user:
        before = kept(workers)
        await user.to_tokens()
        await user.ask_provider()
        await user.refresh()
        await user.revoke()
        left = kept(workers).keys() - before.keys()
        assert {key.split("/sealed/")[1].split("/")[0] for key in left} <= {"answered"}
    assert openid.latest.is_over

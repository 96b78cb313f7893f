"""Many at once, at four processes: each thing that is good for one use is used once, and nobody loses a login by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx2
import pytest

from tests.helpers.held_provider import HeldProvider
from tests.helpers.login_workers import Journey, Workers

pytestmark = [pytest.mark.anyio, pytest.mark.long]

HOUR = 3600.0


@pytest.fixture
async def user(workers: Workers) -> AsyncIterator[Journey]:
    """A user and a client, from an address of their own."""
    async with Journey(workers) as journey:
        yield journey


async def at_once(
    times: int, ask: Callable[[], Coroutine[Any, Any, httpx2.Response]]
) -> list[httpx2.Response]:
    """Ask so many times at once, and return the answers, the smallest status first."""
    answers = await asyncio.gather(*(ask() for _ in range(times)))
    return sorted(answers, key=lambda answer: answer.status_code)


async def works_everywhere(user: Journey, workers: Workers) -> None:
    for _ in workers.processes:
        await user.whoami()
        await user.ask_provider()


async def test_a_code_that_fifty_redeem_at_once_gives_one_of_them_a_login(
    user: Journey, workers: Workers
) -> None:
    await user.to_code()
    first, *others = await at_once(50, lambda: user.redeemed(user.got))
    assert {(other.status_code, other.json()["error"]) for other in others} == {(400, "invalid_grant")}
    user.take(first)
    await works_everywhere(user, workers)
    await user.refresh()


async def test_a_code_that_comes_again_later_ends_the_login_here_and_at_the_provider(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    await user.to_tokens()
    login = openid.latest
    await workers.restart(ahead=60)
    try:
        again = await user.redeemed(user.got)
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
        await user.be_refused()
    finally:
        await workers.restart()
    assert login.is_over


async def test_a_refresh_token_that_twenty_use_at_once_keeps_the_login_and_an_hour_later_ends_it(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    await user.to_tokens()
    login, used = openid.latest, user.held
    answers = await at_once(20, lambda: user.refreshed(used))
    assert [answer.status_code for answer in answers] == [200] * 20
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1
    user.take(answers[0])
    await works_everywhere(user, workers)
    await user.refresh()
    assert not login.is_over
    await workers.restart(ahead=HOUR)
    try:
        again = await user.refreshed(used)
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
        await user.be_refused()
    finally:
        await workers.restart()
    assert login.is_over, "the provider has not heard of it"


async def test_tokens_of_the_provider_that_are_due_are_refreshed_once_for_all(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    await due(user, openid)
    before = openid.refreshed
    await asyncio.gather(*(user.ask_provider() for _ in range(20)))
    assert openid.refreshed == before + 1
    assert not openid.latest.is_over
    await works_everywhere(user, workers)


async def test_they_are_refreshed_once_where_clients_refresh_and_tools_ask_at_the_same_time(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    await due(user, openid)
    before, used = openid.refreshed, user.held
    *answers, _ = await asyncio.gather(
        *(user.refreshed(used) for _ in range(10)),
        asyncio.gather(*(user.ask_provider() for _ in range(10))),
    )
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1
    assert openid.refreshed == before + 1
    user.take(answers[0])
    await works_everywhere(user, workers)


async def test_tokens_that_never_last_a_minute_are_not_refreshed_for_each_who_asks(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    await due(user, openid, seconds=50)
    before = openid.refreshed
    await works_everywhere(user, workers)
    assert openid.refreshed == before + 1


async def test_whoever_comes_back_from_the_provider_twice_is_let_in_once(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    for step in (user.register, user.open_page, user.allow, user.log_in):
        await step()
    before = openid.redeemed
    first, *others = await at_once(12, lambda: user.browser.get(user.callback_url))
    assert openid.redeemed == before + 1
    let_in = [each for each in (first, *others) if each.status_code == 303]
    assert len(let_in) == 1
    assert {other.status_code for other in others if other is not let_in[0]} == {400}
    assert not any("code=" in other.text for other in others)
    user.got = httpx2.URL(let_in[0].headers["location"]).params["code"]
    for _ in workers.processes:  # and later, at each of them
        assert (await user.browser.get(user.callback_url)).status_code == 400
    await user.redeem()
    await works_everywhere(user, workers)


async def test_a_form_that_is_sent_twice_is_one_login(
    user: Journey, workers: Workers, openid: HeldProvider
) -> None:
    """Two clicks send the browser to the provider twice; of what comes back, one is let in."""
    await user.register()
    await user.open_page()
    callbacks = list[str]()
    for answer in await asyncio.gather(user.say_yes(), user.say_yes()):
        user.provider_url = answer.headers["location"]
        await user.log_in()
        callbacks.append(user.callback_url)
    before = openid.redeemed
    ended = await asyncio.gather(*map(user.browser.get, callbacks))
    assert sorted(each.status_code for each in ended) == [303, 400]
    assert openid.redeemed == before + 1


async def test_processes_whose_clocks_differ_refresh_once_all_the_same(
    workers: Workers, openid: HeldProvider
) -> None:
    if workers.redis is None:
        pytest.skip("processes that share a file are on one machine, which has one clock")
    fast = workers.processes[1::2]
    await workers.restart(*fast, ahead=45)
    try:
        async with Journey(workers, to=0) as slow, Journey(workers) as user:
            await due(slow, openid)
            user.held = slow.held
            before = openid.refreshed
            openid.before.clear()
            calls = [asyncio.create_task(user.ask_provider()) for _ in range(8)]
            assert await asyncio.to_thread(openid.is_held.wait, 60)
            await asyncio.sleep(1)  # in which none of the others may begin
            openid.release()
            await asyncio.gather(*calls)
            assert openid.refreshed == before + 1
            assert not openid.latest.is_over
    finally:
        openid.release()
        await workers.restart(*fast)


async def due(user: Journey, openid: HeldProvider, seconds: float = HOUR) -> None:
    """Log in, and have the provider's tokens be over; those that come next are good for some seconds."""
    openid.seconds = 1
    await user.to_tokens()
    openid.seconds = seconds
    await asyncio.sleep(1)

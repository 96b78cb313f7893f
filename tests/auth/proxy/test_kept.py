"""What is kept of logins: as ciphertext alone, for all processes, over restarts and new secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Sqlite
from mcpkit.auth import InvalidTokenError, VerifierUnavailableError
from mcpkit.state.memory import Memory
from tests.helpers.proxied import Proxied
from tests.helpers.stand_in import StandIn

pytestmark = pytest.mark.anyio

OLD, NEW = "the first secret of the tests", "the second secret of the tests"


@asynccontextmanager
async def at(file: Path, upstream: StandIn | None = None, **kept: Any) -> AsyncIterator[Proxied]:
    """A process that keeps what it has in a file."""
    with closing(Sqlite(file)) as shared:
        yield Proxied(upstream, kept={"shared": shared, **kept}, token_lifetime=100_000.0)


async def test_another_process_goes_on_with_every_step() -> None:
    shared = Memory()
    first = Proxied(kept={"shared": shared})

    def another() -> Proxied:
        return Proxied(first.upstream, kept={"shared": shared})

    flow = first.flow()
    cookies = flow.browser.cookies
    await flow.begun()
    for step in range(3):
        there = another().browser()
        there.cookies = cookies
        flow.browser = flow.client = there
        if step == 0:
            url = await flow.at_provider()
        elif step == 1:
            response = await flow.back(url)
        else:
            tokens = (
                await flow.redeemed(response.headers["location"].split("code=")[1].split("&")[0])
            ).json()
        cookies = there.cookies
    assert (await another().granted(tokens)).principal.subject == "ada"


async def test_a_login_outlives_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    async with at(file) as first:
        flow = first.flow()
        tokens = await flow.tokens()
        upstream = first.upstream
    async with at(file, upstream) as second:
        flow.browser = flow.client = second.browser()
        assert await second.token_for(tokens) in upstream.live
        assert (await flow.refreshed(tokens)).status_code == 200


async def test_the_file_holds_nothing_of_the_provider_in_plain(tmp_path: Path) -> None:
    async with at(tmp_path / "notes.db") as here:
        flow = here.flow()
        tokens = await flow.tokens()
        await flow.refreshed(tokens)
        held = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert len(held) > 1000
    said = [*here.upstream.handed_out, tokens["access_token"], tokens["refresh_token"], "#sub=ada"]
    assert not [secret for secret in said if secret.encode() in held]


async def test_a_new_secret_goes_on_with_the_logins_of_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    async with at(file, secret=OLD) as first:
        flow = first.flow()
        tokens = await flow.tokens()
        begun = first.flow()
        url = await begun.at_provider()
        cookies, upstream = begun.browser.cookies, first.upstream
    async with at(file, upstream, secret=[NEW, OLD]) as second:
        begun.browser = begun.client = second.browser()
        begun.browser.cookies = cookies
        assert "code=" in (await begun.back(url)).headers["location"]
        assert (await second.granted(tokens)).principal.subject == "ada"
        flow.browser = flow.client = second.browser()
        tokens = (await flow.refreshed(tokens)).json()
    async with at(file, upstream, secret=NEW) as third:
        assert await third.token_for(tokens) in upstream.live
    async with at(file, upstream, secret=OLD) as wrong:
        with pytest.raises((InvalidTokenError, VerifierUnavailableError)):
            await wrong.granted(tokens)


async def test_two_providers_of_one_server_never_hear_of_each_others_tokens() -> None:
    shared = Memory()
    one = Proxied(kept={"shared": shared})
    other = Proxied(StandIn(one.clock, name="other"), kept={"shared": shared})
    flow = one.flow()
    tokens = await flow.tokens()
    flow.browser = flow.client = other.browser()
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"
    assert other.upstream.asked == []

"""A user logs in by a real browser, which comes back to the port of this machine; the tokens stay in a file."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mcpkit import Client, FileTokens, Loopback, OAuth
from tests.helpers.browser import Browser
from tests.helpers.identity_provider import IdentityProvider, providing
from tests.interop.authorization.test_machines import served

pytestmark = pytest.mark.anyio

AGAIN = """
import asyncio, sys
from mcpkit import Client, FileTokens, OAuth, Loopback

def show(url):
    raise AssertionError("nobody is to log in again")

async def main():
    auth = OAuth(storage=FileTokens(sys.argv[2]), browser=Loopback(open_browser=show))
    async with Client(sys.argv[1], auth=auth) as client:
        print((await client.call("whoami")).text)

asyncio.run(main())
"""


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_browser_comes_back_and_the_next_process_needs_no_login(
    identity_provider: IdentityProvider, browser: Browser, tmp_path: Path, revision: str
) -> None:
    tokens = tmp_path / "folder" / "tokens"
    shown: list[str] = []
    with served(identity_provider.issuer) as url, browser.profile() as page:

        def show(login: str) -> None:
            shown.append(page.log_in(login, "ada").url)

        auth = OAuth(storage=FileTokens(tokens), browser=Loopback(open_browser=show))
        async with Client(url, auth=auth, revision=revision) as client:
            assert (await client.call("whoami")).text == "ada may notes:read"
        assert "127.0.0.1" in shown[0]
        assert "You can close this page" in page.text("body")
        again = subprocess.run(
            [sys.executable, "-c", AGAIN, url, str(tokens)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert again.stdout == "ada may notes:read\n"
    assert tokens.stat().st_mode & 0o777 == 0o600


async def test_of_processes_whose_token_has_ended_one_refreshes_it(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "tokens"
    with providing() as provider, served(provider.issuer) as url, browser.profile() as page:
        storage = FileTokens(path)
        login = Loopback(open_browser=lambda login: page.log_in(login, "ada"))
        async with Client(url, auth=OAuth(storage=storage, browser=login)) as client:
            await client.call("whoami")
        kept = await storage.tokens(url)
        assert kept is not None
        await storage.keep_tokens(replace(kept, access_token="has-ended", expires=1.0))
        command = [sys.executable, "-c", AGAIN, url, str(path)]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        said = [process.communicate(timeout=60)[0] for process in processes]
        refreshed = [
            each for each in provider.seen("/token") if each.params.get("grant_type") == "refresh_token"
        ]
    assert said == ["ada may notes:read\n"] * 4
    assert [each.status for each in refreshed] == [200]

"""Fixtures: providers and issuers over HTTP, an `OAuthProxy` with a real provider, and a browser."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mcpkit.auth import Jwt, UpstreamProvider
from tests.helpers.browser import Browser, Launched, Profile
from tests.helpers.fake_idp import CLIENT, OLD, KeyIssuer, OpenIdSite, UpstreamLogin, openid, serve_keys
from tests.helpers.signed_tokens import NOW
from tests.helpers.waiting import Clock
from tests.integration.auth.clients import User
from tests.integration.auth.servers import ProxyServer, serve_proxy


@pytest.fixture
def issuer() -> Iterator[KeyIssuer]:
    with serve_keys(OLD) as provider:
        yield provider


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
async def jwt(issuer: KeyIssuer, clock: Clock) -> AsyncIterator[Jwt]:
    verifier = Jwt(issuer.url, clock=clock)
    yield verifier
    await verifier.aclose()


@pytest.fixture
def provider() -> Iterator[OpenIdSite]:
    with openid() as site:
        yield site


@pytest.fixture
async def login(provider: OpenIdSite) -> AsyncIterator[UpstreamLogin]:
    upstream = UpstreamProvider.openid(provider.url, *CLIENT, timeout=20)
    yield UpstreamLogin(upstream)
    await upstream.provider.aclose()


@pytest.fixture
def page(browser: Browser) -> Iterator[Profile]:
    with browser.profile() as profile:
        yield profile


@pytest.fixture
def user(page: Profile) -> User:
    """Bob, in a fresh browser profile."""
    return User(page)


@pytest.fixture
def proxy() -> Iterator[ProxyServer]:
    with serve_proxy() as server:
        yield server


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Launched]:
    """The URLs that programs open in a browser."""
    folder = tmp_path / "browser"
    folder.mkdir()
    launched = Launched(folder)
    yield launched
    launched.close()

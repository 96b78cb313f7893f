"""Fixtures: an issuer of keys, an OpenID provider, worker processes, a browser user, and what programs open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mcpkit.auth import Jwt, UpstreamProvider
from tests.helpers.browser import Browser, Launched, Profile
from tests.helpers.clock import Clock
from tests.helpers.fake_idp import CLIENT, OLD, KeyIssuer, OpenIdSite, UpstreamLogin, openid, serve_keys
from tests.helpers.identity_provider import IdentityProvider
from tests.helpers.redis_server import RedisServer
from tests.helpers.signed_tokens import NOW
from tests.integration.auth.clients import User
from tests.integration.auth.servers import ProtectedServer, ProxyServer, serve_jwt, serve_proxy
from tests.integration.auth.workers import HeldProvider, Workers, held_provider


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
async def upstream(provider: OpenIdSite) -> AsyncIterator[UpstreamProvider]:
    upstream = UpstreamProvider.openid(provider.url, *CLIENT, timeout=20)
    yield upstream
    await upstream.provider.aclose()


@pytest.fixture
def login(upstream: UpstreamProvider) -> UpstreamLogin:
    return UpstreamLogin(upstream)


@pytest.fixture(scope="module")
def provider_of_module() -> Iterator[HeldProvider]:
    with held_provider() as provider:
        yield provider


@pytest.fixture
def openid_provider(provider_of_module: HeldProvider) -> Iterator[HeldProvider]:
    """The provider of the workers; its state is reset after each test."""
    yield provider_of_module
    provider_of_module.as_before()


@pytest.fixture(scope="module")
async def workers(
    request: pytest.FixtureRequest, provider_of_module: HeldProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workers]:
    """Four processes for all tests of a module with one store; tests that change them restore them."""
    folder = tmp_path_factory.mktemp("workers")
    settings = getattr(request.module, "SETTINGS", {})
    if getattr(request, "param", "redis") == "sqlite":
        async with Workers(folder, provider_of_module, **settings) as running:
            yield running
    else:
        # Without compression, so that the dump can be searched.
        with RedisServer(folder / "redis", "--rdbcompression", "no", "--appendfsync", "always") as redis:
            async with Workers(folder, provider_of_module, redis, **settings) as running:
                yield running


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
def jwt_server(identity_provider: IdentityProvider) -> Iterator[ProtectedServer]:
    with serve_jwt(identity_provider.issuer) as server:
        yield server


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Launched]:
    """The URLs that programs open in a browser."""
    folder = tmp_path / "browser"
    folder.mkdir()
    launched = Launched(folder)
    yield launched
    launched.close()

"""Fixtures: an authorization server or an OAuthProxy in process, and the steps of a login."""

from typing import Any

import pytest

from tests.helpers.oauth_flow import AuthServer, Login, ProxyFlow, ProxyServer


@pytest.fixture
def server() -> AuthServer:
    return AuthServer()


@pytest.fixture
async def login(server: AuthServer) -> Login:
    return await server.login()


@pytest.fixture
async def code(server: AuthServer, login: Login) -> str:
    return await server.code(login)


@pytest.fixture
def proxy() -> ProxyServer:
    return ProxyServer()


@pytest.fixture
def flow(proxy: ProxyServer) -> ProxyFlow:
    return proxy.flow()


@pytest.fixture
async def tokens(flow: ProxyFlow) -> dict[str, Any]:
    return await flow.tokens()

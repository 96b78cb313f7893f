"""Fixtures: an OAuthProxy in process, and the steps of a login through it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.oauth_flow import ProxyFlow, ProxyServer


@pytest.fixture
def proxy() -> ProxyServer:
    return ProxyServer()


@pytest.fixture
def flow(proxy: ProxyServer) -> ProxyFlow:
    return proxy.flow()


@pytest.fixture
async def tokens(flow: ProxyFlow) -> dict[str, Any]:
    return await flow.tokens()

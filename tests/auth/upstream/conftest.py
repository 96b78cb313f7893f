"""An OpenID provider of a script, and this server as its client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from mcpkit.auth import Upstream
from tests.helpers.openid_site import OpenIdSite, openid
from tests.helpers.upstream_login import UpstreamLogin
from tests.helpers.upstream_site import CLIENT


@pytest.fixture
def provider() -> Iterator[OpenIdSite]:
    with openid() as serving:
        yield serving


@pytest.fixture
async def upstream(provider: OpenIdSite) -> AsyncIterator[Upstream]:
    made = Upstream.openid(provider.url, *CLIENT, timeout=20)
    yield made
    await made.provider.aclose()


@pytest.fixture
def login(upstream: Upstream) -> UpstreamLogin:
    return UpstreamLogin(upstream)

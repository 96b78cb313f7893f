"""A provider, a time, and a verifier of its tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from mcpkit.auth import Jwt
from tests.helpers.clock import Clock
from tests.helpers.provider import Provider, providing
from tests.helpers.signed_tokens import NOW
from tests.helpers.taken import OLD


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing(OLD) as serving:
        yield serving


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
async def jwt(provider: Provider, clock: Clock) -> AsyncIterator[Jwt]:
    verifier = Jwt(provider.url, clock=clock)
    yield verifier
    await verifier.aclose()

"""A provider, and processes of one site whose users log in there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.helpers.held_provider import HeldProvider, held_provider
from tests.helpers.login_workers import Workers
from tests.helpers.redis_server import RedisServer


@pytest.fixture(scope="module")
def provider_of_module() -> Iterator[HeldProvider]:
    with held_provider() as provider:
        yield provider


@pytest.fixture
def openid(provider_of_module: HeldProvider) -> Iterator[HeldProvider]:
    """The provider of the workers, which afterwards is as it was."""
    yield provider_of_module
    provider_of_module.as_before()


@pytest.fixture(scope="module", params=["sqlite", "redis"])
async def workers(
    request: pytest.FixtureRequest, provider_of_module: HeldProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workers]:
    """Four processes, for all tests of a module; those that change them leave them as they were."""
    folder = tmp_path_factory.mktemp("workers")
    settings = getattr(request.module, "SETTINGS", {})
    if request.param == "sqlite":
        async with Workers(folder, provider_of_module, **settings) as running:
            yield running
    else:
        # What is compressed could not be searched; what is killed must have written all that it has said.
        with RedisServer(folder / "redis", "--rdbcompression", "no", "--appendfsync", "always") as redis:
            async with Workers(folder, provider_of_module, redis, **settings) as running:
                yield running

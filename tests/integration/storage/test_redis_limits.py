"""Limits of what processes share in a Redis."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import pytest

from mcpkit import Server
from mcpkit.storage import Redis
from tests.helpers.raw_client import initialize, serving
from tests.helpers.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.limit("wait for a `Redis` that does not answer")
async def test_redis_without_response_gets_503_after_timeout(
    tmp_path: Path, schema_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_for_answer(shared: Redis) -> None:
        for _ in range(100):
            with suppress(OSError):
                return await shared.erase("nothing")
        pytest.fail("Redis does not answer")

    with RedisServer(tmp_path / "redis") as redis, closing(Redis(redis.url)) as shared:
        await wait_for_answer(shared)
        async with serving(Server("s", storage=shared, secret_key="s" * 32), schema_dir) as client:
            redis.pause()
            try:
                with monkeypatch.context() as patch:
                    patch.setattr("mcpkit.state.redis_link.DEFAULT_TIMEOUT", 0.1)
                    assert (await client.post(initialize()).whole()).status == 503
            finally:
                redis.resume()
            await wait_for_answer(shared)
            await client.initialize()

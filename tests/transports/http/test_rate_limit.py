"""Rates over HTTP: of clients without a session, and of sessions that are opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.middlewares import RateLimit
from tests.helpers.asgi_answer import Judge
from tests.helpers.asgi_client import initialize, serving

pytestmark = pytest.mark.anyio


async def test_a_client_without_a_session_is_no_new_one_in_each_batch(schema_dir: Path) -> None:
    server, calls = Server("s"), []
    server.middleware(RateLimit(0.001, burst=2))

    @server.tool
    async def look(ctx: Context) -> None:
        calls.append(ctx.request_id)

    def call(number: int) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "look"}}

    level = {"jsonrpc": "2.0", "id": 0, "method": "logging/setLevel", "params": {"level": "info"}}
    async with serving(server, schema_dir, stateless=True) as client:
        for first in (1, 4):
            batch = [level, *map(call, range(first, first + 3))]
            await client.post(batch, judge=Judge(client.folder, "2025-03-26")).whole()
    assert calls == [1, 2]


async def test_sessions_are_opened_at_the_rate_that_they_may(schema_dir: Path) -> None:
    server = Server("s", secret="a secret of some length")
    server.middleware(RateLimit(0.001, burst=2, methods=["initialize"]))
    async with serving(server, schema_dir) as client:
        statuses: list[int | None] = []
        for _ in range(4):
            judge = Judge(client.folder, "2025-11-25")
            statuses.append((await client.post(initialize(), judge=judge).whole()).status)
    assert statuses == [200, 200, 503, 503]

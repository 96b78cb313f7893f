"""Apps that share a store know of each other."""

from __future__ import annotations

import pytest

from mcpkit import Memory, Server
from tests.helpers.asgi_client import Serve
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


def make_server(shared: Memory | None) -> Server:
    return Server("present", secret="a secret of sixteen bytes", shared=shared)


async def test_as_many_replicas_are_counted_as_serve(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpkit.state.presence.BEAT", 0.001)
    broker = Memory()
    one, two = make_server(broker), make_server(broker)
    async with serve(one):
        await until(lambda: one.engine.runtime.presences)
        assert one.engine.runtime.replicas() == 1
        async with serve(two, stateless=True):
            await until(lambda: one.engine.runtime.replicas() == two.engine.runtime.replicas() == 2)
        await until(lambda: one.engine.runtime.replicas() == 1)
    assert one.engine.runtime.replicas() == 1
    assert not one.engine.runtime.presences


async def test_who_shares_nothing_says_nothing(serve: Serve) -> None:
    server = make_server(None)
    async with serve(server) as client:
        await client.initialize()
        assert client.app.door()._begin().environment.presence is None
        assert await server.store.get("present/presence") is None
        assert await server.engine.runtime.shared.read("present/presence") == {}
        assert server.engine.runtime.replicas() == 1

"""Changes on their way to other processes and from there, by a broker."""

from __future__ import annotations

import threading

import pytest

from mcpkit import Server
from mcpkit.state.change import Change
from mcpkit.state.memory import Memory
from tests.helpers.listening import Ear
from tests.helpers.pipe import settle

pytestmark = pytest.mark.anyio

X: Change = Change("resource", "data://x")
TOOLS: Change = Change("tools")


def handler() -> str:
    return ""


class Failing(Memory):
    """A broker that is down at times."""

    is_down = True

    async def publish(self, topic: str, message: str) -> None:
        if self.is_down:
            raise ConnectionError("down")
        await super().publish(topic, message)


async def test_servers_with_a_shared_broker_receive_each_change_once() -> None:
    broker = Memory()
    here, there, other = (
        Server("s", shared=broker),
        Server("s", shared=broker),
        Server("other", shared=broker),
    )
    ears = {server: Ear() for server in (here, there, other)}
    for server, ear in ears.items():
        for change in (X, TOOLS, Change("resources")):
            server.engine.hubs.here().want(ear, change)
    async with here.running(), there.running(), other.running():
        here.resource_updated("data://x")
        here.tool(handler)
        here.resource_updated("data://x")
        await settle()
        assert ears[here].heard == [X, TOOLS]
        assert ears[there].heard == [X, TOOLS]
        thread = threading.Thread(target=there.resource_updated, args=("data://x",))
        thread.start()
        thread.join()
        await settle()
    assert ears[here].heard == [X, TOOLS, X]
    assert ears[there].heard == [X, TOOLS, X]
    assert ears[other].heard == []
    here.resource_updated("data://x")  # nobody serves it any more
    await settle()
    assert len(ears[there].heard) == 3


async def test_a_broker_that_fails_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    broker = Failing()
    here, there = Server("s", shared=broker), Server("s", shared=broker)
    ear, own = Ear(), Ear()
    there.engine.hubs.here().want(ear, X)
    here.engine.hubs.here().want(own, X)
    async with here.running():
        for _ in range(3):
            here.resource_updated("data://x")
            await settle()
        assert own.heard == [X] * 3
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "the shared store fails" in caplog.text
        broker.is_down = False
        here.resource_updated("data://x")
        await settle()
        assert ear.heard == [X]
        broker.is_down = True
        here.resource_updated("data://x")
        await settle()
        assert len(caplog.records) == 2

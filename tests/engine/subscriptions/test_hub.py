"""Changes on their way to listeners of one event loop, and to servers that share a broker."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from mcpkit import Registry, Server
from mcpkit.engine.subscriptions.mailbox import Pending
from mcpkit.state.change import Change
from mcpkit.state.memory import Memory
from tests.helpers.pipe import Ear, hearing, settle

pytestmark = pytest.mark.anyio

X: Change = Change("resource", "data://x")
Y: Change = Change("resource", "data://y")
TOOLS: Change = Change("tools")


def handler() -> str:
    return ""


def station(id: str) -> str:
    return id


@pytest.fixture
def server() -> Server:
    server = Server("s")
    server.resource("data://stations/{id}")(station)
    return server


async def test_change_reaches_its_listeners_only(server: Server) -> None:
    changes, one, other = server.engine.hubs.here(), Ear(), Ear()
    changes.want(one, X)
    changes.want(one, TOOLS)
    changes.want(other, Y)
    server.notify_resource_updated("data://x")
    server.tool(handler)
    server.prompt(handler)
    await settle()
    assert one.heard == [X, TOOLS]
    assert other.heard == []


async def test_changes_come_once_for_each_turn_in_the_order_of_their_first_time(server: Server) -> None:
    changes, ear = server.engine.hubs.here(), Ear()
    for change in (X, Y, TOOLS):
        changes.want(ear, change)
    server.notify_resource_updated("data://y")
    server.tool(handler)
    server.notify_resource_updated("data://x")
    server.notify_resource_updated("data://y")
    server.tool(handler, name="other")
    await settle()
    assert ear.heard == [Y, TOOLS, X]
    server.notify_resource_updated("data://y")
    await settle()
    assert ear.heard == [Y, TOOLS, X, Y]


async def test_removed_listener_receives_no_pending_change(server: Server) -> None:
    changes, ear = server.engine.hubs.here(), Ear()
    changes.want(ear, X)
    changes.want(ear, TOOLS)
    server.notify_resource_updated("data://x")
    changes.forget(ear)
    changes.forget(ear)
    server.tool(handler)
    await settle()
    assert ear.heard == []


async def test_the_text_of_a_template_stands_for_all_its_uris(server: Server) -> None:
    changes, ear, other = server.engine.hubs.here(), Ear(), Ear()
    changes.want(ear, Change("resource", "data://stations/{id}"))
    changes.want(ear, Change("resource", "data://stations/1"))
    changes.want(other, Change("resource", "data://elsewhere/{id}"))
    server.notify_resource_updated("data://stations/1")
    server.notify_resource_updated("data://stations/2")
    server.notify_resource_updated("data://stations/2/deep")
    server.notify_resource_updated("data://elsewhere/1")
    await settle()
    assert ear.heard == [Change("resource", "data://stations/1"), Change("resource", "data://stations/2")]
    assert other.heard == []
    server.resource("data://elsewhere/{id}")(station)
    server.catalog.resource_templates.disable("data://stations/{id}")
    server.notify_resource_updated("data://elsewhere/1")
    server.notify_resource_updated("data://stations/2")
    await settle()
    assert other.heard == [Change("resource", "data://elsewhere/1")]
    assert len(ear.heard) == 2
    changes.forget(other)
    server.notify_resource_updated("data://elsewhere/1")
    await settle()
    assert len(other.heard) == 1


async def test_updates_of_what_is_included_come_under_the_prefix(server: Server) -> None:
    registry = Registry()
    registry.resource("data://r")(handler)
    server.include(registry, prefix="in")
    changes, ear = server.engine.hubs.here(), Ear()
    changes.want(ear, Change("resource", "data://in/r"))
    registry.notify_resource_updated("data://r")
    await settle()
    assert ear.heard == [Change("resource", "data://in/r")]


async def test_server_is_watched_only_while_clients_listen(server: Server) -> None:
    changes, ear = server.engine.hubs.here(), Ear()
    assert hearing(server) == 0
    changes.want(ear, X)
    changes.want(ear, TOOLS)
    assert hearing(server) == 1
    changes.unwant(ear, X)
    assert hearing(server) == 1
    changes.forget(ear)
    assert hearing(server) == 0


@pytest.mark.slow
def test_hub_references_to_loop_and_server_are_weak() -> None:
    server = Server("s")
    ears: list[Ear] = []

    async def listen(server: Server) -> weakref.ref[asyncio.AbstractEventLoop]:
        ears.append(Ear())
        server.engine.hubs.here().want(ears[0], X)
        server.engine.hubs.here().forget(ears[0])
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(listen(server))
    gc.collect()
    assert loop() is None
    gone = weakref.ref(server)
    del server
    gc.collect()
    assert gone() is None


# What waits for one listener


def test_pending_changes_are_bounded_but_lists_have_room() -> None:
    pending = Pending()
    pending.add(TOOLS)
    uris = [Change("resource", f"data://{n}") for n in range(Pending.LIMIT)]
    assert [pending.add(uri) for uri in uris] == [True] * (Pending.LIMIT - 1) + [False]
    assert pending.add(uris[0])  # it waits already
    assert pending.add(Change("prompts"))
    assert pending.replace_oldest(uris[-1]) == uris[0]
    assert pending.take() == [TOOLS, *uris[1:-1], Change("prompts"), uris[-1]]


def test_hub_drops_ended_loop_at_next_change(server: Server) -> None:
    ear = Ear()

    async def listen() -> None:
        server.engine.hubs.here().want(ear, X)

    asyncio.run(listen())
    server.notify_resource_updated("data://x")
    server.notify_resource_updated("data://x")
    assert ear.heard == []
    assert hearing(server) == 0


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
        Server("s", storage=broker),
        Server("s", storage=broker),
        Server("other", storage=broker),
    )
    ears = {server: Ear() for server in (here, there, other)}
    for server, ear in ears.items():
        for change in (X, TOOLS, Change("resources")):
            server.engine.hubs.here().want(ear, change)
    async with here.running(), there.running(), other.running():
        here.notify_resource_updated("data://x")
        here.tool(handler)
        here.notify_resource_updated("data://x")
        await settle()
        assert ears[here].heard == [X, TOOLS]
        assert ears[there].heard == [X, TOOLS]
        thread = threading.Thread(target=there.notify_resource_updated, args=("data://x",))
        thread.start()
        thread.join()
        await settle()
    assert ears[here].heard == [X, TOOLS, X]
    assert ears[there].heard == [X, TOOLS, X]
    assert ears[other].heard == []
    here.notify_resource_updated("data://x")  # nobody serves it any more
    await settle()
    assert len(ears[there].heard) == 3


async def test_a_broker_that_fails_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    broker = Failing()
    here, there = Server("s", storage=broker), Server("s", storage=broker)
    ear, own = Ear(), Ear()
    there.engine.hubs.here().want(ear, X)
    here.engine.hubs.here().want(own, X)
    async with here.running():
        for _ in range(3):
            here.notify_resource_updated("data://x")
            await settle()
        assert own.heard == [X] * 3
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "the shared store does not answer: other processes" in caplog.text
        broker.is_down = False
        here.notify_resource_updated("data://x")
        await settle()
        assert ear.heard == [X]
        broker.is_down = True
        here.notify_resource_updated("data://x")
        await settle()
        assert len(caplog.records) == 2

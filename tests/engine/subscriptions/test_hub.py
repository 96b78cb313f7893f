"""Changes on their way to the listeners of an event loop, to other processes, and after lost messages."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Access, Principal, Registry, Server
from mcpkit.engine.changes_between_processes import ChangeQueue
from mcpkit.engine.message_dispatch import Connection
from mcpkit.engine.subscription_filters_and_delivery import LOST
from mcpkit.identity.principals_and_scopes import Change
from mcpkit.storage.memory import Memory
from tests.helpers.engines import LossyMemory
from tests.helpers.pipe import META, count_listeners, settle, stateless_meta, updated
from tests.helpers.waiting import until
from tests.helpers.watched import listen

X, Y, TOOLS = updated("data://x"), updated("data://y"), Change("tools")
INBOX, MAIL = "mail://inbox", "mail://{folder}/{number}"
ADA, BOB = Principal("ada", {"mail"}), Principal("bob")


def handler() -> str:
    return ""


def mail_server(broker: Memory | None = None) -> Server:
    server = Server("mail", storage=broker)
    server.resource(INBOX)(handler)
    server.resource(MAIL, name="mail")(lambda folder, number: f"{folder}{number}")
    server.tool(handler, name="send")
    return server


@pytest.fixture
def server() -> Server:
    return mail_server()


def run_in_thread(target: Callable[..., Any], *args: Any) -> None:
    thread = threading.Thread(target=target, args=args)
    thread.start()
    thread.join()


async def test_hub_sends_each_change_once_per_turn_to_its_listeners_in_order(server: Server) -> None:
    listener, removed = listen(server, X, Y, TOOLS), listen(server, X, TOOLS)
    other = listen(server, updated("data://z"))
    server.notify_resource_updated("data://y")
    server.tool(handler)
    server.prompt(handler)
    server.engine.hub().unsubscribe_all(removed)
    server.engine.hub().unsubscribe_all(removed)
    server.notify_resource_updated("data://x")
    server.notify_resource_updated("data://y")
    server.tool(handler, name="other")
    await settle()
    assert listener.heard == [Y, TOOLS, X]
    assert removed.heard == other.heard == []
    server.notify_resource_updated("data://y")
    await settle()
    assert listener.heard == [Y, TOOLS, X, Y]


async def test_hub_template_text_stands_for_all_its_uris(server: Server) -> None:
    listener, other = listen(server, MAIL, "mail://a/1"), listen(server, "data://{id}")
    for uri in ("mail://a/1", "mail://a/2", "mail://a/2/deep", "data://1"):
        server.notify_resource_updated(uri)
    await settle()
    assert listener.uris == ["mail://a/1", "mail://a/2"]
    assert other.heard == []
    server.resource("data://{id}", name="data")(lambda id: id)
    server.catalog.resource_templates.disable(MAIL)
    for uri in ("data://1", "mail://a/2"):
        server.notify_resource_updated(uri)
    await settle()
    assert other.uris == ["data://1"]
    assert len(listener.heard) == 2
    server.engine.hub().unsubscribe_all(other)
    server.notify_resource_updated("data://1")
    await settle()
    assert len(other.heard) == 1


async def test_hub_update_of_an_included_registry_has_its_prefix(server: Server) -> None:
    registry = Registry()
    registry.resource("data://r")(handler)
    server.include(registry, prefix="in")
    listener = listen(server, "data://in/r")
    registry.notify_resource_updated("data://r")
    await settle()
    assert listener.uris == ["data://in/r"]


def test_hub_drops_ended_loop_at_next_change(server: Server) -> None:
    async def run() -> Any:
        return listen(server, X)

    listener = asyncio.run(run())
    server.notify_resource_updated("data://x")
    server.notify_resource_updated("data://x")
    assert listener.heard == []
    assert count_listeners(server) == 0


def test_pending_changes_are_bounded_but_lists_have_room() -> None:
    pending = ChangeQueue()
    pending.add(TOOLS)
    uris = [updated(f"data://{n}") for n in range(ChangeQueue.LIMIT)]
    assert [pending.add(uri) for uri in uris] == [True] * (ChangeQueue.LIMIT - 1) + [False]
    assert pending.add(uris[0])  # it waits already
    assert pending.add(Change("prompts"))
    assert pending.replace_oldest(uris[-1]) == uris[0]
    assert pending.take() == [TOOLS, *uris[1:-1], Change("prompts"), uris[-1]]


# Servers that share a broker


async def test_broker_failure_is_logged_once_and_publishing_is_retried(caplog) -> None:
    class Failing(Memory):
        is_down = True

        async def publish(self, topic: str, message: str) -> None:
            if self.is_down:
                raise ConnectionError("down")
            await super().publish(topic, message)

    broker = Failing()
    here, there = Server("s", storage=broker), Server("s", storage=broker)
    own, remote = listen(here, X), listen(there, X)
    async with here.running():
        for broker.is_down, logged, received in ((True, 1, 0), (True, 1, 0), (False, 1, 1), (True, 2, 1)):
            here.notify_resource_updated("data://x")
            await settle()
            assert [record.levelname for record in caplog.records] == ["ERROR"] * logged
            assert remote.heard == [X] * received
    assert own.heard == [X] * 4
    assert "the shared store does not answer: other processes" in caplog.text


# Gaps: messages between processes are lost


async def test_gap_notifies_each_listener_with_access_once() -> None:
    broker = LossyMemory()
    server, other = mail_server(broker), Server("other", storage=broker)
    secret = Access(visible=lambda who: "mail" in who.scopes)
    server.resource("mail://secret", access=secret)(handler)
    wants = {TOOLS, Change("resources"), updated(INBOX), updated(MAIL)}
    listener, inbox = listen(server, *wants), listen(server, INBOX)
    elsewhere = listen(other, Change("prompts"))
    ada, bob = (listen(server, "mail://secret", principal=who) for who in (ADA, BOB))
    broker.report_gap()
    await settle()
    assert len(listener.heard) == len(wants)
    assert set(listener.heard) == wants
    assert (inbox.uris, elsewhere.heard) == ([INBOX], [Change("prompts")])
    assert [len(each.heard) for each in (ada, bob)] == [1, 0]
    server.engine.hub().unsubscribe_all(inbox)
    run_in_thread(broker.report_gap)
    await settle()
    assert len(listener.heard) == 2 * len(wants)
    assert len(inbox.heard) == 1


async def test_gap_ends_streams_of_topics() -> None:
    broker = LossyMemory()
    server = Server("s", storage=broker)
    topic = server.extension("com.example/jobs").topic("jobIds", "notifications/jobs")
    lines: asyncio.Queue[Any] = asyncio.Queue()
    capabilities = {META + "clientCapabilities": {"extensions": {"com.example/jobs": {}}}}
    params = {"notifications": {"jobIds": ["a"]}, "_meta": stateless_meta(**capabilities)}
    async with server.running():
        connection = Connection(server, lambda line: lines.put_nowait(json.loads(line)))

        async def open_stream(id_: str) -> None:
            request = {"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": params}
            connection.receive(json.dumps(request).encode())
            assert (await lines.get())["method"] == "notifications/subscriptions/acknowledged"

        await open_stream("first")
        broker.report_gap()
        ended = await lines.get()
        assert ended["method"] == "notifications/cancelled"
        assert ended["params"] == {"requestId": "first", "reason": LOST}
        await open_stream("second")
        topic.publish("a", {"state": "done"})
        message = (await lines.get())["params"]
        assert (message["state"], message["_meta"][META + "subscriptionId"]) == ("done", "second")
        await connection.aclose()


async def test_gap_audience_is_requested_again_after_lost_answers() -> None:
    broker = LossyMemory()
    here, there = mail_server(broker), mail_server(broker)
    ada, bob = (listen(there, INBOX, principal=who) for who in (ADA, BOB))
    async with here.running():
        requests: list[str] = []
        broker.subscribe("mail/changes", requests.append)

        def lose_the_answer(message: str) -> None:
            broker.loses_messages = '"who"' in message

        leave = broker.subscribe("mail/changes", lose_the_answer)
        here.notify_resource_updated(INBOX, to=lambda who: who.id == "ada")
        await until(lambda: broker.loses_messages)
        await settle()
        leave()
        assert ada.heard == bob.heard == []
        (report_gap,) = [each for each in broker._missed.values() if each.__qualname__ == "Publisher._missed"]
        broker.loses_messages = False
        report_gap()  # of the publisher only
        await until(lambda: ada.heard)
        await settle()
        count = len(requests)
        report_gap()
        await until(lambda: len(requests) > count)
        await settle()
        assert (ada.uris, bob.heard) == ([INBOX], [])  # no listener receives the update twice

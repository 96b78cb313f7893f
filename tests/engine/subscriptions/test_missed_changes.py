"""Messages between processes are lost: whoever listens is told that all they listen to may have changed."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mcpkit import Access, Principal, Server
from mcpkit.engine.connection import Connection
from mcpkit.engine.subscriptions.listen import LOST
from mcpkit.state.change import Change
from mcpkit.testing import connect
from tests.helpers.engines import LossyMemory
from tests.helpers.pipe import META, Ear, settle, stateless_meta, updated
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

KNOWS = {"extensions": {"com.example/jobs": {}}}
ADA, BOB = Principal("ada", {"mail"}), Principal("bob")


def mail_server(broker: LossyMemory) -> Server:
    server = Server("mail", storage=broker)

    @server.resource("mail://inbox")
    def inbox() -> str:
        return ""

    @server.resource("mail://{folder}/{number}")
    def mail(folder: str, number: int) -> str:
        return f"{folder}{number}"

    @server.tool
    def send() -> None:
        """Send."""

    return server


async def test_gap_notifies_each_listener_once() -> None:
    broker = LossyMemory()
    server, other = mail_server(broker), Server("other", storage=broker)
    wants = [
        Change("tools"),
        Change("resources"),
        updated("mail://inbox"),
        updated("mail://{folder}/{number}"),
    ]
    ear, eye, elsewhere = Ear(), Ear(), Ear()
    for change in wants:
        server.engine.hubs.here().want(ear, change)
    server.engine.hubs.here().want(eye, updated("mail://inbox"))
    other.engine.hubs.here().want(elsewhere, Change("prompts"))
    broker.report_gap()
    await settle()
    assert len(ear.heard) == len(wants)
    assert set(ear.heard) == set(wants)
    assert eye.heard == [updated("mail://inbox")]
    assert elsewhere.heard == [Change("prompts")]
    server.engine.hubs.here().forget(eye)
    thread = threading.Thread(target=broker.report_gap)
    thread.start()
    thread.join()
    await settle()
    assert len(ear.heard) == 2 * len(wants)
    assert len(eye.heard) == 1


async def test_gap_is_not_reported_to_clients_without_access() -> None:
    broker = LossyMemory()
    server = Server("mail", storage=broker)
    server.resource("mail://inbox", name="inbox", access=Access(visible=lambda who: "mail" in who.scopes))(
        lambda: ""
    )
    ears = {who: Ear() for who in (ADA, BOB)}
    for who, ear in ears.items():
        ear.principal = who
        server.engine.hubs.here().want(ear, updated("mail://inbox"))
    broker.report_gap()
    await settle()
    assert [len(ear.heard) for ear in ears.values()] == [1, 0]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_gap_makes_clients_list_again(revision: str) -> None:
    broker = LossyMemory()
    here, there = mail_server(broker), mail_server(broker)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(there.running())
        client = await stack.enter_async_context(connect(here, protocol_version=revision))
        uris = ["mail://inbox", "mail://inbox/1"]
        if revision == "2026-07-28":
            wanted = {"toolsListChanged": True, "resourceSubscriptions": uris}
            stream = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
            stack.callback(stream.cancel)
            await client.notification("notifications/subscriptions/acknowledged")
        else:
            for uri in uris:
                await client.request("resources/subscribe", {"uri": uri})
        broker.loses_messages = True
        there.notify_resource_updated("mail://inbox/1")
        await settle()
        broker.report_gap()
        told = {(await client.notification("notifications/resources/updated"))["uri"] for _ in uris}
        assert told == set(uris)
        await client.notification("notifications/tools/list_changed")
        there.notify_resource_updated("mail://inbox/1")
        assert (await client.notification("notifications/resources/updated"))["uri"] == "mail://inbox/1"


# Topics: what they told, nobody knows


async def test_gap_ends_streams_of_topics() -> None:
    broker = LossyMemory()
    server = Server("s", storage=broker)
    topic = server.extension("com.example/jobs").topic("jobIds", "notifications/jobs")
    lines: asyncio.Queue[Any] = asyncio.Queue()
    async with server.running():
        connection = Connection(server, lambda line: lines.put_nowait(json.loads(line)))

        async def listen(id_: str) -> None:
            params = {
                "notifications": {"jobIds": ["a"]},
                "_meta": stateless_meta(**{META + "clientCapabilities": KNOWS}),
            }
            request = {"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": params}
            connection.receive(json.dumps(request).encode())
            assert (await lines.get())["method"] == "notifications/subscriptions/acknowledged"

        await listen("first")
        broker.report_gap()
        ended = await lines.get()
        assert ended["method"] == "notifications/cancelled"
        assert ended["params"] == {"requestId": "first", "reason": LOST}
        await listen("second")
        topic.publish("a", {"state": "done"})
        told = await lines.get()
        assert told["params"]["state"] == "done"
        assert told["params"]["_meta"][META + "subscriptionId"] == "second"
        await connection.aclose()


async def test_audience_is_requested_again_after_lost_answers() -> None:
    broker = LossyMemory()
    here, there = mail_server(broker), mail_server(broker)
    ears = {who: Ear() for who in (ADA, BOB)}
    for who, ear in ears.items():
        ear.principal = who
        there.engine.hubs.here().want(ear, updated("mail://inbox"))
    async with here.running():
        questions: list[str] = []
        broker.subscribe("mail/changes", questions.append)

        def lose_the_answer(message: str) -> None:
            broker.loses_messages = '"who"' in message

        leave = broker.subscribe("mail/changes", lose_the_answer)
        here.notify_resource_updated("mail://inbox", to=lambda who: who.id == "ada")
        await until(lambda: broker.loses_messages)
        await settle()
        leave()
        assert [len(ear.heard) for ear in ears.values()] == [0, 0]
        publisher_missed = [
            each for each in broker._missed.values() if each.__qualname__ == "Publisher._missed"
        ]
        assert len(publisher_missed) == 1
        broker.loses_messages = False
        publisher_missed[0]()  # who asks has missed something; who listens has not
        await until(lambda: ears[ADA].heard)
        await settle()
        assert [len(ear.heard) for ear in ears.values()] == [1, 0]
        count = len(questions)
        publisher_missed[0]()
        await until(lambda: len(questions) > count)
        await settle()
        assert [len(ear.heard) for ear in ears.values()] == [1, 0]  # who was told is not told again

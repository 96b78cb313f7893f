"""What a link tells those who depend on it: that it was lost, and that the server has dropped what they listen to."""

from __future__ import annotations

import asyncio
import json

import pytest

from mcpkit import Server, TransportError
from mcpkit.client.asking.questions import Questions
from mcpkit.client.changes.changes import Wanted, Watch
from mcpkit.client.changes.listening import Listening
from mcpkit.client.changes.subscribed import Subscribed
from mcpkit.client.link.link import Link
from mcpkit.client.link.negotiation import Negotiation
from mcpkit.client.transports.memory import MemoryTransport
from mcpkit.protocol.jsonrpc import RequestId
from mcpkit.protocol.types import Json

pytestmark = pytest.mark.anyio


def linked(server: Server, revision: str = "2026-07-28") -> Link:
    return Link(
        [MemoryTransport(server)],
        Negotiation(revision, None),
        info={"name": "test", "version": "1"},
        answerer=Questions(),
    )


async def test_it_tells_that_it_was_lost_and_why() -> None:
    link = linked(Server("s"))
    await link.begin()
    heard: list[Exception] = []
    link.losses.add(heard.append)
    lost = TransportError("the process has ended", may_have_begun=True)
    link.lost(lost)
    assert heard == [lost]
    assert not link.is_open
    assert not link.is_closed
    await link.ready()
    await link.close()
    assert [str(each) for each in heard[1:]] == ["the client has been closed"]
    assert link.is_closed


async def test_a_subscription_that_the_server_drops_is_over() -> None:
    server, may_end = Server("s"), asyncio.Event()

    @server.tool
    async def wait() -> str:
        await may_end.wait()
        return "done"

    link = linked(server)
    await link.begin()
    ids: list[RequestId] = []
    wanted: Json = {"notifications": {"toolsListChanged": True}}
    listening = asyncio.ensure_future(link.exchange("subscriptions/listen", wanted, begins=ids.append))
    calling = asyncio.ensure_future(link.exchange("tools/call", {"name": "wait"}, begins=ids.append))
    await asyncio.sleep(0)

    def say(id_: RequestId) -> None:
        params = {"requestId": id_, "reason": "too slow"}
        link.receive(
            json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()
        )

    for id_ in ids:
        say(id_)
    say("of nobody")
    with pytest.raises(TransportError, match="dropped the subscription: too slow"):
        await listening
    may_end.set()
    assert (await calling)["content"][0]["text"] == "done"  # a server drops nothing else
    await link.close()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_watch_that_is_left_leaves_nothing_behind(revision: str) -> None:
    server = Server("s")

    @server.resource("x://a")
    def read() -> str:
        return "text"

    link = linked(server, revision)
    await link.begin()
    wanted = Wanted(["resources"], ["x://a"])
    missed: list[str] = []
    listening = Listening(link, Subscribed(link), wanted, lambda method, _: missed.append(method), None)
    before = len(link.listeners), len(link.losses)
    async with Watch(wanted, listening.listen):
        assert len(link.listeners) > before[0]
    assert (len(link.listeners), len(link.losses)) == before
    assert not missed
    await link.close()

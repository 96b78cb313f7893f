"""What a session is subscribed to: counted, so that nobody ends what another one watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Change, Client, ProtocolError
from mcpkit.client.changes.changes import Watch
from tests.helpers.scripted_transport import Message, ScriptedTransport, error, initialized
from tests.helpers.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio


async def heard(changes: Watch) -> Change:
    return await asyncio.wait_for(anext(changes), PATIENCE)


class Session:
    """A server of the handshake era that can be told how to answer subscriptions.

    Attributes:
        answer: What becomes of `resources/subscribe`: None holds the answer back.
        held: Takes each `resources/unsubscribe`, which is not answered then; None where it is.
    """

    def __init__(self) -> None:
        self.answer: Callable[[Message], Message | None] = lambda message: {"id": message["id"], "result": {}}
        self.held: list[Message] | None = None
        self.transport = ScriptedTransport(self._script)

    def _script(self, _: ScriptedTransport, message: Message) -> Any:
        method = message["method"]
        if method == "initialize":
            answer = initialized(message)
            answer["result"]["capabilities"] = {"resources": {"subscribe": True}}
            return [answer]
        if method == "resources/unsubscribe" and self.held is not None:
            self.held.append(message)
            return None
        if method == "resources/subscribe":
            return [each for each in [self.answer(message)] if each is not None]
        return [{"id": message["id"], "result": {}}] if "id" in message else None

    def asked(self) -> list[str]:
        """Return what has been subscribed to, and unsubscribed from."""
        return [
            f"{sent['method'].removeprefix('resources/')} {sent['params']['uri']}"
            for sent in self.transport.sent
            if sent.get("method", "").startswith("resources/")
        ]


async def test_each_resource_is_subscribed_to_once_however_many_watch_it() -> None:
    session = Session()
    async with Client(session.transport, revision="2025-11-25") as client:
        async with client.watch(resources=["x://a", "x://a", "x://b"]), client.watch(resources="x://a"):
            assert sorted(session.asked()) == ["subscribe x://a", "subscribe x://b"]
        await until(lambda: len(session.asked()) == 4)
        assert sorted(session.asked()[2:]) == ["unsubscribe x://a", "unsubscribe x://b"]


async def test_who_comes_while_another_subscribes_waits_for_the_same() -> None:
    session = Session()
    held: list[Message] = []
    session.answer = lambda message: held.append(message)  # type: ignore[func-returns-value]
    async with Client(session.transport, revision="2025-11-25") as client:
        joining = [asyncio.create_task(client.watch(resources="x://a").__aenter__()) for _ in range(3)]
        await until(lambda: held)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(each.done() for each in joining)
        session.transport.say({"id": held[0]["id"], "result": {}})
        watches = await asyncio.gather(*joining)
        assert session.asked() == ["subscribe x://a"]
        for watch in watches[1:]:
            await watch.aclose()
        session.transport.say({"method": "notifications/resources/updated", "params": {"uri": "x://a"}})
        assert await heard(watches[0]) == Change("resource", "x://a")
        assert session.asked() == ["subscribe x://a"]
        await watches[0].aclose()
        await until(lambda: session.asked() == ["subscribe x://a", "unsubscribe x://a"])


async def test_who_gives_up_while_it_subscribes_leaves_nothing_and_keeps_nobody_from_it() -> None:
    session = Session()
    held: list[Message] = []
    session.answer = lambda message: held.append(message)  # type: ignore[func-returns-value]
    async with Client(session.transport, revision="2025-11-25") as client:
        first = asyncio.create_task(client.watch(resources="x://a").__aenter__())
        await until(lambda: held)
        session.answer = lambda message: {"id": message["id"], "result": {}}
        second = asyncio.create_task(client.watch(resources="x://a").__aenter__())
        await asyncio.sleep(0)
        first.cancel()
        async with await second:
            assert session.asked() == ["subscribe x://a"] * 2
        await until(lambda: session.asked()[2:] == ["unsubscribe x://a"])


async def test_a_resource_that_is_refused_is_an_error_and_the_others_are_left_again() -> None:
    session = Session()
    session.answer = lambda message: (
        error(message, -32002, "no such resource")
        if message["params"]["uri"] == "x://b"
        else {"id": message["id"], "result": {}}
    )
    async with Client(session.transport, revision="2025-11-25") as client:
        with pytest.raises(ProtocolError, match="no such resource"):
            async with client.watch(resources=["x://a", "x://b"]):
                pass
        await until(lambda: "unsubscribe x://a" in session.asked())
        assert "unsubscribe x://b" not in session.asked()


async def test_a_refusal_does_not_wait_for_the_other_answers() -> None:
    session = Session()
    session.answer = lambda message: (
        error(message, -32002, "no such resource") if message["params"]["uri"] == "x://b" else None
    )
    async with Client(session.transport, revision="2025-11-25") as client:
        with pytest.raises(ProtocolError, match="no such resource"):
            async with client.watch(resources=["x://a", "x://b"]):
                pass
        await until(lambda: "unsubscribe x://a" in session.asked())


async def test_who_comes_while_another_leaves_subscribes_after_that() -> None:
    session = Session()
    async with Client(session.transport, revision="2025-11-25") as client:
        session.held = []
        async with client.watch(resources="x://a"):
            pass
        await until(lambda: session.held)
        joining = asyncio.create_task(client.watch(resources="x://a").__aenter__())
        for _ in range(20):
            await asyncio.sleep(0)
        assert session.asked() == ["subscribe x://a", "unsubscribe x://a"]
        session.transport.say({"id": session.held[0]["id"], "result": {}})
        async with await joining:
            assert session.asked()[2:] == ["subscribe x://a"]
        await until(lambda: session.asked()[3:] == ["unsubscribe x://a"])


async def test_an_update_that_nobody_has_asked_for_in_this_form_is_told_to_all() -> None:
    session = Session()
    async with (
        Client(session.transport, revision="2025-11-25") as client,
        client.watch(resources="x://a b") as first,
        client.watch(resources="x://c") as second,
    ):
        session.transport.say({"method": "notifications/resources/updated", "params": {"uri": "x://a%20b"}})
        assert await heard(first) == await heard(second) == Change("resource", "x://a%20b")
        session.transport.say({"method": "notifications/resources/updated", "params": {"uri": "x://c/part"}})
        session.transport.say({"method": "notifications/resources/updated", "params": {"uri": "x://a b"}})
        assert await heard(second) == Change("resource", "x://c/part")
        assert await heard(first) == Change("resource", "x://a b")

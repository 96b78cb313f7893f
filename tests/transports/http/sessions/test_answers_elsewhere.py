"""Questions to the client of a session, whose answers come to whichever process the client happens to reach."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Context, Memory, Server, user
from tests.helpers.asgi_client import Answer, Serve, Session
from tests.helpers.session_server import SECRET

pytestmark = pytest.mark.anyio

SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "blue"}, "model": "m"}


class Store(Memory):
    """A store that can fail to pass on what is said."""

    refuses = False

    async def publish(self, topic: str, message: str) -> None:
        if self.refuses:
            raise ConnectionError("the bus is down")
        await super().publish(topic, message)


def make_server(broker: Memory | None, seconds: float = 60) -> Server:
    server = Server("asking", version="1", secret=SECRET, shared=broker, question_timeout=seconds)

    @server.tool
    async def colour(ctx: Context) -> str:
        return (await ctx.sample([user("Which colour?")], max_tokens=5)).text

    @server.tool
    async def colours(ctx: Context) -> str:
        answers = [await ctx.sample(text, max_tokens=5) for text in ("Which?", "Which else?")]
        return " ".join(answer.text for answer in answers)

    return server


@pytest.fixture
def broker() -> Store:
    return Store()


@asynccontextmanager
async def two(
    serve: Serve, broker: Memory | None, revision: str = "2025-11-25", **options: Any
) -> AsyncIterator[tuple[Session, Session]]:
    """Open a session, and give it as either of two processes knows it."""
    async with serve(make_server(broker)) as there, serve(make_server(broker, **options)) as here:
        session = await here.initialize(revision, capabilities={"sampling": {}})
        yield session, session.at(there)


async def next_message(stream: Answer) -> dict[str, Any]:
    """Return the next message of a stream, be it a request of the server's."""
    while True:
        event = await stream.event()
        assert event is not None
        if event.data:
            message: dict[str, Any] = json.loads(event.data)
            return message


async def answer(session: Session, id_: Any, **members: Any) -> Answer:
    message = {"jsonrpc": "2.0", "id": id_, **(members or {"result": SAMPLED})}
    return await session.post(message).whole()


def record(broker: Memory) -> dict[str, str]:
    """Return the fields of the one session there is; none where there is none."""
    found = [entry.value for key, entry in broker._records._entries.items() if "/session/" in key]
    assert len(found) < 2
    return dict(*found)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_an_answer_reaches_who_has_asked(revision: str, broker: Store, serve: Serve) -> None:
    async with two(serve, broker, revision) as (session, there):
        call = session.call("colours")
        for _ in range(2):
            question = await next_message(call)
            assert question["method"] == "sampling/createMessage"
            taken = await answer(there, question["id"])
            assert (taken.status, taken.body) == (202, b"")
        response = await next_message(call)
        assert response["result"]["content"][0]["text"] == "blue blue"


async def test_a_refusal_reaches_who_has_asked(broker: Store, serve: Serve) -> None:
    async with two(serve, broker) as (session, there):
        call = session.call("colour")
        question = await next_message(call)
        refusal = {"code": -1, "message": "The user has no favourite"}
        assert (await answer(there, question["id"], error=refusal)).status == 202
        assert "has no favourite" in (await next_message(call))["result"]["content"][0]["text"]


async def test_an_answer_in_a_batch_reaches_who_has_asked(broker: Store, serve: Serve) -> None:
    async with two(serve, broker, "2025-03-26") as (session, there):
        call = session.call("colour")
        question = await next_message(call)
        batch = [{"jsonrpc": "2.0", "id": question["id"], "result": SAMPLED}]
        taken = await there.post(batch).whole()
        assert (taken.status, taken.body) == (202, b"")
        assert "result" in await next_message(call)


async def test_several_processes_ask_at_once(broker: Store, serve: Serve) -> None:
    async with two(serve, broker) as (session, there):
        calls = [session.call("colour"), there.call("colour")]
        questions = [await next_message(call) for call in calls]
        assert questions[0]["id"] != questions[1]["id"]
        for at, question in zip((there, session), questions, strict=True):
            assert (await answer(at, question["id"])).status == 202
        for call in calls:
            assert "result" in await next_message(call)


async def test_an_answer_that_nobody_waits_for_any_more_is_refused_elsewhere(
    broker: Store, serve: Serve
) -> None:
    async with two(serve, broker) as (session, there):
        call = session.call("colour")
        question = await next_message(call)
        assert (await answer(session, question["id"])).status == 202
        await next_message(call)
        refused = await answer(there, question["id"])
        assert (refused.status, refused.error()["code"]) == (400, -32600)
        assert (await answer(session, question["id"])).status == 202, "it is late here, and was asked"


@pytest.mark.parametrize("id_", [1, "x", "", "00000000-1", None, "question:"])
async def test_an_answer_to_nothing_is_refused(id_: Any, broker: Store, serve: Serve) -> None:
    async with two(serve, broker) as (session, there):
        call = session.call("colour")
        question = await next_message(call)
        for at in (session, there):
            refused = await answer(at, id_)
            assert (refused.status, refused.error()["code"]) == (400, -32600)
        assert (await answer(there, question["id"])).status == 202
        assert "result" in await next_message(call)


async def test_another_session_cannot_answer(broker: Store, serve: Serve) -> None:
    async with two(serve, broker) as (session, there):
        other = await there.client.initialize()
        call = session.call("colour")
        question = await next_message(call)
        for at in (other, other.at(session.client)):
            assert (await answer(at, question["id"])).status == 400
        await answer(there, question["id"])
        assert "result" in await next_message(call)


@pytest.mark.parametrize("end", ["answer", "cancel", "time", "delete"])
async def test_nothing_is_left_of_a_question_that_is_over(end: str, broker: Store, serve: Serve) -> None:
    async with two(serve, broker, seconds=0.01 if end == "time" else 60) as (session, there):
        before = record(broker)
        listeners = len(broker._listeners)
        call = session.call("colour", id=9)
        question = await next_message(call)
        if end != "time":
            assert record(broker) != before
        if end == "answer":
            await answer(there, question["id"])
        elif end == "cancel":
            await session.notify("notifications/cancelled", {"requestId": 9})
        elif end == "delete":
            await there.delete()
        await call.whole()
        for _ in range(10):
            await asyncio.sleep(0)
        assert record(broker) == ({} if end == "delete" else before)
        assert len(broker._listeners) <= listeners


async def test_an_answer_that_cannot_be_passed_on_is_to_come_again(broker: Store, serve: Serve) -> None:
    async with two(serve, broker) as (session, there):
        call = session.call("colour")
        question = await next_message(call)
        broker.refuses = True
        assert (await answer(there, question["id"])).status == 503
        broker.refuses = False
        assert (await answer(there, question["id"])).status == 202
        assert "result" in await next_message(call)


async def test_nothing_is_asked_that_others_cannot_know_of(
    broker: Store, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(serve, broker) as (session, _):

        async def fail(*_: object) -> None:
            raise ConnectionError("the store is down")

        monkeypatch.setattr(broker, "write", fail)
        refused = await session.call("colour").whole()
        assert refused.status == 503
        assert b"cannot be reached" in refused.body
        monkeypatch.undo()
        call = session.call("colour")
        await answer(session, (await next_message(call))["id"])
        assert "result" in await next_message(call)

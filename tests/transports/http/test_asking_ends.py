"""Calls, sessions, servers and streams that end while a question is open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Memory, Server
from tests.helpers.asgi_client import Client, Serve, lifespan
from tests.helpers.asking_server import accept, asked, make_server, respond
from tests.helpers.pipe import settle
from tests.helpers.resumed import message_of
from tests.helpers.stateless_server import text_of
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(work: Work) -> Server:
    return make_server(work)


async def test_a_cancelled_call_ends_with_its_question(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        session = await asked(client)
        call = session.call("name", id="call")
        question = await call.message()
        await session.notify("notifications/cancelled", {"requestId": "call"})
        [taken_back] = await call.messages()
        assert taken_back["method"] == "notifications/cancelled"
        assert taken_back["params"] == {"requestId": question["id"]}
        await settle()
        assert work.done.is_set()
        assert (await respond(session, question["id"], accept("late"))).status == 202


async def test_a_question_that_takes_too_long_is_taken_back(serve: Serve) -> None:
    server = Server("slow", version="1", question_timeout=0.01)

    @server.tool
    async def name(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).value

    async with serve(server) as client:
        session = await asked(client)
        call = session.call("name")
        question = await call.message()
        assert (await call.message())["params"]["requestId"] == question["id"]
        response = await call.message()
        assert response["result"]["isError"]
        assert text_of(response).startswith(
            "The client did not answer within 0.01 s; where several processes"
        )
        assert (await respond(session, question["id"], accept("late"))).status == 202


async def test_a_session_that_ends_leaves_nothing_of_its_questions(serve: Serve, work: Work) -> None:
    broker = Kept()
    async with serve(make_server(work, shared=broker)) as client:
        session = await asked(client)
        call = session.call("name")
        question = await call.message()
        assert broker.questions() == [question["id"]]
        assert (await session.delete()).status == 204
        await call.messages()
        assert work.done.is_set()
        assert (await respond(session, question["id"], accept("late"))).status == 404
        await settle()
        assert broker.questions() == []


async def test_the_broker_forgets_questions_that_are_over(serve: Serve, work: Work) -> None:
    broker = Kept()
    async with serve(make_server(work, shared=broker)) as client:
        session = await asked(client)
        call = session.call("name")
        question = await call.message()
        await respond(session, question["id"], accept("Ada"))
        await call.messages()
        await settle()
        assert broker.questions() == []


class Kept(Memory):
    """A broker that shows which questions it knows to be open."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, dict[str, str]] = {}

    async def write(self, key: str, changes: Any, ttl: float) -> None:
        await super().write(key, changes, ttl)
        record = self.written.setdefault(key, {})
        record.update(changes)

    async def erase(self, key: str) -> None:
        await super().erase(key)
        self.written.pop(key, None)

    def questions(self) -> list[str]:
        return [
            name.removeprefix("question:")
            for record in self.written.values()
            for name, value in record.items()
            if name.startswith("question:") and value is not None
        ]


async def test_a_server_that_ends_does_not_wait_for_users(
    server: Server, schema_dir: Path, work: Work
) -> None:
    app = server.asgi(grace=0)
    async with lifespan(app):
        session = await asked(Client(app, schema_dir))
        call = session.call("name")
        question = await call.message()
    taken_back, response = await call.messages()
    assert taken_back["params"] == {"requestId": question["id"]}
    assert "ended before the call was finished" in response["error"]["message"]
    assert work.done.is_set()


async def test_a_question_is_asked_again_of_a_client_that_comes_back(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await asked(client)
        call = session.call("name")
        priming = await call.event()
        assert priming is not None
        question = message_of(await call.event())
        call.disconnect()
        await call.whole()
        back = session.listen(after=priming.id)
        again = message_of(await back.event())
        assert again == question
        assert (await respond(session, question["id"], accept("Ada"))).status == 202
        assert text_of(await back.message()) == "Ada"
        assert await back.message() is None


async def test_an_answer_may_come_while_the_stream_is_broken(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await asked(client)
        call = session.call("name")
        await call.event()
        asking = await call.event()
        assert asking is not None
        call.disconnect()
        await call.whole()
        assert (await respond(session, message_of(asking)["id"], accept("Ada"))).status == 202
        back = session.listen(after=asking.id)
        assert text_of(await back.message()) == "Ada"

"""Questions to clients with a session, in one process and in several."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Context, Server, Timeouts, user
from mcpkit.storage import Memory
from tests.helpers.raw_client import (
    Answer,
    Client,
    Serve,
    Session,
    accept,
    open_eliciting_session,
    respond,
    text_of,
)
from tests.helpers.servers.full import SECRET

pytestmark = pytest.mark.anyio

ELICITING = ["2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("revision", ELICITING)
async def test_question_is_sent_on_call_stream(revision: str, client: Client) -> None:
    session = await open_eliciting_session(client, revision)
    call = session.call_tool("ask_names")
    first = await call.message()
    assert (first["method"], first["params"]["message"]) == ("elicitation/create", "First name?")
    assert (await respond(session, first["id"], accept("Ada"))).status == 202
    assert (await call.message())["params"]["data"] == "first name received"
    last = await call.message()
    assert last["params"]["message"] == "Last name?"
    assert last["id"] != first["id"]
    posted = await respond(session, last["id"], accept("Lovelace"))
    assert (posted.status, posted.body) == (202, b"")
    assert text_of(await call.message()) == "Ada Lovelace"
    assert await call.message() is None


@pytest.mark.parametrize("id_", [99, "unknown-1"])
async def test_response_to_nothing_is_refused(id_: Any, client: Client) -> None:
    session = await open_eliciting_session(client)
    call = session.call_tool("ask_name")
    question = await call.message()
    assert (await respond(session, id_, accept("Eve"))).status == 400
    assert (await respond(session, question["id"], accept("Ada"))).status == 202
    assert text_of(await call.message()) == "Ada"


SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "blue"}, "model": "m"}


class FailingBus(Memory):
    refuses = False

    async def publish(self, topic: str, message: str) -> None:
        if self.refuses:
            raise ConnectionError("the bus is down")
        await super().publish(topic, message)


def make_sampling_server(broker: Memory | None, seconds: float = 60) -> Server:
    server = Server(
        "asking", version="1", secret_key=SECRET, storage=broker, timeouts=Timeouts(client_request=seconds)
    )

    @server.tool
    async def colour(ctx: Context) -> str:
        return (await ctx.sample([user("Which colour?")], max_tokens=5)).text

    @server.tool
    async def colours(ctx: Context) -> str:
        answers = [await ctx.sample(text, max_tokens=5) for text in ("Which?", "Which else?")]
        return " ".join(respond_to.text for respond_to in answers)

    return server


@pytest.fixture
def broker() -> FailingBus:
    return FailingBus()


@asynccontextmanager
async def two_processes(
    serve: Serve, broker: Memory | None, revision: str = "2025-11-25", **options: Any
) -> AsyncIterator[tuple[Session, Session]]:
    async with (
        serve(make_sampling_server(broker)) as there,
        serve(make_sampling_server(broker, **options)) as here,
    ):
        session = await here.initialize(revision, capabilities={"sampling": {}})
        yield session, session.at(there)


async def next_message(stream: Answer) -> dict[str, Any]:
    while True:
        event = await stream.event()
        assert event is not None
        if event.data:
            message: dict[str, Any] = json.loads(event.data)
            return message


async def respond_to(session: Session, id_: Any, **members: Any) -> Answer:
    message = {"jsonrpc": "2.0", "id": id_, **(members or {"result": SAMPLED})}
    return await session.post(message).whole()


@pytest.mark.parametrize("revision", ["2025-11-25"])
async def test_response_reaches_process_of_call(revision: str, broker: FailingBus, serve: Serve) -> None:
    async with two_processes(serve, broker, revision) as (session, there):
        call = session.call_tool("colours")
        for _ in range(2):
            question = await next_message(call)
            assert question["method"] == "sampling/createMessage"
            accepted = await respond_to(there, question["id"])
            assert (accepted.status, accepted.body) == (202, b"")
        response = await next_message(call)
        assert response["result"]["content"][0]["text"] == "blue blue"


async def test_response_of_other_session_is_refused(broker: FailingBus, serve: Serve) -> None:
    async with two_processes(serve, broker) as (session, there):
        other = await there.client.initialize()
        call = session.call_tool("colour")
        question = await next_message(call)
        for at in (other, other.at(session.client)):
            assert (await respond_to(at, question["id"])).status == 400
        await respond_to(there, question["id"])
        assert "result" in await next_message(call)

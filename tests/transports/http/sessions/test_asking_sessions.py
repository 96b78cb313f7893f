"""Questions to clients with a session: they come on the stream of the call, and answers are posted."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Serve
from tests.helpers.asking_server import accept, asked, make_server, respond
from tests.helpers.stateless_server import text_of
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio

ELICITING = ["2025-06-18", "2025-11-25"]
JSON_ALONE = {"accept": "application/json"}


@pytest.fixture
def server(work: Work) -> Server:
    return make_server(work)


@pytest.mark.parametrize("revision", ELICITING)
async def test_questions_come_on_the_stream_of_the_call_and_answers_are_posted(
    revision: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await asked(client, revision)
        call = session.call("names")
        first = await call.message()
        assert (first["method"], first["params"]["message"]) == ("elicitation/create", "First name?")
        assert (await respond(session, first["id"], accept("Ada"))).status == 202
        assert (await call.message())["params"]["data"] == "half of it is known"
        last = await call.message()
        assert last["params"]["message"] == "Last name?"
        assert last["id"] != first["id"]
        posted = await respond(session, last["id"], accept("Lovelace"))
        assert (posted.status, posted.body) == (202, b"")
        assert text_of(await call.message()) == "Ada Lovelace"
        assert await call.message() is None


@pytest.mark.parametrize(
    "result", [rb'{"action": "accept", "content": {"value": "\ud83d"}}', b'{"action": NaN}']
)
async def test_an_answer_that_is_not_json_ends_its_question(
    result: bytes, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await asked(client)
        call = session.call("name")
        id_ = (await call.message())["id"].encode()
        posted = await session.post(b'{"jsonrpc": "2.0", "id": "%b", "result": %b}' % (id_, result)).whole()
        assert (posted.status, posted.error()["code"]) == (400, -32700)
        assert "Parse error" in text_of(await call.message())


async def test_the_stream_that_listens_hears_no_questions(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await asked(client)
        listening = session.listen()
        await listening.event()  # its id
        call = session.call("name")
        question = await call.message()
        await respond(session, question["id"], accept("Ada"))
        assert text_of(await call.message()) == "Ada"
        assert listening.waiting() == []


async def test_each_of_two_calls_has_its_own_question(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await asked(client)
        calls = [session.call("name"), session.call("name")]
        ids = [(await call.message())["id"] for call in calls]
        for id_, value in zip(reversed(ids), ["Bob", "Ada"], strict=True):
            assert (await respond(session, id_, accept(value))).status == 202
        assert [text_of(await call.message()) for call in calls] == ["Ada", "Bob"]


async def test_prompts_and_resources_ask_in_sessions(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await asked(client)
        call = session.ask("prompts/get", {"name": "greet"})
        await respond(session, (await call.message())["id"], accept("Ada"))
        assert (await call.message())["result"]["messages"][0]["content"]["text"] == "Greet Ada"
        call = session.ask("resources/read", {"uri": "notes://day"})
        await respond(session, (await call.message())["id"], accept("Bob"))
        assert (await call.message())["result"]["contents"][0]["text"] == "day of Bob"


async def test_the_completion_of_a_visit_is_told_on_the_stream_of_the_call(
    server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await asked(client)
        call = session.call("pay")
        question = await call.message()
        await respond(session, question["id"], {"action": "accept"})
        completed, response = await call.messages()
        assert completed["method"] == "notifications/elicitation/complete"
        assert completed["params"] == {"elicitationId": question["params"]["elicitationId"]}
        assert text_of(response) == "accept"


@pytest.mark.parametrize("id_", ["1", 99, "nobody-1", ""])
async def test_an_answer_that_nobody_asked_for_is_refused(id_: Any, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await asked(client)
        call = session.call("name")
        question = await call.message()
        assert (await respond(session, id_, accept("Eve"))).status == 400
        assert (await respond(session, question["id"], accept("Ada"))).status == 202
        assert text_of(await call.message()) == "Ada"


async def test_an_answer_counts_in_its_own_session_alone(server: Server, serve: Serve) -> None:
    """Ids can be guessed: they are numbers after a name of the process."""
    async with serve(server) as client:
        session, other = await asked(client), await asked(client)
        call = session.call("name")
        question = await call.message()
        assert (await respond(other, question["id"], accept("Eve"))).status == 400
        assert (await respond(session, question["id"], accept("Ada"))).status == 202
        assert text_of(await call.message()) == "Ada"


async def test_a_second_answer_changes_nothing(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await asked(client)
        call = session.call("name")
        question = await call.message()
        for value in ("Ada", "Eve"):
            assert (await respond(session, question["id"], accept(value))).status == 202
        assert text_of(await call.message()) == "Ada"


async def test_a_refusal_is_an_error_of_the_call(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await asked(client)
        call = session.call("name")
        error = {"code": -1, "message": "No user is here"}
        message = {"jsonrpc": "2.0", "id": (await call.message())["id"], "error": error}
        assert (await session.post(message).whole()).status == 202
        response = await call.message()
        assert response["result"]["isError"]
        assert text_of(response) == "The client refused to answer: No user is here"


async def test_a_client_that_takes_json_alone_is_told_what_it_lacks(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await asked(client)
        answer = await session.call("name", headers=JSON_ALONE).whole()
        assert answer.status == 200
        response = answer.json()
        assert response["result"]["isError"]
        assert "elicitation.form" in text_of(response)
        answer = await session.ask("prompts/get", {"name": "greet"}, headers=JSON_ALONE).whole()
        assert answer.error()["code"] == -32602
        assert "elicitation.form" in answer.error()["message"]


async def test_without_sessions_the_handshake_era_is_told_what_it_lacks(server: Server, serve: Serve) -> None:
    async with serve(server, stateless=True) as client:
        session = await asked(client)
        assert session.id is None
        response = (await session.call("name").whole()).json()
        assert response["result"]["isError"]
        assert "elicitation.form" in text_of(response)
        answer = await session.ask("resources/read", {"uri": "notes://day"}).whole()
        assert answer.error()["code"] == -32602
        assert "elicitation.form" in answer.error()["message"]

"""Questions to clients over HTTP: on the stream of the call in sessions, as its result without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asgi_answer import Answer, Judge
from asgi_client import Client, Serve, Session, lifespan
from mcpkit import Context, MemoryBroker, Server
from resumed import message_of
from wire.official import official
from wire.pipe import settle
from work import Work

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen bytes and more"
ELICITING = ["2025-06-18", "2025-11-25"]
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}}
DECLARED = {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}
JSON_ALONE = {"accept": "application/json"}


@pytest.fixture
def server(work: Work) -> Server:
    return make_server(work)


def make_server(work: Work, **options: Any) -> Server:
    server = Server("asking", version="1", secret=SECRET, **options)

    @server.tool
    async def name(ctx: Context) -> str:
        try:
            return (await ctx.elicit("Who?", str)).value
        finally:
            work.done.set()

    @server.tool
    async def names(ctx: Context) -> str:
        first = (await ctx.elicit("First name?", str)).value
        await ctx.info("half of it is known")
        return f"{first} {(await ctx.elicit('Last name?', str)).value}"

    @server.tool
    async def choose(ctx: Context) -> str:
        return "asks" if ctx.client.supports("elicitation.form") else "guesses"

    @server.tool
    async def pay(ctx: Context) -> str:
        answer = await ctx.elicit_url("Pay", "https://example.com/pay", done=lambda: True)
        return answer.action

    @server.prompt
    async def greet(ctx: Context) -> str:
        return f"Greet {(await ctx.elicit('Whom?', str)).value}"

    @server.resource("notes://{kind}")
    async def notes(kind: str, ctx: Context) -> str:
        return f"{kind} of {(await ctx.elicit('Whose?', str)).value}"

    return server


class AskingJudge(Judge):
    """Knows, too, what servers ask and what they answer instead of a result."""

    def __init__(self, folder: Path, revision: str) -> None:
        super().__init__(folder, revision)
        self._official = official(folder, revision)

    def check(self, message: Any) -> Any:
        if "method" in message and "id" in message:
            assert message["jsonrpc"] == "2.0"
            assert message["method"] == "elicitation/create"
            # Before 2025-11-25 the schema of a request leaves out the envelope.
            members = self._official.definitions["ElicitRequest"]["properties"]
            self._official.check(
                "ElicitRequest", {name: message[name] for name in message if name in members}
            )
        elif message.get("result", {}).get("resultType") == "input_required":
            self._official.check("InputRequiredResult", message["result"])
        else:
            super().check(message)
        return message


async def asked(client: Client, revision: str = "2025-11-25") -> Session:
    """Open a session of a client that can be asked."""
    elicitation = CAPABILITIES["elicitation"] if revision == "2025-11-25" else {}
    session = await client.initialize(revision, capabilities={"elicitation": elicitation})
    session.judge = AskingJudge(client.folder, revision)
    return session


def accept(value: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": value}}


async def respond(session: Session, id_: Any, result: dict[str, Any]) -> Answer:
    """Post the answer to a question."""
    return await session.post({"jsonrpc": "2.0", "id": id_, "result": result}).whole()


def text_of(response: Any) -> str:
    return str(response["result"]["content"][0]["text"])


# In sessions


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


# What a client cannot be asked


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


# Calls that end while a question is open


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


async def test_a_question_that_takes_too_long_is_taken_back(serve: Serve, work: Work) -> None:
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
        assert text_of(response) == "The client did not answer within 0.01 s"
        assert (await respond(session, question["id"], accept("late"))).status == 202


async def test_a_session_that_ends_leaves_nothing_of_its_questions(serve: Serve, work: Work) -> None:
    broker = Kept()
    async with serve(make_server(work, broker=broker)) as client:
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
    async with serve(make_server(work, broker=broker)) as client:
        session = await asked(client)
        call = session.call("name")
        question = await call.message()
        await respond(session, question["id"], accept("Ada"))
        await call.messages()
        await settle()
        assert broker.questions() == []


class Kept(MemoryBroker):
    """A broker that shows which questions it knows to be open."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, dict[str, str]] = {}

    async def write(self, key: str, changes: Any, ttl: float) -> None:
        await super().write(key, changes, ttl)
        record = self.written.setdefault(key, {})
        record.update(changes)

    async def delete(self, key: str) -> None:
        await super().delete(key)
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


# Streams that break


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


# Without sessions


def ask(client: Client, method: str, params: dict[str, Any], **headers: str) -> Answer:
    """Make one round of a stateless request."""
    answer = client.ask(method, params, headers=headers, meta=DECLARED)
    answer.judge = AskingJudge(client.folder, "2026-07-28")
    answer.judge.expect({"id": 1, "method": method})
    return answer


@pytest.mark.parametrize(
    ("method", "params", "told"),
    [
        ("tools/call", {"name": "name", "arguments": {}}, "Ada"),
        ("prompts/get", {"name": "greet"}, "Greet Ada"),
        ("resources/read", {"uri": "notes://day"}, "day of Ada"),
    ],
)
@pytest.mark.parametrize("accept_header", ["application/json", "application/json, text/event-stream", "*/*"])
async def test_a_round_is_answered_with_plain_json(
    method: str, params: dict[str, Any], told: str, accept_header: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await ask(client, method, params, accept=accept_header).whole()
        assert answer.status == 200
        result = answer.json()["result"]
        assert result["resultType"] == "input_required"
        [(key, request)] = result["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        more = {"inputResponses": {key: accept("Ada")}, "requestState": result["requestState"]}
        result = (await ask(client, method, {**params, **more}, accept=accept_header).whole()).json()[
            "result"
        ]
        assert result["resultType"] == "complete"
        assert told in json.dumps(result)


async def test_a_round_that_has_said_something_ends_its_stream_with_the_question(
    server: Server, serve: Serve
) -> None:
    logging = {"io.modelcontextprotocol/logLevel": "info"}
    async with serve(server) as client:
        params = {
            "name": "names",
            "arguments": {},
            "inputResponses": {"q1": accept("Ada")},
        }
        answer = client.ask("tools/call", params, meta=DECLARED | logging)
        answer.judge = AskingJudge(client.folder, "2026-07-28")
        answer.judge.expect({"id": 1, "method": "tools/call"})
        log, response = await answer.messages()
        assert log["params"]["data"] == "half of it is known"
        assert list(response["result"]["inputRequests"]) == ["q2"]


async def test_a_stateless_client_that_cannot_is_told_what_it_lacks(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.call("name").whole()
        assert answer.status == 400
        error = answer.error()
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        assert text_of((await client.call("choose").whole()).json()) == "guesses"


async def test_a_state_that_is_none_is_refused_before_anything_runs(
    server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server) as client:
        params = {"name": "name", "arguments": {}, "requestState": "x"}
        answer = await ask(client, "tools/call", params).whole()
        assert answer.error()["code"] == -32602
        assert not work.done.is_set()

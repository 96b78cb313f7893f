"""Questions to clients without sessions: the result of a round asks, and the next round brings the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.asgi_answer import Answer
from tests.helpers.asgi_client import BOTH, Client, Serve
from tests.helpers.asking_server import DECLARED, AskingJudge, accept, make_server
from tests.helpers.stateless_server import text_of
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(work: Work) -> Server:
    return make_server(work)


def ask(
    client: Client, method: str, params: dict[str, Any], accept_header: str = BOTH, **meta: Any
) -> Answer:
    """Make one round of a stateless request."""
    answer = client.ask(method, params, headers={"accept": accept_header}, meta=DECLARED | meta)
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
        answer = await ask(client, method, params, accept_header=accept_header).whole()
        assert answer.status == 200
        result = answer.json()["result"]
        assert result["resultType"] == "input_required"
        [(key, request)] = result["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        more = {"inputResponses": {key: accept("Ada")}, "requestState": result["requestState"]}
        result = (await ask(client, method, {**params, **more}, accept_header=accept_header).whole()).json()[
            "result"
        ]
        assert result["resultType"] == "complete"
        assert told in json.dumps(result)


async def test_a_round_that_has_said_something_ends_its_stream_with_the_question(
    server: Server, serve: Serve
) -> None:
    logging = {"io.modelcontextprotocol/logLevel": "info"}
    async with serve(server) as client:
        params = {"name": "names", "arguments": {}, "inputResponses": {"#1": accept("Ada")}}
        log, response = await ask(client, "tools/call", params, **logging).messages()
        assert log["params"]["data"] == "half of it is known"
        assert list(response["result"]["inputRequests"]) == ["#2"]


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

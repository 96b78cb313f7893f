"""Sessions, states and pipes belong to a principal by a client, whatever has been granted; never to who has an id."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from mcpkit import Context, Principal, Server
from mcpkit.state.owner import owner_of
from tests.helpers.asgi_client import Serve
from tests.helpers.asking_server import DECLARED, AskingJudge, accept
from tests.helpers.protected import old_of, session_of, status_of
from tests.helpers.stateless_server import text_of
from tests.helpers.verified import bearer

pytestmark = pytest.mark.anyio

ADA = bearer("ada")
REFRESHED, WIDER, OTHER_CLIENT, EVE = (
    bearer("ada/2"),
    bearer("ada/3", ["notes:write"]),
    bearer("ada~other"),
    bearer("eve"),
)


@pytest.fixture
def server(make: Callable[..., Server]) -> Server:
    server = make()

    @server.tool
    async def name(ctx: Context) -> str:
        """Ask who it is."""
        return (await ctx.elicit("Who?", str)).value

    return server


async def test_a_session_survives_refresh_and_step_up_and_is_nobody_elses(
    server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await session_of(client, ADA)
        for token in (ADA, REFRESHED, WIDER):
            assert await status_of(session, token) == 200
        for token in (EVE, OTHER_CLIENT):
            assert await status_of(session, token) == 404
            assert (await session.listen(headers=token).whole()).status == 404
            ended = client.open("DELETE", headers=session.headers(token))
            assert (await ended.whole()).status == 404
        assert await status_of(session, ADA) == 200
        called = await session.call("add", headers=WIDER).whole()
        assert text_of(called.json()) == "added"


async def test_another_process_knows_whose_it_is(make: Callable[..., Server], serve: Serve) -> None:
    async with serve(make()) as before, serve(make()) as after:
        session = (await session_of(before, ADA)).at(after)
        for token, status in ((OTHER_CLIENT, 404), (EVE, 404), (REFRESHED, 200), (OTHER_CLIENT, 404)):
            assert await status_of(session, token) == status


async def test_a_pipe_survives_refresh_and_is_nobody_elses(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        old = await old_of(client, ADA)
        for token in (ADA, REFRESHED, WIDER):
            assert "result" in await old.ask("ping", {}, token)
        for token in (EVE, OTHER_CLIENT):
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            assert (await old.post(ping, token).whole()).status == 404


async def test_a_state_survives_refresh_and_is_nobody_elses(server: Server, serve: Serve) -> None:
    params = {"name": "name", "arguments": {}}
    async with serve(server) as client:

        async def round_(token: dict[str, str], **more: object) -> dict[str, object]:
            answer = client.ask("tools/call", {**params, **more}, headers=token, meta=DECLARED)
            answer.judge = AskingJudge(client.folder, "2026-07-28")
            answer.judge.expect({"id": 1, "method": "tools/call"})
            return (await answer.whole()).json()

        result = (await round_(ADA))["result"]
        assert isinstance(result, dict)
        brought = {"inputResponses": {"#1": accept("Ada")}, "requestState": result["requestState"]}
        for token in (EVE, OTHER_CLIENT):
            error = (await round_(token, **brought))["error"]
            assert isinstance(error, dict)
            assert "it belongs to another request" in error["message"]
        for token in (REFRESHED, WIDER):
            assert text_of(await round_(token, **brought)) == "Ada"


async def test_a_question_is_answered_by_whom_it_was_asked(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await session_of(client, ADA, capabilities={"elicitation": {"form": {}}})
        call = session.call("name", headers=ADA)
        asked = await call.message()
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": accept("Eve")}
        for token in (EVE, OTHER_CLIENT):
            assert (await session.post(answer, token).whole()).status == 404
        answer["result"] = accept("Ada")
        assert (await session.post(answer, REFRESHED).whole()).status == 202
        assert text_of(await call.response()) == "Ada"


def test_where_there_is_no_client_a_session_of_before_stays_whose_it_was() -> None:
    before = hashlib.sha256(b"ada").hexdigest()[:32]
    assert owner_of(Principal("ada")) == before
    assert owner_of(Principal("ada", {"admin"})) == before
    assert owner_of(Principal("ada", client_id="phone")) not in {
        before,
        owner_of(Principal("ada", client_id="")),
    }
    assert owner_of(Principal(client_id="phone")) is None


def test_ids_and_clients_are_not_run_together() -> None:
    pairs = [("a", None), ("a", ""), ("a", "b"), ("ab", ""), ("", "ab"), ("a\xffb", None), ("aÿ", "b")]
    owners = {owner_of(Principal(id_ or "x", client_id=client)) for id_, client in pairs}
    assert len(owners) == len(pairs)

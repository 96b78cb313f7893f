"""Scopes: who lacks one is challenged before a component runs, or in its midst as long as nothing has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Context, InsufficientScopeError, Principal, RegistrationError, Server, tool
from mcpkit.testing import connect
from tests.helpers.asgi_client import Serve
from tests.helpers.protected import session_of
from tests.helpers.verified import bearer

pytestmark = pytest.mark.anyio

DOCUMENT = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
READER, WRITER, ADMIN = ("ada", ["notes:read"]), ("ada", ["notes:write"]), ("ada", ["notes:admin", "mail"])


def challenge(scopes: str, needs: str) -> str:
    said = f'error="insufficient_scope", error_description="this needs more than has been granted: {needs}"'
    return f'Bearer {said}, {DOCUMENT}, scope="{scopes}"'


REQUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "tool": ("tools/call", {"name": "add", "arguments": {}}, "notes:write"),
    "template": ("resources/read", {"uri": "notes://1"}, "notes:read"),
    "prompt": ("prompts/get", {"name": "send", "arguments": {"text": "x"}}, "notes:read mail"),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "send"}, "argument": {"name": "text", "value": ""}},
        "notes:read mail",
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_who_lacks_a_scope_is_challenged_before_anything_runs(
    make: Callable[..., Server], serve: Serve, done: list[str], name: str
) -> None:
    method, params, needed = REQUESTS[name]
    async with serve(make(offers=["completions"])) as client:
        needs = needed.replace(" ", ", ")
        answer = await client.ask(method, params, headers=bearer("ada")).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (403, challenge(needed, needs))
        assert answer.json()["error"]["code"] == -32600
        session = await session_of(client, bearer("ada"))
        answer = await session.ask(method, params, headers=bearer("ada")).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (403, challenge(needed, needs))
        assert done == []
        assert (await client.ask(method, params, headers=bearer(*ADMIN)).whole()).status == 200
        assert (await session.ask(method, params, headers=bearer(*ADMIN)).whole()).status == 200


async def test_in_sessions_what_has_been_granted_is_named_as_well(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        token = bearer("ada", ["notes:read", "mail", "openid"])
        session = await session_of(client, token)
        answer = await session.call("add", headers=token).whole()
        assert answer.headers["www-authenticate"] == challenge("notes:write mail", "notes:write")
        answer = await client.call("add", headers=token).whole()
        assert answer.headers["www-authenticate"] == challenge("notes:write", "notes:write")


async def test_it_is_listed_for_all(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        listed = (await client.ask("tools/list", headers=bearer("ada")).whole()).json()
        assert [each["name"] for each in listed["result"]["tools"]] == ["whoami", "add"]


async def test_in_its_midst_all_that_is_needed_is_asked_for_at_once(
    server: Server, serve: Serve, done: list[str]
) -> None:
    async with serve(server) as client:
        for token in (bearer(*WRITER), bearer("ada", ["notes:write", "mail"])):
            answer = await client.call("add", {"pinned": True}, headers=token).whole()
            said = challenge("notes:admin mail", "notes:admin, mail")
            assert (answer.status, answer.headers["www-authenticate"]) == (403, said)
        assert done == []
        assert (await client.call("add", {"pinned": True}, headers=bearer(*ADMIN)).whole()).status == 200
        assert done == ["added"]


@pytest.mark.parametrize("arguments", [{"tell": True}, {"once": True}])
async def test_when_it_is_too_late_the_result_says_what_is_needed(
    server: Server, serve: Serve, done: list[str], arguments: dict[str, bool]
) -> None:
    async with serve(server) as client:
        session = await session_of(client, bearer(*WRITER))
        for answer in (
            client.call(
                "add", {"pinned": True, **arguments}, headers=bearer(*WRITER), meta={"progressToken": 1}
            ),
            session.call("add", {"pinned": True, **arguments}, headers=bearer(*WRITER)),
        ):
            result = (await answer.response())["result"]
            assert answer.status == 200
            assert result["isError"]
            assert result["_meta"]["mcp/www_authenticate"] == [
                'Bearer error="insufficient_scope", scope="notes:admin mail"'
            ]
            assert "notes:admin" in result["content"][0]["text"]
        assert "added" not in done


async def test_in_a_batch_the_result_says_what_is_needed(
    make: Callable[..., Server], serve: Serve, done: list[str]
) -> None:
    revision = "2025-03-26"
    async with serve(make()) as client:
        session = await session_of(client, bearer(*READER), revision)
        batch = [
            {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {"name": name, "arguments": {}}}
            for id_, name in enumerate(["whoami", "add"])
        ]
        answer = await session.post(batch, bearer(*READER)).whole()
        assert answer.status == 200
        served, refused = sorted(answer.json(), key=lambda each: each["id"])
        assert served["result"]["content"][0]["text"] == "ada ['notes:read']"
        assert refused["result"]["isError"]
        [said] = refused["result"]["_meta"]["mcp/www_authenticate"]
        assert 'scope="notes:write"' in said
        assert done == []


async def test_time_alone_begins_no_answer_of_what_may_need_more(
    make: Callable[..., Server], serve: Serve
) -> None:
    server, go = make(), asyncio.Event()

    @server.tool(may_need="notes:admin")
    async def slow(ctx: Context) -> str:
        """Take long."""
        await go.wait()
        ctx.require("notes:admin")
        return "done"

    @server.tool
    async def plain() -> str:
        """Take long."""
        await go.wait()
        return "done"

    async with serve(server, stream_after=0.01) as client:
        session = await session_of(client, bearer(*READER))
        held = [
            client.call("slow", headers=bearer(*READER)),
            session.call("slow", headers=bearer(*READER)),
            client.call("slow", headers=bearer(*ADMIN)),
        ]
        streamed = client.call("plain", headers=bearer(*READER))
        assert (await streamed.head()).headers[
            "content-type"
        ] == "text/event-stream"  # later than those before
        go.set()
        assert [(await answer.whole()).status for answer in held] == [403, 403, 200]
        assert held[2].headers["content-type"] == "application/json"


async def test_functions_in_threads_require_as_well(make: Callable[..., Server], serve: Serve) -> None:
    server = make()

    @server.tool
    def purge(ctx: Context) -> str:
        """Remove all notes."""
        ctx.require("notes:admin")
        return "purged"

    async with serve(server) as client:
        assert (await client.call("purge", headers=bearer(*WRITER)).whole()).status == 403
        assert (await client.call("purge", headers=bearer(*ADMIN)).whole()).status == 200


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_in_process_the_result_says_what_is_needed(
    server: Server, done: list[str], revision: str
) -> None:
    async with connect(server, revision=revision, principal=Principal("ada", {"notes:read"})) as client:
        result = await client.call("add", {})
        assert result.is_error
        assert "notes:write" in result.text
        assert result.meta["mcp/www_authenticate"] == [
            'Bearer error="insufficient_scope", scope="notes:write"'
        ]
        with pytest.raises(Exception, match="mail") as caught:
            await client.get_prompt("send", {"text": "x"})
        assert getattr(caught.value, "code", None) == -32600
    assert done == []
    async with connect(
        server, revision=revision, principal=Principal("ada", {"notes:admin", "mail"})
    ) as client:
        assert (await client.call("add", {"pinned": True})).text == "added"


def test_scopes_that_there_are_not_are_refused(make: Callable[..., Server]) -> None:
    server = make()
    with pytest.raises(RegistrationError, match="did you mean 'notes:write'"):
        server.tool(scopes="notes:writ", name="w")(lambda: "x")

    @tool(name="far", may_need=["nothing"])
    def far() -> str:
        return "x"

    with pytest.raises(RegistrationError, match="tool 'far' needs 'nothing'"):
        server.include(far)
    other = Server("other")
    other.tool(scopes="elsewhere", name="there")(lambda: "x")
    with pytest.raises(RegistrationError, match="tool 'there' needs 'elsewhere'"):
        server.include(other)
    for wrong in ("a b", ["x", 3], 3):
        with pytest.raises(RegistrationError, match="scopes="):
            server.tool(scopes=wrong, name="wrong")(lambda: "x")
    with pytest.raises(RegistrationError, match="anonymous is True or False"):
        server.tool(anonymous="yes", name="wrong")(lambda: "x")


async def test_a_scope_that_there_is_not_is_no_challenge(make: Callable[..., Server], serve: Serve) -> None:
    server = make()

    @server.tool
    async def wrong(ctx: Context) -> str:
        """Ask for what there is not."""
        ctx.require("notes:admn")
        return "x"

    async with serve(server) as client:
        answer = await client.call("wrong", headers=bearer(*ADMIN)).whole()
        assert answer.status == 200
        assert answer.json()["result"]["isError"]


def test_the_error_says_what_is_needed() -> None:
    error = InsufficientScopeError(("a", "b"), "Bearer x")
    assert str(error) == "This needs more than you have been granted: a, b"

"""Who must say who that is, or be granted more, is challenged: before the message is read, and by what serves it."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import pytest

from mcpkit import ChallengeError, Context, Depends, Principal, ProtocolError, Server
from mcpkit.middleware import CallNext, Request
from mcpkit.protocol.revisions import HANDSHAKE
from mcpkit.testing import connect
from tests.helpers.asgi_client import Client, Serve, initialize
from tests.helpers.serving import in_thread

pytestmark = pytest.mark.anyio

NOBODY = 'Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"'
FEWER = 'Bearer error="insufficient_scope", scope="read write"'
ADA = {"authorization": "Bearer ada"}


def find(scope: MutableMapping[str, Any]) -> Principal | None:
    if (b"authorization", b"Bearer ada") not in scope["headers"]:
        raise ChallengeError(401, NOBODY, "Send a token.")
    return Principal("ada", {"read"})


async def find_slowly(scope: MutableMapping[str, Any]) -> Principal | None:
    return find(scope)


class Finder:
    """Neither a function nor one that is async, though what it returns is awaited."""

    def __call__(self, scope: MutableMapping[str, Any]) -> Any:
        return find_slowly(scope)


def may_write(ctx: Context) -> None:
    if "write" not in ctx.principal.scopes:
        raise ChallengeError(403, FEWER)


@pytest.fixture
def server() -> Server:
    server = Server("s", secret="a secret of some length")

    @server.tool
    async def erase(ctx: Context, report: bool = False) -> str:
        """Erase."""
        if report:
            await ctx.progress(1, 2)
        may_write(ctx)
        return "erased"

    @server.tool
    def drop(allowed: None = Depends(may_write)) -> str:
        """Drop."""
        return "dropped"

    @server.tool
    async def several() -> None:
        """Raise what a task group raises."""
        error = ProtocolError(-32600, "several")
        error.exceptions = (ChallengeError(403, FEWER),)  # type: ignore[attr-defined]  # as Python 3.10 has no groups
        raise error

    @server.resource("note://1")
    def note(ctx: Context) -> str:
        """A note."""
        may_write(ctx)
        return "note"

    @server.prompt
    def summary(ctx: Context) -> str:
        """A summary."""
        may_write(ctx)
        return "summary"

    return server


REQUESTS: dict[str, Callable[[Client], Any]] = {
    "stateless": lambda client: client.call("erase"),
    "initialize": lambda client: client.post(initialize()),
    "session": lambda client: client.post(
        {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"mcp-session-id": "x"}
    ),
    "not JSON": lambda client: client.post(b"{"),
    "GET": lambda client: client.open("GET", headers={"accept": "text/event-stream"}),
    "DELETE": lambda client: client.open("DELETE", headers={"mcp-session-id": "x"}),
    "sse": lambda client: client.open("GET", "/sse"),
    "messages": lambda client: client.post({}, path="/messages", query_string=b"session_id=x"),
}


@pytest.mark.parametrize("finder", [find, find_slowly, Finder()])
@pytest.mark.parametrize("name", REQUESTS)
async def test_nothing_is_served_to_who_is_challenged(
    server: Server, serve: Serve, name: str, finder: Any
) -> None:
    async with serve(server, principal=finder) as client:
        answer = await REQUESTS[name](client).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (401, NOBODY)
        assert answer.body == b"Send a token.\n"


@pytest.mark.parametrize("finder", [find, find_slowly, Finder()])
async def test_who_is_known_is_served(server: Server, serve: Serve, finder: Any) -> None:
    async with serve(server, principal=finder) as client:
        assert (await client.ask("tools/list", headers=ADA).whole()).status == 200


async def test_the_body_is_not_waited_for(server: Server, serve: Serve) -> None:
    async with serve(server, principal=find) as client:
        headers = {"content-type": "application/json", "content-length": "9000000"}
        answer = client.open("POST", headers=headers, body=None)
        assert (await answer.head()).status == 401
        answer.feed(b"{}")


async def test_the_guard_stands_before_the_hook(server: Server, serve: Serve) -> None:
    async with serve(server, principal=find) as client:
        for headers, status in (({"host": "evil.example"}, 421), ({"origin": "https://evil.example"}, 403)):
            answer = await client.call("erase", headers=headers).whole()
            assert answer.status == status
            assert "www-authenticate" not in answer.headers


async def test_a_page_may_read_the_challenge_and_needs_no_token_for_its_preflight(
    server: Server, serve: Serve
) -> None:
    page = {"origin": "http://localhost:6274"}
    async with serve(server, principal=find) as client:
        answer = await client.call("erase", headers=page).whole()
        assert answer.status == 401
        assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]
        asked = {**page, "access-control-request-method": "POST"}
        assert (await client.open("OPTIONS", headers=asked).whole()).status == 200


async def test_what_is_said_with_a_challenge_may_be_any_text(server: Server, serve: Serve) -> None:
    def refuse(scope: MutableMapping[str, Any]) -> None:
        raise ChallengeError(401, NOBODY, "Not known: ü\udc80")

    async with serve(server, principal=refuse) as client:
        answer = await client.call("erase").whole()
        assert (answer.status, answer.body) == (401, "Not known: ü?\n".encode())


@pytest.mark.parametrize("problem", [OSError("secret detail"), ProtocolError(-1, "secret detail")])
async def test_what_else_fails_there_says_nothing(server: Server, serve: Serve, problem: Exception) -> None:
    async def fail(scope: MutableMapping[str, Any]) -> None:
        raise problem

    async with serve(server, principal=fail) as client:
        answer = await client.call("erase").whole()
        assert (answer.status, answer.body) == (500, b"the server cannot tell who sends this request\n")


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "tool": ("tools/call", {"name": "erase", "arguments": {}}),
    "dependency": ("tools/call", {"name": "drop", "arguments": {}}),
    "group": ("tools/call", {"name": "several", "arguments": {}}),
    "resource": ("resources/read", {"uri": "note://1"}),
    "prompt": ("prompts/get", {"name": "summary", "arguments": {}}),
}


def check(answer: Any) -> None:
    assert (answer.status, answer.headers["www-authenticate"]) == (403, FEWER)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"] == {"code": -32600, "message": FEWER}


@pytest.mark.parametrize("call", CALLS)
async def test_what_serves_a_stateless_request_may_challenge(server: Server, serve: Serve, call: str) -> None:
    async with serve(server, principal=find) as client:
        check(await client.ask(*CALLS[call], headers=ADA).whole())


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("revision", [revision for revision in HANDSHAKE if revision > "2024-11-05"])
async def test_what_serves_a_session_may_challenge(
    server: Server, serve: Serve, call: str, revision: str
) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        check(await session.ask(*CALLS[call]).whole())
        assert (await session.ask("ping").whole()).status == 200


async def test_what_serves_a_client_without_a_session_may_challenge(server: Server, serve: Serve) -> None:
    async with serve(server, stateless=True) as client:
        session = await client.initialize()
        check(await session.ask(*CALLS["tool"]).whole())


async def test_in_a_batch_it_is_an_error_of_its_own(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize("2025-03-26")
        method, params = CALLS["tool"]
        answer = await session.post(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "ping"},
                {"jsonrpc": "2.0", "id": 2, "method": method, "params": params},
            ]
        ).whole()
        assert (answer.status, "www-authenticate" in answer.headers) == (200, False)
        assert {each["id"]: "error" in each for each in answer.json()} == {1: False, 2: True}


async def test_middleware_may_challenge_and_a_session_that_is_not_opened_is_none(
    server: Server, serve: Serve
) -> None:
    @server.middleware
    async def guard(request: Request, call_next: CallNext) -> Any:
        raise ChallengeError(403, FEWER)

    async with serve(server) as client:
        check(await client.call("erase").whole())
        answer = await client.post(initialize()).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (403, FEWER)
        assert "mcp-session-id" not in answer.headers


async def test_what_streams_already_ends_with_the_error(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        answer = session.call("erase", {"report": True})
        assert (await answer.message())["method"] == "notifications/progress"
        assert (await answer.message())["error"] == {"code": -32600, "message": FEWER}
        assert (answer.status, "www-authenticate" in answer.headers) == (200, False)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_where_there_is_no_status_it_is_an_error(server: Server, revision: str) -> None:
    async with connect(server, revision=revision) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call("erase")
        assert (caught.value.code, caught.value.message) == (-32600, FEWER)


def test_a_real_connection_goes_on_behind_a_challenge(server: Server) -> None:
    from http.client import HTTPConnection

    with in_thread(server.asgi(principal=find_slowly)) as url:
        connection = HTTPConnection(url.removeprefix("http://"), timeout=10)
        for _ in range(2):
            connection.request("POST", "/mcp", b'{"jsonrpc": "2.0"}', {"content-type": "application/json"})
            response = connection.getresponse()
            assert (response.status, response.headers["www-authenticate"]) == (401, NOBODY)
            response.read()
        connection.close()


@pytest.mark.parametrize(
    "challenge", ["", " Bearer", "Bearer\r\nset-cookie: a=b", 'Bearer realm="\xfc"', "Bearer\t"]
)
def test_what_no_header_can_say_is_no_challenge(challenge: str) -> None:
    with pytest.raises(ValueError, match="WWW-Authenticate"):
        ChallengeError(401, challenge)


def test_other_statuses_are_no_challenges() -> None:
    wrong: Any = 404
    with pytest.raises(ValueError, match="401 or 403, not 404"):
        ChallengeError(wrong, "Bearer")
    nothing: Any = None
    with pytest.raises(TypeError):
        ChallengeError(401, nothing)

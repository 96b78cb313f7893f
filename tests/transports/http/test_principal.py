"""Principals of requests, and challenges to clients without one."""

from collections.abc import MutableMapping
from typing import Annotated, Any

import pytest
from starlette.authentication import AuthCredentials, SimpleUser, UnauthenticatedUser

from mcpkit import Access, Context, Depends, HttpOptions, Principal, ProtocolError, Server
from mcpkit.exceptions import ChallengeError
from mcpkit.extensions import ParamHeader
from mcpkit.transports.http.request import principal_of
from mcpkit.transports.http.sessions.session_store import read_token
from tests.helpers.raw_client import Serve, text_of
from tests.helpers.servers.protected import old_of, session_of
from tests.helpers.tables import each_row
from tests.transports.conftest import REQUESTS

Scope = MutableMapping[str, Any]

ADA = {"x-user": "ada", "x-scopes": "admin"}
BOB = {"x-user": "bob", "x-scopes": "read"}


def by_header(scope: Scope) -> Principal | None:
    headers = dict(scope["headers"])
    user = headers.get(b"x-user")
    return None if user is None else Principal(user.decode(), headers.get(b"x-scopes", b"").decode().split())


BY_HEADER = HttpOptions(principal=by_header)
FOR_ADMINS = Access(visible=lambda who: "admin" in who.scopes)


@pytest.fixture
def users_server() -> Server:
    server = Server("s", secret_key="a secret of some length")

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.principal.id} {' '.join(sorted(ctx.principal.scopes))}"

    @server.tool(access=FOR_ADMINS)
    async def erase() -> str:
        return "erased"

    @server.tool(access=FOR_ADMINS)
    def locate(region: Annotated[str, ParamHeader("Region")]) -> str:
        return region

    return server


async def test_stateless_request_has_principal_of_its_headers(users_server: Server, serve: Serve) -> None:
    async with serve(users_server, http=BY_HEADER) as client:
        for headers, text, names in (
            (ADA, "ada admin", ["who", "erase", "locate"]),
            (BOB, "bob read", ["who"]),
            ({}, "None ", ["who"]),
        ):
            assert text_of((await client.call_tool("who", headers=headers).whole()).json()) == text
            tools = (await client.ask("tools/list", headers=headers).whole()).json()["result"]["tools"]
            assert [tool["name"] for tool in tools] == names
        refused = await client.call_tool("erase", headers=BOB).whole()
        assert (refused.status, refused.error()["message"]) == (200, "Unknown tool: erase")
        hidden = await client.call_tool("locate", {"region": "eu"}, headers=BOB).whole()
        assert hidden.error()["message"] == "Unknown tool: locate", "its headers are not checked"
        seen = await client.call_tool("locate", {"region": "eu"}, headers=ADA).whole()
        assert seen.error()["code"] == -32020


async def test_session_refuses_other_principal(users_server: Server, serve: Serve) -> None:
    async with serve(users_server, http=BY_HEADER) as client:
        session = await session_of(client, ADA)
        for other in (BOB, {}, {"x-user": "ada2"}):
            ended = client.open("DELETE", headers=session.headers(other))
            for answer in (session.ask("ping", headers=other), session.listen(headers=other), ended):
                assert (await answer.whole()).status == 404
        assert (await session.ask("ping", headers=ADA).whole()).status == 200
        token = read_token(users_server.engine.runtime.keys, session.id or "", 0)
        assert token is not None
        assert token.principal is not None
        assert "ada" not in token.principal
    async with serve(users_server, http=BY_HEADER) as other_process:
        assert (await session.at(other_process).ask("ping", headers=BOB).whole()).status == 404


async def test_sse_scopes_follow_each_message(users_server: Server, serve: Serve) -> None:
    async with serve(users_server, http=BY_HEADER) as client:
        sse = await old_of(client, ADA)

        async def call(name: str, scopes: str) -> Any:
            return await sse.ask("tools/call", {"name": name}, {"x-user": "ada", "x-scopes": scopes})

        assert (await call("erase", ""))["error"]["message"] == "Unknown tool: erase"
        assert text_of(await call("who", "read")) == "ada read"
        assert text_of(await call("erase", "admin")) == "erased"


@each_row("answer", ["ada", 7, KeyError("x-user")])
async def test_principal_function_failure_is_500(answer, users_server, serve, caplog) -> None:
    def find(scope: Scope) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    caplog.clear()
    async with serve(users_server, http=HttpOptions(principal=find)) as client:
        refused = await client.call_tool("who").whole()
    assert refused.status == 500
    assert refused.body == b"the server could not authenticate this request because of an internal error\n"
    assert "the function given as principal= failed" in caplog.text


class WithIdentity(SimpleUser):
    @property
    def identity(self) -> str:
        return "17"


class Unlike:
    is_authenticated = True


@each_row(("scope", "expected"), [
    ({}, Principal()),
    ({"user": SimpleUser("ada"), "auth": AuthCredentials(["a"])}, Principal("ada", {"a"})),
    ({"user": WithIdentity("ada"), "auth": AuthCredentials()}, Principal("17")),
    ({"user": UnauthenticatedUser(), "auth": AuthCredentials(["a"])}, Principal(None, {"a"})),
    ({"user": SimpleUser(""), "auth": None}, Principal()),
    ({"user": Unlike(), "auth": "Bearer"}, Principal()),
    ({"user": {"id": 7}, "auth": {"scopes": ["admin"]}}, Principal()),
    ({"auth": AuthCredentials("admin")}, Principal(None, set("admin"))),
])  # fmt: skip
def test_principal_of_scope(scope: dict[str, Any], expected: Principal) -> None:
    assert principal_of(scope) == expected


CHALLENGE = 'Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"'
SCOPE_CHALLENGE = 'Bearer error="insufficient_scope", scope="read write"'


def find_principal(scope: Scope) -> Principal | None:
    if (b"authorization", b"Bearer ada") not in scope["headers"]:
        raise ChallengeError(401, CHALLENGE, "Send a token.")
    return Principal("ada", {"read"})


async def find_principal_async(scope: Scope) -> Principal | None:
    return find_principal(scope)


class AwaitableFinder:
    def __call__(self, scope: Scope) -> Any:
        return find_principal_async(scope)


def may_write(ctx: Context) -> None:
    raise ChallengeError(403, SCOPE_CHALLENGE)


@pytest.fixture
def challenging_server() -> Server:
    server = Server("s", secret_key="a secret of some length")
    server.tool(may_write, name="erase")
    server.resource("note://1", name="note")(may_write)
    server.prompt(may_write, name="summary")

    @server.tool
    def drop(allowed: None = Depends(may_write)) -> str:
        return "dropped"

    @server.tool
    async def several() -> None:
        """Raise what a task group raises."""
        error = ProtocolError(-32600, "several")
        error.exceptions = (ChallengeError(403, SCOPE_CHALLENGE),)  # type: ignore[attr-defined]  # as Python 3.10 has no groups
        raise error

    return server


@each_row(("send", "finder"), [
    *((post, find_principal) for post in REQUESTS.values()),
    (lambda client, headers: client.open("GET", "/sse"), find_principal),
    (lambda client, headers: client.post({}, path="/messages?session_id=x"), find_principal),
    (REQUESTS["stateless"], find_principal_async),
    (REQUESTS["GET"], AwaitableFinder()),
])  # fmt: skip
async def test_challenge_comes_before_any_request(send, finder, challenging_server, serve) -> None:
    async with serve(challenging_server, http=HttpOptions(principal=finder)) as client:
        answer = await send(client, {}).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (401, CHALLENGE)
        assert answer.body == b"Send a token.\n"


@each_row(("method", "params"), [
    *(("tools/call", {"name": name, "arguments": {}}) for name in ("erase", "drop", "several")),
    ("resources/read", {"uri": "note://1"}),
    ("prompts/get", {"name": "summary", "arguments": {}}),
])  # fmt: skip
async def test_component_may_challenge_stateless_request(method, params, challenging_server, serve) -> None:
    async with serve(challenging_server, http=HttpOptions(principal=find_principal)) as client:
        answer = await client.ask(method, params, headers={"authorization": "Bearer ada"}).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (403, SCOPE_CHALLENGE)
        assert answer.error() == {"code": -32600, "message": SCOPE_CHALLENGE}


@each_row(("status", "challenge", "error", "problem"), [
    *(
        (401, challenge, ValueError, "challenge of a ChallengeError must be visible ASCII")
        for challenge in ("", "Bearer\r\nset-cookie: a=b", 'Bearer realm="\xfc"')
    ),
    (404, "Bearer", ValueError, "401 or 403, got 404"),
    (401, None, TypeError, "got -32600 and None"),
])  # fmt: skip
def test_challenge_error_refuses_invalid_header_or_status(status, challenge, error, problem) -> None:
    with pytest.raises(error, match=problem):
        ChallengeError(status, challenge)

"""Principals of requests, and challenges to clients without one."""

from __future__ import annotations

import base64
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Annotated, Any

import pytest
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser, UnauthenticatedUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount
from starlette.testclient import TestClient

from mcpkit import Access, Context, Depends, HttpOptions, Principal, ProtocolError, Server
from mcpkit.exceptions import ChallengeError
from mcpkit.extensions import ParamHeader
from mcpkit.protocol.revisions import LATEST
from mcpkit.transports.http.intake.authenticated import principal_of
from mcpkit.transports.http.sessions.token import read
from tests.helpers.pipe import stateless_meta
from tests.helpers.raw_client import Client, Judge, Serve, Session, initialize, serving

pytestmark = pytest.mark.anyio

ADA = {"x-user": "ada", "x-scopes": "admin"}


BOB = {"x-user": "bob", "x-scopes": "read"}


def by_header(scope: MutableMapping[str, Any]) -> Principal | None:
    headers = dict(scope["headers"])
    user = headers.get(b"x-user")
    return None if user is None else Principal(user.decode(), headers.get(b"x-scopes", b"").decode().split())


@pytest.fixture
def users_server() -> Server:
    users_server = Server("s", secret_key="a secret of some length")

    @users_server.tool
    def who(ctx: Context) -> str:
        """Say who asks."""
        return f"{ctx.principal.id} {' '.join(sorted(ctx.principal.scopes))}"

    @users_server.tool(access=Access(visible=lambda who: "admin" in who.scopes))
    def erase() -> str:
        """Erase."""
        return "erased"

    return users_server


async def open_session(client: Client, headers: dict[str, str], revision: str = "2025-11-25") -> Session:
    judge = Judge(client.folder, revision)
    answer = await client.post(initialize(revision), headers, judge=judge).whole()
    session = Session(client, revision, answer.headers.get("mcp-session-id"), judge)
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await session.post(note, headers).whole()).status == 202
    return session


def tool_names(answer: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in answer["result"]["tools"]]


async def test_stateless_request_has_principal_of_its_headers(users_server: Server, serve: Serve) -> None:
    cases = [
        (ADA, "ada admin", ["who", "erase"]),
        (BOB, "bob read", ["who"]),
        ({}, "None ", ["who"]),
    ]
    async with serve(users_server, http=HttpOptions(principal=by_header)) as client:
        for headers, actual, seen in cases:
            answer = (await client.call_tool("who", headers=headers).whole()).json()
            assert answer["result"]["content"][0]["text"] == actual
            assert tool_names((await client.ask("tools/list", headers=headers).whole()).json()) == seen
        refused = await client.call_tool("erase", headers=BOB).whole()
        assert (refused.status, refused.json()["error"]["message"]) == (200, "Unknown tool: erase")


async def test_hidden_tool_headers_are_not_checked(users_server: Server, serve: Serve) -> None:
    @users_server.tool(access=Access(visible=lambda who: "admin" in who.scopes))
    def locate(region: Annotated[str, ParamHeader("Region")]) -> str:
        """Locate."""
        return region

    async with serve(users_server, http=HttpOptions(principal=by_header)) as client:
        hidden = (await client.call_tool("locate", {"region": "eu"}, headers=BOB).whole()).json()
        missing = (await client.call_tool("nowhere", {"region": "eu"}, headers=BOB).whole()).json()
        assert hidden["error"]["message"] == missing["error"]["message"].replace("nowhere", "locate")
        assert (await client.call_tool("locate", {"region": "eu"}, headers=ADA).whole()).json()["error"][
            "code"
        ] == -32020


@pytest.mark.parametrize("revision", ["2025-11-25"])
async def test_session_refuses_other_principal(users_server: Server, serve: Serve, revision: str) -> None:
    async with serve(users_server, http=HttpOptions(principal=by_header)) as client:
        session = await open_session(client, ADA, revision)
        for other in (BOB, {}, {"x-user": "ada2"}):
            assert (await session.ask("ping", headers=other).whole()).status == 404
            assert (await session.listen(headers=other).whole()).status == 404
            assert (
                await client.open("DELETE", headers=session.headers(other), judge=session.judge).whole()
            ).status == 404
        assert (await session.ask("ping", headers=ADA).whole()).status == 200
        token = read(users_server.engine.runtime.keys, session.id or "", 0)
        assert token is not None
        assert token.principal is not None
        assert "ada" not in token.principal
    async with serve(users_server, http=HttpOptions(principal=by_header)) as other_process:
        there = session.at(other_process)
        assert (await there.ask("ping", headers=BOB).whole()).status == 404


@pytest.mark.parametrize("answer", ["ada", 7, KeyError("x-user")])
async def test_principal_function_failure_is_500(
    users_server: Server, serve: Serve, answer: Any, caplog: Any
) -> None:
    def find(scope: MutableMapping[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with serve(users_server, http=HttpOptions(principal=find)) as client:
        refused = await client.call_tool("who").whole()
        assert (refused.status, refused.body) == (
            500,
            b"the server could not authenticate this request because of an internal error\n",
        )
    assert "the function given as principal= failed" in caplog.text


class Basic(AuthenticationBackend):
    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        if "authorization" not in conn.headers:
            return None
        user, _, password = base64.b64decode(conn.headers["authorization"].split()[1]).decode().partition(":")
        return AuthCredentials(password.split(",")), SimpleUser(user)


def test_starlette_authentication_sets_principal(users_server: Server) -> None:
    middleware = [Middleware(AuthenticationMiddleware, backend=Basic())]
    app = Starlette(
        routes=[Mount("/x", app=users_server.asgi(allowed_hosts=["testserver"]))], middleware=middleware
    )
    params = {"name": "who", "arguments": {}, "_meta": stateless_meta()}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": LATEST, "mcp-method": "tools/call", "mcp-name": "who"}
    with TestClient(app) as client:
        for auth, actual in ((("ada", "admin,read"), "ada admin read"), (None, "None ")):
            answer = client.post("/x/mcp", json=message, headers=headers, auth=auth)
            assert answer.json()["result"]["content"][0]["text"] == actual


CHALLENGE = 'Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"'


SCOPE_CHALLENGE = 'Bearer error="insufficient_scope", scope="read write"'


ADA_TOKEN = {"authorization": "Bearer ada"}


def find_principal(scope: MutableMapping[str, Any]) -> Principal | None:
    if (b"authorization", b"Bearer ada") not in scope["headers"]:
        raise ChallengeError(401, CHALLENGE, "Send a token.")
    return Principal("ada", {"read"})


async def find_principal_async(scope: MutableMapping[str, Any]) -> Principal | None:
    return find_principal(scope)


class AwaitableFinder:
    def __call__(self, scope: MutableMapping[str, Any]) -> Any:
        return find_principal_async(scope)


def may_write(ctx: Context) -> None:
    if "write" not in ctx.principal.scopes:
        raise ChallengeError(403, SCOPE_CHALLENGE)


@pytest.fixture
def challenging_server() -> Server:
    challenging_server = Server("s", secret_key="a secret of some length")

    @challenging_server.tool
    async def erase(ctx: Context, report: bool = False) -> str:
        """Erase."""
        if report:
            await ctx.report_progress(1, 2)
        may_write(ctx)
        return "erased"

    @challenging_server.tool
    def drop(allowed: None = Depends(may_write)) -> str:
        """Drop."""
        return "dropped"

    @challenging_server.tool
    async def several() -> None:
        """Raise what a task group raises."""
        error = ProtocolError(-32600, "several")
        error.exceptions = (ChallengeError(403, SCOPE_CHALLENGE),)  # type: ignore[attr-defined]  # as Python 3.10 has no groups
        raise error

    @challenging_server.resource("note://1")
    def note(ctx: Context) -> str:
        """A note."""
        may_write(ctx)
        return "note"

    @challenging_server.prompt
    def summary(ctx: Context) -> str:
        """A summary."""
        may_write(ctx)
        return "summary"

    return challenging_server


REQUESTS: dict[str, Callable[[Client], Any]] = {
    "stateless": lambda client: client.call_tool("erase"),
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


@pytest.mark.parametrize(
    ("name", "finder"),
    [
        *((name, find_principal) for name in REQUESTS),
        ("stateless", find_principal_async),
        ("GET", AwaitableFinder()),
    ],
)
async def test_challenge_comes_before_any_request(
    challenging_server: Server, serve: Serve, name: str, finder: Any
) -> None:
    async with serve(challenging_server, http=HttpOptions(principal=finder)) as client:
        answer = await REQUESTS[name](client).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (401, CHALLENGE)
        assert answer.body == b"Send a token.\n"


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "tool": ("tools/call", {"name": "erase", "arguments": {}}),
    "dependency": ("tools/call", {"name": "drop", "arguments": {}}),
    "group": ("tools/call", {"name": "several", "arguments": {}}),
    "resource": ("resources/read", {"uri": "note://1"}),
    "prompt": ("prompts/get", {"name": "summary", "arguments": {}}),
}  # fmt: skip


def check_challenge(answer: Any) -> None:
    assert (answer.status, answer.headers["www-authenticate"]) == (403, SCOPE_CHALLENGE)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"] == {"code": -32600, "message": SCOPE_CHALLENGE}


@pytest.mark.parametrize("call", CALLS)
async def test_component_may_challenge_stateless_request(
    challenging_server: Server, serve: Serve, call: str
) -> None:
    async with serve(challenging_server, http=HttpOptions(principal=find_principal)) as client:
        check_challenge(await client.ask(*CALLS[call], headers=ADA_TOKEN).whole())


@pytest.mark.parametrize("challenge", ["", "Bearer\r\nset-cookie: a=b", 'Bearer realm="\xfc"'])
def test_challenge_error_refuses_invalid_header(challenge: str) -> None:
    with pytest.raises(ValueError, match="challenge of a ChallengeError must be visible ASCII"):
        ChallengeError(401, challenge)


def test_challenge_error_refuses_other_status() -> None:
    wrong: Any = 404
    with pytest.raises(ValueError, match="401 or 403, got 404"):
        ChallengeError(wrong, "Bearer")
    nothing: Any = None
    with pytest.raises(TypeError):
        ChallengeError(401, nothing)


class WithIdentity(SimpleUser):
    @property
    def identity(self) -> str:
        return "17"


class Unlike:
    is_authenticated = True


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, Principal()),
        ({"user": SimpleUser("ada"), "auth": AuthCredentials(["a"])}, Principal("ada", {"a"})),
        ({"user": WithIdentity("ada"), "auth": AuthCredentials()}, Principal("17")),
        ({"user": UnauthenticatedUser(), "auth": AuthCredentials(["a"])}, Principal(None, {"a"})),
        ({"user": SimpleUser(""), "auth": None}, Principal()),
        ({"user": Unlike(), "auth": "Bearer"}, Principal()),
        ({"user": {"id": 7}, "auth": {"scopes": ["admin"]}}, Principal()),
        ({"auth": AuthCredentials("admin")}, Principal(None, set("admin"))),
    ],
)
def test_principal_of_scope(scope: dict[str, Any], expected: Principal) -> None:
    assert principal_of(scope) == expected


async def test_sse_scopes_follow_each_message(schema_dir: Path) -> None:
    users_server = Server("s", secret_key="a secret of some length")

    @users_server.tool
    async def look(ctx: Context) -> str:
        return " ".join(sorted(ctx.principal.scopes))

    @users_server.tool(access=Access(visible=lambda who: "admin" in who.scopes))
    async def erase() -> str:
        return "erased"

    async with serving(users_server, schema_dir, http=HttpOptions(principal=by_header, sse=True)) as client:
        judge = Judge(client.folder, "2024-11-05")
        stream = client.open("GET", "/sse", headers={"x-user": "ada", "x-scopes": "admin"}, judge=judge)
        opening = await stream.event()
        assert opening is not None
        endpoint = opening.data or ""

        async def send(message: dict[str, Any], scopes: str) -> Any:
            headers = {"x-user": "ada", "x-scopes": scopes}
            assert (await client.post(message, headers, path=endpoint, judge=judge).whole()).status == 202
            return await stream.message()

        def call(name: str) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}

        await send(initialize("2024-11-05"), "admin")
        assert (await send(call("erase"), ""))["error"]["message"] == "Unknown tool: erase"
        assert (await send(call("look"), "read"))["result"]["content"][0]["text"] == "read"
        assert (await send(call("erase"), "admin"))["result"]["content"][0]["text"] == "erased"

"""Who sends a request over HTTP: what has authenticated it says so, and nobody reaches what is another's."""

from __future__ import annotations

import base64
from collections.abc import MutableMapping
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser, UnauthenticatedUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount
from starlette.testclient import TestClient

from mcpkit import Context, Header, Principal, Server
from mcpkit.protocol.revisions import HANDSHAKE, LATEST
from mcpkit.transports.http.intake.authenticated import principal_of
from mcpkit.transports.http.sessions.token import read
from tests.helpers.asgi_answer import Judge
from tests.helpers.asgi_client import Client, Serve, Session, initialize, serving
from tests.helpers.event_streams import stateless_meta

pytestmark = pytest.mark.anyio

ADA = {"x-user": "ada", "x-scopes": "admin"}
BOB = {"x-user": "bob", "x-scopes": "read"}


def by_header(scope: MutableMapping[str, Any]) -> Principal | None:
    headers = dict(scope["headers"])
    user = headers.get(b"x-user")
    return None if user is None else Principal(user.decode(), headers.get(b"x-scopes", b"").decode().split())


@pytest.fixture
def server() -> Server:
    server = Server("s", secret="a secret of some length")

    @server.tool
    def who(ctx: Context) -> str:
        """Say who asks."""
        return f"{ctx.principal.id} {' '.join(sorted(ctx.principal.scopes))}"

    @server.tool(visible=lambda who: "admin" in who.scopes)
    def erase() -> str:
        """Erase."""
        return "erased"

    return server


async def opened(client: Client, headers: dict[str, str], revision: str = "2025-11-25") -> Session:
    judge = Judge(client.folder, revision)
    answer = await client.post(initialize(revision), headers, judge=judge).whole()
    session = Session(client, revision, answer.headers.get("mcp-session-id"), judge)
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await session.post(note, headers).whole()).status == 202
    return session


def names(answer: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in answer["result"]["tools"]]


async def test_each_stateless_request_is_its_senders(server: Server, serve: Serve) -> None:
    cases = [
        (ADA, "ada admin", ["who", "erase"]),
        (BOB, "bob read", ["who"]),
        ({}, "None ", ["who"]),
    ]
    async with serve(server, principal=by_header) as client:
        for headers, told, seen in cases:
            answer = (await client.call("who", headers=headers).whole()).json()
            assert answer["result"]["content"][0]["text"] == told
            assert names((await client.ask("tools/list", headers=headers).whole()).json()) == seen
        refused = await client.call("erase", headers=BOB).whole()
        assert (refused.status, refused.json()["error"]["message"]) == (200, "Unknown tool: erase")


async def test_the_headers_of_a_hidden_tool_are_not_checked(server: Server, serve: Serve) -> None:
    @server.tool(visible=lambda who: "admin" in who.scopes)
    def locate(region: Annotated[str, Header("Region")]) -> str:
        """Locate."""
        return region

    async with serve(server, principal=by_header) as client:
        hidden = (await client.call("locate", {"region": "eu"}, headers=BOB).whole()).json()
        missing = (await client.call("nowhere", {"region": "eu"}, headers=BOB).whole()).json()
        assert hidden["error"]["message"] == missing["error"]["message"].replace("nowhere", "locate")
        assert (await client.call("locate", {"region": "eu"}, headers=ADA).whole()).json()["error"][
            "code"
        ] == -32020


@pytest.mark.parametrize("revision", [revision for revision in HANDSHAKE if revision > "2024-11-05"])
async def test_a_session_belongs_to_who_opened_it(server: Server, serve: Serve, revision: str) -> None:
    async with serve(server, principal=by_header) as client:
        session = await opened(client, ADA, revision)
        for other in (BOB, {}, {"x-user": "ada2"}):
            assert (await session.ask("ping", headers=other).whole()).status == 404
            assert (await session.listen(headers=other).whole()).status == 404
            assert (
                await client.open("DELETE", headers=session.headers(other), judge=session.judge).whole()
            ).status == 404
        assert (await session.ask("ping", headers=ADA).whole()).status == 200
        token = read(server.engine.runtime.keys, session.id or "", 0)
        assert token is not None
        assert token.principal is not None
        assert "ada" not in token.principal
    async with serve(server, principal=by_header) as other_process:
        there = session.at(other_process)
        assert (await there.ask("ping", headers=BOB).whole()).status == 404


async def test_what_is_granted_may_change_within_a_session(server: Server, serve: Serve) -> None:
    async with serve(server, principal=by_header) as client:
        session = await opened(client, ADA)
        fewer = {**ADA, "x-scopes": ""}
        assert names((await session.ask("tools/list", headers=ADA).whole()).json()) == ["who", "erase"]
        assert names((await session.ask("tools/list", headers=fewer).whole()).json()) == ["who"]


async def test_guests_have_a_principal(server: Server, serve: Serve) -> None:
    async with serve(server, principal=by_header, stateless=True) as client:
        session = await opened(client, ADA)
        assert session.id is None
        assert names((await session.ask("tools/list", headers=ADA).whole()).json()) == ["who", "erase"]
        assert names((await session.ask("tools/list", headers=BOB).whole()).json()) == ["who"]


async def test_a_listener_hears_what_its_principal_may_see(server: Server, serve: Serve) -> None:
    @server.resource("data://secret", visible=lambda who: "admin" in who.scopes)
    def secret() -> str:
        return "secret"

    @server.resource("data://open")
    def open_() -> str:
        return "open"

    uris = ["data://secret", "data://open"]
    wanted = {"notifications": {"resourceSubscriptions": uris}}

    async with serve(server, principal=by_header) as client:
        streams = {
            user["x-user"]: client.ask("subscriptions/listen", wanted, headers=user) for user in (ADA, BOB)
        }
        for stream in streams.values():
            await stream.event()
        for uri in uris:
            server.resource_updated(uri)
        heard = [(await streams["ada"].message())["params"]["uri"] for _ in uris]
        assert heard == uris
        assert (await streams["bob"].message())["params"]["uri"] == "data://open"


async def test_one_principal_for_all(server: Server, serve: Serve) -> None:
    async with serve(server, principal=Principal("proxy", {"admin"})) as client:
        assert (await client.call("who").whole()).json()["result"]["content"][0]["text"] == "proxy admin"


@pytest.mark.parametrize("answer", ["ada", 7, KeyError("x-user")])
async def test_who_cannot_be_told_is_not_served(
    server: Server, serve: Serve, answer: Any, caplog: Any
) -> None:
    def find(scope: MutableMapping[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with serve(server, principal=find) as client:
        refused = await client.call("who").whole()
        assert (refused.status, refused.body) == (500, b"the server cannot tell who sends this request\n")
    assert "principal= cannot say who sends a request" in caplog.text


def test_what_is_no_way_to_tell(server: Server) -> None:
    for wrong in ("ada", {"admin"}):
        with pytest.raises(
            TypeError, match="principal must be a function of the ASGI scope that returns a Principal"
        ):
            server.asgi(principal=wrong)
    with pytest.raises(TypeError, match=r'principal must be a Principal, such as Principal\("ada"\), got'):
        server.run("stdio", principal=by_header)


# Starlette's AuthenticationMiddleware


class Basic(AuthenticationBackend):
    """Takes any password, and grants what is written there."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        if "authorization" not in conn.headers:
            return None
        user, _, password = base64.b64decode(conn.headers["authorization"].split()[1]).decode().partition(":")
        return AuthCredentials(password.split(",")), SimpleUser(user)


def test_starlettes_middleware_says_who_it_is(server: Server) -> None:
    middleware = [Middleware(AuthenticationMiddleware, backend=Basic())]
    app = Starlette(
        routes=[Mount("/x", app=server.asgi(allowed_hosts=["testserver"]))], middleware=middleware
    )
    params = {"name": "who", "arguments": {}, "_meta": stateless_meta()}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": LATEST, "mcp-method": "tools/call", "mcp-name": "who"}
    with TestClient(app) as client:
        for auth, told in ((("ada", "admin,read"), "ada admin read"), (None, "None ")):
            answer = client.post("/x/mcp", json=message, headers=headers, auth=auth)
            assert answer.json()["result"]["content"][0]["text"] == told


class WithIdentity(SimpleUser):
    """A user that goes by something else than its name."""

    @property
    def identity(self) -> str:
        return "17"


class Unlike:
    """A user of another framework."""

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
def test_what_scopes_say(scope: dict[str, Any], expected: Principal) -> None:
    assert principal_of(scope) == expected


# HTTP+SSE


async def test_only_who_opened_the_stream_posts_there(server: Server, serve: Serve) -> None:
    async with serve(server, principal=by_header) as client:
        judge = Judge(client.folder, "2024-11-05")
        stream = client.open("GET", "/sse", headers=ADA, judge=judge)
        endpoint = (await stream.event()).data
        path, _, query = endpoint.partition("?")
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for other in (BOB, {}):
            refused = await client.post(
                message, other, judge=judge, path=path, query_string=query.encode()
            ).whole()
            assert refused.status == 404
        taken = await client.post(message, ADA, judge=judge, path=path, query_string=query.encode()).whole()
        assert taken.status == 202
        assert await stream.message() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_over_the_old_transport_scopes_are_those_of_each_message(schema_dir: Path) -> None:
    server = Server("s", secret="a secret of some length")

    @server.tool
    async def look(ctx: Context) -> str:
        return " ".join(sorted(ctx.principal.scopes))

    @server.tool(visible=lambda who: "admin" in who.scopes)
    async def erase() -> str:
        return "erased"

    async with serving(server, schema_dir, principal=by_header, sse=True) as client:
        judge = Judge(client.folder, "2024-11-05")
        stream = client.open("GET", "/sse", headers={"x-user": "ada", "x-scopes": "admin"}, judge=judge)
        opening = await stream.event()
        assert opening is not None
        endpoint = opening.data or ""

        async def asked(message: dict[str, Any], scopes: str) -> Any:
            headers = {"x-user": "ada", "x-scopes": scopes}
            assert (await client.post(message, headers, path=endpoint, judge=judge).whole()).status == 202
            return await stream.message()

        def call(name: str) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}

        await asked(initialize("2024-11-05"), "admin")
        assert (await asked(call("erase"), ""))["error"]["message"] == "Unknown tool: erase"
        assert (await asked(call("look"), "read"))["result"]["content"][0]["text"] == "read"
        assert (await asked(call("erase"), "admin"))["result"]["content"][0]["text"] == "erased"


class User(SimpleUser):
    """A user known by the key of a database.

    Args:
        key: The key.
    """

    def __init__(self, key: Any) -> None:
        super().__init__("ada")
        self.key = key

    @property
    def identity(self) -> str:
        """The key, whatever it is."""
        key: str = self.key
        return key


@pytest.mark.parametrize(
    ("key", "id_"),
    [
        (17, "17"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("17", "17"),
        (None, None),
        ([1], None),
    ],
)
def test_users_with_a_key_are_not_nobody(key: Any, id_: str | None) -> None:
    assert principal_of({"user": User(key), "auth": AuthCredentials()}) == Principal(id_)

"""Access tokens of requests: missing, invalid, or not verifiable now."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Access, Context, HttpOptions, Principal, Server
from mcpkit.auth import AccessToken, Jwt, TokenVerifier
from mcpkit.testing import connect
from tests.helpers.clock import Clock
from tests.helpers.raw_client import Client, Serve, initialize
from tests.helpers.servers.protected import Table, bearer
from tests.helpers.signed_tokens import CANARY, ISSUER, NOW, HostileTokens, Signer

pytestmark = pytest.mark.anyio

DOCUMENT = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'


CHALLENGE = f'Bearer {DOCUMENT}, scope="notes:read"'


REQUESTS: dict[str, Callable[..., Any]] = {
    "stateless": lambda client, headers: client.call_tool("whoami", headers=headers),
    "initialize": lambda client, headers: client.post(initialize(), headers),
    "session": lambda client, headers: client.post({}, {"mcp-session-id": "x", **headers}),
    "not JSON": lambda client, headers: client.post(b"{", headers),
    "GET": lambda client, headers: client.open("GET", headers={"accept": "text/event-stream", **headers}),
    "DELETE": lambda client, headers: client.open("DELETE", headers={"mcp-session-id": "x", **headers}),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_request_without_token_is_challenged(client: Client, name: str) -> None:
    answer = await REQUESTS[name](client, {}).whole()
    assert (answer.status, answer.headers["www-authenticate"]) == (401, CHALLENGE)


@pytest.mark.parametrize("name", REQUESTS)
async def test_invalid_token_is_refused(client: Client, name: str) -> None:
    answer = await REQUESTS[name](client, bearer("bad")).whole()
    texts = 'error="invalid_token", error_description="The access token has expired"'
    assert (answer.status, answer.headers["www-authenticate"]) == (
        401,
        f'Bearer {texts}, {DOCUMENT}, scope="notes:read"',
    )


@pytest.mark.parametrize("path", ["/sse", "/messages"])
async def test_sse_has_own_metadata_and_audience(client: Client, table: Table, path: str) -> None:
    answer = await client.open("GET", path).whole()
    assert "/.well-known/oauth-protected-resource/sse" in answer.headers["www-authenticate"]
    await client.open("GET", path, headers=bearer("bad")).whole()
    assert table.asked == [("bad", "https://mcp.example.com/sse")]


@pytest.mark.limit("access token of a request")
@pytest.mark.parametrize(
    "header",
    [
        "Bearer", "Bearer ", "bearer a b", "Bearer ä", "Bearer a,b", "Bearer " + "a" * 20_000,
        'Bearer "a"', "Bearer\ta",
    ],
)  # fmt: skip
async def test_malformed_token_is_bad_request(client: Client, table: Table, header: str) -> None:
    answer = await client.call_tool("whoami", headers={"authorization": header.encode("latin-1")}).whole()
    assert answer.status == 400
    assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_request"')
    assert table.asked == []


async def test_session_needs_token_in_each_request(client: Client) -> None:
    opening = client.post(initialize(), bearer("ada"))
    id_ = (await opening.whole()) and opening.headers["mcp-session-id"]
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert (await client.post(ping, {"mcp-session-id": id_, **bearer("ada")}).whole()).status == 200
    assert (await client.post(ping, {"mcp-session-id": id_, **bearer("ada", ["mail"])}).whole()).status == 200
    assert (await client.post(ping, {"mcp-session-id": id_, **bearer("eve")}).whole()).status == 404
    assert (await client.post(ping, {"mcp-session-id": id_}).whole()).status == 401


async def test_fresh_token_is_verified_once(client: Client, table: Table) -> None:
    for _ in range(3):
        assert (await client.call_tool("whoami", headers=bearer("ada")).whole()).status == 200
    assert len(table.asked) == 1
    assert (await client.call_tool("whoami", headers=bearer("eve")).whole()).status == 200
    assert len(table.asked) == 2


async def test_unavailable_verifier_is_503(
    server: Server, serve: Serve, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    table.is_down = True
    async with serve(server, http=HttpOptions(readiness_path="/health")) as client:
        answer = await client.call_tool("whoami", headers=bearer("ada")).whole()
        assert (answer.status, answer.headers["retry-after"]) == (503, "7")
        assert "www-authenticate" not in answer.headers
        assert b"table" not in answer.body
        assert "the table is locked" in caplog.text
        assert "ada" not in caplog.text
        assert (await client.open("GET", "/health").whole()).status == 200
        table.is_down = False
        assert (await client.call_tool("whoami", headers=bearer("ada")).whole()).status == 200


async def test_failing_verifier_is_500(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(TokenVerifier):
        async def verify(self, token: str, audience: str) -> AccessToken:
            raise KeyError("secret")

    async with serve(Server("s", auth=Broken())) as client:
        answer = await client.call_tool("whoami", headers=bearer("ada")).whole()
        assert answer.status == 500
        assert b"secret" not in answer.body
        assert "the token verifier raised an exception" in caplog.text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"public_url": None}, "needs the public URL of the server"),
        ({"http": HttpOptions(principal=Principal("ada"))}, "cannot be combined"),
        ({"public_url": "https://example.com/"}, "does not end with path='/mcp'"),
        ({"public_url": "https://example.com/mcp?x=1"}, "must only have a scheme"),
        (
            {"public_url": "https://a:b@example.com/mcp"},
            "not the URL of a server|must only have a scheme",
        ),
    ],
)
def test_app_option_conflicts_with_auth(server: Server, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        server.asgi(**({"public_url": "https://mcp.example.com/mcp"} | options))


async def test_including_server_needs_auth_too(
    make: Callable[..., Server],
) -> None:
    between = Server("between")
    outer, later = Server("outer"), Server("later")
    app = later.asgi()
    outer.include(between)
    outer.asgi()
    between.include(make(), prefix="x")
    with pytest.raises(ValueError, match="Give this server auth= too"):
        outer.asgi()
    outer.asgi(http=HttpOptions(principal=Principal("ada")))
    later.include(between)
    with pytest.raises(ValueError, match="Give this server auth= too"):
        app.door()
    async with connect(outer) as client:  # who is on this machine needs no token
        assert (await client.call_tool("x_whoami")).text == "None []"


async def test_guard_runs_before_token_verification(client: Client, table: Table) -> None:
    evil = {"origin": "https://evil.example", **bearer("ada")}
    assert (await client.call_tool("whoami", headers=evil).whole()).status == 403
    assert table.asked == []


SIGNERS = [Signer("RS256", "one"), Signer("ES256", "two")]


TOKEN_FORM = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


SEED = 20_261_122


WHERE = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'


@pytest.fixture
def jwt_server() -> Server:
    keys = {"keys": [each.public() for each in SIGNERS]}
    jwt_server = Server(
        "notes", secret_key="a secret of some length", auth=Jwt(ISSUER, keys=keys, clock=Clock(NOW))
    )

    @jwt_server.tool
    def whoami(ctx: Context) -> str:
        """Say who asks."""
        return str(ctx.principal.subject)

    return jwt_server


def authorization(*tokens: str) -> dict[str, bytes]:
    names = ("authorization", "Authorization")
    return {
        name: f"Bearer {token}".encode("utf-8", "surrogatepass")
        for name, token in zip(names, tokens, strict=False)
    }


@pytest.mark.slow
async def test_hostile_tokens_are_refused(
    jwt_server: Server, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    statuses: Counter[int] = Counter()
    async with serve(jwt_server) as client:
        with caplog.at_level(logging.DEBUG):
            for number, (way, token) in enumerate(HostileTokens(SIGNERS).tokens(SEED, 250)):
                if token != token.strip():
                    continue  # white space around a header is none of it
                request: Any = initialize() if number % 2 else b"{"
                answer = await client.post(request, authorization(token)).whole()
                actual = answer.headers.get("www-authenticate", "")
                is_token = TOKEN_FORM.fullmatch(token) is not None and len(token) < 16 * 1024 - len("Bearer ")
                expected = (401, "invalid_token") if is_token else (400, "invalid_request")
                assert (answer.status, WHERE in actual) == (expected[0], is_token), f"{way}: {token}"
                assert f'error="{expected[1]}"' in actual
                for piece in (CANARY, *(each for each in token.split(".") if len(each) > 20)):
                    assert piece not in actual
                    assert piece.encode("utf-8", "surrogatepass") not in answer.body
                    assert piece not in caplog.text
                statuses[answer.status] += 1
                caplog.clear()

        good = SIGNERS[0].token(HostileTokens(SIGNERS).claims())
        assert (await client.post(initialize(), authorization(good)).whole()).status == 200
    assert set(statuses) == {400, 401}


async def test_two_authorization_headers_are_refused(jwt_server: Server, serve: Serve) -> None:
    hostile = HostileTokens(SIGNERS)
    good = SIGNERS[0].token(hostile.claims())
    async with serve(jwt_server) as client:
        for _, token in hostile.tokens(SEED, 42):
            for first, second in ((good, token), (token, good), (good, good)):
                sent = authorization(first, second)
                answer = await client.post(initialize(), sent).whole()
                assert (answer.status, 'error="invalid_request"' in answer.headers["www-authenticate"]) == (
                    400,
                    True,
                )


async def test_verifier_without_principal_id_is_500(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    class Nameless(TokenVerifier):
        """Forgets to say who it is."""

        async def verify(self, token: str, audience: str) -> AccessToken:
            return AccessToken(Principal(scopes={"notes:read"}))

    server = Server("s", auth=Nameless())
    server.tool(lambda: "open", name="open", access=Access(allow_anonymous=True))
    async with serve(server) as client:
        assert (await client.call_tool("open", headers=bearer("ada")).whole()).status == 500
        assert "returned a principal without an id" in caplog.text


class ClosingVerifier(TokenVerifier):
    def __init__(self, problem: Exception | None = None) -> None:
        self.closed: list[asyncio.AbstractEventLoop] = []
        self._problem = problem

    async def verify(self, token: str, audience: str) -> AccessToken:
        return AccessToken(Principal(token))

    async def aclose(self) -> None:
        self.closed.append(asyncio.get_running_loop())
        if self._problem is not None:
            raise self._problem


async def test_verifier_close_failure_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "mcpkit"):
        async with serve(Server("notes", auth=ClosingVerifier(OSError("no")))):
            pass

    assert "closing the token verifier failed" in caplog.text

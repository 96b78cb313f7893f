"""Access tokens of requests: who has none, a bad one, or one that cannot be verified now."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from mcpkit import Principal, Server
from mcpkit.auth import Grant, TokenVerifier
from mcpkit.testing import connect
from tests.helpers.asgi_client import Serve, initialize
from tests.helpers.serving import in_thread
from tests.helpers.verified import Table, bearer

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"

DOCUMENT = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
NOBODY = f'Bearer {DOCUMENT}, scope="notes:read"'

REQUESTS: dict[str, Callable[..., Any]] = {
    "stateless": lambda client, headers: client.call("whoami", headers=headers),
    "initialize": lambda client, headers: client.post(initialize(), headers),
    "session": lambda client, headers: client.post({}, {"mcp-session-id": "x", **headers}),
    "not JSON": lambda client, headers: client.post(b"{", headers),
    "GET": lambda client, headers: client.open("GET", headers={"accept": "text/event-stream", **headers}),
    "DELETE": lambda client, headers: client.open("DELETE", headers={"mcp-session-id": "x", **headers}),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_who_has_no_token_is_told_where_to_get_one(server: Server, serve: Serve, name: str) -> None:
    async with serve(server) as client:
        answer = await REQUESTS[name](client, {}).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (401, NOBODY)


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_bad_token_is_refused(server: Server, serve: Serve, name: str) -> None:
    async with serve(server) as client:
        answer = await REQUESTS[name](client, bearer("bad")).whole()
        said = 'error="invalid_token", error_description="The access token has expired"'
        assert (answer.status, answer.headers["www-authenticate"]) == (
            401,
            f'Bearer {said}, {DOCUMENT}, scope="notes:read"',
        )


@pytest.mark.parametrize("path", ["/sse", "/messages"])
async def test_sse_has_a_document_and_an_audience_of_its_own(
    server: Server, serve: Serve, table: Table, path: str
) -> None:
    async with serve(server) as client:
        answer = await client.open("GET", path).whole()
        assert "/.well-known/oauth-protected-resource/sse" in answer.headers["www-authenticate"]
        await client.open("GET", path, headers=bearer("bad")).whole()
        assert table.asked == [("bad", "https://mcp.example.com/sse")]


@pytest.mark.limit("access token of a request")
@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "bearer a b",
        "Bearer ä",
        "Bearer a,b",
        "Bearer " + "a" * 20_000,
        'Bearer "a"',
        "Bearer\ta",
    ],
)
async def test_what_is_no_token_is_a_bad_request(
    server: Server, serve: Serve, table: Table, header: str
) -> None:
    async with serve(server) as client:
        answer = await client.call("whoami", headers={"authorization": header.encode("latin-1")}).whole()
        assert answer.status == 400
        assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_request"')
        assert table.asked == []


@pytest.mark.parametrize("header", ["Basic YTpi", "DPoP abc", "Token abc", "", "Bearerx abc"])
async def test_another_scheme_is_no_token(server: Server, serve: Serve, header: str) -> None:
    async with serve(server) as client:
        answer = await client.call("whoami", headers={"authorization": header}).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (401, NOBODY)


def test_two_tokens_are_a_bad_request(server: Server, table: Table) -> None:
    with in_thread(server.asgi(public_url=URL)) as url:
        connection = HTTPConnection(url.removeprefix("http://"))
        connection.putrequest("POST", "/mcp")
        for name, value in (
            ("Authorization", "Bearer a"),
            ("Authorization", "Bearer b"),
            ("Content-Length", "0"),
        ):
            connection.putheader(name, value)
        connection.endheaders()
        with closing(connection):
            answer = connection.getresponse()
            assert answer.status == 400
            assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_request"')
    assert table.asked == []


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_who_has_a_good_token_is_served(server: Server, serve: Serve, scheme: str) -> None:
    async with serve(server) as client:
        answer = await client.call("whoami", headers={"authorization": f"{scheme} ada.notes-write"}).whole()
        assert answer.status == 200
        text = answer.json()["result"]["content"][0]["text"]
        assert text == "ada ['notes:read', 'notes:write']"  # what it implies is granted, too


async def test_a_session_needs_a_token_in_each_request(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        opened = client.post(initialize(), bearer("ada"))
        id_ = (await opened.whole()) and opened.headers["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await client.post(ping, {"mcp-session-id": id_, **bearer("ada")}).whole()).status == 200
        assert (
            await client.post(ping, {"mcp-session-id": id_, **bearer("ada", ["mail"])}).whole()
        ).status == 200
        assert (await client.post(ping, {"mcp-session-id": id_, **bearer("eve")}).whole()).status == 404
        assert (await client.post(ping, {"mcp-session-id": id_}).whole()).status == 401


async def test_a_token_is_verified_once_while_it_is_fresh(server: Server, serve: Serve, table: Table) -> None:
    async with serve(server) as client:
        for _ in range(3):
            assert (await client.call("whoami", headers=bearer("ada")).whole()).status == 200
        assert len(table.asked) == 1
        assert (await client.call("whoami", headers=bearer("eve")).whole()).status == 200
        assert len(table.asked) == 2


@pytest.mark.parametrize("scheme", ["Bearer", "Bearer ", "bearer", "bEARER   "])
async def test_a_token_is_verified_once_however_its_header_is_written(
    server: Server, serve: Serve, table: Table, scheme: str
) -> None:
    async with serve(server) as client:
        for spaces in ("", " ", " " * 100):
            headers = {"authorization": f"{scheme}{spaces} ada"}
            assert (await client.call("whoami", headers=headers).whole()).status == 200
        assert (await client.call("whoami", headers=bearer("ada")).whole()).status == 200
        assert len(table.asked) == 1


async def test_a_token_that_has_expired_is_verified_again(server: Server, serve: Serve, table: Table) -> None:
    table.expires = 1.0  # long ago
    async with serve(server) as client:
        for _ in range(3):
            await client.call("whoami", headers=bearer("ada")).whole()
        assert len(table.asked) == 3


async def test_while_nobody_can_tell_it_is_said_so(
    server: Server, serve: Serve, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    table.is_down = True
    async with serve(server, health="/health") as client:
        answer = await client.call("whoami", headers=bearer("ada")).whole()
        assert (answer.status, answer.headers["retry-after"]) == (503, "7")
        assert "www-authenticate" not in answer.headers
        assert b"table" not in answer.body
        assert "the table is locked" in caplog.text
        assert "ada" not in caplog.text
        assert (await client.open("GET", "/health").whole()).status == 200
        table.is_down = False
        assert (await client.call("whoami", headers=bearer("ada")).whole()).status == 200


async def test_a_verifier_that_fails_serves_nobody(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(TokenVerifier):
        async def verify(self, token: str, audience: str) -> Grant:
            raise KeyError("secret")

    async with serve(Server("s", auth=Broken())) as client:
        answer = await client.call("whoami", headers=bearer("ada")).whole()
        assert answer.status == 500
        assert b"secret" not in answer.body
        assert "cannot be verified" in caplog.text


async def test_a_verifier_that_knows_nobody_serves_nobody(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    class Nameless(TokenVerifier):
        """Forgets to say who it is."""

        async def verify(self, token: str, audience: str) -> Grant:
            return Grant(Principal(scopes={"notes:read"}))

    server = Server("s", auth=Nameless())
    server.tool(lambda: "open", name="open", anonymous=True)
    async with serve(server) as client:
        assert (await client.call("open", headers=bearer("ada")).whole()).status == 500
        assert "a principal has an id there" in caplog.text


async def test_without_an_issuer_nobody_is_sent_anywhere(serve: Serve) -> None:
    async with serve(Server("s", auth=Table())) as client:
        answer = await client.call("whoami").whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert (await client.open("GET", "/.well-known/oauth-protected-resource/mcp").whole()).status == 404


async def test_no_token_stands_in_a_log(
    server: Server, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serve(server) as client:
        await client.call("whoami", headers=bearer("badsecret")).whole()
        await client.call("whoami", headers=bearer("goodsecret")).whole()
    assert "badsecret" not in caplog.text
    assert "goodsecret.." not in caplog.text


async def test_preflights_and_other_paths_need_no_token(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        preflight = {"origin": "http://localhost:6274", "access-control-request-method": "POST"}
        assert (await client.open("OPTIONS", headers=preflight).whole()).status == 200
        assert (await client.open("GET", "/elsewhere").whole()).status == 404
        page = await client.post(initialize(), {"origin": "http://localhost:6274"}).whole()
        assert page.status == 401
        assert "WWW-Authenticate" in page.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"public_url": None}, "must know where its clients reach it"),
        ({"principal": Principal("ada")}, "both say who sends a request"),
        ({"public_url": "https://example.com/"}, "does not end with path='/mcp'"),
        ({"public_url": "https://example.com/mcp?x=1"}, "more than scheme, host and path"),
        ({"public_url": "https://a:b@example.com/mcp"}, "not where clients can reach|more than scheme"),
    ],
)
def test_an_app_that_cannot_take_tokens_is_refused(
    server: Server, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        server.asgi(**({"public_url": "https://mcp.example.com/mcp"} | options))


async def test_what_is_protected_is_not_opened_by_a_server_that_includes_it(
    make: Callable[..., Server],
) -> None:
    between = Server("between")
    outer, later = Server("outer"), Server("later")
    app = later.asgi()
    outer.include(between)
    outer.asgi()
    between.include(make(), prefix="x")
    with pytest.raises(ValueError, match="give this server auth= as well"):
        outer.asgi()
    outer.asgi(principal=Principal("ada"))
    later.include(between)
    with pytest.raises(ValueError, match="give this server auth= as well"):
        app.door()
    async with connect(outer) as client:  # who is on this machine needs no token
        assert (await client.call("x_whoami")).text == "None []"


def test_what_verifies_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="auth must be what verifies"):
        Server("s", auth="https://id.example.com")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="verifies nothing"):
        Server("s", auth=[])


async def test_a_browser_of_a_stranger_is_refused_first(server: Server, serve: Serve, table: Table) -> None:
    async with serve(server) as client:
        evil = {"origin": "https://evil.example", **bearer("ada")}
        assert (await client.call("whoami", headers=evil).whole()).status == 403
        assert table.asked == []

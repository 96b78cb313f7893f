"""Access tokens of requests: missing, invalid, too many, or not verifiable now."""

import asyncio
import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mcpkit import Access, Context, HttpOptions, Limits, Principal, Server
from mcpkit.auth import AccessToken, AuditEvent, InvalidTokenError, Jwt, TokenVerifier
from mcpkit.identity.principals_and_scopes import user
from mcpkit.testing import connect
from mcpkit.transports.http import bearer_auth, run
from tests.helpers.raw_client import Client, Serve, initialize
from tests.helpers.servers.protected import Table, bearer
from tests.helpers.signed_tokens import CANARY, ISSUER, NOW, HostileTokens, Signer
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock, until
from tests.transports.conftest import REQUESTS

DOCUMENT = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
EVE: dict[str, Any] = {"client": ("203.0.113.7", 50000)}
ADA: dict[str, Any] = {"client": ("203.0.113.8", 50000)}


@each_row("name", REQUESTS)
async def test_missing_or_invalid_token_is_challenged(name: str, client: Client) -> None:
    invalid = 'error="invalid_token", error_description="The access token has expired", '
    for headers, error in (({}, ""), (bearer("bad"), invalid)):
        answer = await REQUESTS[name](client, headers).whole()
        challenge = f'Bearer {error}{DOCUMENT}, scope="notes:read"'
        assert (answer.status, answer.headers["www-authenticate"]) == (401, challenge)


async def test_sse_has_own_metadata_and_audience(client: Client, table: Table) -> None:
    for path in ("/sse", "/messages"):
        answer = await client.open("GET", path, headers=bearer(f"bad{path[1:]}")).whole()
        assert "/.well-known/oauth-protected-resource/sse" in answer.headers["www-authenticate"]
    assert table.asked == [(f"bad{name}", "https://mcp.example.com/sse") for name in ("sse", "messages")]


@pytest.mark.limit("access token of a request")
@each_row("header", [
    "Bearer", "Bearer ", "bearer a b", "Bearer ä", "Bearer a,b", 'Bearer "a"', "Bearer\ta",
    "Bearer " + "a" * 20_000,
])  # fmt: skip
async def test_malformed_token_is_bad_request(header: str, client: Client, table: Table) -> None:
    answer = await client.call_tool("whoami", headers={"authorization": header.encode("latin-1")}).whole()
    assert answer.status == 400
    assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_request"')
    assert table.asked == []


@each_row(("first", "second"), [
    ("Bearer ada", "Bearer ada"),
    ("Bearer ada", "Bearer bad"),
    ("Bearer bad", "Bearer ada"),
    ("", "Bearer ada"),
])  # fmt: skip
async def test_two_authorization_headers_are_refused(first, second, client, table) -> None:
    answer = await client.post(initialize(), {"authorization": first, "Authorization": second}).whole()
    assert answer.status == 400
    assert 'error="invalid_request"' in answer.headers["www-authenticate"]
    assert table.asked == []


async def test_unavailable_verifier_is_503(server, serve, table, caplog) -> None:
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


@each_row(("options", "problem"), [
    ({"public_url": None}, "needs the public URL of the server"),
    ({"http": HttpOptions(principal=Principal("ada"))}, "cannot be combined"),
    ({"public_url": "https://example.com/"}, "does not end with path='/mcp'"),
    ({"public_url": "https://example.com/mcp?x=1"}, "must only have a scheme"),
    ({"public_url": "https://a:b@example.com/mcp"}, "not the URL of a server|must only have a scheme"),
])  # fmt: skip
def test_app_option_conflicts_with_auth(options: dict[str, Any], problem: str, server: Server) -> None:
    with pytest.raises(ValueError, match=problem):
        server.asgi(**({"public_url": "https://mcp.example.com/mcp"} | options))


async def test_including_server_needs_auth_too(make: Callable[..., Server]) -> None:
    between, outer, later = Server("between"), Server("outer"), Server("later")
    app = later.asgi()
    outer.include(between)
    outer.asgi()
    between.include(make(), prefix="x")
    with pytest.raises(ValueError, match="Give this server auth= too"):
        outer.asgi()
    outer.asgi(http=HttpOptions(principal=Principal("ada")))
    later.include(between)
    with pytest.raises(ValueError, match="Give this server auth= too"):
        app.router()
    async with connect(outer) as client:  # clients on this machine need no token
        assert (await client.call_tool("x_whoami")).text == "None []"


async def test_guard_runs_before_token_verification(client: Client, table: Table) -> None:
    evil = {"origin": "https://evil.example", **bearer("ada")}
    assert (await client.call_tool("whoami", headers=evil).whole()).status == 403
    assert table.asked == []


@pytest.mark.slow
async def test_hostile_tokens_are_refused(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    signers = [Signer("RS256", "one"), Signer("ES256", "two")]
    hostile = HostileTokens(signers)
    keys = {"keys": [each.public() for each in signers]}
    statuses: set[int] = set()
    async with serve(Server("notes", auth=Jwt(ISSUER, keys=keys, clock=Clock(NOW)))) as client:
        with caplog.at_level(logging.DEBUG):
            for number, (way, token) in enumerate(hostile.tokens(20_261_122, 250)):
                if token != token.strip():
                    continue  # white space around a header is not part of it
                header = {"authorization": f"Bearer {token}".encode("utf-8", "surrogatepass")}
                answer = await client.post(initialize() if number % 2 else b"{", header).whole()
                challenge = answer.headers.get("www-authenticate", "")
                is_token = re.fullmatch(r"[A-Za-z0-9\-._~+/]+=*", token) and len(token) < 16 * 1024 - 7
                status, error = (401, "invalid_token") if is_token else (400, "invalid_request")
                assert (answer.status, DOCUMENT in challenge) == (status, bool(is_token)), f"{way}: {token}"
                assert f'error="{error}"' in challenge
                for piece in (CANARY, *(each for each in token.split(".") if len(each) > 20)):
                    assert piece not in challenge
                    assert piece.encode("utf-8", "surrogatepass") not in answer.body
                    assert piece not in caplog.text
                statuses.add(status)
                caplog.clear()
        good = {"authorization": f"Bearer {signers[0].token(hostile.claims())}"}
        assert (await client.post(initialize(), good).whole()).status == 200
    assert statuses == {400, 401}


class FaultyVerifier(TokenVerifier):
    """Fails to close, and to verify tokens where it has nothing to return."""

    def __init__(self, result: AccessToken | None = None) -> None:
        self.result = result

    async def verify(self, token: str, audience: str) -> AccessToken:
        if self.result is None:
            raise KeyError(token)
        return self.result

    async def aclose(self) -> None:
        raise OSError("no")


async def test_verifier_without_principal_id_is_500(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", auth=FaultyVerifier(AccessToken(Principal(scopes={"notes:read"}))))
    server.tool(lambda: "open", name="open", access=Access(allow_anonymous=True))
    async with serve(server) as client:
        assert (await client.call_tool("open", headers=bearer("ada")).whole()).status == 500
        assert "returned a principal without an id" in caplog.text
    assert "closing the token verifier failed" in caplog.text


async def test_bound_token_of_any_verifier_is_refused(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    bound = AccessToken(Principal("ada", claims={"cnf": {"jkt": "x" * 43}}))
    async with serve(Server("s", auth=FaultyVerifier(bound))) as client:
        for number in range(2):
            answer = await client.post(initialize(), bearer(f"bound{number}")).whole()
            assert answer.status == 401
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
            assert "bound to a key of its client (cnf)" in answer.headers["www-authenticate"]
    advice = [each for each in caplog.messages if "accepts bearer tokens only" in each]
    assert len(advice) == 1
    assert "https://mcp.example.com/mcp" in advice[0]
    assert "bound0" not in caplog.text


async def test_verification_failure_is_logged_once(serve, table, caplog) -> None:
    table.is_down = True
    for verifier, status, problem in (
        (table, 503, "access tokens cannot be verified"),
        (FaultyVerifier(), 500, "the token verifier raised"),
    ):
        caplog.clear()
        async with serve(Server("s", auth=verifier)) as client:
            for number in range(10):
                answer = await client.post(initialize(), bearer(f"broken{number}"), **EVE).whole()
                assert answer.status == status
        assert len([message for message in caplog.messages if problem in message]) == 1
    assert "KeyError: '...'" in caplog.text
    assert "broken" not in caplog.text


@pytest.mark.limit("bad access tokens from one address")
async def test_bad_tokens_are_limited_per_address(server, serve, table, monkeypatch) -> None:
    monkeypatch.setattr(bearer_auth, "MAX_INVALID", 5)
    async with serve(server) as client:

        async def status(name: str, address: dict[str, Any]) -> int | None:
            return (await client.post(initialize(), bearer(name), **address).whole()).status

        assert await status("eve", EVE) == 200
        assert [await status(f"bad{number}", EVE) for number in range(7)] == [401] * 5 + [429] * 2
        verified = len(table.asked)
        refused = await client.post(initialize(), bearer("late"), **EVE).whole()
        assert refused.status == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert b"too many invalid access tokens were sent from address 203.0.113.7" in refused.body
        assert await status("eve", EVE) == 200, "a token that is known stays good"
        assert len(table.asked) == verified
        assert await status("ada", ADA) == 200
        assert await status("bad", ADA) == 401
        assert (await client.post(initialize(), **EVE).whole()).status == 401, "without a token: a challenge"
        assert [await status(f"bad{number}", {}) for number in range(9)] == [401] * 9  # perhaps a proxy's


class GatedVerifier(TokenVerifier):
    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.running = 0

    async def verify(self, token: str, audience: str) -> AccessToken:
        self.running += 1
        await self.gate.wait()
        self.running -= 1
        return AccessToken(Principal(token))


@pytest.mark.limit("access tokens that are verified at a time")
async def test_concurrent_verifications_are_limited_per_address(serve, monkeypatch) -> None:
    monkeypatch.setattr(bearer_auth, "MAX_CONCURRENT", 8)
    slow = GatedVerifier()
    async with serve(Server("s", auth=slow)) as client:
        flood = [client.post(initialize(), bearer(f"eve{number}"), **EVE) for number in range(12)]
        await until(lambda: slow.running + sum(each.task.done() for each in flood) == 12)
        assert slow.running == 4
        ada = client.post(initialize(), bearer("ada"), **ADA)
        await until(lambda: slow.running == 5)
        slow.gate.set()
        assert sorted([(await each.whole()).status or 0 for each in flood]) == [200] * 4 + [503] * 8
        refused = next(each for each in flood if each.status == 503)
        assert refused.headers["retry-after"] == "1"
        text = b"too many access tokens are being verified (4 from address 203.0.113.7; one client"
        assert text in refused.body
        assert (await ada.whole()).status == 200
        assert (await client.post(initialize(), bearer("late"), **EVE).whole()).status == 200


async def test_anonymous_requests_share_half_of_places(serve: Serve, table: Table) -> None:
    server = Server("s", auth=table, limits=Limits(concurrent_requests=16))
    gate, running = asyncio.Event(), 0

    @server.tool(access=Access(allow_anonymous=True))
    async def wait() -> None:
        nonlocal running
        running += 1
        await gate.wait()

    async with serve(server) as client:
        peers: list[dict[str, Any]] = [{"client": (f"203.0.113.{number}", 1)} for number in range(16)]
        peers += [{}] * 4  # through a proxy on this machine
        one = [client.call_tool("wait", **peers[0]) for _ in range(8)]
        await until(lambda: running + sum(each.task.done() for each in one) == 8)
        assert running == 4, "half of what all of them have"
        others = [client.call_tool("wait", **peer) for peer in peers]
        await until(lambda: running + sum(each.task.done() for each in (*one, *others)) == 8 + len(peers))
        assert running == 8
        known = [client.call_tool("wait", headers=bearer("ada")) for _ in range(4)]
        await until(lambda: running == 12)
        gate.set()
        statuses = [(await each.whole()).status or 0 for each in (*one, *others, *known)]
    assert sorted(statuses) == [200] * 12 + [503] * 20


# Audit events, startup messages, metadata documents, and routes that need a token


URL = "https://mcp.example.com/mcp"
METADATA_PATH = "/.well-known/oauth-protected-resource"
METADATA = {
    "resource": URL, "authorization_servers": [ISSUER], "scopes_supported": ["notes:read"],
    "bearer_methods_supported": ["header"], "resource_name": "Notes",
}  # fmt: skip


async def test_audit_has_logins_and_refusals_with_reason(server: Server, serve: Serve, table: Table) -> None:
    events: list[dict[str, Any]] = []
    server.on_audit(lambda event: events.append({k: v for k, v in event._asdict().items() if v}))
    eve = {"client": ("203.0.113.7", 50000)}
    async with serve(server) as client:
        for token in (bearer("ada"), bearer("ada"), bearer("bob", ["mail"]), bearer("ada")):
            assert (await client.call_tool("whoami", headers=token).whole()).status == 200
        ada = {
            "name": "login", "principal": f"{ISSUER}#sub=ada", "client_id": "client", "issuer": ISSUER,
            "resource": URL,
        }  # fmt: skip
        assert events == [ada, {**ada, "principal": f"{ISSUER}#sub=bob", "scopes": ("mail",)}]
        events.clear()
        for headers, status in (({}, 401), (bearer("bad"), 401), ({"authorization": "Bearer a b"}, 400)):
            assert (await client.post(initialize(), headers, **eve).whole()).status == status
        table.is_down = True
        assert (await client.post(initialize(), bearer("new"), **eve).whole()).status == 503
    assert {(event["name"], event["caller"], event["resource"]) for event in events} == {
        ("refusal", "address 203.0.113.7", URL)
    }
    assert [(event["status"], event["reason"], event.get("detail")) for event in events] == [
        (401, "no_token", None),
        (401, "invalid_token", "The access token has expired"),
        (400, "invalid_request", "the Authorization header does not contain a Bearer token"),
        (503, "unavailable", "the table is locked"),
    ]


class SingleToken(TokenVerifier):
    async def verify(self, token: str, audience: str) -> AccessToken:
        if token != "tokensecret":
            raise InvalidTokenError("The access token is none of this server's")
        return AccessToken(user(ISSUER, "ada@example.com", ["notes:read"], claims={"name": "claimsecret"}))


async def test_audit_contains_no_secrets(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server("notes", auth=SingleToken())
    events: list[AuditEvent] = []
    server.on_audit(events.append)

    @server.tool(access=Access(optional_scopes="mail"))
    async def repeat(text: str, ctx: Context) -> str:
        ctx.require_scopes("mail")
        return text

    async with serve(server) as client:
        for header in (
            "Bearer tokensecret", "Bearer forgedsecret", "Bearer broken secret", "Basic basicsecret",
        ):  # fmt: skip
            arguments = {"text": "argumentsecret"}
            await client.call_tool("repeat", arguments, headers={"authorization": header}).whole()
    assert [(event.name, event.status) for event in events] == [
        ("login", None), ("refusal", 403), ("refusal", 401), ("refusal", 400), ("refusal", 401),
    ]  # fmt: skip
    for text in (str(events), caplog.text, str([vars(record) for record in caplog.records])):
        assert "secret" not in text
        assert "ada@example.com" not in text


@pytest.fixture
def startup_messages(caplog, monkeypatch) -> Callable[[], list[tuple[str, str]]]:
    uvicorn = logging.getLogger("uvicorn")  # another test, or pytest, may have configured it
    monkeypatch.setattr(uvicorn, "handlers", [])
    monkeypatch.setattr(uvicorn, "propagate", True)
    names = ("mcpkit.transports", "uvicorn.error")
    for name in names:
        caplog.set_level(logging.INFO, name)
    return lambda: [
        (each.levelname, each.getMessage()) for each in caplog.records if each.name.startswith(names)
    ]


async def test_startup_warns_of_unencrypted_url(make, serve, startup_messages, caplog) -> None:
    for url, is_warned in (
        ("http://mcp.example.com/mcp", True), ("http://10.0.0.7:8000/mcp", True),
        ("http://localhost.example.com/mcp", True), ("http://localhost:8000/mcp", False),
        ("http://127.0.0.1:8000/mcp", False), ("http://[::1]:8000/mcp", False),
        ("https://mcp.example.com/mcp", False),
    ):  # fmt: skip
        caplog.clear()
        async with serve(make(), public_url=url) as client:
            await client.call_tool("whoami").whole()
        warnings = [text for level, text in startup_messages() if level == "WARNING"]
        assert any("does not use TLS" in text for text in warnings) is is_warned, url


async def test_metadata_is_of_each_endpoint_and_ignores_forwarded_headers(client: Client) -> None:
    forged = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "http", "x-forwarded-prefix": "/evil"}
    for path, resource in (("/mcp", URL), ("/sse", URL[:-3] + "sse"), ("", URL)):
        answer = await client.open("GET", METADATA_PATH + path, headers=forged).whole()
        assert answer.status == 200
        assert json.loads(answer.body) == {**METADATA, "resource": resource}
    answer = await client.call_tool("whoami", headers=forged).whole()
    assert "evil" not in answer.headers["www-authenticate"]
    evil = await client.call_tool("whoami", headers={"host": "evil.example", **bearer("ada")}).whole()
    assert evil.status == 421


async def test_metadata_is_readable_by_any_page(client: Client) -> None:
    path = f"{METADATA_PATH}/mcp"
    page = {"origin": "https://anywhere.example", "access-control-request-method": "GET"}
    answer = await client.open("GET", path, headers=page).whole()
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")
    preflight = {**page, "access-control-request-headers": "mcp-protocol-version"}
    answer = await client.open("OPTIONS", path, headers=preflight).whole()
    assert (answer.status, answer.headers["access-control-allow-headers"]) == (204, "mcp-protocol-version")
    assert (await client.open("HEAD", path).whole()).status == 200
    assert (await client.open("POST", path).whole()).status == 405


@pytest.fixture
def routed(server: Server) -> Server:
    @server.route("/open")
    def open_(request: Request) -> Response:
        return PlainTextResponse("open")

    @server.route("/mine", scopes=())
    def mine(request: Request) -> Response:
        return PlainTextResponse(request.state.principal.subject)

    @server.route("/export", scopes="notes:read", methods=["POST"])
    async def export(request: Request) -> Response:
        return PlainTextResponse("exported")

    return server


async def test_route_scopes_require_token(routed: Server, serve: Serve) -> None:
    async with serve(routed) as client:
        assert (await client.open("GET", "/open").whole()).body == b"open"
        assert (await client.open("GET", "/mine").whole()).status == 401
        assert (await client.open("GET", "/mine", headers=bearer("ada")).whole()).body == b"ada"
        answer = await client.open("POST", "/export", headers=bearer("ada")).whole()
        assert answer.status == 403
        assert 'scope="notes:read"' in answer.headers["www-authenticate"]
        answer = await client.open("POST", "/export", headers=bearer("ada", ["notes:admin"])).whole()
        assert answer.body == b"exported"


async def test_startup_lists_open_routes_and_apps(routed, schema_dir, startup_messages) -> None:
    http = HttpOptions(sse=False, readiness_path="/health")
    app = routed.asgi(public_url=URL, http=http, allowed_hosts=["localhost"])
    app.mount("/other", Starlette())
    client = Client(app, schema_dir)
    await client.open("POST").whole()
    await client.aclose()
    listed = "route /open, app mounted at /other"
    assert startup_messages() == [
        ("INFO", f"Access tokens issued by {ISSUER} are accepted at {URL}"),
        ("INFO", f"Open without an access token, as they have no scopes=: {listed}"),
    ]


def test_run_sets_public_url_on_loopback_and_requires_it_elsewhere(server, monkeypatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(run, "run_app", lambda app, *rest: started.append((app, rest[-1])))
    server.run("http", port=0)
    [(app, listening)] = started
    assert app.settings.public_url == f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    listening.close()
    for options in ({"host": "0.0.0.0"}, {"ssl_certfile": "x"}):
        with pytest.raises(ValueError, match="needs the public URL of the server"):
            server.run("http", **options)

"""Rate limits and CORS headers of an OAuthProxy, floods, oversized and random requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mcpkit.auth.authority.look import Look
from mcpkit.auth.proxy.edge import at_the_edge
from mcpkit.auth.proxy.limits import PAGES, REGISTRATIONS, TOKENS, Limits
from mcpkit.state.audit import AuditEvent
from mcpkit.state.memory import Memory
from tests.auth.proxy.world import EDITOR, EVIL, MCP, World, answer, consented, logged_in
from tests.helpers.oauth_flow import CALLBACK, ORIGIN, PROXY_ORIGIN, AuthServer, Login, PageForms

pytestmark = pytest.mark.anyio

METADATA = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}


class Frozen(Memory):
    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        return await super().take_tokens(key, every=every * 1e6, burst=burst, cost=cost) / 1e6


class Away(Memory):
    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        raise ConnectionError("away")


class Edge:
    def __init__(self, shared: Memory | None = None) -> None:
        self.here = AuthServer(shared=Frozen() if shared is None else shared)
        site = self.here.site
        limits = Limits(site.storage, site.name, site.audit, Look("Notes"))
        self.app = Starlette(routes=at_the_edge(self.here.authority.routes(), limits))
        self.told: list[AuditEvent] = []
        site.audit(self.told.append)

    def at(self, address: str) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(self.app, client=(address, 5000))
        return httpx2.AsyncClient(transport=transport, base_url=ORIGIN)

    async def many(self, address: str, times: int, method: str, path: str, **options: Any) -> list[int]:
        async with self.at(address) as client:
            return [(await client.request(method, path, **options)).status_code for _ in range(times)]


@pytest.mark.limit("pages of `OAuthProxy` to one address")
@pytest.mark.limit("registrations at `OAuthProxy` of one address")
@pytest.mark.limit("requests for tokens at `OAuthProxy` of one address")
@pytest.mark.parametrize(
    ("method", "path", "options", "burst", "status"),
    [
        ("POST", "/register", {"json": METADATA}, REGISTRATIONS.burst, 201),
        ("GET", "/authorize", {}, PAGES.burst, 400),
        ("POST", "/authorize", {}, PAGES.burst, 400),
        ("POST", "/token", {}, TOKENS.burst, 400),
        ("POST", "/revoke", {}, TOKENS.burst, 400),
    ],
)
async def test_limit_of_one_address_returns_429(method, path, options, burst, status):
    edge = Edge()
    assert await edge.many("192.0.2.7", burst, method, path, **options) == [status] * burst
    async with edge.at("192.0.2.7") as client:
        refused = await client.request(method, path, **options)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) < 3
    assert refused.headers["cache-control"] == "no-store"
    if path == "/authorize":
        assert "<h1>Please wait</h1>" in refused.text
        assert "Notes" in refused.text
        assert not PageForms(refused.text).forms
    else:
        assert refused.json()["error"] == "temporarily_unavailable"
        assert refused.headers["access-control-allow-origin"] == "*"
    assert await edge.many("192.0.2.8", 1, method, path, **options) == [status]


async def test_limit_is_shared_between_processes():
    shared = Frozen()
    one, two = Edge(shared), Edge(shared)
    half = REGISTRATIONS.burst // 2
    for edge in (one, two):
        assert set(await edge.many("192.0.2.7", half, "POST", "/register", json=METADATA)) == {201}
    for edge in (one, two):
        assert await edge.many("192.0.2.7", 1, "POST", "/register", json=METADATA) == [429]


@pytest.mark.parametrize("shared", [Frozen(), Away()])
async def test_limit_is_off_for_loopback_and_store_failure(shared):
    address = "127.0.0.1" if isinstance(shared, Frozen) else "192.0.2.7"
    many = REGISTRATIONS.burst + 5
    assert set(await Edge(shared).many(address, many, "POST", "/register", json=METADATA)) == {201}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/.well-known/oauth-authorization-server"),
        ("GET", "/.well-known/openid-configuration"),
        ("GET", "/jwks.json"),
        ("POST", "/register"),
        ("POST", "/token"),
        ("POST", "/revoke"),
    ],
)
async def test_cors_allows_program_endpoints(method, path):
    async with Edge().at("192.0.2.7") as client:
        preflight_headers = {
            "Origin": "https://client.example",
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "authorization, mcp-protocol-version",
        }
        preflight = await client.options(path, headers=preflight_headers)
        response = await client.request(method, path, headers={"Origin": "https://client.example"})
    assert preflight.status_code == 204
    assert method in preflight.headers["access-control-allow-methods"]
    assert (
        preflight.headers["access-control-allow-headers"]
        == preflight_headers["Access-Control-Request-Headers"]
    )
    assert response.status_code != 405
    for each in (preflight, response):
        assert each.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in each.headers
    assert "retry-after" in response.headers["access-control-expose-headers"].lower()


async def test_cors_denies_authorize():
    edge = Edge()
    login = await edge.here.login()
    async with edge.at("192.0.2.7") as client:
        headers = {"Origin": "https://client.example"}
        answers = [
            await client.get("/authorize", params=login.query, headers=headers),
            await client.options("/authorize", headers={**headers, "Access-Control-Request-Method": "POST"}),
            await client.get("/nowhere", headers=headers),
        ]
    assert [response.status_code for response in answers] == [200, 405, 404]
    for response in answers:
        assert "access-control-allow-origin" not in response.headers


CLIENT_METADATA = {"redirect_uris": [EVIL], "token_endpoint_auth_method": "none"}


@pytest.mark.parametrize("size", [40_000, 1_000_000])
async def test_oversized_requests_are_rejected(size):
    world = World()
    login = await world.client(EDITOR)
    big = "x" * size
    line = big[:60_000]  # no client sends longer ones
    async with world.browser() as attacker:
        answers = [
            await attacker.get("/authorize", params={**login.query, "state": line}),
            await attacker.get("/authorize", params={**login.query, "client_id": line}),
            await attacker.get("/callback", params={"state": line}),
            await attacker.post("/authorize", data={"request": big}),
            await attacker.post("/token", data={"grant_type": "refresh_token", "refresh_token": big}),
            await attacker.post("/revoke", data={"token": big}),
            await attacker.post("/register", json={**CLIENT_METADATA, "client_name": big}),
            await attacker.post("/register", json={**CLIENT_METADATA, "x": big}),
            await attacker.post("/register", json={"redirect_uris": [f"https://evil.example/{big}"]}),
            await attacker.post("/register", json={"redirect_uris": [EVIL] * 1_000}),
            await attacker.post(
                "/register", content=b"[" * size, headers={"Content-Type": "application/json"}
            ),
        ]
    for response in answers:
        assert response.status_code in {400, 401, 413}, response.url.path
        assert len(response.content) < 20_000
        assert big not in response.text


async def test_endless_body_does_not_block_others():
    """A form that is never send_request whole: others are served meanwhile."""
    world = World()
    over = asyncio.Event()

    async def endless() -> Any:
        yield b"grant_type=refresh_token&refresh_token="
        await over.wait()

    async with world.browser(address="198.51.100.1") as attacker, world.browser("ada") as victim:
        held = [
            asyncio.create_task(
                attacker.post(
                    "/token", content=endless(), headers={"Content-Type": "application/x-www-form-urlencoded"}
                )
            )
            for _ in range(20)
        ]
        login = await world.client(EDITOR)
        assert await world.holds(login, await logged_in(world, victim, login)) == "ada"
        over.set()
        await asyncio.gather(*held)


async def test_concurrent_document_requests_fetch_once(monkeypatch):
    """A host that has its users' clients on its own servers: all of them come from one address, as one client."""
    fetched = 0
    waiting = asyncio.Event()

    async def answered(request: httpx2.Request) -> httpx2.Response:
        nonlocal fetched
        fetched += 1
        await waiting.wait()
        document = {"client_id": str(request.url), "client_name": "Editor", "redirect_uris": [EDITOR]}
        return httpx2.Response(200, json=document)

    def client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(answered))

    monkeypatch.setattr("mcpkit.auth.authority.public_internet.public_client", client)
    monkeypatch.setattr("mcpkit.auth.authority.client_documents._TIMEOUT", 60.0)
    world = World()
    login = Login("https://editor.example.org/client.json", EDITOR, resource=MCP)
    async with world.browser(address="198.51.100.1") as host:
        asked = [asyncio.create_task(host.post("/token", data=login.form("x"))) for _ in range(40)]
        asyncio.get_running_loop().call_later(0.5, waiting.set)
        answers = await asyncio.gather(*asked)
    assert {each.status_code for each in answers} == {400}  # invalid_grant: the client was found
    assert fetched == 1


TEXT = st.text(max_size=30) | st.sampled_from(
    ["", "x" * 3000, "\r\nSet-Cookie: a=b", "\x00", "<script>", "é"]
)


PAIRS = st.lists(
    st.tuples(
        st.sampled_from(["code", "state", "error", "error_description", "error_uri", "iss", "session_state"]),
        TEXT,
    ),
    max_size=5,
)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)


ANSWER = st.dictionaries(
    st.sampled_from(
        [
            "access_token", "token_type", "expires_in", "refresh_token", "scope", "id_token", "error", "sub",
            "email",
        ]
    ),
    JSON,
    max_size=5,
)  # fmt: skip


BODY = (
    ANSWER.map(lambda params: json.dumps(params).encode())
    | st.binary(max_size=60)
    | JSON.map(lambda params: json.dumps(params).encode())
)


def check(response: httpx2.Response) -> None:
    """Refuse what no answer may be."""
    assert response.status_code in {200, 303, 400, 403, 413, 429, 503}, response.text
    assert "Traceback" not in response.text
    assert "upstream-" not in response.text + str(response.headers)
    location = response.headers.get("location", EDITOR)
    assert location.startswith((EDITOR, "https://id.example.net/"))
    assert location.isascii()
    assert location.isprintable()
    for cookie in response.headers.get_list("set-cookie"):
        assert cookie.startswith("__Host-mcpkit-")
    assert response.headers["cache-control"] == "no-store"


async def check_callback(pairs: list[tuple[str, str]], cookies: list[str], *, has_state: bool) -> None:
    world = World()
    login = await world.client(EDITOR)
    async with world.browser("ada", address="127.0.0.1") as browser:
        state = answer(await consented(browser, login))["state"]
        given = [*pairs, ("state", state)] if has_state else pairs
        if cookies:
            [mine] = [each for each in browser.cookies.jar if "-login-" in each.name]
            names = [f"{mine.name}.{number}" for number in range(1, len(cookies))]
            for name, value in zip([mine.name, *names], cookies, strict=True):
                browser.cookies.set(name, value, domain="mcp.example.com")
        response = await browser.get(f"/callback?{urlencode(given, errors='surrogatepass')}")
    check(response)
    assert "code" not in answer(response)


@given(PAIRS, st.lists(st.sampled_from(["AAAA", "A" * 3800, "=", "x.y", "%00"]), max_size=3), st.booleans())
def test_callback_generated_parameters(pairs, cookies, has_state):
    anyio.run(lambda: check_callback(pairs, cookies, has_state=has_state))


async def check_answer(body: bytes, at: str, kind: str, status: int, *, openid: bool) -> None:
    world = World(openid=openid)

    async def garbage(request: Request) -> Response:
        return Response(body, status, media_type=kind)

    world.provider.app.router.routes.insert(0, Route(at, garbage, methods=["GET", "POST"]))
    login = await world.client(EDITOR)
    async with world.browser("ada", address="127.0.0.1") as browser:
        sent = await consented(browser, login)
        check(sent)
        ended = await browser.follow(sent, until=EDITOR)
        check(ended)
    params = answer(ended)
    assert params["iss"] == PROXY_ORIGIN
    found = await world.holds(login, ended)
    assert found is None or at == "/userinfo"  # who says who somebody is, is believed


@given(
    BODY,
    st.sampled_from(["/token", "/userinfo", "/keys", "/.well-known/openid-configuration"]),
    st.sampled_from(["application/json", "text/html", "application/x-www-form-urlencoded"]),
    st.sampled_from([200, 200, 200, 400, 401, 403, 404, 500, 503]),
    st.booleans(),
)
def test_provider_generated_answers(body, at, kind, status, openid):
    if not openid and at in {"/keys", "/.well-known/openid-configuration"}:
        return

    async def run() -> Any:
        await check_answer(body, at, kind, status, openid=openid)

    anyio.run(run)

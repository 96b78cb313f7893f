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
from starlette.responses import Response

from mcpkit.auth.authority.look import Look
from mcpkit.auth.proxy.edge import at_the_edge
from mcpkit.auth.proxy.limits import PAGES, REGISTRATIONS, TOKENS, Limits
from mcpkit.state.memory import Memory
from tests.auth.proxy.world import EDITOR, EVIL, MCP, World, answer, consented
from tests.helpers.fake_idp import KEYS, OPENID, TOKEN, USERINFO
from tests.helpers.oauth_flow import CALLBACK, ORIGIN, PROXY_ORIGIN, AuthServer, Login, PageForms
from tests.helpers.tables import each_row

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


@each_row(
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
    allowed = preflight.headers["access-control-allow-headers"]
    assert allowed == preflight_headers["Access-Control-Request-Headers"]
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


@pytest.mark.parametrize("size", [40_000, 1_000_000])
async def test_oversized_requests_are_rejected(size):
    world = World()
    login = await world.client(EDITOR)
    big = "x" * size
    line = big[:60_000]  # no client sends longer ones
    good = {**METADATA, "redirect_uris": [EVIL]}
    requests = [
        ("GET", "/authorize", {"params": {**login.query, "state": line}}),
        ("GET", "/authorize", {"params": {**login.query, "client_id": line}}),
        ("GET", "/callback", {"params": {"state": line}}),
        ("POST", "/authorize", {"data": {"request": big}}),
        ("POST", "/token", {"data": {"grant_type": "refresh_token", "refresh_token": big}}),
        ("POST", "/revoke", {"data": {"token": big}}),
        ("POST", "/register", {"json": {**good, "client_name": big}}),
        ("POST", "/register", {"json": {**good, "x": big}}),
        ("POST", "/register", {"json": {"redirect_uris": [f"https://evil.example/{big}"]}}),
        ("POST", "/register", {"json": {"redirect_uris": [EVIL] * 1_000}}),
        ("POST", "/register", {"content": b"[" * size, "headers": {"Content-Type": "application/json"}}),
    ]
    async with world.browser() as attacker:
        for method, path, options in requests:
            response = await attacker.request(method, path, **options)
            assert response.status_code in {400, 401, 413}, (path, options.keys())
            assert len(response.content) < 20_000
            assert big not in response.text


async def test_endless_body_does_not_block_others():
    """Others are served while forms arrive that never end."""
    world = World()
    over = asyncio.Event()

    async def endless() -> Any:
        yield b"grant_type=refresh_token&refresh_token="
        await over.wait()

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with world.browser(address="198.51.100.1") as attacker:
        waiting = [
            asyncio.create_task(attacker.post("/token", content=endless(), headers=headers))
            for _ in range(20)
        ]
        tokens = await world.logged_in("ada")
        assert await world.user_of(tokens["access_token"]) == "ada"
        over.set()
        await asyncio.gather(*waiting)


async def test_concurrent_document_requests_fetch_once(monkeypatch):
    """A service that runs the clients of its users: all of them come from one address, with one client ID."""
    requests: list[str] = []
    go_on = asyncio.Event()

    async def respond(request: httpx2.Request) -> httpx2.Response:
        requests.append(str(request.url))
        await go_on.wait()
        document = {"client_id": requests[0], "client_name": "Editor", "redirect_uris": [EDITOR]}
        return httpx2.Response(200, json=document)

    def client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(respond))

    monkeypatch.setattr("mcpkit.auth.authority.public_internet.public_client", client)
    monkeypatch.setattr("mcpkit.auth.authority.client_documents._TIMEOUT", 60.0)
    login = Login("https://editor.example.org/client.json", EDITOR, resource=MCP)
    async with World().browser(address="198.51.100.1") as host:
        waiting = [asyncio.create_task(host.post("/token", data=login.form("x"))) for _ in range(40)]
        await asyncio.wait(waiting, timeout=0.2)  # long enough for all of them to need the document
        go_on.set()
        responses = await asyncio.gather(*waiting)
    assert {each.status_code for each in responses} == {400}  # invalid_grant: the client was found
    assert len(requests) == 1


TEXT = st.text(max_size=30) | st.sampled_from(
    ["", "x" * 3000, "\r\nSet-Cookie: a=b", "\x00", "<script>", "é"]
)
PARAMETERS = st.sampled_from(
    ["code", "state", "error", "error_description", "error_uri", "iss", "session_state"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
MEMBERS = st.sampled_from(
    [
        "access_token", "token_type", "expires_in", "refresh_token", "scope", "id_token", "error", "sub",
        "email",
    ]
)  # fmt: skip
BODY = st.binary(max_size=60) | (st.dictionaries(MEMBERS, JSON, max_size=5) | JSON).map(
    lambda value: json.dumps(value).encode()
)


def check(world: World, response: httpx2.Response) -> None:
    assert response.status_code in {200, 303, 400, 403, 413, 429, 503}, response.text
    assert "Traceback" not in response.text
    assert not [token for token in world.provider.tokens if token in response.text + str(response.headers)]
    location = response.headers.get("location", EDITOR)
    assert location.startswith((EDITOR, "https://id.example.net/"))
    assert location.isascii()
    assert location.isprintable()
    for cookie in response.headers.get_list("set-cookie"):
        assert cookie.startswith("__Host-mcpkit-")
    assert response.headers["cache-control"] == "no-store"


@given(
    st.lists(st.tuples(PARAMETERS, TEXT), max_size=5),
    st.lists(st.sampled_from(["AAAA", "A" * 3800, "=", "x.y", "%00"]), max_size=3),
    st.booleans(),
)
def test_callback_generated_parameters(pairs, cookies, has_state):
    async def run() -> None:
        world = World()
        login = await world.client(EDITOR)
        async with world.browser("ada", address="127.0.0.1") as browser:
            state = answer(await consented(browser, login))["state"]
            query = [*pairs, ("state", state)] if has_state else pairs
            [own] = [each.name for each in browser.cookies.jar if "-login-" in each.name]
            names = [own, *(f"{own}.{number}" for number in range(1, len(cookies)))]
            for name, value in zip(names, cookies, strict=False):
                browser.cookies.set(name, value, domain="mcp.example.com")
            response = await browser.get(f"/callback?{urlencode(query, errors='surrogatepass')}")
        check(world, response)
        assert "code" not in answer(response)

    anyio.run(run)


@given(
    BODY,
    st.sampled_from(
        [(path, True) for path in (TOKEN, USERINFO, KEYS, OPENID)] + [(TOKEN, False), (USERINFO, False)]
    ),
    st.sampled_from(["application/json", "text/html", "application/x-www-form-urlencoded"]),
    st.sampled_from([200, 200, 200, 400, 401, 403, 404, 500, 503]),
)
def test_provider_generated_answers(body, place, kind, status):
    path, openid = place

    async def run() -> None:
        world = World(openid=openid)
        garbage = Response(body, status, media_type=kind)
        world.provider.instead = lambda request: garbage if request.url.path == path else None
        login = await world.client(EDITOR)
        async with world.browser("ada", address="127.0.0.1") as browser:
            sent = await consented(browser, login)
            check(world, sent)
            ended = await browser.follow(sent, until=EDITOR)
            check(world, ended)
        assert answer(ended)["iss"] == PROXY_ORIGIN
        # What userinfo says about a user is believed.
        assert await world.holds(login, ended) is None or path == USERINFO

    anyio.run(run)

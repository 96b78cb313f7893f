"""Rate limits and CORS headers of an OAuthProxy, floods, oversized and random requests."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.auth.proxy.limits import PAGES, REGISTRATIONS, TOKENS
from mcpkit.state.memory import Memory
from tests.helpers.oauth_flow import CALLBACK, PROXY_ORIGIN, Login, PageForms, ProxyServer, redirect_params
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

METADATA = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
REGISTER: tuple[str, str, dict[str, Any]] = ("POST", "/register", {"json": METADATA})
ADDRESS, OTHER_ADDRESS = "192.0.2.7", "192.0.2.8"


class Frozen(Memory):
    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        return await super().take_tokens(key, every=every * 1e6, burst=burst, cost=cost) / 1e6


class Away(Memory):
    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        raise ConnectionError("away")


@pytest.fixture
def proxy() -> ProxyServer:
    return ProxyServer(kept={"shared": Frozen()}, title="Notes")


def client_at(proxy: ProxyServer, address: str = ADDRESS) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(proxy.app, client=(address, 5000))
    return httpx2.AsyncClient(transport=transport, base_url=PROXY_ORIGIN)


async def statuses(
    proxy: ProxyServer, times: int, method: str, path: str, options: Any, address: str = ADDRESS
) -> list[int]:
    async with client_at(proxy, address) as client:
        return [(await client.request(method, path, **options)).status_code for _ in range(times)]


@pytest.mark.limit("pages of `OAuthProxy` to one address")
@pytest.mark.limit("registrations at `OAuthProxy` of one address")
@pytest.mark.limit("requests for tokens at `OAuthProxy` of one address")
@pytest.mark.parametrize(
    ("method", "path", "options", "burst", "status"),
    [
        (*REGISTER, REGISTRATIONS.burst, 201),
        ("GET", "/authorize", {}, PAGES.burst, 400),
        ("POST", "/authorize", {}, PAGES.burst, 400),
        ("POST", "/token", {}, TOKENS.burst, 400),
        ("POST", "/revoke", {}, TOKENS.burst, 400),
    ],
)
async def test_limit_of_one_address_returns_429(proxy, method, path, options, burst, status):
    assert await statuses(proxy, burst, method, path, options) == [status] * burst
    async with client_at(proxy) as client:
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
    assert await statuses(proxy, 1, method, path, options, OTHER_ADDRESS) == [status]


async def test_limit_is_shared_between_processes(proxy):
    other = ProxyServer(kept={"shared": proxy.site.storage})
    for each in (proxy, other):
        assert set(await statuses(each, REGISTRATIONS.burst // 2, *REGISTER)) == {201}
    for each in (proxy, other):
        assert await statuses(each, 1, *REGISTER) == [429]


@pytest.mark.parametrize(("shared", "address"), [(Frozen(), "127.0.0.1"), (Away(), ADDRESS)])
async def test_limit_is_off_for_loopback_and_store_failure(shared, address):
    proxy = ProxyServer(kept={"shared": shared})
    assert set(await statuses(proxy, REGISTRATIONS.burst + 5, *REGISTER, address)) == {201}


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
async def test_cors_allows_program_endpoints(proxy, method, path):
    headers = {"Origin": "https://client.example"}
    preflight_headers = {
        **headers,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization, mcp-protocol-version",
    }
    async with client_at(proxy) as client:
        preflight = await client.options(path, headers=preflight_headers)
        response = await client.request(method, path, headers=headers)
    assert preflight.status_code == 204
    assert method in preflight.headers["access-control-allow-methods"]
    allowed = preflight.headers["access-control-allow-headers"]
    assert allowed == preflight_headers["Access-Control-Request-Headers"]
    assert response.status_code != 405
    for each in (preflight, response):
        assert each.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in each.headers
    assert "retry-after" in response.headers["access-control-expose-headers"].lower()


@each_row(
    ("method", "path", "status"),
    [("GET", "/authorize", 200), ("OPTIONS", "/authorize", 405), ("GET", "/nowhere", 404)],
)
async def test_cors_denies_authorize(flow, method, path, status):
    query = (await flow.begun()).query
    headers = {"Origin": "https://client.example", "Access-Control-Request-Method": "POST"}
    response = await flow.browser.request(method, path, params=query, headers=headers)
    assert response.status_code == status
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("size", [40_000, 1_000_000])
async def test_oversized_requests_are_rejected(proxy, flow, size):
    query = (await flow.begun()).query
    big = "x" * size
    line = big[:60_000]  # no client sends longer ones
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/authorize", {"params": {**query, "state": line}}),
        ("GET", "/authorize", {"params": {**query, "client_id": line}}),
        ("GET", "/callback", {"params": {"state": line}}),
        ("POST", "/authorize", {"data": {"request": big}}),
        ("POST", "/token", {"data": {"grant_type": "refresh_token", "refresh_token": big}}),
        ("POST", "/revoke", {"data": {"token": big}}),
        ("POST", "/register", {"json": {**METADATA, "client_name": big}}),
        ("POST", "/register", {"json": {**METADATA, "x": big}}),
        ("POST", "/register", {"json": {"redirect_uris": [f"https://evil.example/{big}"]}}),
        ("POST", "/register", {"json": {"redirect_uris": [CALLBACK] * 1_000}}),
        ("POST", "/register", {"content": b"[" * size, "headers": {"Content-Type": "application/json"}}),
    ]
    for method, path, options in requests:
        response = await flow.browser.request(method, path, **options)
        assert response.status_code in {303, 400, 401, 413}, (path, options.keys())
        assert "code=" not in response.headers.get("location", "")
        assert len(response.content) < 20_000
        assert big not in response.text


async def test_endless_body_does_not_block_others(proxy, flow):
    """Others are served while forms arrive that never end."""
    over = asyncio.Event()

    async def endless() -> Any:
        yield b"grant_type=refresh_token&refresh_token="
        await over.wait()

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with client_at(proxy) as attacker:
        waiting = [
            asyncio.create_task(attacker.post("/token", content=endless(), headers=headers))
            for _ in range(20)
        ]
        assert (await proxy.granted(await flow.tokens())).principal.subject == "ada"
        over.set()
        await asyncio.gather(*waiting)


async def test_concurrent_document_requests_fetch_once(proxy, monkeypatch):
    """A service that runs the clients of its users: all of them come from one address, with one client ID."""
    url = "https://editor.example.org/client.json"
    document = {"client_id": url, "client_name": "Editor", "redirect_uris": [CALLBACK]}
    requests: list[httpx2.Request] = []
    go_on = asyncio.Event()

    async def respond(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        await go_on.wait()
        return httpx2.Response(200, json=document)

    def client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(respond))

    monkeypatch.setattr("mcpkit.auth.authority.public_internet.public_client", client)
    monkeypatch.setattr("mcpkit.auth.authority.client_documents._TIMEOUT", 60.0)
    form = Login(url).form("x")
    async with client_at(proxy) as host:
        waiting = [asyncio.create_task(host.post("/token", data=form)) for _ in range(40)]
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


@given(
    st.lists(st.tuples(PARAMETERS, TEXT), max_size=5),
    st.lists(st.sampled_from(["AAAA", "A" * 3800, "=", "x.y", "%00"]), max_size=3),
    st.booleans(),
)
def test_callback_generated_parameters(pairs, cookies, has_state):
    async def run() -> tuple[ProxyServer, httpx2.Response]:
        proxy = ProxyServer()
        flow = proxy.flow()
        url = httpx2.URL(await flow.at_provider())
        query = [*pairs, ("state", url.params["state"])] if has_state else pairs
        [own] = [name for name in flow.browser.cookies if "-login-" in name]
        names = [own, *(f"{own}.{number}" for number in range(1, len(cookies)))]
        for name, value in zip(names, cookies, strict=False):
            flow.browser.cookies.set(name, value, domain="mcp.example.com")
        return proxy, await flow.browser.get(f"/callback?{urlencode(query, errors='surrogatepass')}")

    proxy, response = anyio.run(run)
    assert response.status_code in {303, 400, 403, 413, 503}, response.text
    seen = response.text + str(response.headers)
    assert not [secret for secret in proxy.upstream.handed_out if secret in seen]
    assert "Traceback" not in response.text
    if response.status_code == 303:
        location = response.headers["location"]
        assert location.startswith(CALLBACK)
        assert location.isascii()
        assert location.isprintable()
        assert "code" not in redirect_params(response)
    for cookie in response.headers.get_list("set-cookie"):
        assert cookie.startswith("__Host-mcpkit-")
    assert response.headers["cache-control"] == "no-store"

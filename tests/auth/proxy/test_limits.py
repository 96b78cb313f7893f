"""Rate limits and CORS headers of an OAuthProxy, floods, oversized and random requests."""

from typing import Any

import httpx2
import pytest

from mcpkit.auth.proxy.proxy_endpoints import PAGES, REGISTRATIONS, TOKENS
from mcpkit.storage.memory import Memory
from tests.helpers.oauth_flow import CALLBACK, PROXY_ORIGIN, PageForms, ProxyServer
from tests.helpers.tables import each_row

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
    return ProxyServer(site_options={"shared": Frozen()}, title="Notes")


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
@pytest.mark.parametrize(("method", "path", "options", "burst", "status"), [
    (*REGISTER, REGISTRATIONS.burst, 201), ("GET", "/authorize", {}, PAGES.burst, 400),
    ("POST", "/authorize", {}, PAGES.burst, 400), ("POST", "/token", {}, TOKENS.burst, 400),
    ("POST", "/revoke", {}, TOKENS.burst, 400),
])  # fmt: skip
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
    other = ProxyServer(site_options={"shared": proxy.site.storage})
    for each in (proxy, other):
        assert set(await statuses(each, REGISTRATIONS.burst // 2, *REGISTER)) == {201}
    for each in (proxy, other):
        assert await statuses(each, 1, *REGISTER) == [429]


@pytest.mark.parametrize(("shared", "address"), [(Frozen(), "127.0.0.1"), (Away(), ADDRESS)])
async def test_limit_is_off_for_loopback_and_store_failure(shared, address):
    proxy = ProxyServer(site_options={"shared": shared})
    assert set(await statuses(proxy, REGISTRATIONS.burst + 5, *REGISTER, address)) == {201}


@each_row(("method", "path"), [
    ("GET", "/.well-known/oauth-authorization-server"), ("GET", "/.well-known/openid-configuration"),
    ("GET", "/jwks.json"), ("POST", "/register"), ("POST", "/token"), ("POST", "/revoke"),
])  # fmt: skip
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

"""Rate limits and CORS headers at the endpoints of an OAuthProxy."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from mcpkit.auth.authority.look import Look
from mcpkit.auth.proxy.edge import at_the_edge
from mcpkit.auth.proxy.limits import PAGES, REGISTRATIONS, TOKENS, Limits
from mcpkit.state.audit import AuditEvent
from mcpkit.state.memory import Memory
from tests.helpers.oauth_flow import CALLBACK, ORIGIN, AuthServer, PageForms

pytestmark = pytest.mark.anyio

METADATA = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}


class Frozen(Memory):
    async def spend(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        return await super().spend(key, every=every * 1e6, burst=burst, cost=cost) / 1e6


class Away(Memory):
    async def spend(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        raise ConnectionError("away")


class Edge:
    def __init__(self, shared: Memory | None = None) -> None:
        self.here = AuthServer(shared=Frozen() if shared is None else shared)
        site = self.here.site
        limits = Limits(site.shared, site.name, site.audit, Look("Notes"))
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


async def test_limit_is_audited():
    edge = Edge()
    await edge.many("192.0.2.7", REGISTRATIONS.burst + 1, "POST", "/register", json=METADATA)
    [event] = [event for event in edge.told if event.name == "refusal"]
    assert event == AuditEvent(
        "refusal",
        status=429,
        reason="too_many",
        detail="too many requests of register",
        caller="address 192.0.2.7",
        untold=REGISTRATIONS.burst - 5,
    )


async def test_limit_counts_ipv6_network_and_endpoint():
    edge = Edge()
    for number in range(REGISTRATIONS.burst):
        assert await edge.many(f"2001:db8::{number:x}", 1, "POST", "/register", json=METADATA) == [201]
    assert await edge.many("2001:db8::ffff", 1, "POST", "/register", json=METADATA) == [429]
    assert await edge.many("2001:db8:1::1", 1, "POST", "/register", json=METADATA) == [201]
    assert await edge.many("2001:db8::1", 1, "POST", "/token") == [400]


async def test_limit_is_shared_between_processes():
    shared = Frozen()
    one, two = Edge(shared), Edge(shared)
    half = REGISTRATIONS.burst // 2
    for edge in (one, two):
        assert set(await edge.many("192.0.2.7", half, "POST", "/register", json=METADATA)) == {201}
    for edge in (one, two):
        assert await edge.many("192.0.2.7", 1, "POST", "/register", json=METADATA) == [429]


async def test_limit_refills():
    class Quick(Memory):
        async def spend(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
            return await super().spend(key, every=1e-9, burst=burst, cost=cost)

    edge = Edge(Quick())
    many = REGISTRATIONS.burst * 2
    assert set(await edge.many("192.0.2.7", many, "POST", "/register", json=METADATA)) == {201}


@pytest.mark.parametrize("shared", [Frozen(), Away()])
async def test_limit_is_off_for_loopback_and_store_failure(shared):
    address = "127.0.0.1" if isinstance(shared, Frozen) else "192.0.2.7"
    many = REGISTRATIONS.burst + 5
    assert set(await Edge(shared).many(address, many, "POST", "/register", json=METADATA)) == {201}


@pytest.mark.slow
@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
async def test_limit_is_off_behind_untrusted_proxy_and_logged(header, caplog):
    edge, many = Edge(), REGISTRATIONS.burst + 5
    for address in ("10.0.0.7", "172.17.0.1", "192.168.1.1", "fd00::1"):
        headers = {header: "for=192.0.2.7"}
        statuses = await edge.many(address, many, "POST", "/register", json=METADATA, headers=headers)
        assert set(statuses) == {201}
    [record] = [each for each in caplog.records if "forwarded-allow-ips" in each.getMessage()]
    assert "10.0.0.7" in record.getMessage()
    for address, headers in (
        ("10.0.0.8", {}),
        ("192.0.2.7", {header: "for=192.0.2.8"}),
        ("8.8.8.8", {header: "x"}),
    ):
        counted = await edge.many(address, many, "POST", "/register", json=METADATA, headers=headers)
        assert 429 in counted


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
        answer = await client.request(method, path, headers={"Origin": "https://client.example"})
    assert preflight.status_code == 204
    assert method in preflight.headers["access-control-allow-methods"]
    assert (
        preflight.headers["access-control-allow-headers"]
        == preflight_headers["Access-Control-Request-Headers"]
    )
    assert answer.status_code != 405
    for each in (preflight, answer):
        assert each.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in each.headers
    assert "retry-after" in answer.headers["access-control-expose-headers"].lower()


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
    assert [answer.status_code for answer in answers] == [200, 405, 404]
    for answer in answers:
        assert "access-control-allow-origin" not in answer.headers

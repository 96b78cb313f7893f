"""Remembered consent of an OAuthProxy: when the page is skipped, and when not."""

from __future__ import annotations

import json
import time
import zlib
from typing import Any

import httpx2
import pytest

from mcpkit import Scope
from mcpkit.auth.base64url import encode
from mcpkit.state.audit import AuditEvent
from mcpkit.state.revocations import Revocations
from tests.helpers.clock import Clock
from tests.helpers.oauth_flow import PROXY_MCP, PROXY_ORIGIN, Login, ProxyServer, form_of, redirect_params
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

BOX = '<input type="checkbox" name="remember" value="yes">'


CALLBACK = "http://127.0.0.1:3000/callback"


OPENED = {
    "Sec-Fetch-Site": "none",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-User": "?1",
}


class Program:
    def __init__(
        self, proxy: ProxyServer, callback: str = CALLBACK, browser: httpx2.AsyncClient | None = None
    ) -> None:
        self.proxy = proxy
        self.browser = browser or proxy.browser()
        self.callback = callback
        self.client_id = ""

    async def login(self, **query: Any) -> Login:
        if not self.client_id:
            metadata = {
                "client_name": "A client",
                "redirect_uris": [self.callback],
                "token_endpoint_auth_method": "none",
            }
            answer = await self.browser.post("/register", json=metadata)
            self.client_id = answer.json()["client_id"]
        shown_pages = {"resource": PROXY_MCP, "scope": "notes:read", "redirect_uri": self.callback, **query}
        return Login(self.client_id, **shown_pages)

    async def opened(self, headers: dict[str, str] = OPENED, **query: Any) -> httpx2.Response:
        login = await self.login(**query)
        return await self.browser.get("/authorize", params=login.query, headers=headers)

    async def allowed(self, *, remember: bool = True, **query: Any) -> dict[str, str]:
        page = await self.opened(**query)
        assert page.status_code == 200, page.headers.get("location")
        form = form_of(page) | ({"remember": "yes"} if remember else {})
        return await self.back(await self.browser.post("/authorize", data=form))

    async def back(self, forward: httpx2.Response) -> dict[str, str]:
        assert forward.status_code == 303, forward.text
        url = await self.proxy.upstream.visit(forward.headers["location"])
        return redirect_params(await self.browser.get(url))

    @property
    def cookies(self) -> dict[str, str]:
        return {name: value or "" for name, value in self.browser.cookies.items() if "remembered" in name}


def shows_page(response: httpx2.Response) -> bool:
    assert response.status_code == 200 or response.headers["location"].startswith("https://id.example.com/")
    return response.status_code == 200


async def test_remembered_consent_skips_page_for_same_client(proxy):
    events: list[AuditEvent] = []
    proxy.site.audit(events.append)
    program = Program(proxy)
    assert "code" in await program.allowed()
    for port in (3000, 3001):
        forward = await program.opened(redirect_uri=f"http://127.0.0.1:{port}/callback")
        assert not shows_page(forward)
        assert "code" in await program.back(forward)
    events = [event.detail for event in events if event.name == "consent"]
    assert events == [
        "allowed, to 127.0.0.1:3000",
        "remembered, to 127.0.0.1:3000",
        "remembered, to 127.0.0.1:3001",
    ]


async def test_remembered_consent_of_another_version_shows_page(proxy):
    program = Program(proxy)
    await program.allowed()
    [name] = program.cookies
    members = zlib.compress(json.dumps([{"of": "another version"}]).encode())
    sealed = proxy.site.keys.encrypt("OAuth remembered consent", members, PROXY_ORIGIN.encode())
    program.browser.cookies.clear()
    program.browser.cookies.set(name, encode(sealed))
    assert shows_page(await program.opened())


@each_row(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": ""},
        {"Sec-Fetch-Site": None},
        {"Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Mode": None},
        {"Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Dest": None},
        {"Sec-Purpose": "prefetch;prerender"},
        {"Purpose": "prefetch"},
    ],
)
async def test_remembered_consent_needs_top_level_navigation(headers):
    proxy = ProxyServer()
    """Also that of a browser that does not say."""
    program = Program(proxy)
    await program.allowed()
    changed = {name: value for name, value in (OPENED | headers).items() if value is not None}
    assert shows_page(await program.opened(headers=changed if headers else {}))
    assert not shows_page(await program.opened())


@each_row(
    "change",
    [
        {"redirect_uri": "http://127.0.0.1:3000/callback?to=elsewhere"},
        {"redirect_uri": "http://127.0.0.1:3000/other"},
        {"redirect_uri": "http://localhost:3000/callback"},
        {"redirect_uri": "http://[::1]:3000/callback"},
        {"scope": "notes:read notes:write"},
        {"scope": "notes:write"},
        {"resource": f"{PROXY_ORIGIN}/sse"},
        {"resource": [PROXY_MCP, f"{PROXY_ORIGIN}/sse"]},
        {"resource": None},
    ],
)
async def test_remembered_consent_needs_same_request(change):
    proxy = ProxyServer()
    async with proxy.browser() as browser:
        metadata = {
            "redirect_uris": [
                CALLBACK,
                f"{CALLBACK}?to=elsewhere",
                "http://127.0.0.1/other",
                "http://localhost/callback",
                "http://[::1]/callback",
            ],
            "token_endpoint_auth_method": "none",
        }
        client_id = (await browser.post("/register", json=metadata)).json()["client_id"]
    program = Program(proxy)
    program.client_id = client_id
    await program.allowed()
    assert shows_page(await program.opened(**change))
    assert not shows_page(await program.opened())


async def test_remembered_consent_for_grown_scope_shows_page():
    before = {"read": Scope("Read", default=True), "delete": Scope("Delete")}
    after = {"read": Scope("Read", default=True, implies=["delete"]), "delete": Scope("Delete")}
    proxy = ProxyServer(kept={"scopes": before})
    program = Program(proxy)
    await program.allowed(scope="read")
    assert not shows_page(await program.opened(scope="read"))
    later = ProxyServer(proxy.upstream, kept={"scopes": after, "shared": proxy.site.storage})
    async with later.browser() as browser:
        browser.cookies = program.browser.cookies
        login = await program.login(scope="read")
        assert shows_page(await browser.get("/authorize", params=login.query, headers=OPENED))


async def test_remembered_consent_is_for_one_client_and_browser(proxy):
    program = Program(proxy)
    await program.allowed()
    other = Program(proxy, browser=program.browser)
    assert shows_page(await other.opened())
    elsewhere = Program(proxy)
    elsewhere.client_id = program.client_id
    assert shows_page(await elsewhere.opened())


async def test_consent_for_metadata_document_is_not_remembered(monkeypatch):
    url = "https://client.example/client.json"
    document = {"client_id": url, "client_name": "Shared", "redirect_uris": [CALLBACK]}

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=document)

    monkeypatch.setattr(
        "mcpkit.auth.authority.public_internet.public_client",
        lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(answer)),
    )
    program = Program(ProxyServer())
    program.client_id = url
    page = await program.opened()
    assert "client.example" in page.text
    assert BOX not in page.text
    assert "code" in await program.allowed()
    assert program.cookies == {}
    assert shows_page(await program.opened())


async def test_remembered_consent_of_another_user_is_denied(proxy):
    program = Program(proxy)
    await program.allowed()
    proxy.upstream.user = "bob"
    refused = await program.back(await program.opened())
    assert (refused["error"], refused["iss"]) == ("access_denied", PROXY_ORIGIN)
    assert "code" not in refused
    assert not [token for token, user in proxy.upstream.live.items() if user == "bob"]
    assert program.cookies == {}
    assert shows_page(await program.opened())  # and is shown_pages, as ada is
    proxy.upstream.user = "ada"
    assert shows_page(await program.opened())


async def test_remembered_consent_ends_with_revocation():
    proxy = ProxyServer(clock=Clock(time.time()))
    program = Program(proxy)
    await program.allowed()
    revocations = Revocations(proxy.site.storage, proxy.site.name)
    await revocations.revoke("https://id.example.com#sub=bob")
    assert "code" in await program.back(await program.opened())
    await revocations.revoke("https://id.example.com#sub=ada")
    refused = await program.back(await program.opened())
    assert refused["error"] == "access_denied"
    assert program.cookies == {}
    proxy.clock.now = time.time() + 1
    assert "code" in await program.allowed()
    assert "code" in await program.back(await program.opened())


async def test_remembered_consent_with_store_down_denies_and_is_logged(proxy, monkeypatch, caplog):
    program = Program(proxy)
    await program.allowed()

    async def away(*_: object) -> float:
        raise ConnectionError("away")

    monkeypatch.setattr(Revocations, "latest", away)
    assert "code" not in await program.back(await program.opened())
    assert "the shared store failed" in caplog.text


async def test_remembered_consent_lasts_thirty_days():
    clock = Clock()
    program = Program(ProxyServer(clock=clock))
    await program.allowed()
    clock.now += 29 * 24 * 3600.0
    assert "code" in await program.back(await program.opened())
    clock.now += 24 * 3600.0
    assert shows_page(await program.opened())


@pytest.mark.limit("what a browser remembers for `OAuthProxy`")
async def test_remembered_consent_cookie_limit(proxy):
    browser = proxy.browser()
    programs = [Program(proxy, browser=browser) for _ in range(12)]
    for each in programs:
        await each.allowed()
    [value] = programs[0].cookies.values()
    assert len(value) < 3900
    assert [shows_page(await each.opened()) for each in programs] == [True] * 4 + [False] * 8


async def test_remembered_consent_cookie_attributes(proxy):
    program = Program(proxy)
    page = await program.opened()
    forward = await program.browser.post("/authorize", data=form_of(page) | {"remember": "yes"})
    back = await program.browser.get(await proxy.upstream.visit(forward.headers["location"]))
    [cookie] = [each for each in back.headers.get_list("set-cookie") if "remembered" in each]
    assert cookie.startswith("__Host-mcpkit-remembered-")
    for attribute in ("HttpOnly", "Secure", "SameSite=lax", "Path=/", "Max-Age=2592000"):
        assert attribute in cookie
    for shown in ("ada", "notes", "127.0.0.1", program.client_id):
        assert shown not in cookie.partition(";")[0]

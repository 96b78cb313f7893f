"""Remembered consent of an OAuthProxy: when the page is skipped, and when not."""

import json
import time
import zlib
from typing import Any

import httpx2
import pytest

from mcpkit import Scope
from mcpkit.auth.authorization_server.consent_page import REMEMBER_FIELD
from mcpkit.auth.jws import base64url_encode
from mcpkit.identity.audit_and_revocation import AuditEvent, Revocations
from tests.helpers import oauth_flow as flow
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock

CALLBACK = "http://127.0.0.1:3000/callback"
OTHER_URIS = [
    f"{CALLBACK}?to=elsewhere", "http://127.0.0.1:3000/other", "http://localhost:3000/callback",
    "http://[::1]:3000/callback",
]  # fmt: skip
OPENED = {
    "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
    "Sec-Fetch-User": "?1",
}  # fmt: skip


class Program:
    """A client on the user's machine, which opens its requests in a browser."""

    def __init__(self, proxy: flow.ProxyServer, browser: httpx2.AsyncClient | None = None) -> None:
        self.proxy = proxy
        self.browser = browser or proxy.browser()
        self.client_id = ""

    async def login(self, **query: Any) -> flow.Login:
        if not self.client_id:
            metadata = {"redirect_uris": [CALLBACK, *OTHER_URIS], "token_endpoint_auth_method": "none"}
            self.client_id = (await self.browser.post("/register", json=metadata)).json()["client_id"]
        usual = {"redirect_uri": CALLBACK, "resource": flow.PROXY_MCP, "scope": "notes:read"}
        return flow.Login(self.client_id, **{**usual, **query})

    async def open(self, headers: dict[str, str] = OPENED, **query: Any) -> httpx2.Response:
        login = await self.login(**query)
        return await self.browser.get("/authorize", params=login.query, headers=headers)

    async def allow(self, **query: Any) -> dict[str, str]:
        """Allow a request that shows the page, and have that remembered."""
        page = await self.open(**query)
        assert page.status_code == 200, page.headers.get("location")
        form = flow.form_of(page) | {"remember": "yes"}
        return await self.redirect_to_client(await self.browser.post("/authorize", data=form))

    async def redirect_to_client(self, forward: httpx2.Response) -> dict[str, str]:
        assert forward.status_code == 303, forward.text
        return flow.redirect_params(
            await self.browser.get(await self.proxy.upstream.visit(forward.headers["location"]))
        )

    @property
    def cookies(self) -> dict[str, str]:
        return {name: value or "" for name, value in self.browser.cookies.items() if "remembered" in name}


@pytest.fixture
async def program(proxy: flow.ProxyServer) -> Program:
    """A program with remembered consent."""
    program = Program(proxy)
    assert "code" in await program.allow()
    return program


def shows_page(response: httpx2.Response) -> bool:
    assert response.status_code == 200 or response.headers["location"].startswith("https://id.example.com/")
    return response.status_code == 200


async def test_saved_consent_skips_page_for_same_client(proxy):
    events: list[AuditEvent] = []
    proxy.site.audit(events.append)
    program = Program(proxy)
    await program.allow()
    for port in (3000, 3001):
        forward = await program.open(redirect_uri=f"http://127.0.0.1:{port}/callback")
        assert not shows_page(forward)
        assert "code" in await program.redirect_to_client(forward)
    assert [event.detail for event in events if event.name == "consent"] == [
        "allowed, to 127.0.0.1:3000",
        "remembered, to 127.0.0.1:3000",
        "remembered, to 127.0.0.1:3001",
    ]


async def test_saved_consent_of_another_version_shows_page(proxy, program):
    [name] = program.cookies
    members = zlib.compress(json.dumps([{"of": "another version"}]).encode())
    sealed = proxy.site.keys.encrypt("OAuth remembered consent", members, flow.PROXY_ORIGIN.encode())
    program.browser.cookies.clear()
    program.browser.cookies.set(name, base64url_encode(sealed))
    assert shows_page(await program.open())


@each_row("headers", [
    None,  # of a browser that sends none
    *({"Sec-Fetch-Site": value} for value in ("cross-site", "same-site", "same-origin", "", None)),
    *({"Sec-Fetch-Mode": value} for value in ("cors", None)),
    *({"Sec-Fetch-Dest": value} for value in ("iframe", "image", None)),
    {"Sec-Purpose": "prefetch;prerender"},
    {"Purpose": "prefetch"},
])  # fmt: skip
async def test_saved_consent_needs_top_level_navigation(program, headers):
    changed = {name: value for name, value in (OPENED | (headers or {})).items() if value is not None}
    assert shows_page(await program.open(headers={} if headers is None else changed))
    assert not shows_page(await program.open())


@each_row("change", [
    *({"redirect_uri": uri} for uri in OTHER_URIS), {"scope": "notes:read notes:write"},
    {"scope": "notes:write"}, {"resource": f"{flow.PROXY_ORIGIN}/sse"},
    {"resource": [flow.PROXY_MCP, f"{flow.PROXY_ORIGIN}/sse"]}, {"resource": None},
])  # fmt: skip
async def test_saved_consent_needs_same_request(program, change):
    assert shows_page(await program.open(**change))
    assert not shows_page(await program.open())


async def test_saved_consent_for_grown_scope_shows_page():
    before = {"read": Scope("Read", default=True), "delete": Scope("Delete")}
    after = {"read": Scope("Read", default=True, implies=["delete"]), "delete": Scope("Delete")}
    proxy = flow.ProxyServer(site_options={"scopes": before})
    program = Program(proxy)
    await program.allow(scope="read")
    assert not shows_page(await program.open(scope="read"))
    later = flow.ProxyServer(proxy.upstream, site_options={"scopes": after, "shared": proxy.site.storage})
    cookies, program.browser = program.browser.cookies, later.browser()
    program.browser.cookies = cookies
    assert shows_page(await program.open(scope="read"))


async def test_saved_consent_is_for_one_client_and_browser(proxy, program):
    other = Program(proxy, program.browser)
    assert shows_page(await other.open())
    elsewhere = Program(proxy)
    elsewhere.client_id = program.client_id
    assert shows_page(await elsewhere.open())


async def test_saved_consent_of_another_user_is_denied(proxy, program):
    proxy.upstream.user = "bob"
    refused = await program.redirect_to_client(await program.open())
    assert (refused["error"], refused["iss"]) == ("access_denied", flow.PROXY_ORIGIN)
    assert "code" not in refused
    assert not [token for token, user in proxy.upstream.live.items() if user == "bob"]
    assert program.cookies == {}
    for proxy.upstream.user in ("bob", "ada"):
        assert shows_page(await program.open())


async def test_saved_consent_ends_with_revocation():
    proxy = flow.ProxyServer(clock=Clock(time.time()))
    program = Program(proxy)
    await program.allow()
    revocations = Revocations(proxy.site.storage, proxy.site.name)
    await revocations.revoke("https://id.example.com#sub=bob")
    assert "code" in await program.redirect_to_client(await program.open())
    await revocations.revoke("https://id.example.com#sub=ada")
    refused = await program.redirect_to_client(await program.open())
    assert refused["error"] == "access_denied"
    assert program.cookies == {}
    proxy.clock.now = time.time() + 1
    assert "code" in await program.allow()
    assert "code" in await program.redirect_to_client(await program.open())


async def test_saved_consent_with_store_down_denies_and_is_logged(program, monkeypatch, caplog):
    async def away(*_: object) -> float:
        raise ConnectionError("away")

    monkeypatch.setattr(Revocations, "latest", away)
    assert "code" not in await program.redirect_to_client(await program.open())
    assert "the shared store failed" in caplog.text


async def test_saved_consent_lasts_thirty_days(proxy, program):
    proxy.clock.now += 29 * 24 * 3600.0
    assert "code" in await program.redirect_to_client(await program.open())
    proxy.clock.now += 24 * 3600.0
    assert shows_page(await program.open())


@pytest.mark.limit("what a browser remembers for `OAuthProxy`")
async def test_saved_consent_cookie_limit(proxy):
    browser = proxy.browser()
    programs = [Program(proxy, browser) for _ in range(12)]
    for each in programs:
        await each.allow()
    [value] = programs[0].cookies.values()
    assert len(value) < 3900
    assert [shows_page(await each.open()) for each in programs] == [True] * 4 + [False] * 8


DOCUMENT = "https://editor.example.org/client.json"


@pytest.mark.parametrize("uri", [CALLBACK, "https://editor.example.org/callback"])
async def test_shared_document_consent_is_not_saved(proxy, uri):
    """All users of an editor share its client ID: a malicious server could send them on to this one."""
    program = Program(proxy)
    program.client_id = DOCUMENT
    document = {"client_id": DOCUMENT, "client_name": "Editor", "redirect_uris": [uri]}
    with flow.client_documents({DOCUMENT: document}):
        assert f'name="{REMEMBER_FIELD}"' not in (await program.open(redirect_uri=uri)).text
        assert "code" in await program.allow(redirect_uri=uri)
        assert shows_page(await program.open(redirect_uri=uri))
    assert program.cookies == {}

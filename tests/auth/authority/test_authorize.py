"""Requests to /authorize: the consent page, its form, and refused requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.clock import Clock
from tests.helpers.oauth_flow import (
    CALLBACK,
    ORIGIN,
    AuthServer,
    Login,
    PageForms,
    code_of,
    redirect_params,
    submit_login,
)
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


async def get_authorize(server: AuthServer, query: Any) -> Any:
    async with server.browser() as browser:
        return await browser.get("/authorize", params=query)


@each_row(
    "redirect_uri",
    [
        "https://evil.example/callback", "http://127.0.0.1:3000/other", "http://127.0.0.1:3000/callback/",
        "http://127.0.0.1:3000/callback?x=1", "http://127.0.0.1:3000/callback#x",
        "http://127.0.0.1:3000/callback@evil.example", "http://127.0.0.1@evil.example/callback",
        "http://127.0.0.1:3000@evil.example/callback", "http://127.0.0.1.evil.example/callback",
        "http://localhost:3000/callback", "http://127.0.0.1:99999/callback",
        "https://127.0.0.1:3000/callback", "HTTP://evil.example", "javascript:alert(1)",
        "//evil.example/callback", "\\\\evil.example", "http://127.0.0.1:3000/call\tback",
    ],
)  # fmt: skip
async def test_authorize_unregistered_redirect_uri_is_error_page(redirect_uri):
    server = AuthServer()
    login = await server.login()
    response = await get_authorize(
        server, {**login.query, "redirect_uri": redirect_uri, "code_challenge": ""}
    )
    assert response.status_code == 400
    assert "location" not in response.headers
    assert PageForms(response.text).links == []


@each_row("client_id", ["", "nobody", "mcpkit-1.AAAA", "mcpkit-1.é", "x" * 30_000])
async def test_authorize_unknown_client_is_error_page(client_id):
    server = AuthServer()
    login = await server.login()
    response = await get_authorize(server, {**login.query, "client_id": client_id})
    assert response.status_code == 400
    assert "location" not in response.headers


@each_row(
    ("change", "error"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code id_token"}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"response_mode": "form_post"}, "invalid_request"),
        ({"request": "e30.e30."}, "request_not_supported"),
        ({"request_uri": "https://evil.example/x"}, "request_uri_not_supported"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge": "é" * 43}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"scope": "notes:none"}, "invalid_scope"),
        ({"scope": 'a"b'}, "invalid_scope"),
        ({"scope": "é"}, "invalid_scope"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": "http://127.0.0.1:8000/other"}, "invalid_target"),
        ({"resource": "http://127.0.0.1:8000/mcp#x"}, "invalid_target"),
        ({"resource": "http://127.0.0.1:8000/mcp?x"}, "invalid_target"),
        ({"resource": "no URL"}, "invalid_target"),
        ({"resource": ["http://127.0.0.1:8000/mcp", "http://127.0.0.1:8000/x"]}, "invalid_target"),
        ({"scope": ["notes:read", "notes:write"]}, "invalid_request"),
        ({"anything": ["once", "twice"]}, "invalid_request"),
    ],
)
async def test_authorize_error_redirect_includes_error_and_iss(change, error):
    server = AuthServer()
    login = await server.login(**change)
    response = await get_authorize(server, login.query)
    answer = redirect_params(response)
    assert response.headers["location"].startswith(f"{CALLBACK}?")
    assert (answer["error"], answer["iss"], answer["state"]) == (error, ORIGIN, login.query["state"])
    assert answer["error_description"].isascii()
    assert not set(answer["error_description"]) & set('"\\')


async def test_authorize_duplicate_state_is_not_returned(server):
    login = await server.login(state=["one", "two"])
    answer = redirect_params(await get_authorize(server, login.query))
    assert answer["error"] == "invalid_request"
    assert "state" not in answer


async def test_authorize_error_for_web_redirect_is_page_with_link(server):
    registered = await server.registered(redirect_uris=["https://evil.example/cb?a=1"])
    login = Login(registered["client_id"], "https://evil.example/cb?a=1", scope="none")
    response = await get_authorize(server, login.query)
    assert response.status_code == 400
    assert "location" not in response.headers
    [link] = PageForms(response.text).links
    assert link.startswith("https://evil.example/cb?a=1&error=invalid_scope")
    assert "evil.example" in response.text


async def open_form(server: AuthServer, login: Login, browser: Any) -> dict[str, str]:
    page = await browser.get("/authorize", params=login.query)
    found: dict[str, str] = PageForms(page.text).forms[0]
    return found


async def test_authorize_form_of_another_browser_is_rejected(server, login):
    async with server.browser() as attacker, server.browser() as victim:
        stolen = await open_form(server, login, attacker)
        await open_form(server, await server.login(), victim)
        response = await victim.post("/authorize", data=stolen)
        assert response.status_code == 403
        assert "location" not in response.headers
        # A cookie of another login does not help either.
        mine = next(iter(victim.cookies.jar))
        theirs = next(iter(attacker.cookies.jar))
        victim.cookies.set(theirs.name, mine.value or "")
        assert (await victim.post("/authorize", data=stolen)).status_code == 403
        # Without the guard it would succeed: with the cookie it does.
        assert code_of(await attacker.post("/authorize", data=stolen))


async def test_authorize_cookie_attributes(server):
    async with server.browser() as browser:
        page = await browser.get("/authorize", params=(await server.login()).query)
    cookie = page.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=lax", "path=/authorize", "max-age=600"):
        assert part in cookie


async def test_authorize_cookie_on_https_has_host_prefix():
    server = AuthServer(issuer="https://login.example.com")
    async with server.browser() as browser:
        page = await browser.get("/authorize", params=(await server.login()).query)
    cookie = page.headers["set-cookie"]
    assert cookie.startswith("__Host-mcpkit-")
    for part in ("secure", "httponly", "samesite=lax", "path=/;"):
        assert part in f"{cookie.lower()};"


async def test_authorize_form_is_accepted_once(server, login):
    async with server.browser() as browser:
        form = await open_form(server, login, browser)
        code = code_of(await browser.post("/authorize", data=form))
        again = await browser.post("/authorize", data=form)
    assert again.status_code == 400
    assert "location" not in again.headers
    assert (await server.post("/token", login.form(code))).status_code == 200


async def test_authorize_form_expires_after_ten_minutes():
    server = AuthServer(clock=Clock())
    async with server.browser() as browser:
        form = await open_form(server, await server.login(), browser)
        server.clock.now += 600
        assert (await browser.post("/authorize", data=form)).status_code == 400


@each_row("field", ["", "AAAA", "é", "a" * 40_000])
async def test_authorize_form_unsealed_is_rejected(field):
    server = AuthServer()
    async with server.browser() as browser:
        await open_form(server, await server.login(), browser)
        response = await browser.post("/authorize", data={"request": field, "user": "ada"})
    assert response.status_code in {400, 413}
    assert "location" not in response.headers


async def test_authorize_unknown_user_is_rejected(server):
    async with server.browser() as browser:
        form = await open_form(server, await server.login(), browser)
        for user in ("eve", ""):
            response = await browser.post("/authorize", data={**form, "user": user})
            assert response.status_code == 400


async def test_authorize_form_of_another_secret_is_rejected():
    server, other = AuthServer(), AuthServer(secret="quite another secret of a server")
    login = await server.login()
    async with server.browser() as browser, other.browser() as stranger:
        form = await open_form(server, login, browser)
        assert (await stranger.post("/authorize", data=form)).status_code == 400
        assert (await submit_login(browser, login)).status_code == 303

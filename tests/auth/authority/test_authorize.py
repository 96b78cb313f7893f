"""Requests to /authorize: pages, forms, and refused requests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpkit.auth import DevClient
from mcpkit.auth.authority.look import Look, look_of
from mcpkit.auth.authority.pages import error_page, page
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


async def test_authorize_form_of_another_secret_is_rejected():
    server, other = AuthServer(), AuthServer(secret="quite another secret of a server")
    login = await server.login()
    async with server.browser() as browser, other.browser() as stranger:
        form = await open_form(server, login, browser)
        assert (await stranger.post("/authorize", data=form)).status_code == 400
        assert (await submit_login(browser, login)).status_code == 303


async def open_page(server: AuthServer, login: Login) -> str:
    async with server.browser() as browser:
        page = await browser.get("/authorize", params=login.query)
    assert page.status_code == 200, page.text
    return page.text


async def page_of_client(server: AuthServer, name: str = "Cursor", uri: str = CALLBACK, **query: Any) -> str:
    found = await server.registered(client_name=name, redirect_uris=[uri])
    return await open_page(server, Login(found["client_id"], uri, **query))


def heading(page: str) -> str:
    [found] = re.findall("<h1>(.*)</h1>", page)
    return str(found)


@each_row(
    ("name", "expected"),
    [
        ("<b>Cursor</b> & \u201cco\u201d", "&lt;b&gt;Cursor&lt;/b&gt; &amp; 'co'"),
        ('Cursor" is safe. "', "Cursor&#x27; is safe. &#x27;"),
        ("Cursor\u201d, checked by \u201cnotes", "Cursor&#x27;, checked by &#x27;notes"),
        ("\u00abCursor\u00bb", "&#x27;Cursor&#x27;"),
        ("Cur\u202esor\u2066\u200b\u200d", "Cursor"),
        ("Cursor\n\tand\r more\x00", "Cursorand more"),
        ("\u3164Cur\u2800sor\u115f", "Cursor"),
        ("Cu\u0301\u0301\u0301\u0301\u0301\u0301r", "C\u00fa\u0301\u0301\u0301r"),
        ("\u05e7\u05e8\u05e1\u05d5\u05e8", "\u05e7\u05e8\u05e1\u05d5\u05e8"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0940"),
        ("\u3164\u202e", "A client without a name"),
    ],
)
async def test_consent_page_cleans_client_name(name, expected):
    page = await page_of_client(AuthServer(), name)
    expected = expected.replace("'", "&#x27;")
    assert heading(page) == f"Allow \u201c\u2068{expected}\u2069\u201d to use notes?"
    assert f"<strong><bdi>{expected}</bdi></strong>" in page


async def test_consent_page_shows_registration_of_client():
    assert "it is not verified" in await page_of_client(AuthServer())
    by_hand = AuthServer(clients=[DevClient("ci", redirect_uris=[CALLBACK])])
    assert "The operator of this server vouches" in await open_page(by_hand, Login("ci"))
    url = "https://cIient.example/client.json"
    document = {"client_id": url, "client_name": "Cursor", "redirect_uris": [CALLBACK]}
    web = httpx2.MockTransport(lambda _: httpx2.Response(200, json=document))
    by_document = AuthServer(documents=lambda: httpx2.AsyncClient(transport=web))
    page = await open_page(by_document, Login(url))
    assert "<b>ciient.example</b> vouches for that name" in page
    assert (
        "Have you just started this yourself?" in page
    )  # a document does not make this machine's programs others'


@pytest.mark.limit("pages of logins in one browser")
async def test_consent_page_keeps_ten_cookies(server):
    logins = [await server.login() for _ in range(25)]
    async with server.browser() as browser:
        pages = [await browser.get("/authorize", params=login.query) for login in logins]
        assert len(browser.cookies) == 10
        answers = [
            await browser.post("/authorize", data=PageForms(page.text).forms[0]) for page in pages[-10:]
        ]
        assert all(map(code_of, answers))
        refused = await browser.post("/authorize", data=PageForms(pages[0].text).forms[0])
    assert (refused.status_code, "another browser" in refused.text) == (403, True)


PNG = b"\x89PNG\r\n\x1a\n and so on"


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "png"),
        (b"\xff\xd8\xff\xe0", "jpeg"),
        (b"GIF89a", "gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "webp"),
        (SVG, "svg+xml"),
        (b"<?xml version='1.0'?>" + SVG, "svg+xml"),
    ],
)
def test_page_picture_is_data_url_by_format(data, kind, tmp_path):
    look = look_of("Notes", data)
    assert look.logo is not None
    assert look.logo.startswith(f"data:image/{kind};base64,")
    (tmp_path / "picture").write_bytes(data)
    assert look_of("Notes", tmp_path / "picture") == look_of("Notes", str(tmp_path / "picture")) == look
    for response in (page("A title", "", look=look), error_page("no", look=look)):
        text = bytes(response.body).decode()
        assert f'<img src="{look.logo}" alt="">' in text
        assert "<p>Notes</p></header>" in text
        assert "img-src data:;" in response.headers["content-security-policy"]


@pytest.mark.limit("picture on the pages of `OAuthProxy`")
def test_page_picture_size_limit():
    look_of("Notes", PNG.ljust(256 * 1024, b"x"))
    with pytest.raises(ValueError, match="Make it smaller"):
        look_of("Notes", PNG.ljust(256 * 1024 + 1, b"x"))


@pytest.mark.parametrize(
    ("title", "picture", "error"),
    [
        ("", None, ValueError),
        (" ", None, ValueError),
        ("x" * 101, None, ValueError),
        ("a\nb", None, ValueError),
        (7, None, TypeError),
        ("Notes", b"", ValueError),
        ("Notes", b"<html>", ValueError),
        ("Notes", b"RIFF\x00\x00\x00\x00WAVE", ValueError),
        ("Notes", Path("/nowhere/at/all.png"), OSError),
    ],
)
def test_page_title_or_picture_invalid_raises(title, picture, error):
    with pytest.raises(error):
        look_of(title, picture)


def test_page_title_is_escaped():
    response = page("<b>", "", look=Look("<i>&"))
    assert b"<title>&lt;b&gt;</title>" in response.body
    assert b"<p>&lt;i&gt;&amp;</p>" in response.body

"""Requests to /authorize: pages, forms, and refused requests."""

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpkit.auth import DevClient, DevUser
from mcpkit.auth.authorization_server.html_pages import Branding, check_branding, error_page, page
from mcpkit.identity.audit_and_revocation import AuditEvent
from tests.helpers import oauth_flow as flow
from tests.helpers.tables import each_row


async def get_authorize(server: flow.AuthServer, query: Any) -> httpx2.Response:
    async with server.browser() as browser:
        return await browser.get("/authorize", params=query)


@each_row("change", [
    *({"redirect_uri": uri, "code_challenge": ""} for uri in (
        "https://evil.example/callback", "http://127.0.0.1:3000/other",
        "http://127.0.0.1:3000/callback/", "http://127.0.0.1:3000/callback?x=1",
        "http://127.0.0.1:3000/callback#x", "http://127.0.0.1:3000/callback@evil.example",
        "http://127.0.0.1@evil.example/callback", "http://127.0.0.1:3000@evil.example/callback",
        "http://127.0.0.1.evil.example/callback", "http://localhost:3000/callback",
        "http://127.0.0.1:99999/callback", "https://127.0.0.1:3000/callback", "HTTP://evil.example",
        "javascript:alert(1)", "//evil.example/callback", "\\\\evil.example",
        "http://127.0.0.1:3000/call\tback",
    )),
    *({"client_id": name} for name in ("", "nobody", "mcpkit-1.AAAA", "mcpkit-1.é", "x" * 30_000)),
])  # fmt: skip
async def test_authorize_unregistered_redirect_uri_is_error_page(server, login, change):
    response = await get_authorize(server, {**login.query, **change})
    assert response.status_code == 400
    assert "location" not in response.headers
    assert flow.PageForms(response.text).links == []


@each_row(("change", "error"), [
    ({"response_type": None}, "invalid_request"),
    *(({"response_type": value}, "unsupported_response_type") for value in ("token", "code id_token")),
    *(({"response_mode": value}, "invalid_request") for value in ("fragment", "form_post")),
    ({"request": "e30.e30."}, "request_not_supported"),
    ({"request_uri": "https://evil.example/x"}, "request_uri_not_supported"),
    *(({"code_challenge": value}, "invalid_request") for value in (None, "short", "é" * 43)),
    *(({"code_challenge_method": value}, "invalid_request") for value in (None, "plain", "s256")),
    *(({"scope": value}, "invalid_scope") for value in ("notes:none", 'a"b', "é")),
    *(({"resource": value}, "invalid_target") for value in (
        "https://other.example/mcp", f"{flow.ORIGIN}/other", f"{flow.MCP}#x", f"{flow.MCP}?x", "no URL",
        [flow.MCP, f"{flow.ORIGIN}/x"],
    )),
    *(({name: ["notes:read", "notes:write"]}, "invalid_request") for name in ("scope", "anything")),
])  # fmt: skip
async def test_authorize_error_redirect_includes_error_and_iss(server, change, error):
    login = await server.login(**change)
    response = await get_authorize(server, login.query)
    params = flow.redirect_params(response)
    assert response.headers["location"].startswith(f"{flow.CALLBACK}?")
    assert (params["error"], params["iss"], params["state"]) == (error, flow.ORIGIN, login.query["state"])
    assert params["error_description"].isascii()
    assert not set(params["error_description"]) & set('"\\')


async def test_authorize_error_for_web_redirect_is_page_with_link(server):
    uri = "https://evil.example/cb?a=1"
    registered = await server.registered(redirect_uris=[uri])
    response = await get_authorize(server, flow.Login(registered["client_id"], uri, scope="none").query)
    assert response.status_code == 400
    assert "location" not in response.headers
    [link] = flow.PageForms(response.text).links
    assert link.startswith(f"{uri}&error=invalid_scope")
    assert "evil.example" in response.text


async def open_form(login: flow.Login, browser: httpx2.AsyncClient) -> dict[str, str]:
    page = await browser.get("/authorize", params=login.query)
    return flow.PageForms(page.text).forms[0]


async def test_authorize_form_of_another_browser_is_rejected(server, login):
    async with server.browser() as attacker, server.browser() as victim:
        stolen = await open_form(login, attacker)
        await open_form(await server.login(), victim)
        response = await victim.post("/authorize", data=stolen)
        assert response.status_code == 403
        assert "location" not in response.headers
        # A cookie of another login does not help either.
        [own], [other] = victim.cookies.jar, attacker.cookies.jar
        victim.cookies.set(other.name, own.value or "")
        assert (await victim.post("/authorize", data=stolen)).status_code == 403
        # With the cookie it is accepted.
        assert flow.code_of(await attacker.post("/authorize", data=stolen))


async def test_authorize_form_is_accepted_once(server, login):
    async with server.browser() as browser:
        form = await open_form(login, browser)
        code = flow.code_of(await browser.post("/authorize", data=form))
        again = await browser.post("/authorize", data=form)
    assert again.status_code == 400
    assert "location" not in again.headers
    assert (await server.post("/token", login.form(code))).status_code == 200


async def test_authorize_form_expires_after_ten_minutes(server, login):
    async with server.browser() as browser:
        form = await open_form(login, browser)
        server.clock.now += 600
        assert (await browser.post("/authorize", data=form)).status_code == 400


async def test_authorize_form_unsealed_is_rejected(server, login):
    other = flow.AuthServer(secret="quite another secret of a server")
    async with server.browser() as browser, other.browser() as stranger:
        form = await open_form(login, browser)
        assert (await stranger.post("/authorize", data=form)).status_code == 400
        sealed = form["request"]
        changed = [
            f"{sealed[:at]}{'B' if sealed[at] == 'A' else 'A'}{sealed[at + 1 :]}" for at in (0, 20, -2)
        ]
        for field in ("", "AAAA", "é", "a" * 40_000, *changed):
            response = await browser.post("/authorize", data={"request": field, "user": "ada"})
            assert response.status_code in {400, 413}
            assert "location" not in response.headers


async def test_authorize_denied_redirects_with_access_denied(server, login):
    async with server.browser() as browser:
        form = {"request": (await open_form(login, browser))["request"], "answer": "deny"}
        params = flow.redirect_params(await browser.post("/authorize", data=form))
    assert (params["error"], params["iss"]) == ("access_denied", flow.ORIGIN)
    assert params["state"] == login.query["state"]


async def test_authorize_grants_only_scopes_of_user():
    server = flow.AuthServer([DevUser("ada", scopes=["notes:write"]), DevUser("bob", scopes=[])])
    tokens = await server.tokens(await server.login(scope="notes:admin"))
    assert tokens["scope"] == "notes:write"
    async with server.browser() as browser:
        params = flow.redirect_params(
            await flow.submit_login(browser, await server.login(scope="notes:admin"), "bob")
        )
    assert params["error"] == "access_denied"


async def test_login_wrong_password_can_be_retried():
    server = flow.AuthServer([DevUser("ada", password="right"), DevUser("bob")])
    login = await server.login()
    events: list[AuditEvent] = []
    server.site.audit(events.append)
    async with server.browser() as browser:
        wrong = await flow.submit_login(browser, login, "ada", "wrong")
        [event] = events
        assert (event.name, event.status, event.detail) == ("refusal", 403, "wrong password")
        assert wrong.status_code == 403
        assert "Wrong password for" in wrong.text
        assert flow.code_of(await flow.submit_login(browser, login, "ada", "right"))
    async with server.browser() as browser:
        assert (await flow.submit_login(browser, login)).status_code == 403


@each_row(("name", "expected"), [
    ("<b>Cursor</b> & \u201cco\u201d", "&lt;b&gt;Cursor&lt;/b&gt; &amp; 'co'"),
    ('Cursor" is safe. "', "Cursor' is safe. '"),
    ("Cursor\u201d, checked by \u201cnotes", "Cursor', checked by 'notes"),
    ("\u00abCursor\u00bb", "'Cursor'"),
    ("Cur\u202esor\u2066\u200b\u200d", "Cursor"),
    ("Cursor\n\tand\r more\x00", "Cursorand more"),
    ("\u3164Cur\u2800sor\u115f", "Cursor"),
    ("Cu\u0301\u0301\u0301\u0301\u0301\u0301r", "C\u00fa\u0301\u0301\u0301r"),
    ("\u05e7\u05e8\u05e1\u05d5\u05e8", "\u05e7\u05e8\u05e1\u05d5\u05e8"),
    ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0940"),
    ("\u3164\u202e", "A client without a name"),
])  # fmt: skip
async def test_consent_page_cleans_client_name(server, name, expected):
    client = await server.registered(client_name=name)
    text = (await get_authorize(server, flow.Login(client["client_id"]).query)).text
    expected = expected.replace("'", "&#x27;")
    [heading] = re.findall("<h1>(.*)</h1>", text)
    assert heading == f"Allow \u201c\u2068{expected}\u2069\u201d to use notes?"
    assert f"<strong><bdi>{expected}</bdi></strong>" in text


async def test_consent_page_shows_registration_of_client(server, login):
    assert "it is not verified" in (await get_authorize(server, login.query)).text
    by_hand = flow.AuthServer(clients=[DevClient("ci", redirect_uris=[flow.CALLBACK])])
    text = (await get_authorize(by_hand, flow.Login("ci").query)).text
    assert "The operator of this server vouches" in text
    url = "https://cIient.example/client.json"
    document = {"client_id": url, "client_name": "Cursor", "redirect_uris": [flow.CALLBACK]}
    web = httpx2.MockTransport(lambda _: httpx2.Response(200, json=document))
    by_document = flow.AuthServer(documents=lambda: httpx2.AsyncClient(transport=web))
    text = (await get_authorize(by_document, flow.Login(url).query)).text
    assert "<b>ciient.example</b> vouches for that name" in text
    # Any program of this machine could receive the redirect, whatever the document says.
    assert "Have you just started this yourself?" in text


@pytest.mark.limit("pages of logins in one browser")
async def test_consent_page_keeps_ten_cookies(server):
    logins = [await server.login() for _ in range(25)]
    async with server.browser() as browser:
        forms = [await open_form(login, browser) for login in logins]
        assert len(browser.cookies) == 10
        assert all([flow.code_of(await browser.post("/authorize", data=form)) for form in forms[-10:]])
        refused = await browser.post("/authorize", data=forms[0])
    assert (refused.status_code, "another browser" in refused.text) == (403, True)


PNG = b"\x89PNG\r\n\x1a\n and so on"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


@each_row(("data", "kind"), [
    (PNG, "png"), (b"\xff\xd8\xff\xe0", "jpeg"), (b"GIF89a", "gif"),
    (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "webp"), (SVG, "svg+xml"), (b"<?xml version='1.0'?>" + SVG, "svg+xml"),
])  # fmt: skip
def test_page_picture_is_data_url_by_format(data, kind, tmp_path):
    branding = check_branding("Notes", data)
    assert str(branding.logo).startswith(f"data:image/{kind};base64,")
    (tmp_path / "picture").write_bytes(data)
    assert (
        check_branding("Notes", tmp_path / "picture")
        == check_branding("Notes", str(tmp_path / "picture"))
        == branding
    )
    for response in (page("A title", "", branding=branding), error_page("no", branding=branding)):
        text = bytes(response.body).decode()
        assert f'<img src="{branding.logo}" alt="">' in text
        assert "<p>Notes</p></header>" in text
        assert "img-src data:;" in response.headers["content-security-policy"]


@pytest.mark.limit("picture on the pages of `OAuthProxy`")
def test_page_picture_size_limit():
    check_branding("Notes", PNG.ljust(256 * 1024, b"x"))
    with pytest.raises(ValueError, match="Make it smaller"):
        check_branding("Notes", PNG.ljust(256 * 1024 + 1, b"x"))


@each_row(("title", "picture", "error"), [
    *((title, None, ValueError) for title in ("", " ", "x" * 101, "a\nb")),
    (7, None, TypeError),
    *(("Notes", picture, ValueError) for picture in (b"", b"<html>", b"RIFF\x00\x00\x00\x00WAVE")),
    ("Notes", Path("/nowhere/at/all.png"), OSError),
])  # fmt: skip
def test_page_title_or_picture_invalid_raises(title, picture, error):
    with pytest.raises(error):
        check_branding(title, picture)


def test_page_title_is_escaped():
    response = page("<b>", "", branding=Branding("<i>&"))
    assert b"<title>&lt;b&gt;</title>" in response.body
    assert b"<p>&lt;i&gt;&amp;</p>" in response.body

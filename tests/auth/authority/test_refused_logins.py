"""What `/authorize` refuses: on a page where no client can be trusted to hear of it, else at the client's redirect."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.auth import DevUser
from tests.helpers.authority_site import CALLBACK, ORIGIN, Forms, Here, Login, clicked, code_of, said
from tests.helpers.clock import Clock

pytestmark = pytest.mark.anyio


async def asked(here: Here, query: Any) -> Any:
    async with here.browser() as browser:
        return await browser.get("/authorize", params=query)


@pytest.mark.parametrize(
    "redirect_uri",
    [
        "https://evil.example/callback",
        "http://127.0.0.1:3000/other",
        "http://127.0.0.1:3000/callback/",
        "http://127.0.0.1:3000/callback?x=1",
        "http://127.0.0.1:3000/callback#x",
        "http://127.0.0.1:3000/callback@evil.example",
        "http://127.0.0.1@evil.example/callback",
        "http://127.0.0.1:3000@evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://localhost:3000/callback",
        "http://127.0.0.1:99999/callback",
        "https://127.0.0.1:3000/callback",
        "HTTP://evil.example",
        "javascript:alert(1)",
        "//evil.example/callback",
        "\\\\evil.example",
        "http://127.0.0.1:3000/call\tback",
    ],
)
async def test_nobody_is_sent_where_the_client_is_not_registered(redirect_uri: str) -> None:
    here = Here()
    login = await here.login()
    response = await asked(here, {**login.query, "redirect_uri": redirect_uri, "code_challenge": ""})
    assert response.status_code == 400
    assert "location" not in response.headers
    assert Forms(response.text).links == []


@pytest.mark.parametrize("client_id", ["", "nobody", "mcpkit-1.AAAA", "mcpkit-1.é", "x" * 30_000])
async def test_an_unknown_client_is_told_to_its_user(client_id: str) -> None:
    here = Here()
    login = await here.login()
    response = await asked(here, {**login.query, "client_id": client_id})
    assert response.status_code == 400
    assert "location" not in response.headers


@pytest.mark.parametrize(
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
async def test_a_client_hears_what_is_wrong_and_from_whom(change: dict[str, Any], error: str) -> None:
    here = Here()
    login = await here.login(**change)
    response = await asked(here, login.query)
    answer = said(response)
    assert response.headers["location"].startswith(f"{CALLBACK}?")
    assert (answer["error"], answer["iss"], answer["state"]) == (error, ORIGIN, login.query["state"])
    assert answer["error_description"].isascii()
    assert not set(answer["error_description"]) & set('"\\')


async def test_a_state_that_is_there_twice_is_not_given_back() -> None:
    here = Here()
    login = await here.login(state=["one", "two"])
    answer = said(await asked(here, login.query))
    assert answer["error"] == "invalid_request"
    assert "state" not in answer


async def test_without_a_users_word_nobody_is_sent_to_another_site() -> None:
    """Anybody may be a client, so an error is no way to make a link to us lead elsewhere."""
    here = Here()
    registered = await here.registered(redirect_uris=["https://evil.example/cb?a=1"])
    login = Login(registered["client_id"], "https://evil.example/cb?a=1", scope="none")
    response = await asked(here, login.query)
    assert response.status_code == 400
    assert "location" not in response.headers
    [link] = Forms(response.text).links
    assert link.startswith("https://evil.example/cb?a=1&error=invalid_scope")
    assert "evil.example" in response.text


async def test_what_a_client_calls_itself_is_text() -> None:
    here = Here([DevUser("<b>ada</b>")], scopes={})
    name = "<script>alert(1)</script>\u202e\u0007 '\""
    registered = await here.registered(client_name=name)
    login = Login(registered["client_id"], scope="<i>x</i>", state="<u>")
    page = await asked(here, login.query)
    assert page.status_code == 200
    for tag in ("<script", "<b>", "<i>", "<u>", "\u202e", "\u0007"):
        assert tag not in page.text
    assert "&lt;script&gt;" in page.text


# The form


async def shown(here: Here, login: Login, browser: Any) -> dict[str, str]:
    page = await browser.get("/authorize", params=login.query)
    found: dict[str, str] = Forms(page.text).forms[0]
    return found


async def test_a_form_that_was_shown_to_somebody_else_is_worth_nothing() -> None:
    """Neither a page elsewhere nor a link with a form can answer for a user (CSRF, fixation)."""
    here = Here()
    login = await here.login()
    async with here.browser() as attacker, here.browser() as victim:
        stolen = await shown(here, login, attacker)
        await shown(here, await here.login(), victim)
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


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:8001"])
async def test_a_form_from_another_site_is_refused(origin: str) -> None:
    here = Here()
    async with here.browser() as browser:
        form = await shown(here, await here.login(), browser)
        response = await browser.post("/authorize", data=form, headers={"Origin": origin})
        assert response.status_code == 403
        own = await browser.post("/authorize", data=form, headers={"Origin": ORIGIN})
        assert code_of(own)


async def test_the_cookie_is_for_this_browser_and_these_forms_alone() -> None:
    here = Here()
    async with here.browser() as browser:
        page = await browser.get("/authorize", params=(await here.login()).query)
    cookie = page.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=lax", "path=/authorize", "max-age=600"):
        assert part in cookie


async def test_behind_https_the_cookie_is_of_this_host_alone() -> None:
    here = Here(issuer="https://login.example.com")
    async with here.browser() as browser:
        page = await browser.get("/authorize", params=(await here.login()).query)
    cookie = page.headers["set-cookie"]
    assert cookie.startswith("__Host-mcpkit-")
    for part in ("secure", "httponly", "samesite=lax", "path=/;"):
        assert part in f"{cookie.lower()};"


async def test_a_form_is_answered_once() -> None:
    here = Here()
    login = await here.login()
    async with here.browser() as browser:
        form = await shown(here, login, browser)
        code = code_of(await browser.post("/authorize", data=form))
        again = await browser.post("/authorize", data=form)
    assert again.status_code == 400
    assert "location" not in again.headers
    assert (await here.post("/token", login.form(code))).status_code == 200


async def test_a_form_is_answered_once_even_after_its_code_and_its_grant_are_gone() -> None:
    """Else what was revoked would be worth something again."""
    here = Here()
    login = await here.login()
    async with here.browser() as browser:
        form = await shown(here, login, browser)
        code = code_of(await browser.post("/authorize", data=form))
        for _ in range(2):
            await here.post("/token", login.form(code))
        assert (await browser.post("/authorize", data=form)).status_code == 400


async def test_a_form_is_too_old_after_ten_minutes() -> None:
    here = Here(clock=Clock())
    async with here.browser() as browser:
        form = await shown(here, await here.login(), browser)
        here.clock.now += 600
        assert (await browser.post("/authorize", data=form)).status_code == 400


@pytest.mark.parametrize("field", ["", "AAAA", "é", "a" * 40_000])
async def test_a_form_of_nobodys_is_refused(field: str) -> None:
    here = Here()
    async with here.browser() as browser:
        await shown(here, await here.login(), browser)
        response = await browser.post("/authorize", data={"request": field, "user": "ada"})
    assert response.status_code in {400, 413}
    assert "location" not in response.headers


async def test_a_user_who_is_not_there_is_refused() -> None:
    here = Here()
    async with here.browser() as browser:
        form = await shown(here, await here.login(), browser)
        for user in ("eve", ""):
            response = await browser.post("/authorize", data={**form, "user": user})
            assert response.status_code == 400


async def test_the_page_is_not_of_use_to_another_secret() -> None:
    here, other = Here(), Here(secret="quite another secret of a server")
    login = await here.login()
    async with here.browser() as browser, other.browser() as stranger:
        form = await shown(here, login, browser)
        assert (await stranger.post("/authorize", data=form)).status_code == 400
        assert (await clicked(browser, login)).status_code == 303

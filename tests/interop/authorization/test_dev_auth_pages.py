"""The pages of `DevAuth` in a real browser: its cookies, its rules for forms and frames, and links from other sites."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from mcpkit import Server
from mcpkit.auth import DevAuth, DevUser
from tests.helpers.authority_site import SCOPES, Login
from tests.helpers.browser import Browser, Profile
from tests.helpers.serving import in_thread, in_thread_at


@pytest.fixture
def page(browser: Browser) -> Iterator[Profile]:
    with browser.profile() as profile:
        yield profile


@pytest.fixture
def origin() -> Iterator[str]:
    users = [DevUser("ada"), DevUser("bob", password="right")]
    server = Server("notes", auth=DevAuth(users=users), scopes=SCOPES)
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as url:
        yield url


@pytest.fixture
def client() -> Iterator[str]:
    """A client at another site, with a link to what it is given, and a page that goes on to a third one."""

    async def start(request: Request) -> Response:
        return HTMLResponse(f"<a id=go href='{request.query_params['to']}'>log in</a>")

    async def frame(request: Request) -> Response:
        return HTMLResponse(f"<iframe src='{request.query_params['to']}'></iframe>")

    async def callback(request: Request) -> Response:
        return Response(status_code=302, headers={"Location": f"/end?{request.url.query}"})

    async def end(request: Request) -> Response:
        return HTMLResponse("<p>Logged in</p>")

    pages = {"/start": start, "/frame": frame, "/callback": callback, "/end": end}
    with in_thread(Starlette(routes=[Route(*each) for each in pages.items()])) as url:
        yield url.replace("127.0.0.1", "localhost")


def asked(origin: str, client: str) -> tuple[str, str]:
    """Register a client, and return its authorization request, and its redirect URI."""
    callback = f"{client}/callback"
    metadata = {
        "client_name": "A client",
        "redirect_uris": [callback],
        "token_endpoint_auth_method": "none",
    }
    client_id = httpx2.post(f"{origin}/register", json=metadata).json()["client_id"]
    query = Login(client_id, callback, resource=None, scope="notes:write").query
    return f"{origin}/authorize?{urlencode(query)}", callback


def followed(page: Profile, client: str, request: str) -> None:
    page.open(f"{client}/start?{urlencode({'to': request})}")
    page.follow("#go")


def test_a_click_logs_in_from_a_link_on_another_site(page: Profile, origin: str, client: str) -> None:
    request, callback = asked(origin, client)
    followed(page, client, request)
    assert "Change notes" in page.text()
    assert "localhost" in page.text()
    page.follow("button[value=ada]")
    [came] = [visit["url"] for visit in page.seen() if visit["url"].startswith(callback)]
    answer = dict(parse_qsl(urlsplit(came).query))
    assert answer["code"]
    assert answer["iss"] == origin
    assert page.text() == "Logged in"


def test_a_password_is_asked_for_until_it_is_right(page: Profile, origin: str, client: str) -> None:
    request, _ = asked(origin, client)
    followed(page, client, request)
    for given, shown in (("wrong", "not the password of bob"), ("right", "Logged in")):
        page.fill("[name=password]", given)
        page.follow("button[value=bob]")
        assert shown in page.text()


def test_a_user_says_no(page: Profile, origin: str, client: str) -> None:
    request, _ = asked(origin, client)
    followed(page, client, request)
    page.follow("button[value=deny]")
    assert dict(parse_qsl(urlsplit(page.url()).query))["error"] == "access_denied"


def test_two_pages_of_one_browser_are_answered_in_any_order(page: Profile, origin: str, client: str) -> None:
    first, second = asked(origin, client)[0], asked(origin, client)[0]
    followed(page, client, first)
    shown = page.evaluate("document.querySelector('form').outerHTML")
    followed(page, client, second)
    page.evaluate(f"document.body.insertAdjacentHTML('afterbegin', {shown!r})")
    page.follow("button[value=ada]")  # the first form's
    assert page.text() == "Logged in"


def test_no_site_has_the_page_in_a_frame_and_it_runs_no_script(
    page: Profile, origin: str, client: str
) -> None:
    request, _ = asked(origin, client)
    page.open(f"{client}/frame?{urlencode({'to': request})}")
    assert page.evaluate("document.querySelector('iframe').contentDocument") is None
    followed(page, client, request)
    script = "const it = document.createElement('script'); it.textContent = 'window.ran = 1'; document.body.append(it)"
    page.evaluate(f"(() => {{ {script} }})()")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.querySelector('main')).borderTopStyle") == "solid"

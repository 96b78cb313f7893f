"""The pages of an OAuthProxy and of DevAuth in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from mcpkit import Server
from mcpkit.auth import DevAuth, DevUser
from tests.helpers.browser import Browser, Profile
from tests.helpers.consent_pages import ConsentPages, consent_pages
from tests.helpers.oauth_flow import SCOPES, Login
from tests.helpers.serving import in_thread, in_thread_at

KINDS = ("local", "private", "web", "document", "long", "error")


ALLOW, DENY, BOX = "button[value=allow]", "button[value=deny]", "input[name=remember]"


@pytest.fixture(scope="module")
def pages() -> Iterator[ConsentPages]:
    with consent_pages() as value:
        yield value


@pytest.fixture(scope="module")
def plain() -> Iterator[ConsentPages]:
    with consent_pages(picture=False) as value:
        yield value


@pytest.fixture
def profile(browser: Browser) -> Iterator[Profile]:
    with browser.profile() as value:
        yield value


def test_consent_pages_pass_accessibility_audit(profile, pages, plain):
    for url in [*map(pages.url, KINDS), *map(plain.url, ("local", "error"))]:
        for dark in (False, True):
            for width in (360, 1280):
                profile.show(width, dark=dark)
                profile.open(url)
                findings, passed = profile.audit()
                assert findings == [], f"{url} {width} {dark}"
                assert {"color-contrast", "document-title", "html-has-lang", "landmark-one-main"} <= set(
                    passed
                )


def test_consent_page_loads_no_resources(profile, pages):
    profile.open(pages.url("local"))
    assert profile.evaluate("document.querySelector('header img').naturalWidth") > 0
    assert profile.evaluate("performance.getEntriesByType('resource').length") == 0
    assert profile.evaluate("document.querySelectorAll('script, iframe, object, embed').length") == 0


def remember_consent(profile: Profile, pages: ConsentPages) -> tuple[str, str]:
    callback = f"{pages.client}/callback"
    client_id = pages.registered(callback)
    profile.open(pages.asked(client_id, callback))
    profile.click(BOX)
    profile.follow(ALLOW)
    assert profile.text() == "Done"
    return client_id, callback


def test_remembered_consent_skips_page_on_navigation(profile, pages):
    client_id, callback = remember_consent(profile, pages)
    profile.open(pages.asked(client_id, callback))
    assert profile.text() == "Done"
    profile.open(pages.asked(pages.registered(callback), callback))
    assert "Allow" in profile.text()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_remembered_consent_shows_page_for_links_scripts_and_frames(profile, pages, host):
    client_id, callback = remember_consent(profile, pages)
    url = pages.asked(client_id, callback)
    start = f"{pages.client.replace('127.0.0.1', host)}/start?{urlencode({'to': url})}"

    profile.open(start)
    profile.follow("#go")
    assert "Allow" in profile.text()
    for script in (
        f"location.href = {url!r}",
        f"window.open({url!r}, '_self')",
        "document.querySelector('#go').rel = 'noreferrer'; document.querySelector('#go').click()",
    ):
        profile.open(start)
        profile.evaluate(f"(() => {{ {script} }})()")
        profile.first("h1")
        assert "Allow" in profile.text("h1")
    profile.open(start)
    profile.evaluate(
        "(to => new Promise(done => { const it = document.createElement('iframe'); it.onload = done; it.src = to; "
        f"document.body.append(it) }}))({url!r})"
    )
    assert not [visit for visit in profile.seen()[-1:] if "code=" in visit["url"]]
    profile.open(url)  # what was remembered is still there: it was not asked for by a page
    assert profile.text() == "Done"


def test_consent_page_is_not_readable_by_other_origins(profile, pages):
    url = pages.url("web")
    profile.open(f"{pages.client.replace('127.0.0.1', 'elsewhere.localhost')}/callback")
    read = f"fetch({url!r}).then(it => it.text()).catch(error => 'refused')"
    assert profile.evaluate(read) == "refused"
    metadata = f"{pages.origin}/.well-known/oauth-authorization-server"
    assert (
        profile.evaluate(f"fetch({metadata!r}).then(it => it.json()).then(it => it.issuer)") == pages.origin
    )


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


def authorize_url(origin: str, client: str) -> tuple[str, str]:
    callback = f"{client}/callback"
    metadata = {"client_name": "A client", "redirect_uris": [callback], "token_endpoint_auth_method": "none"}
    client_id = httpx2.post(f"{origin}/register", json=metadata).json()["client_id"]
    query = Login(client_id, callback, resource=None, scope="notes:write").query
    return f"{origin}/authorize?{urlencode(query)}", callback


def follow_link(page: Profile, client: str, request: str) -> None:
    page.open(f"{client}/start?{urlencode({'to': request})}")
    page.follow("#go")


def test_dev_auth_page_has_no_frame_and_no_script(page, origin, client):
    request, _ = authorize_url(origin, client)
    page.open(f"{client}/frame?{urlencode({'to': request})}")
    assert page.evaluate("document.querySelector('iframe').contentDocument") is None
    follow_link(page, client, request)
    script = "const it = document.createElement('script'); it.textContent = 'window.ran = 1'; document.body.append(it)"
    page.evaluate(f"(() => {{ {script} }})()")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.querySelector('main')).borderTopStyle") == "solid"

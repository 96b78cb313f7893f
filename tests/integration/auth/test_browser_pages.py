"""The pages of an OAuthProxy and of DevAuth in a real browser."""

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
from tests.helpers.browser import Browser, Profile
from tests.helpers.consent_pages import ConsentPages, consent_pages
from tests.helpers.oauth_flow import SCOPES, Login
from tests.helpers.serving import in_thread, in_thread_at
from tests.helpers.tables import each_row

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


@each_row(
    ("kind", "width", "size"),
    [
        (kind, *size)
        for kind in KINDS
        for size in [(360, "100%"), (320, "100%"), (640, "200%"), (360, "200%")]
    ],
)
def test_consent_pages_fit_narrow_windows(profile, pages, kind, width, size):
    profile.show(width)
    profile.open(pages.url(kind))
    profile.evaluate(f"document.documentElement.style.fontSize = '{size}'")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert profile.evaluate(wide) == 0
    outside = f"[...document.querySelectorAll('body *')].filter(each => each.getBoundingClientRect().right > {width})"
    assert profile.evaluate(f"{outside}.map(each => each.outerHTML)") == []


def focused(profile: Profile) -> str:
    value: str = profile.evaluate("document.activeElement.value ?? document.activeElement.tagName")
    return value


@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_consent_page_by_keyboard(profile, pages, answer):
    profile.show(1280)
    profile.open(pages.url("web"))
    assert focused(profile) == "BODY"  # nothing is answered by whoever hits a key too early
    focused_values = []
    for _ in range(2):
        profile.press("Tab")
        focused_values.append(focused(profile))
        outline = "getComputedStyle(document.activeElement)"
        assert profile.evaluate(f"{outline}.outlineStyle") == "solid"
        assert profile.evaluate(f"parseFloat({outline}.outlineWidth)") >= 2
        if focused_values[-1] == answer:
            break
    assert focused_values == ["allow", "deny"][: len(focused_values)]
    profile.press("Shift+Tab") if answer == "deny" else profile.press("Tab")
    profile.press("Tab") if answer == "deny" else profile.press("Shift+Tab")
    profile.enter()
    callbacks = [visit["url"] for visit in profile.seen() if "assistant.example.com/callback" in visit["url"]]
    params = dict(parse_qsl(urlsplit(callbacks[-1]).query))
    assert ("code" in params) == (answer == "allow")
    assert params.get("error") == (None if answer == "allow" else "access_denied")
    assert params["iss"] == pages.origin


def test_consent_page_buttons_have_equal_size(profile, pages):
    for width in (360, 1280):
        profile.show(width)
        profile.open(pages.url("local"))
        box = "(it => [it.width, it.height])(document.querySelector('{}').getBoundingClientRect())"
        allow, deny = (profile.evaluate(box.format(each)) for each in (ALLOW, DENY))
        assert deny == pytest.approx(allow)
        assert deny[1] >= 44


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


def test_dev_auth_page_logs_in_from_link(page, origin, client):
    request, callback = authorize_url(origin, client)
    follow_link(page, client, request)
    assert "Change notes" in page.text()
    assert "localhost" in page.text()
    page.follow("button[value=ada]")
    [callback] = [visit["url"] for visit in page.seen() if visit["url"].startswith(callback)]
    answer = dict(parse_qsl(urlsplit(callback).query))
    assert answer["code"]
    assert answer["iss"] == origin
    assert page.text() == "Logged in"


def test_dev_auth_page_has_no_frame_and_no_script(page, origin, client):
    request, _ = authorize_url(origin, client)
    page.open(f"{client}/frame?{urlencode({'to': request})}")
    assert page.evaluate("document.querySelector('iframe').contentDocument") is None
    follow_link(page, client, request)
    script = "const it = document.createElement('script'); it.textContent = 'window.ran = 1'; document.body.append(it)"
    page.evaluate(f"(() => {{ {script} }})()")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.querySelector('main')).borderTopStyle") == "solid"

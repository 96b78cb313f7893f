"""The pages of an OAuthProxy and of DevAuth in a real browser."""

from collections.abc import Iterator
from itertools import product
from urllib.parse import urlencode

import httpx2
import pytest
from starlette.responses import HTMLResponse

from mcpkit import Server
from mcpkit.auth import DevAuth, DevUser
from tests.helpers.authorization_server import ConsentPages, consent_pages
from tests.helpers.browser import Profile
from tests.helpers.oauth_flow import Login, form_of
from tests.helpers.serving import in_thread, in_thread_at

ALLOW, REMEMBER = "button[value=allow]", "input[name=remember]"
CHECKS = {"color-contrast", "document-title", "html-has-lang", "landmark-one-main"}


@pytest.fixture(scope="module")
def pages() -> Iterator[ConsentPages]:
    with consent_pages() as value:
        yield value


@pytest.fixture(scope="module")
def dev_auth(pages: ConsentPages) -> Iterator[str]:
    """The URL of the login page of `DevAuth`, where only ada has a password."""
    server = Server("notes", auth=DevAuth(users=[DevUser("ada", password="secret"), "bob"]))
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        callback = f"{pages.client}/callback"
        metadata = {"redirect_uris": [callback], "token_endpoint_auth_method": "none"}
        client_id = httpx2.post(f"{origin}/register", json=metadata).json()["client_id"]
        yield f"{origin}/authorize?{urlencode(Login(client_id, callback, resource=None).query)}"


@pytest.mark.parametrize("kind", ["local", "private", "web", "document", "long", "error", "dev_auth"])
def test_consent_page_passes_accessibility_audit(page, pages, dev_auth, kind):
    for width, dark in product((360, 1280), (False, True)):
        page.show(width, dark=dark)
        page.open(dev_auth if kind == "dev_auth" else pages.url(kind))
        findings, passed = page.audit()
        assert findings == [], f"{width} {dark}"
        assert set(passed) >= CHECKS
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("kind", "keys", "result"), [
    ("proxy", ["Tab", "Space", "Tab"], "code="),
    ("proxy", ["Tab", "Tab", "Tab"], "error=access_denied"),
    ("dev_auth", ["Tab", *"secret", "Tab"], "code="),
    ("dev_auth", ["Tab", "Tab", "Tab", "Tab"], "error=access_denied"),
])  # fmt: skip
def test_consent_page_is_usable_by_keyboard(page, pages, dev_auth, kind, keys, result):
    callback = f"{pages.client}/callback"
    page.show(360)
    page.open(dev_auth if kind == "dev_auth" else pages.authorize_url(pages.registered(callback), callback))
    for key in keys:
        page.press(key)
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", key
    page.follow_by_key("Enter")
    assert page.history()[-1]["url"].startswith(f"{callback}?{result}")


def test_consent_page_loads_no_resources(page, pages):
    page.open(pages.url("local"))
    assert page.evaluate("document.querySelector('header img').naturalWidth") > 0
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert page.evaluate("document.querySelectorAll('script, iframe, object, embed').length") == 0


def open_frame(url: str) -> str:
    """Return a script that opens a frame in the page, and returns whether the page can read it."""
    return (
        "new Promise(done => { const frame = document.createElement('iframe'); frame.src = "
        f"{url!r}; frame.onload = () => done(frame.contentDocument !== null); document.body.append(frame) }})"
    )


@pytest.mark.parametrize("kind", ["proxy", "dev_auth"])
def test_page_runs_no_script_and_is_not_framed(page, pages, dev_auth, kind):
    url = dev_auth if kind == "dev_auth" else pages.url("local")
    page.open(url)
    script = "const it = document.createElement('script'); it.textContent = 'window.ran = 1'; document.body.append(it)"
    page.evaluate(f"(() => {{ {script} }})()")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.querySelector('main')).borderTopStyle") == "solid"
    # From a page of the same origin, which could look into the frame.
    metadata = url.partition("/authorize")[0] + "/.well-known/oauth-authorization-server"
    page.open(metadata)
    assert page.evaluate(open_frame(metadata)) is True
    assert page.evaluate(open_frame(url)) is False


def test_form_from_another_site_is_rejected(page, pages):
    """A page elsewhere sends the form that the attacker was shown, from a browser that was shown the page as well."""
    url = pages.url("web")
    form = form_of(httpx2.get(url, trust_env=False, timeout=30))
    fields = "".join(f"<input name={name} value='{value}'>" for name, value in form.items())
    text = f"<form method=post action='{pages.origin}/authorize'>{fields}<button id=go>A present!</button></form>"
    page.open(url)
    with in_thread(HTMLResponse(text)) as elsewhere:
        page.open(elsewhere.replace("127.0.0.1", "localhost"))
        page.follow("#go")
    assert page.history()[-1]["url"] == f"{pages.origin}/authorize"
    assert "another" in page.text()


def remember_consent(page: Profile, pages: ConsentPages) -> str:
    """Allow a new client, have that remembered, and return the URL of its login."""
    callback = f"{pages.client}/callback"
    url = pages.authorize_url(pages.registered(callback), callback)
    page.open(url)
    page.click(REMEMBER)
    page.follow(ALLOW)
    assert page.text() == "Done"
    return url


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_saved_consent_shows_page_for_links_scripts_and_frames(page, pages, host):
    url = remember_consent(page, pages)
    start = f"{pages.client.replace('127.0.0.1', host)}/start?{urlencode({'to': url})}"
    page.open(start)
    page.follow("#go")
    assert "Allow" in page.text()
    for script in (
        f"location.href = {url!r}",
        f"window.open({url!r}, '_self')",
        "document.querySelector('#go').rel = 'noreferrer'; document.querySelector('#go').click()",
    ):
        page.open(start)
        page.evaluate(f"(() => {{ {script} }})()")
        page.first("h1")
        assert "Allow" in page.text("h1")
    page.open(start)
    page.evaluate(open_frame(url))
    assert not [visit for visit in page.history()[-1:] if "code=" in visit["url"]]
    # Consent is still remembered where the browser opens the URL itself, for this client alone.
    page.open(url)
    assert page.text() == "Done"
    callback = f"{pages.client}/callback"
    page.open(pages.authorize_url(pages.registered(callback), callback))
    assert "Allow" in page.text()

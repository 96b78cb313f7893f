"""The pages of an `OAuthProxy` in a real browser: who can use them, and what the browser itself says of requests."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.helpers.browser import Browser, Profile
from tests.helpers.consent_pages import ConsentPages, consent_pages

KINDS = ("local", "private", "web", "document", "long", "error")
ALLOW, DENY, BOX = "button[value=allow]", "button[value=deny]", "input[name=remember]"


@pytest.fixture(scope="module")
def pages() -> Iterator[ConsentPages]:
    with consent_pages() as found:
        yield found


@pytest.fixture(scope="module")
def plain() -> Iterator[ConsentPages]:
    with consent_pages(picture=False) as found:
        yield found


@pytest.fixture
def profile(browser: Browser) -> Iterator[Profile]:
    with browser.profile() as found:
        yield found


def test_nothing_keeps_anybody_from_using_the_pages(
    profile: Profile, pages: ConsentPages, plain: ConsentPages
) -> None:
    """In both schemes, on a phone and at a desk, with and without a picture."""
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


def test_what_finds_faults_would_find_them(profile: Profile, pages: ConsentPages) -> None:
    profile.open(pages.url("local"))
    profile.evaluate(f"document.querySelector('{DENY}').textContent = ''")
    profile.evaluate("document.querySelector('dt').style.color = '#999'")
    findings, _ = profile.audit()
    assert [finding.split()[1] for finding in findings] == ["button-name:", "color-contrast:"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "size"), [(360, "100%"), (320, "100%"), (640, "200%"), (360, "200%")])
def test_nobody_has_to_scroll_sideways(
    profile: Profile, pages: ConsentPages, kind: str, width: int, size: str
) -> None:
    """320 pixels are a phone, or a window of 640 at 200 %; with letters twice as large as well."""
    profile.show(width)
    profile.open(pages.url(kind))
    profile.evaluate(f"document.documentElement.style.fontSize = '{size}'")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert profile.evaluate(wide) == 0
    outside = f"[...document.querySelectorAll('body *')].filter(each => each.getBoundingClientRect().right > {width})"
    assert profile.evaluate(f"{outside}.map(each => each.outerHTML)") == []


def focused(profile: Profile) -> str:
    found: str = profile.evaluate("document.activeElement.value ?? document.activeElement.tagName")
    return found


@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_the_keyboard_is_enough(profile: Profile, pages: ConsentPages, answer: str) -> None:
    profile.show(1280)
    profile.open(pages.url("web"))
    assert focused(profile) == "BODY"  # nothing is answered by whoever hits a key too early
    walked = []
    for _ in range(2):
        profile.press("Tab")
        walked.append(focused(profile))
        outline = "getComputedStyle(document.activeElement)"
        assert profile.evaluate(f"{outline}.outlineStyle") == "solid"
        assert profile.evaluate(f"parseFloat({outline}.outlineWidth)") >= 2
        if walked[-1] == answer:
            break
    assert walked == ["allow", "deny"][: len(walked)]
    profile.press("Shift+Tab") if answer == "deny" else profile.press("Tab")
    profile.press("Tab") if answer == "deny" else profile.press("Shift+Tab")
    profile.enter()
    came = [visit["url"] for visit in profile.seen() if "assistant.example.com/callback" in visit["url"]]
    said = dict(parse_qsl(urlsplit(came[-1]).query))
    assert ("code" in said) == (answer == "allow")
    assert said.get("error") == (None if answer == "allow" else "access_denied")
    assert said["iss"] == pages.origin


def test_no_is_as_easy_to_hit_as_yes(profile: Profile, pages: ConsentPages) -> None:
    for width in (360, 1280):
        profile.show(width)
        profile.open(pages.url("local"))
        box = "(it => [it.width, it.height])(document.querySelector('{}').getBoundingClientRect())"
        allow, deny = (profile.evaluate(box.format(each)) for each in (ALLOW, DENY))
        assert deny == pytest.approx(allow)
        assert deny[1] >= 44


def test_a_picture_is_shown_and_nothing_is_asked_of_anybody(profile: Profile, pages: ConsentPages) -> None:
    profile.open(pages.url("local"))
    assert profile.evaluate("document.querySelector('header img').naturalWidth") > 0
    assert profile.evaluate("performance.getEntriesByType('resource').length") == 0
    assert profile.evaluate("document.querySelectorAll('script, iframe, object, embed').length") == 0


# What is remembered, by what the browser itself says of requests


def remembering(profile: Profile, pages: ConsentPages) -> tuple[str, str]:
    """Allow a client on the page, with the box ticked; return its id and where it listens."""
    callback = f"{pages.client}/callback"
    client_id = pages.registered(callback)
    profile.open(pages.asked(client_id, callback))
    profile.click(BOX)
    profile.follow(ALLOW)
    assert profile.text() == "Done"
    return client_id, callback


def test_who_has_ticked_the_box_is_not_asked_where_a_program_opens_the_browser(
    profile: Profile, pages: ConsentPages
) -> None:
    client_id, callback = remembering(profile, pages)
    profile.open(pages.asked(client_id, callback))
    assert profile.text() == "Done"
    profile.open(pages.asked(pages.registered(callback), callback))
    assert "Allow" in profile.text()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_link_a_form_a_script_and_a_frame_of_a_page_are_asked(
    profile: Profile, pages: ConsentPages, host: str
) -> None:
    """Of another site, and of another origin of the same one."""
    client_id, callback = remembering(profile, pages)
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


def test_the_pages_are_those_of_one_origin(profile: Profile, pages: ConsentPages) -> None:
    """A page of another site reads what is for programs, and nothing else."""
    url = pages.url("web")
    profile.open(f"{pages.client.replace('127.0.0.1', 'elsewhere.localhost')}/callback")
    read = f"fetch({url!r}).then(it => it.text()).catch(error => 'refused')"
    assert profile.evaluate(read) == "refused"
    metadata = f"{pages.origin}/.well-known/oauth-authorization-server"
    assert (
        profile.evaluate(f"fetch({metadata!r}).then(it => it.json()).then(it => it.issuer)") == pages.origin
    )

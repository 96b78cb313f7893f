"""What the page of a login says of a client that has written its own name and addresses."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from mcpkit import Scope
from mcpkit.auth import DevClient
from tests.helpers.authority_site import CALLBACK, Forms, Here, Login, code_of

pytestmark = pytest.mark.anyio


async def shown(here: Here, login: Login) -> str:
    async with here.browser() as browser:
        page = await browser.get("/authorize", params=login.query)
    assert page.status_code == 200, page.text
    return page.text


async def registered(here: Here, name: str = "Cursor", uri: str = CALLBACK, **query: Any) -> str:
    """The page for a client that has registered itself."""
    found = await here.registered(client_name=name, redirect_uris=[uri])
    return await shown(here, Login(found["client_id"], uri, **query))


def heading(page: str) -> str:
    [found] = re.findall("<h1>(.*)</h1>", page)
    return str(found)


async def test_the_title_comes_first_and_is_the_heading() -> None:
    page = await registered(Here())
    assert heading(page) == "Allow \u201c\u2068Cursor\u2069\u201d to use notes?"
    assert f"<title>{heading(page)}</title>" in page
    assert page.startswith('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>')
    assert "<script" not in page


@pytest.mark.parametrize(
    ("name", "said"),
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
async def test_a_name_can_neither_hide_nor_turn_anything(name: str, said: str) -> None:
    page = await registered(Here(), name)
    said = said.replace("'", "&#x27;")
    assert heading(page) == f"Allow \u201c\u2068{said}\u2069\u201d to use notes?"
    assert f"<strong><bdi>{said}</bdi></strong>" in page


@pytest.mark.parametrize(
    ("uri", "host", "where"),
    [
        (CALLBACK, "127.0.0.1:3000", "A program on this device"),
        ("http://localhost/cb", "localhost", "A program on this device"),
        ("http://[::1]:7/cb", "[::1]:7", "A program on this device"),
        ("cursor://vendor.x/cb", "cursor:", "Whatever opens cursor: links on this device"),
        ("https://claude.com/cb", "claude.com", "Whoever runs that site"),
        ("https://app.example:8443/cb", "app.example:8443", "Whoever runs that site"),
        ("https://cIaude.ai/cb", "ciaude.ai", "Whoever runs that site"),
        ("https://xn--80ak6aa92e.com/cb", "xn--80ak6aa92e.com", "Whoever runs that site"),
        ("https://claude.ai.evil.example/cb", "claude.ai.evil.example", "Whoever runs that site"),
    ],
)
async def test_where_the_user_is_sent_stands_there_as_it_is(uri: str, host: str, where: str) -> None:
    """No capital I that looks like an l, and no letters of other alphabets."""
    page = await registered(Here(), uri=uri)
    assert f'<strong class="host">{host}</strong><small>{where}' in page
    assert ("Have you just started this yourself?" in page) == ("on this device" in where)


async def test_who_vouches_for_the_name_is_said() -> None:
    assert "nobody has checked it" in await registered(Here())
    by_hand = Here(clients=[DevClient("ci", redirect_uris=[CALLBACK])])
    assert "Whoever runs this server vouches" in await shown(by_hand, Login("ci"))
    url = "https://cIient.example/client.json"
    document = {"client_id": url, "client_name": "Cursor", "redirect_uris": [CALLBACK]}
    web = httpx2.MockTransport(lambda _: httpx2.Response(200, json=document))
    by_document = Here(documents=lambda: httpx2.AsyncClient(transport=web))
    page = await shown(by_document, Login(url))
    assert "<b>ciient.example</b> vouches for that name" in page
    assert (
        "Have you just started this yourself?" in page
    )  # a document does not make this machine's programs others'


async def test_scopes_are_said_in_words() -> None:
    page = await registered(Here(), scope="notes:write notes:admin")
    for said in ("Change notes", "Administer all notes", "(notes:admin)"):
        assert said in page
    marked = Here(scopes={"a": Scope("Read <all>", default=True)})
    assert "Read &lt;all&gt; <small>(a)</small>" in await registered(marked, scope=None)
    assert "it may use notes in your name" in await registered(Here(scopes={}), scope=None)


@pytest.mark.limit("pages of logins in one browser")
async def test_a_site_that_opens_page_after_page_leaves_ten_cookies() -> None:
    """More would fill the header of each request of that browser, until none is answered."""
    here = Here()
    logins = [await here.login() for _ in range(25)]
    async with here.browser() as browser:
        pages = [await browser.get("/authorize", params=login.query) for login in logins]
        assert len(browser.cookies) == 10
        answers = [await browser.post("/authorize", data=Forms(page.text).forms[0]) for page in pages[-10:]]
        assert all(map(code_of, answers))
        refused = await browser.post("/authorize", data=Forms(pages[0].text).forms[0])
    assert (refused.status_code, "another browser" in refused.text) == (403, True)


async def test_other_cookies_of_the_site_stay() -> None:
    here = Here()
    async with here.browser() as browser:
        for name in ("session", "mcpkit-remembered-12345678", "mcpkit-login-" + "x" * 22, "mcpkit-x"):
            browser.cookies.set(name, "1", domain="127.0.0.1", path="/")
        for _ in range(20):
            page = await browser.get("/authorize", params=(await here.login()).query)
        told = [each.partition("=")[0] for each in page.headers.get_list("set-cookie")]
    assert len(told) == 2  # the new one, and the oldest
    assert all(re.fullmatch(r"mcpkit-[A-Za-z0-9_-]{35}", each) for each in told)

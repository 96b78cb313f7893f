"""Clickjacking and forged forms, in a real browser: what the headers and cookies say is what Chromium does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpkit import Server
from mcpkit.auth import OAuthProxy, Upstream
from mcpkit.auth.authority.consent import Consent
from tests.helpers.authority_site import Login
from tests.helpers.browser import Browser, Profile
from tests.helpers.serving import in_thread, in_thread_at
from tests.helpers.two_browsers import form_of

PROVIDER = "http://127.0.0.1:9/provider"


class Around:
    """The server, beside a page of the attacker's at the same origin, so that the page can look into its frame.

    Args:
        app: The server.
        is_guarded: Whether the headers that are about frames reach the browser.
    """

    def __init__(self, app: ASGIApp, *, is_guarded: bool) -> None:
        self._app = app
        self._is_guarded = is_guarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/frame":
            to = escape(Request(scope).query_params["to"])
            await HTMLResponse(f"<iframe src='{to}'></iframe>")(scope, receive, send)
            return

        async def unguarded(message: Message) -> None:
            if message["type"] == "http.response.start" and not self._is_guarded:
                about_frames = {b"x-frame-options", b"content-security-policy"}
                message["headers"] = [each for each in message["headers"] if each[0] not in about_frames]
            await send(message)

        await self._app(scope, receive, unguarded)


@contextmanager
def served(*, is_guarded: bool) -> Iterator[str]:
    upstream = Upstream.oauth(
        PROVIDER,
        "client",
        "secret",
        authorization_endpoint=f"{PROVIDER}/authorize",
        token_endpoint=f"{PROVIDER}/token",
        userinfo_endpoint=f"{PROVIDER}/userinfo",
    )
    server = Server("notes", auth=OAuthProxy(upstream), secret="a secret that is long enough")

    def made(origin: str) -> Any:
        return Around(server.asgi(public_url=f"{origin}/mcp"), is_guarded=is_guarded)

    with in_thread_at(made) as origin:
        yield origin


@pytest.fixture
def page(browser: Browser) -> Iterator[Profile]:
    with browser.profile() as profile:
        yield profile


def asked(origin: str) -> str:
    """Register the attacker's client, and return its request."""
    metadata = {"redirect_uris": ["https://evil.example/callback"], "token_endpoint_auth_method": "none"}
    client_id = httpx2.post(f"{origin}/register", json=metadata, trust_env=False, timeout=30).json()[
        "client_id"
    ]
    query = Login(client_id, "https://evil.example/callback", resource=None).query
    return f"{origin}/authorize?{urlencode(query)}"


SHOWN = (
    "document.querySelector('iframe').contentDocument?.querySelector('[value=allow]')?.textContent ?? null"
)


def test_a_frame_stays_empty(page: Profile) -> None:
    for is_guarded in (True, False):
        with served(is_guarded=is_guarded) as origin:
            page.open(f"{origin}/frame?{urlencode({'to': asked(origin)})}")
            shown = page.evaluate(SHOWN)
            assert (shown is None) == is_guarded


def test_a_form_that_another_site_sends_is_refused(page: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The victim's browser has been shown the page, and a page elsewhere sends the form of it that the attacker has."""
    from mcpkit.auth.authority.asked import opened
    from mcpkit.auth.authority.parameters import of_form

    async def answered(self: Consent, request: Request) -> Any:
        form = await of_form(request)
        return opened(form.require("request"), self._keys, self._clock), form

    def attack(origin: str) -> str:
        url = asked(origin)
        shown = httpx2.get(url, trust_env=False, timeout=30)
        form = form_of(shown)
        page.open(url)
        fields = "".join(f"<input name={name} value='{value}'>" for name, value in form.items())
        text = (
            f"<form method=post action='{origin}/authorize'>{fields}<button id=go>A present!</button></form>"
        )

        async def present(scope: Scope, receive: Receive, send: Send) -> None:
            await HTMLResponse(text)(scope, receive, send)

        with in_thread(present) as elsewhere:
            page.open(elsewhere.replace("127.0.0.1", "localhost"))
            page.follow("#go")
            return page.seen()[-1]["url"]

    with served(is_guarded=True) as origin:
        assert attack(origin) == f"{origin}/authorize"
        assert "another" in page.text()
        monkeypatch.setattr(Consent, "answered", answered)
        assert urlsplit(attack(origin)).path == "/provider/authorize"


def test_a_redirect_of_another_site_looks_as_if_a_program_had_opened_us(page: Profile) -> None:
    """Why `Sec-Fetch-Site: none` alone is no guard of what is remembered; see `test_remembered.py`."""
    heard: list[str | None] = []

    async def ours(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/authorize":
            heard.append(Request(scope).headers.get("sec-fetch-site"))
        await HTMLResponse("Ours")(scope, receive, send)

    with in_thread(ours) as origin:

        async def between(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] == "/redirect":
                await RedirectResponse(f"{origin}/authorize", 302)(scope, receive, send)
            else:
                await HTMLResponse(f"<a id=go href='{origin}/authorize'>on</a>")(scope, receive, send)

        with in_thread(between) as elsewhere:
            there = elsewhere.replace("127.0.0.1", "localhost")
            page.open(f"{there}/redirect")
            page.open(f"{there}/page")
            page.follow("#go")
    assert heard == ["none", "cross-site"]

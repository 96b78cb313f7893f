"""A mix-up of authorization servers against the client, and attacks in a real browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpkit import Client, Server
from mcpkit.auth import OAuthProxy, UpstreamProvider
from mcpkit.auth.authority.consent import Consent
from mcpkit.client import LocalCallbackServer, MemoryTokens, OAuth
from mcpkit.client.authorization.code_flow import AuthorizationRequest
from mcpkit.exceptions import AuthorizationError, TransportError
from tests.auth.proxy.world import Browser, Internet, World, form_of
from tests.helpers.authorization_server import Site
from tests.helpers.browser import Browser as RealBrowser
from tests.helpers.browser import Profile
from tests.helpers.oauth_flow import Login
from tests.helpers.serving import in_thread, in_thread_at


class Attacker:
    """The attacker's server and authorization server, of which the latter hands everything on to ours.

    Attributes:
        received: What came to its token endpoint.
    """

    def __init__(self, ours: str) -> None:
        self.got: list[dict[str, str]] = []
        self._ours = ours
        site = Site(issuer={"authorization_response_iss_parameter_supported": None})
        self.app = Starlette(
            routes=[
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Mount("/", site.app()),
            ]
        )

    async def _register(self, request: Request) -> Response:
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as machine:
            answer = await machine.post(f"{self._ours}/register", json=await request.json())
        return JSONResponse(answer.json(), answer.status_code)

    async def _authorize(self, request: Request) -> Response:
        query = {**request.query_params, "resource": f"{self._ours}/mcp"}
        return RedirectResponse(f"{self._ours}/authorize?{urlencode(query)}", 302)

    async def _token(self, request: Request) -> Response:
        self.got.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"error": "server_error"}, 400)


@contextmanager
def serve_both() -> Iterator[tuple[World, str, Attacker, str]]:
    """Serve ours and the attacker's: the world and where it is, the attacker and where they are."""
    worlds: list[World] = []

    def ours(origin: str) -> Any:
        worlds.append(World(origin=origin))
        return worlds[0].app

    with in_thread_at(ours) as origin:
        # One server after the other: threads that parse Python at once break each other (CPython 3.11).
        httpx2.get(f"{origin}/jwks.json", trust_env=False, timeout=30).raise_for_status()
        attacker = Attacker(origin)
        with in_thread(attacker.app) as evil:
            httpx2.get(f"{evil}/.well-known/oauth-authorization-server", trust_env=False, timeout=30)
            yield worlds[0], origin, attacker, evil


async def attack_client() -> tuple[str | None, list[dict[str, str]], Exception]:
    """Return whose notes the attacker can read in the end, what they received, and what the victim's client says."""
    with serve_both() as (world, origin, attacker, evil):

        async def visit(url: str) -> None:
            async with Browser(Internet(world.hosts, has_sockets=True)) as browser:
                session = world.session("ada")
                browser.cookies.set("__Host-session", session, domain="id.example.net")
                page = await browser.follow(await browser.get(url), until="none")
                sent = await browser.post(
                    f"{origin}/authorize", data=form_of(page), headers={"Origin": origin}
                )
                await browser.follow(sent)

        auth = OAuth(browser=LocalCallbackServer(open_browser=visit), storage=MemoryTokens())
        with pytest.raises((AuthorizationError, TransportError)) as caught:
            async with Client(f"{evil}/mcp", auth=auth) as client:
                await client.call_tool("anything")
        found = None
        if attacker.got:
            async with httpx2.AsyncClient(trust_env=False, timeout=30) as machine:
                tokens = await machine.post(
                    f"{origin}/token", data={**attacker.got[-1], "resource": f"{origin}/mcp"}
                )
            assert tokens.status_code == 200, tokens.text
            grant = await world.auth.verify(tokens.json()["access_token"], f"{origin}/mcp")
            found = grant.principal.subject
        return found, attacker.got, caught.value


@pytest.mark.anyio
async def test_client_rejects_code_of_another_issuer(monkeypatch):
    found, received, error = await attack_client()
    assert (found, received) == (None, [])
    assert "`iss`" in str(error)

    def unchecked_code(self: AuthorizationRequest, answer: Mapping[str, str]) -> str:
        return answer["code"]

    monkeypatch.setattr(AuthorizationRequest, "code", unchecked_code)
    found, received, _ = await attack_client()
    assert found == "ada"
    assert received


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
    upstream = UpstreamProvider.oauth(
        PROVIDER,
        "client",
        "secret",
        authorization_endpoint=f"{PROVIDER}/authorize",
        token_endpoint=f"{PROVIDER}/token",
        userinfo_endpoint=f"{PROVIDER}/userinfo",
    )
    server = Server("notes", auth=OAuthProxy(upstream), secret_key="a secret that is long enough")

    def made(origin: str) -> Any:
        return Around(server.asgi(public_url=f"{origin}/mcp"), is_guarded=is_guarded)

    with in_thread_at(made) as origin:
        yield origin


@pytest.fixture
def page(browser: RealBrowser) -> Iterator[Profile]:
    with browser.profile() as profile:
        yield profile


def authorize_url(origin: str) -> str:
    """Register the attacker's client, and return its request."""
    metadata = {"redirect_uris": ["https://evil.example/callback"], "token_endpoint_auth_method": "none"}
    client_id = httpx2.post(f"{origin}/register", json=metadata, trust_env=False, timeout=30).json()[
        "client_id"
    ]
    query = Login(client_id, "https://evil.example/callback", resource=None).query
    return f"{origin}/authorize?{urlencode(query)}"


FRAME_CONTENT = (
    "document.querySelector('iframe').contentDocument?.querySelector('[value=allow]')?.textContent ?? null"
)


def test_consent_page_is_not_framed(page):
    for is_guarded in (True, False):
        with served(is_guarded=is_guarded) as origin:
            page.open(f"{origin}/frame?{urlencode({'to': authorize_url(origin)})}")
            shown = page.evaluate(FRAME_CONTENT)
            assert (shown is None) == is_guarded


def test_browser_form_from_another_site_is_rejected(page, monkeypatch):
    """The victim's browser has been shown the page, and a page elsewhere sends the form of it that the attacker has."""
    from mcpkit.auth.authority.asked import opened
    from mcpkit.auth.authority.parameters import of_form

    async def answered(self: Consent, request: Request) -> Any:
        form = await of_form(request)
        return opened(form.require("request"), self._keys, self._clock), form

    def attack(origin: str) -> str:
        url = authorize_url(origin)
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

"""An authorization server in this process, with clients and browsers that a test drives."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
from starlette.applications import Starlette

from mcpkit import Scope
from mcpkit.auth import Audit, DevClient, DevUser, Grant, Site
from mcpkit.auth.authority.client_documents import ClientDocuments
from mcpkit.auth.authority.dev_auth import made
from mcpkit.state.keys import Keys
from mcpkit.state.memory import Memory
from mcpkit.state.scopes import Scopes
from tests.helpers.clock import Clock

ORIGIN = "http://127.0.0.1:8000"
MCP = f"{ORIGIN}/mcp"
SSE = f"{ORIGIN}/sse"
CALLBACK = "http://127.0.0.1:3000/callback"
SECRET = "a secret of the tests, long enough"
SCOPES: Mapping[str, Scope | str] = {
    "notes:read": Scope("Read notes", default=True),
    "notes:write": Scope("Change notes", implies=["notes:read"]),
    "notes:admin": Scope("Administer all notes", implies=["notes:write"]),
}


def site(
    *,
    shared: Any = None,
    secret: Any = SECRET,
    scopes: Mapping[str, Scope | str] = SCOPES,
    origin: str = ORIGIN,
) -> Site:
    """Where a server is served that takes the tokens."""
    urls = (f"{origin}/mcp", f"{origin}/sse")
    keys = Keys(secret, "notes")
    kept = Memory() if shared is None else shared
    return Site(urls[0], urls, "notes", keys, Scopes(scopes), kept, Audit(lambda: keys))


class Forms(HTMLParser):
    """The forms of a page: fields and buttons with their values, but for what has to be ticked."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form":
            assert found == {"method": "post"}
            self.forms.append({})
        elif tag in {"input", "button"} and found.get("type") != "checkbox":
            self.forms[-1][found["name"] or ""] = found.get("value") or ""
        elif tag == "a":
            self.links.append(found["href"] or "")


class Login:
    """One login, from the client's side: its verifier, its state, and what came back."""

    def __init__(self, client_id: str, redirect_uri: str = CALLBACK, **more: Any) -> None:
        self.client_id = client_id
        self.redirect_uri = redirect_uri
        self.verifier = secrets.token_urlsafe(32)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        self.query: dict[str, Any] = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "state": secrets.token_urlsafe(8),
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": MCP,
            **more,
        }
        self.query = {name: value for name, value in self.query.items() if value is not None}

    def form(self, code: str, /, **more: Any) -> dict[str, Any]:
        """What the client asks the token endpoint."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "client_id": self.client_id,
            "code_verifier": self.verifier,
            **more,
        }
        return {name: value for name, value in form.items() if value is not None}


class Here:
    """An authorization server, of which several processes may be: those with the same store and secret.

    Args:
        users: Its users.
        clients: Its clients by hand.
        clock: The time.
        documents: Makes what fetches the documents of clients.
        more: For `site`.
    """

    def __init__(
        self,
        users: Iterable[DevUser] = (DevUser("ada"),),
        *,
        clients: Iterable[DevClient] = (),
        clock: Clock | None = None,
        documents: Any = None,
        lifetime: float = 600.0,
        issuer: str = ORIGIN,
        **more: Any,
    ) -> None:
        self.clock = clock or Clock()
        self.site = site(**more)
        by_name = {user.name: user for user in users}
        self.authority = made(
            issuer, self.site, by_name, clients, lifetime, ClientDocuments(documents), self.clock
        )
        self.app = Starlette(routes=self.authority.routes())

    def browser(self) -> httpx2.AsyncClient:
        """A browser, or a client: something with cookies of its own, that follows no redirect."""
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), base_url=ORIGIN)

    async def registered(self, **more: Any) -> dict[str, Any]:
        """What a client is told that registers itself."""
        metadata = {
            "client_name": "A client",
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            **more,
        }
        async with self.browser() as client:
            response = await client.post("/register", json=metadata)
        assert response.status_code == 201, response.text
        found: dict[str, Any] = response.json()
        return found

    async def login(self, **more: Any) -> Login:
        """A login by a client that has registered itself."""
        return Login((await self.registered())["client_id"], **more)

    async def code(self, login: Login, user: str = "ada", password: str | None = None) -> str:
        """Click on a user's name, and return the code that comes of it."""
        async with self.browser() as browser:
            return code_of(await clicked(browser, login, user, password))

    async def tokens(self, login: Login | None = None, **form: Any) -> dict[str, Any]:
        """The tokens of a login."""
        login = login or await self.login()
        response = await self.post("/token", login.form(await self.code(login), **form))
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def refreshed(self, tokens: Mapping[str, Any], login: Login, **more: Any) -> httpx2.Response:
        """The answer to a refresh."""
        form = {
            "grant_type": "refresh_token",
            "refresh_token": tokens["refresh_token"],
            "client_id": login.client_id,
            **more,
        }
        return await self.post("/token", form)

    async def post(self, path: str, form: Mapping[str, Any], **options: Any) -> httpx2.Response:
        """The answer to a form of a client."""
        async with self.browser() as client:
            return await client.post(path, data=form, **options)

    async def granted(self, tokens: Mapping[str, Any], audience: str = MCP) -> Grant:
        """What an access token grants."""
        return await self.authority.verify(tokens["access_token"], audience)


async def clicked(
    browser: httpx2.AsyncClient, login: Login, user: str = "ada", password: str | None = None
) -> httpx2.Response:
    """Open the page of a login in a browser, click on a name, and return the answer."""
    page = await browser.get("/authorize", params=login.query)
    assert page.status_code == 200, page.text
    [form] = [form for form in Forms(page.text).forms if form.get("user") == user]
    if password is not None:
        form["password"] = password
    return await browser.post("/authorize", data=form)


def code_of(response: httpx2.Response) -> str:
    """The code in a redirect."""
    said = parse_qs(urlsplit(response.headers["location"]).query)
    return said["code"][0]


def said(response: httpx2.Response) -> dict[str, str]:
    """What a redirect says, each thing once."""
    assert response.status_code == 303, response.text
    pairs = parse_qsl(urlsplit(response.headers["location"]).query, keep_blank_values=True)
    found = dict(pairs)
    assert len(found) == len(pairs)
    return found

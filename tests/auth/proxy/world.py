"""A server behind OAuthProxy, a provider, and browsers, all in process and under their own host names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mcpkit import Scope, Server
from mcpkit.auth import InvalidTokenError, OAuthProxy, ProtectedResource, UpstreamProvider, VerifierContext
from mcpkit.auth.base64url import encode
from mcpkit.state.memory import Memory
from tests.helpers.fake_idp import AUTHORIZE, CLIENT, REVOKE, TOKEN, USERINFO, OpenIdSite
from tests.helpers.oauth_flow import PROXY_MCP as MCP
from tests.helpers.oauth_flow import PROXY_ORIGIN as ORIGIN
from tests.helpers.oauth_flow import SECRET, Login, PageForms
from tests.helpers.signed_tokens import Signer

PROVIDER = "https://id.example.net"
EDITOR = "https://editor.example.org/callback"
EVIL = "https://evil.example/callback"
SCOPES = {"notes:read": Scope("Read notes", default=True), "notes:write": Scope("Change notes")}


class Provider(OpenIdSite):
    """A provider where browsers are logged in, and which does not ask users for consent."""

    remembers = True

    def __init__(self) -> None:
        super().__init__(Signer())
        self.url = PROVIDER
        self.users = {"ada": {}, "mallory": {}}
        self.has_pkce = True
        self.app = Starlette(routes=[Route("/{path:path}", self.answer, methods=["GET", "POST"])])

    async def answer(self, request: Request) -> Response:
        user, scopes = request.cookies.get("user_session", ""), request.query_params.get("scope", "").split()
        self._consents.add((user, frozenset(scopes)))
        if request.url.path == TOKEN and not self.has_pkce:
            verifier = dict(parse_qsl((await request.body()).decode())).get("code_verifier", "")
            challenge = encode(sha256(verifier.encode()).digest())
            for login in self.codes.values():
                login.asked = {**login.asked, "code_challenge": challenge}
        return await super().answer(request)

    @property
    def tokens(self) -> set[str]:
        """The access and refresh tokens that it has issued."""
        return {secret for secret in self.secrets if secret.startswith(("access_", "refresh_"))}


class Internet(httpx2.AsyncBaseTransport):
    def __init__(self, hosts: Mapping[str, ASGIApp], address: str = "203.0.113.7") -> None:
        self.hosts = hosts
        self._client = (address, 5000)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        app = self.hosts.get(request.url.host)
        if app is None:
            return httpx2.Response(404, text="there is no such host")
        return await httpx2.ASGITransport(app, client=self._client).handle_async_request(request)


class Browser(httpx2.AsyncClient):
    async def follow(self, response: httpx2.Response, *, until: str | None = None) -> httpx2.Response:
        for _ in range(10):
            location = response.headers.get("location")
            if location is None or (until is not None and location.startswith(until)):
                return response
            response = await self.get(response.url.join(location))
        raise AssertionError("it goes round in circles")


class Proxy(OAuthProxy):
    context: VerifierContext

    def bind(self, site: ProtectedResource) -> None:
        super().bind(site)
        self.context = VerifierContext(site.name, site.keys, site.storage, site.audit)


class World:
    def __init__(
        self,
        *,
        openid: bool = False,
        shared: Any = None,
        origin: str = ORIGIN,
        allowed_origins: Sequence[str] = (),
    ) -> None:
        self.is_openid = openid
        self.provider = Provider()
        self.hosts: dict[str, ASGIApp] = {"id.example.net": self.provider.app}
        self.shared = shared if shared is not None else Memory()
        outgoing = httpx2.AsyncClient(transport=Internet(self.hosts))
        if openid:
            upstream = UpstreamProvider.openid(PROVIDER, *CLIENT, http_client=outgoing)
        else:
            upstream = UpstreamProvider.oauth(
                PROVIDER,
                *CLIENT,
                authorization_endpoint=PROVIDER + AUTHORIZE,
                token_endpoint=PROVIDER + TOKEN,
                userinfo_endpoint=PROVIDER + USERINFO,
                revocation_endpoint=PROVIDER + REVOKE,
                http_client=outgoing,
            )
        self.auth = Proxy(upstream)
        server = Server("notes", auth=self.auth, secret_key=SECRET, storage=self.shared, scopes=SCOPES)
        app = server.asgi(public_url=f"{origin}/mcp", allowed_origins=allowed_origins)
        self.hosts[urlsplit(origin).hostname or ""] = app

    def browser(self, user: str | None = None, *, address: str = "203.0.113.7") -> Browser:
        """Return a browser whose user is logged in at the provider."""
        browser = Browser(transport=Internet(self.hosts, address), base_url=ORIGIN, timeout=30)
        if user is not None:
            browser.cookies.set("user_session", user, domain="id.example.net")
        return browser

    async def client(self, redirect_uri: str, **more: Any) -> Login:
        """Register a client, and return a login of it."""
        metadata = {"redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none"}
        async with self.browser() as machine:
            response = await machine.post("/register", json={"client_name": "A client", **metadata})
        assert response.status_code == 201, response.text
        return Login(response.json()["client_id"], redirect_uri, **{"resource": MCP, **more})

    async def tokens(self, form: Mapping[str, Any]) -> dict[str, Any] | None:
        async with self.browser() as machine:
            response = await machine.post("/token", data=form)
        if response.status_code != 200:
            assert "access_token" not in response.text
            return None
        found: dict[str, Any] = response.json()
        return found

    async def user_of_form(self, form: Mapping[str, Any]) -> str | None:
        """Return the user whose tokens a form gets; None if it gets none."""
        tokens = await self.tokens(form)
        return None if tokens is None else await self.user_of(tokens["access_token"])

    async def holds(self, login: Login, response: httpx2.Response) -> str | None:
        """Return the user whose tokens a client gets with the response to its request; None if it gets none."""
        code = answer(response).get("code")
        return None if code is None else await self.user_of_form(login.form(code))

    async def user_of(self, token: str) -> str | None:
        try:
            subject = (await self.auth.verify(token, MCP)).principal.subject
        except InvalidTokenError:
            return None
        return str(subject).removeprefix("sub-of-")

    async def logged_in(self, user: str, redirect_uri: str = EDITOR, **more: Any) -> dict[str, Any]:
        """Log a user in, and return the tokens of the client."""
        login = await self.client(redirect_uri, **more)
        async with self.browser(user) as browser:
            tokens = await self.tokens(login.form(answer(await logged_in(browser, login))["code"]))
        assert tokens is not None
        return tokens


def answer(response: httpx2.Response) -> dict[str, str]:
    """Return the parameters of a redirect."""
    return dict(parse_qsl(urlsplit(response.headers.get("location", "")).query))


def form_of(page: httpx2.Response, value: str = "allow") -> dict[str, str]:
    assert page.status_code == 200, page.text
    [form] = [form for form in PageForms(page.text).forms if "answer" in form]
    return {"request": form["request"], "answer": value}


async def consented(browser: Browser, login: Login, value: str = "allow") -> httpx2.Response:
    page = await browser.get("/authorize", params=login.query)
    return await browser.post("/authorize", data=form_of(page, value), headers={"Origin": ORIGIN})


async def logged_in(browser: Browser, login: Login) -> httpx2.Response:
    return await browser.follow(await consented(browser, login), until=login.redirect_uri)

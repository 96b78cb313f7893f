"""A server behind OAuthProxy, a provider, and browsers, all in process and under their own host names."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mcpkit import Scope, Server
from mcpkit.auth import InvalidTokenError, OAuthProxy, ProtectedResource, UpstreamProvider, VerifierContext
from mcpkit.state.memory import Memory
from tests.helpers.oauth_flow import Login, PageForms
from tests.helpers.signed_tokens import Signer

ORIGIN = "https://mcp.example.com"


MCP = f"{ORIGIN}/mcp"


PROVIDER = "https://id.example.net"


EDITOR = "https://editor.example.org/callback"


EVIL = "https://evil.example/callback"


SECRET = "a secret of the tests, long enough"


CLIENT = ("the-one-client", "the one client's secret")


SCOPES = {"notes:read": Scope("Read notes", default=True), "notes:write": Scope("Change notes")}


class Provider:
    def __init__(self) -> None:
        self.users: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.has_pkce = True
        self.claims: dict[str, Any] = {}
        self.signed: Callable[[dict[str, Any]], str] | None = None
        self.userinfo: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.answer: dict[str, Any] = {}
        self.signer = Signer("ES256")
        self._codes: dict[str, tuple[str, dict[str, str]]] = {}
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/keys", self._keys),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/userinfo", self._userinfo),
                Route("/revoke", self._revoke, methods=["POST"]),
            ]
        )

    def code_for(self, user: str, query: Mapping[str, str]) -> str:
        code = secrets.token_urlsafe(16)
        self._codes[code] = user, dict(query)
        return code

    def to(self, path: str) -> list[dict[str, str]]:
        return [parameters for place, parameters in self.asked if place == path]

    async def _metadata(self, request: Request) -> Response:
        endpoints = {
            "authorization_endpoint": f"{PROVIDER}/authorize",
            "token_endpoint": f"{PROVIDER}/token",
            "userinfo_endpoint": f"{PROVIDER}/userinfo",
            "revocation_endpoint": f"{PROVIDER}/revoke",
            "jwks_uri": f"{PROVIDER}/keys",
        }
        told = {
            "issuer": PROVIDER,
            **endpoints,
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            **self.metadata,
        }
        return JSONResponse({name: value for name, value in told.items() if value is not None})

    async def _keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [self.signer.public()]})

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        self.asked.append(("/authorize", query))
        user = self.users.get(request.cookies.get("__Host-session", ""))
        if user is None:
            return PlainTextResponse("log in first", 401)
        assert query["redirect_uri"].endswith("/callback")
        said = {"code": self.code_for(user, query), "state": query["state"]}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(said)}", 302)

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        self.asked.append(("/token", form))
        assert (form["client_id"], form["client_secret"]) == CLIENT
        if form["grant_type"] == "refresh_token":
            user = self.tokens.get(form["refresh_token"], "")
            nonce = None
        else:
            user, query = self._codes.pop(form["code"], ("", {}))
            verified = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            challenge = base64.urlsafe_b64encode(verified).decode().rstrip("=")
            if self.has_pkce and query.get("code_challenge") != challenge:
                user = ""
            nonce = query.get("nonce")
        if not user:
            return JSONResponse({"error": "invalid_grant"}, 400)
        access, refresh = f"upstream-{secrets.token_urlsafe(16)}", f"upstream-{secrets.token_urlsafe(16)}"
        self.tokens[access] = self.tokens[refresh] = user
        answer = {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": 3600,
            "id_token": self._id_token(user, nonce),
            **self.answer,
        }
        told = json.dumps({name: value for name, value in answer.items() if value is not None})
        return Response(told, media_type="application/json")

    def _id_token(self, user: str, nonce: str | None) -> str:
        now = time.time()
        told = {"iss": PROVIDER, "sub": user, "aud": CLIENT[0], "iat": now, "exp": now + 600, "nonce": nonce}
        told.update(self.claims)
        claims = {name: value for name, value in told.items() if value is not None}
        if self.signed is not None:
            return self.signed(claims)
        return self.signer.token(claims, {"typ": "JWT"})

    async def _userinfo(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.asked.append(("/userinfo", {"token": token}))
        if token not in self.tokens:
            return JSONResponse({"error": "invalid_token"}, 401)
        user = self.tokens[token]
        return JSONResponse({"sub": user, "id": user, "login": user, **self.userinfo})

    async def _revoke(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        self.asked.append(("/revoke", form))
        self.tokens.pop(form["token"], None)
        return Response(status_code=200)


class Internet(httpx2.AsyncBaseTransport):
    def __init__(
        self,
        hosts: Mapping[str, ASGIApp],
        client: tuple[str, int] = ("203.0.113.7", 5000),
        *,
        has_sockets: bool = False,
    ) -> None:
        self.has_sockets = has_sockets
        self.hosts = hosts
        self.seen: list[httpx2.Request] = []
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        app = self.hosts.get(request.url.host)
        if self.has_sockets and request.url.host == "127.0.0.1":
            async with httpx2.AsyncClient(trust_env=False, timeout=30) as here:
                return await here.request(
                    request.method, request.url, headers=request.headers, content=await request.aread()
                )
        if app is None:
            return httpx2.Response(404, text="nobody is here")
        transport = httpx2.ASGITransport(app, client=self._client)
        return await transport.handle_async_request(request)


class Browser(httpx2.AsyncClient):
    def __init__(self, net: Internet) -> None:
        super().__init__(transport=net, base_url=ORIGIN, timeout=30)
        self.net = net

    async def follow(self, response: httpx2.Response, *, until: str | None = None) -> httpx2.Response:
        for _ in range(10):
            where = response.headers.get("location")
            if where is None or (until is not None and where.startswith(until)):
                return response
            response = await self.get(response.url.join(where))
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
        **more: Any,
    ) -> None:
        self.is_openid = openid
        self.provider = Provider()
        self.hosts: dict[str, ASGIApp] = {"id.example.net": self.provider.app}
        self.shared = shared if shared is not None else Memory()
        outgoing = httpx2.AsyncClient(transport=Internet(self.hosts))
        if openid:
            upstream = UpstreamProvider.openid(PROVIDER, *CLIENT, authentication="post", http_client=outgoing)
        else:
            upstream = UpstreamProvider.oauth(
                PROVIDER,
                *CLIENT,
                authorization_endpoint=f"{PROVIDER}/authorize",
                token_endpoint=f"{PROVIDER}/token",
                userinfo_endpoint=f"{PROVIDER}/userinfo",
                revocation_endpoint=f"{PROVIDER}/revoke",
                authentication="post",
                http_client=outgoing,
            )
        self.auth = Proxy(upstream, **more)
        self.server = Server("notes", auth=self.auth, secret_key=SECRET, storage=self.shared, scopes=SCOPES)
        self.app = self.server.asgi(public_url=f"{origin}/mcp", allowed_origins=allowed_origins)
        self.hosts[urlsplit(origin).hostname or ""] = self.app

    def browser(self, user: str | None = None, *, address: str = "203.0.113.7") -> Browser:
        browser = Browser(Internet(self.hosts, (address, 5000)))
        if user is not None:
            browser.cookies.set("__Host-session", self.session(user), domain="id.example.net")
        return browser

    def session(self, user: str) -> str:
        session = secrets.token_urlsafe(8)
        self.provider.users[session] = user
        return session

    async def client(self, redirect_uri: str, **more: Any) -> Login:
        metadata = {
            "client_name": "A client",
            "redirect_uris": [redirect_uri],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
        }
        async with self.browser() as machine:
            response = await machine.post("/register", json=metadata)
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

    async def holds(self, login: Login, response: httpx2.Response) -> str | None:
        code = answer(response).get("code")
        found = None if code is None else await self.tokens(login.form(code))
        return None if found is None else await self.whose(found["access_token"])

    async def whose(self, token: str) -> str | None:
        try:
            return (await self.auth.verify(token, MCP)).principal.subject
        except InvalidTokenError:
            return None


def answer(response: httpx2.Response) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(response.headers.get("location", "")).query))


def form_of(page: httpx2.Response, value: str = "allow") -> dict[str, str]:
    assert page.status_code == 200, page.text
    assert f'name="answer" value="{value}"' in page.text
    [form] = [form for form in PageForms(page.text).forms if "answer" in form]
    return {"request": form["request"], "answer": value}


async def consented(browser: Browser, login: Login) -> httpx2.Response:
    page = await browser.get("/authorize", params=login.query)
    return await browser.post("/authorize", data=form_of(page), headers={"Origin": ORIGIN})


async def logged_in(world: World, browser: Browser, login: Login) -> httpx2.Response:
    return await browser.follow(await consented(browser, login), until=login.redirect_uri)

"""Fake identity providers over HTTP: OpenID Connect, GitHub, and an issuer of keys with introspection."""

import base64
import hashlib
import json
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urljoin, urlsplit

import anyio.to_thread
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mcpkit.auth import InvalidTokenError, Jwt, UpstreamProvider, VerifierUnavailableError
from mcpkit.auth.jws import base64url_encode
from mcpkit.auth.upstream.upstream_client import Identity, UpstreamTokens
from tests.helpers.serving import in_thread
from tests.helpers.signed_tokens import AUDIENCE, Signer

CLIENT = ("proxy", "the secret of the proxy")


USERS: dict[str, dict[str, Any]] = {"ada": {}, "bob": {}}
OPENID = "/.well-known/openid-configuration"
AUTHORIZE = "/authorize"
TOKEN = "/token"
USERINFO = "/userinfo"
REVOKE = "/revoke"
KEYS = "/keys"


class Site(ABC):
    """An ASGI endpoint for all paths, with switches.

    Attributes:
        url: The origin.
        asked: How many requests came to each path.
        metadata: Changes to the metadata; None removes a member.
        instead: Returns the response to a request, or None for the usual one.
        held: The path whose requests wait for `is_open`; None for all paths.
        is_asked: Set when a request has come to it.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: Counter[str] = Counter()
        self.metadata: dict[str, Any] = {}
        self.instead: Callable[[Request], Response | None] = lambda _: None
        self.held: str | None = None
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_asked = threading.Event()

    def break_down(self, status: int = 503) -> None:
        self.instead = lambda _: Response(status_code=status)

    def repair(self) -> None:
        self.instead = lambda _: None
        self.is_open.set()

    async def answer(self, request: Request) -> Response:
        path = self.path_of(request)
        self.asked[path] += 1
        if self.held in {None, path}:
            self.is_asked.set()
            if not self.is_open.is_set():
                await anyio.to_thread.run_sync(self.is_open.wait)
        return self.instead(request) or await self.respond(request, path)

    def path_of(self, request: Request) -> str:
        return request.url.path

    @abstractmethod
    async def respond(self, request: Request, path: str) -> Response: ...

    def changed_metadata(self, **members: Any) -> Response:
        """Return the metadata of the issuer; texts are the paths of endpoints."""
        document: dict[str, Any] = {"issuer": self.url}
        for name, value in members.items():
            document[name] = self.url + value if isinstance(value, str) else value
        document |= self.metadata
        return JSONResponse({name: value for name, value in document.items() if value is not None})


@contextmanager
def serving_site(site: Site) -> Iterator[Any]:
    routes = [Route("/{path:path}", site.answer, methods=["GET", "POST", "DELETE"])]
    with in_thread(Starlette(routes=routes)) as site.url:
        try:
            yield site
        finally:
            site.is_open.set()


@dataclass
class IdpLogin:
    user: str
    asked: Mapping[str, str]
    scopes: tuple[str, ...]
    access: dict[str, float] = field(default_factory=dict)
    refresh: str | None = None
    used: set[str] = field(default_factory=set)
    is_over: bool = False


class UpstreamSite(Site):
    """An authorization server with a login page, a consent page, and codes that need PKCE."""

    remembers = False
    paths: Mapping[str, str] = {"authorize": AUTHORIZE, "token": TOKEN}

    def __init__(self) -> None:
        super().__init__()
        self.client: tuple[str, str | None] = CLIENT
        self.users = {name: dict(claims) for name, claims in USERS.items()}
        self.seconds: float | None = 3600
        self.refreshes = True
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.logins: list[IdpLogin] = []
        self.codes: dict[str, IdpLogin] = {}
        self.revoked: list[str] = []
        self.secrets: set[str] = {str(self.client[1])}
        self.changed: Callable[[dict[str, Any]], dict[str, Any]] = lambda members: members
        self.clock: Callable[[], float] = time.time
        self._consents: set[tuple[str, frozenset[str]]] = set()

    # Switches

    def end(self, user: str) -> None:
        for login in self.logins:
            login.is_over |= login.user == user

    def user_of(self, access_token: str) -> str | None:
        for login in self.logins:
            if not login.is_over and login.access.get(access_token, 0.0) > self.clock():
                return login.user
        return None

    # Responses

    async def respond(self, request: Request, path: str) -> Response:
        if path == self.paths["authorize"]:
            return await self.page(request)
        if path == self.paths["token"] and request.method == "POST":
            return await self._token(request)
        return await self.more(request, path)

    @abstractmethod
    async def more(self, request: Request, path: str) -> Response: ...

    def code_parameters(self) -> dict[str, str]:
        return {}

    def extra(self, login: IdpLogin, access_token: str) -> dict[str, Any]:
        return {}

    def separated(self, scopes: tuple[str, ...]) -> str:
        return " ".join(scopes)

    def refused(self, request: Request, error: str, status: int = 400) -> Response:
        return JSONResponse({"error": error, "error_description": f"{error} it is"}, status)

    def granted(self, request: Request, members: dict[str, Any]) -> Response:
        return JSONResponse(members, headers={"Cache-Control": "no-store"})

    async def form(self, request: Request) -> dict[str, str]:
        form = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        self.forms.append((request.url.path, form))
        self.secrets |= {form[name] for name in ("code_verifier",) if name in form}
        return form

    def is_client(self, request: Request, form: Mapping[str, str]) -> bool:
        basic = request.headers.get("authorization", "")
        if basic.startswith("Basic "):
            name, _, secret = base64.b64decode(basic[6:]).decode().partition(":")
            return (unquote_plus(name), unquote_plus(secret)) == self.client
        return (form.get("client_id"), form.get("client_secret")) == self.client

    def issue(self, login: IdpLogin) -> dict[str, Any]:
        token = self.secret("access")
        login.access[token] = self.clock() + (1e9 if self.seconds is None else self.seconds)
        members: dict[str, Any] = {
            "access_token": token,
            "token_type": "bearer",
            "scope": self.separated(login.scopes),
        }
        if self.seconds is not None:
            members["expires_in"] = self.seconds
        if self.refreshes:
            if login.refresh is not None:
                login.used.add(login.refresh)
            members["refresh_token"] = login.refresh = self.secret("refresh")
        return self.changed({**members, **self.extra(login, token)})

    def secret(self, kind: str) -> str:
        made = f"{kind}_{secrets.token_urlsafe(24)}"
        self.secrets.add(made)
        return made

    async def page(self, request: Request) -> Response:
        asked = dict(request.query_params)
        if asked.get("client_id") != self.client[0] or "redirect_uri" not in asked:
            return HTMLResponse("<h1>No such client</h1>", 404)
        form = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        user = request.cookies.get("user_session", "")
        if form.get("login") in self.users and form.get("password") == f"{form['login']}'s":
            back = RedirectResponse(str(request.url), 303)
            back.set_cookie("user_session", form["login"], httponly=True)
            return back
        if user not in self.users:
            return _shown("Log in", '<input name="login"><input name="password" type="password">', "log-in")
        if "deny" in form:
            return self._back(asked, {"error": "access_denied", "error_description": "the user refused"})
        scopes = asked.get("scope", "").split()
        consent = (user, frozenset(scopes))
        if "allow" not in form and not (self.remembers and consent in self._consents):
            listed = "".join(f"<li>{escape(each)}" for each in scopes)
            return _shown("Consent", f"<p>{escape(user)}<ul>{listed}</ul>", "allow", "deny")
        self._consents.add(consent)
        return self.consented(asked, user)

    def consented(self, query: Mapping[str, str], user: str) -> Response:
        login = IdpLogin(user, query, tuple(query.get("scope", "").split()))
        self.logins.append(login)
        code = self.secret("code")
        self.codes[code] = login
        return self._back(query, {"code": code})

    def _back(self, query: Mapping[str, str], answer: Mapping[str, str]) -> Response:
        params = {**answer, "state": query.get("state", ""), **self.code_parameters()}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(params)}", 302)

    async def _token(self, request: Request) -> Response:
        form = await self.form(request)
        if not self.is_client(request, form):
            return self.refused(request, "invalid_client", 401)
        if form.get("grant_type") == "refresh_token":
            return self._refreshed(request, form.get("refresh_token", ""))
        login = self.codes.pop(form.get("code", ""), None)
        if login is None:
            return self.refused(request, "invalid_grant")
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        wanted = (login.asked.get("code_challenge"), login.asked.get("code_challenge_method"))
        if wanted != (challenge, "S256") or form.get("redirect_uri") != login.asked["redirect_uri"]:
            return self.refused(request, "invalid_grant")
        return self.granted(request, self.issue(login))

    def _refreshed(self, request: Request, token: str) -> Response:
        for login in self.logins:
            if token in login.used:
                login.is_over = True  # somebody else has it as well
            if token == login.refresh and not login.is_over:
                return self.granted(request, self.issue(login))
        return self.refused(request, "invalid_grant")


async def log_in(url: str, user: str = "ada", *, button: str = "allow") -> dict[str, str]:
    async with httpx2.AsyncClient() as browser:
        origin = urlsplit(url)[:2]
        answer = await browser.get(url)
        for _ in range(10):
            if answer.is_redirect:
                url = urljoin(url, answer.headers["location"])
                if urlsplit(url)[:2] != origin:
                    return dict(parse_qsl(urlsplit(url).query, strict_parsing=True))
                answer = await browser.get(url)
                continue
            assert answer.status_code == 200, answer.text
            form = _Form(answer.text)
            said = {"login": user, "password": f"{user}'s"} if "login" in form.fields else {button: ""}
            answer = await browser.post(url, data={**form.boxes, **said})
    raise AssertionError(f"no end of it at {url}")


class _Form(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: set[str] = set()
        self.boxes: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "input" and told.get("type") == "checkbox":
            self.boxes.setdefault(str(told["name"]), []).append(str(told["value"]))
        elif tag == "input":
            self.fields.add(str(told["name"]))


def _shown(title: str, body: str, *buttons: str) -> Response:
    pressed = "".join(f'<button name="{each}">{each}</button>' for each in buttons)
    page = f'<!doctype html><title>{title}</title><h1>{title}</h1><form method="post">{body}{pressed}</form>'
    return HTMLResponse(page)


class OpenIdSite(UpstreamSite):
    """An OpenID provider."""

    def __init__(self, signer: Signer) -> None:
        super().__init__()
        self.signer = self.published = signer
        self.claims: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.header: dict[str, Any] = {}
        self.told: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims

    def extra(self, login: IdpLogin, access_token: str) -> dict[str, Any]:
        now = int(self.clock())
        claims = {"iss": self.url, "sub": f"sub-of-{login.user}", "aud": self.client[0], "iat": now}
        claims |= {"exp": now + 300, "nonce": login.asked.get("nonce")}
        members = {name: value for name, value in self.claims(claims).items() if value is not None}
        token = self.signer.sign(json.dumps(members).encode(), {"typ": "JWT", **self.header})
        self.secrets.add(token)
        return {"id_token": token}

    async def more(self, request: Request, path: str) -> Response:
        if path == OPENID:
            return self.changed_metadata(
                authorization_endpoint=AUTHORIZE,
                token_endpoint=TOKEN,
                userinfo_endpoint=USERINFO,
                revocation_endpoint=REVOKE,
                jwks_uri=KEYS,
                scopes_supported=["openid", "profile", "email", "offline_access"],
                code_challenge_methods_supported=["S256"],
            )
        if path == KEYS:
            return JSONResponse({"keys": [self.published.public()]})
        if path == USERINFO:
            user = self.user_of(request.headers.get("authorization", "").removeprefix("Bearer "))
            if user is None:
                return Response(status_code=401, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})
            members = {"sub": f"sub-of-{user}", "name": user.title(), **self.users[user]}
            return JSONResponse(self.told(members))
        if path == REVOKE and request.method == "POST":
            return await self._revoked(request)
        return Response(status_code=404)

    async def _revoked(self, request: Request) -> Response:
        form = await self.form(request)
        if not self.is_client(request, form):
            return self.refused(request, "invalid_client", 401)
        self.revoked.append(form["token"])
        for login in self.logins:
            if form["token"] == login.refresh:
                login.is_over = True
            login.access.pop(form["token"], None)
        return Response(status_code=200)


@contextmanager
def openid(signer: Signer | None = None) -> Iterator[OpenIdSite]:
    site = OpenIdSite(signer or Signer())
    with serving_site(site):
        yield site


GITHUB_USER = "/api/v3/user"


GITHUB_TOKEN = "/login/oauth/access_token"


GITHUB_AUTHORIZE = "/login/oauth/authorize"


GITHUB_APPLICATION = f"/api/v3/applications/{CLIENT[0]}/token"


IDS = {"ada": 1815, "bob": 1969}


_ERRORS = {"invalid_client": "incorrect_client_credentials", "invalid_grant": "bad_verification_code"}


class GitHubSite(UpstreamSite):
    remembers = True
    paths = {"authorize": GITHUB_AUTHORIZE, "token": GITHUB_TOKEN}

    def __init__(self) -> None:
        super().__init__()
        self.seconds = None
        self.refreshes = False

    def code_parameters(self) -> dict[str, str]:
        return {"iss": f"{self.url}/login/oauth"}

    def separated(self, scopes: tuple[str, ...]) -> str:
        return ",".join(scopes)

    def refused(self, request: Request, error: str, status: int = 400) -> Response:
        if error == "invalid_grant" and self.forms[-1][1]["grant_type"] == "refresh_token":
            error = "bad_refresh_token"
        members = {
            "error": _ERRORS.get(error, error),
            "error_description": "The code is incorrect or expired.",
        }
        return self.granted(request, {**members, "error_uri": "https://docs.github.com/"})

    def granted(self, request: Request, members: dict[str, Any]) -> Response:
        if "json" in request.headers.get("accept", ""):
            return JSONResponse(members)
        return Response(urlencode(members), media_type="application/x-www-form-urlencoded")

    def extra(self, login: IdpLogin, access_token: str) -> dict[str, Any]:
        return {"refresh_token_expires_in": 15_897_600} if self.refreshes else {}

    async def more(self, request: Request, path: str) -> Response:
        if not request.headers.get("user-agent"):
            return JSONResponse({"message": "Request forbidden by administrative rules."}, 403)
        if path == GITHUB_USER:
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            user = self.user_of(token)
            if user is None:
                return JSONResponse({"message": "Bad credentials", "status": "401"}, 401)
            return JSONResponse(self._profile(user))
        if path == GITHUB_APPLICATION and request.method == "DELETE":
            return self._deleted(request, await request.body())
        return JSONResponse({"message": "Not Found", "status": "404"}, 404)

    def _deleted(self, request: Request, body: bytes) -> Response:
        if not self.is_client(request, {}):
            return JSONResponse({"message": "Requires authentication", "status": "401"}, 401)
        token = json.loads(body)["access_token"]
        if self.user_of(token) is None:
            return JSONResponse({"message": "Not Found", "status": "404"}, 404)
        for login in self.logins:
            if token in login.access:
                login.is_over = True
        self.revoked.append(token)
        return Response(status_code=204)

    def _profile(self, user: str) -> dict[str, Any]:
        return {
            "login": user, "id": IDS[user], "node_id": f"U_{IDS[user]}", "name": user.title(), "email": None,
            "avatar_url": f"https://avatars.githubusercontent.com/u/{IDS[user]}",
            "html_url": f"https://github.com/{user}", "type": "User", "site_admin": False,
            "two_factor_authentication": True, "company": None, "plan": {"name": "pro", "space": 976_562_499},
            "followers_url": f"https://api.github.com/users/{user}/followers", **self.users[user],
        }  # fmt: skip


@contextmanager
def github() -> Iterator[GitHubSite]:
    site = GitHubSite()
    with serving_site(site):
        yield site


CALLBACK = "http://127.0.0.1:1/callback"


@dataclass
class UpstreamLogin:
    upstream: UpstreamProvider
    user: str = "ada"
    verifier: str = "verifier-" * 6
    nonce: str = "the-nonce"
    state: str = "the-state"

    async def url(self) -> str:
        challenge = base64url_encode(sha256(self.verifier.encode()).digest())
        return await self.upstream.provider.authorization_url(
            redirect_uri=CALLBACK, state=self.state, challenge=challenge, nonce=self.nonce
        )

    async def answered(self, button: str = "allow") -> dict[str, str]:
        return await log_in(await self.url(), self.user, button=button)

    async def redeemed(self, answer: dict[str, str] | None = None) -> tuple[Identity, UpstreamTokens]:
        answer = await self.answered() if answer is None else answer
        return await self.upstream.provider.redeem(
            answer, redirect_uri=CALLBACK, verifier=self.verifier, nonce=self.nonce
        )


METADATA = "/.well-known/oauth-authorization-server"


INTROSPECTION = "/introspect"


class KeyIssuer(Site):
    """An issuer with keys, metadata at `places`, and introspection of the known `tokens`."""

    def __init__(self, *signers: Signer) -> None:
        super().__init__()
        self.headers: dict[str, str] = {}
        self.tokens: dict[str, Any] = {}
        self.asked_about: list[tuple[str | None, dict[str, Any]]] = []
        self.places = {METADATA}
        self.publish(*signers)

    def publish(self, *signers: Signer) -> None:
        self.keys: Any = {"keys": [each.public() for each in signers]}

    async def respond(self, request: Request, path: str) -> Response:
        if path == KEYS:
            return JSONResponse(self.keys, headers=self.headers)
        if path == INTROSPECTION:
            form = dict(parse_qsl((await request.body()).decode()))
            self.asked_about.append((request.headers.get("authorization"), form))
            return JSONResponse(self.tokens.get(form["token"], {"active": False}))
        if path in self.places:
            return self.changed_metadata(jwks_uri=KEYS, introspection_endpoint=INTROSPECTION)
        return Response(status_code=404)

    @property
    def fetches(self) -> int:
        return self.asked[KEYS]


@contextmanager
def serve_keys(*signers: Signer) -> Iterator[KeyIssuer]:
    with serving_site(KeyIssuer(*signers)) as issuer:
        yield issuer


OLD, NEW = (Signer("ES256", name) for name in ("old", "new"))


HOUR = 3600.0


def token(provider: KeyIssuer, signer: Signer = OLD, **changes: Any) -> str:
    return signer.token(iss=provider.url, exp=4_000_000_000, **changes)


async def is_verified(jwt: Jwt, sent: str) -> bool:
    try:
        await jwt.verify(sent, AUDIENCE)
    except InvalidTokenError as error:
        if "no key of the issuer verifies" not in error.description:
            raise
        return False
    return True


async def unavailable(jwt: Jwt, sent: str) -> VerifierUnavailableError:
    with pytest.raises(VerifierUnavailableError) as caught:
        await jwt.verify(sent, AUDIENCE)
    return caught.value

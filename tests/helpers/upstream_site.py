"""A provider that users log in with, behind a real HTTP server in a thread, which tests break and mend.

What OAuth has for all: a page to log in on, one to consent on, codes, tokens, and refresh tokens that are good for one
use. What is GitHub's own stands in `github_site.py`, what is OpenID Connect's in `openid_site.py`.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urljoin, urlsplit

import anyio.to_thread
import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.helpers.serving import in_thread

CLIENT = ("proxy", "the secret of the proxy")
"""The one client, and its secret."""
USERS: dict[str, dict[str, Any]] = {"ada": {}, "bob": {}}


@dataclass
class Login:
    """What one login has given.

    Attributes:
        user: Whose it is.
        asked: The parameters of the authorization request.
        scopes: What was granted.
        access: The access tokens that are good, and when they end.
        refresh: The refresh token that is good.
        used: Those that were.
        is_over: Whether all of it is worth nothing any more.
    """

    user: str
    asked: Mapping[str, str]
    scopes: tuple[str, ...]
    access: dict[str, float] = field(default_factory=dict)
    refresh: str | None = None
    used: set[str] = field(default_factory=set)
    is_over: bool = False


class UpstreamSite(ABC):
    """A provider; all of this may be changed at any time.

    Attributes:
        url: Where it is.
        client: The one client, and its secret; None for a client without one.
        users: Who may log in, with the password `NAME's`, and what is said of them.
        seconds: How long access tokens are good; None for ever.
        refreshes: Whether there are refresh tokens.
        remembers: Whether a user who has consented is not asked again.
        narrows: What becomes of the scopes that a user is asked for.
        asked: How often each path was asked for.
        forms: The path and the form of each request to the endpoints of the client.
        logins: All that there were.
        codes: Logins by the codes that nobody has redeemed.
        revoked: The tokens that were revoked, by whoever has asked for it.
        secrets: All that must not be found anywhere: codes, tokens, verifiers, the client's secret.
        instead: What is answered in place of all else.
        changed: What becomes of an answer with tokens.
        held: The path whose requests wait until `is_open` is set; None for all of them.
        is_open: Cleared, requests are held until it is set.
        is_asked: Set when a request is held, or would be.
    """

    remembers = False
    paths: Mapping[str, str]

    def __init__(self) -> None:
        self.url = ""
        self.client: tuple[str, str | None] = CLIENT
        self.users = {name: dict(claims) for name, claims in USERS.items()}
        self.seconds: float | None = 3600
        self.refreshes = True
        self.narrows: Callable[[list[str]], list[str]] = lambda scopes: scopes
        self.asked: Counter[str] = Counter()
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.logins: list[Login] = []
        self.codes: dict[str, Login] = {}
        self.revoked: list[str] = []
        self.secrets: set[str] = {str(self.client[1])}
        self.instead: Callable[[Request], Response | None] = lambda _: None
        self.changed: Callable[[dict[str, Any]], dict[str, Any]] = lambda members: members
        self.held: str | None = None
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_asked = threading.Event()
        self._consents: set[tuple[str, frozenset[str]]] = set()

    # What tests do to it

    def break_down(self, status: int = 503) -> None:
        """Answer nothing but a status."""
        self.instead = lambda _: Response(status_code=status)

    def mend(self) -> None:
        """Answer as before."""
        self.instead = lambda _: None
        self.is_open.set()

    def end(self, user: str) -> None:
        """End all that a user has granted, as they may at the provider."""
        for login in self.logins:
            login.is_over |= login.user == user

    def expire(self, user: str) -> None:
        """End the access tokens of a user; refresh tokens are as good as before."""
        for login in self.logins:
            if login.user == user:
                login.access = dict.fromkeys(login.access, 0.0)

    def user_of(self, access_token: str) -> str | None:
        """Return whose an access token is, where it is good."""
        for login in self.logins:
            if not login.is_over and login.access.get(access_token, 0.0) > time.time():
                return login.user
        return None

    # What it answers

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        path = request.url.path
        self.asked[path] += 1
        if self.held in {None, path}:
            self.is_asked.set()
            if not self.is_open.is_set():
                await anyio.to_thread.run_sync(self.is_open.wait)
        instead = self.instead(request)
        if instead is not None:
            return instead
        if path == self.paths["authorize"]:
            return await self._page(request)
        if path == self.paths["token"] and request.method == "POST":
            return await self._token(request)
        return await self.more(request, path)

    @abstractmethod
    async def more(self, request: Request, path: str) -> Response:
        """Answer what is the provider's own."""

    def code_parameters(self) -> dict[str, str]:
        """Return what stands beside `code` and `state`."""
        return {}

    def extra(self, login: Login, access_token: str) -> dict[str, Any]:
        """Return more of an answer with tokens."""
        return {}

    def separated(self, scopes: tuple[str, ...]) -> str:
        """Return scopes as an answer has them."""
        return " ".join(scopes)

    def refused(self, request: Request, error: str, status: int = 400) -> Response:
        """Refuse a request to the token endpoint."""
        return JSONResponse({"error": error, "error_description": f"{error} it is"}, status)

    def granted(self, request: Request, members: dict[str, Any]) -> Response:
        """Answer a request to the token endpoint."""
        return JSONResponse(members, headers={"Cache-Control": "no-store"})

    async def form(self, request: Request) -> dict[str, str]:
        """Return the form of a request, which is kept."""
        form = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        self.forms.append((request.url.path, form))
        self.secrets |= {form[name] for name in ("code_verifier",) if name in form}
        return form

    def is_client(self, request: Request, form: Mapping[str, str]) -> bool:
        """Say whether a request is of the client."""
        basic = request.headers.get("authorization", "")
        if basic.startswith("Basic "):
            name, _, secret = base64.b64decode(basic[6:]).decode().partition(":")
            return (unquote_plus(name), unquote_plus(secret)) == self.client
        return (form.get("client_id"), form.get("client_secret")) == self.client

    def issue(self, login: Login) -> dict[str, Any]:
        """Return new tokens of a login."""
        token = self.secret("access")
        login.access[token] = time.time() + (1e9 if self.seconds is None else self.seconds)
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
        """Return a new secret, which must not be found anywhere."""
        made = f"{kind}_{secrets.token_urlsafe(24)}"
        self.secrets.add(made)
        return made

    async def _page(self, request: Request) -> Response:
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
            return self._back(asked, {"error": "access_denied", "error_description": "the user said no"})
        scopes = asked.get("scope", "").split()
        consent = (user, frozenset(scopes))
        if "allow" not in form and not (self.remembers and consent in self._consents):
            listed = "".join(f"<li>{escape(each)}" for each in scopes)
            return _shown("Consent", f"<p>{escape(user)}<ul>{listed}</ul>", "allow", "deny")
        self._consents.add(consent)
        login = Login(user, asked, tuple(self.narrows(scopes)))
        self.logins.append(login)
        code = self.secret("code")
        self.codes[code] = login
        return self._back(asked, {"code": code})

    def _back(self, asked: Mapping[str, str], answer: Mapping[str, str]) -> Response:
        query = {**answer, "state": asked.get("state", ""), **self.code_parameters()}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(query)}", 302)

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


@contextmanager
def serving_site(site: UpstreamSite) -> Iterator[UpstreamSite]:
    """Serve a provider until the end of the block."""
    routes = [Route("/{path:path}", site.answer, methods=["GET", "POST", "DELETE"])]
    with in_thread(Starlette(routes=routes)) as site.url:
        try:
            yield site
        finally:
            site.is_open.set()


async def log_in(url: str, user: str = "ada", *, button: str = "allow") -> dict[str, str]:
    """Return the parameters with which a provider sends somebody back who logs in at its pages, without a browser.

    Args:
        url: Where they are sent.
        user: Who they are; the password is `NAME's`.
        button: What they press when they are asked for consent.
    """
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
    """The one form of a page: its fields, and what is ticked."""

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

"""Authorization servers in process (DevAuth and OAuthProxy), and the steps of a login as client and browser."""

import asyncio
import base64
import hashlib
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx2
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError
from starlette.applications import Starlette

from mcpkit import Scope
from mcpkit.auth import (
    AccessToken,
    AuditLog,
    DevClient,
    DevUser,
    OAuthProxy,
    ProtectedResource,
    UpstreamProvider,
    VerifierContext,
)
from mcpkit.auth.authorization_server.dev_auth import DevServer
from mcpkit.auth.authorization_server.oauth_clients import ClientDocuments
from mcpkit.auth.upstream.upstream_client import (
    Identity,
    UpstreamRefusedError,
    UpstreamTokens,
    UpstreamUnavailableError,
)
from mcpkit.client import LocalCallbackServer, MemoryTokens, OAuth
from mcpkit.identity.principals_and_scopes import Scopes
from mcpkit.storage.encryption_keys import Keys
from mcpkit.storage.memory import Memory
from tests.helpers.waiting import Clock

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
) -> ProtectedResource:
    urls = (f"{origin}/mcp", f"{origin}/sse")
    keys = Keys(secret, "notes")
    storage = Memory() if shared is None else shared
    return ProtectedResource(urls[0], urls, "notes", keys, Scopes(scopes), storage, AuditLog(lambda: keys))


def registration(**more: Any) -> dict[str, Any]:
    """Return the metadata with which a client registers."""
    return {
        "client_name": "A client", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"], **more,
    }  # fmt: skip


class PageForms(HTMLParser):
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
    def __init__(self, client_id: str, redirect_uri: str = CALLBACK, **more: Any) -> None:
        self.client_id = client_id
        self.redirect_uri = redirect_uri
        self.verifier = secrets.token_urlsafe(32)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "resource": MCP,
        }
        query |= {
            "state": secrets.token_urlsafe(8),
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        self.query = {name: value for name, value in {**query, **more}.items() if value is not None}

    def form(self, code: str, /, **more: Any) -> dict[str, Any]:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.redirect_uri}
        form |= {"client_id": self.client_id, "code_verifier": self.verifier, **more}
        return {name: value for name, value in form.items() if value is not None}

    def refresh_form(self, tokens: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        return {**form, "client_id": self.client_id, **more}


class AuthServer:
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
        self.authority = DevServer(
            issuer, self.site, by_name, clients, lifetime, ClientDocuments(documents), self.clock
        )
        self.app = Starlette(routes=self.authority.routes())

    def browser(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), base_url=ORIGIN)

    async def registered(self, **more: Any) -> dict[str, Any]:
        async with self.browser() as client:
            response = await client.post("/register", json=registration(**more))
        assert response.status_code == 201, response.text
        found: dict[str, Any] = response.json()
        return found

    async def login(self, **more: Any) -> Login:
        return Login((await self.registered())["client_id"], **more)

    async def code(self, login: Login, user: str = "ada", password: str | None = None) -> str:
        async with self.browser() as browser:
            return code_of(await submit_login(browser, login, user, password))

    async def tokens(self, login: Login | None = None, **form: Any) -> dict[str, Any]:
        login = login or await self.login()
        response = await self.post("/token", login.form(await self.code(login), **form))
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def refreshed(self, tokens: Mapping[str, Any], login: Login, **more: Any) -> httpx2.Response:
        return await self.post("/token", login.refresh_form(tokens, **more))

    async def post(self, path: str, form: Mapping[str, Any], **options: Any) -> httpx2.Response:
        async with self.browser() as client:
            return await client.post(path, data=form, **options)

    async def granted(self, tokens: Mapping[str, Any], audience: str = MCP) -> AccessToken:
        return await self.authority.verify(tokens["access_token"], audience)


async def submit_login(
    browser: httpx2.AsyncClient, login: Login, user: str = "ada", password: str | None = None
) -> httpx2.Response:
    page = await browser.get("/authorize", params=login.query)
    assert page.status_code == 200, page.text
    [form] = [form for form in PageForms(page.text).forms if form.get("user") == user]
    if password is not None:
        form["password"] = password
    return await browser.post("/authorize", data=form)


def code_of(response: httpx2.Response) -> str:
    redirect_params = parse_qs(urlsplit(response.headers["location"]).query)
    return redirect_params["code"][0]


def redirect_params(response: httpx2.Response) -> dict[str, str]:
    assert response.status_code == 303, response.text
    pairs = parse_qsl(urlsplit(response.headers["location"]).query, keep_blank_values=True)
    found = dict(pairs)
    assert len(found) == len(pairs)
    return found


UPSTREAM_ISSUER = "https://id.example.com"


class FakeUpstream(UpstreamProvider):
    def __init__(self, clock: Clock, *, name: str = "example", issuer: str = UPSTREAM_ISSUER) -> None:
        self.name, self.title, self.issuer = name, name.title(), issuer
        self.is_public = self.revokes_all = False
        self.provider: Any = self  # what is asked
        self.clock = clock
        self.user = "ada"
        self.claims: dict[str, Any] = {"login": "ada"}
        self.lifetime: float | None = 3600.0
        self.is_refreshing = True
        self.bound = {"code_challenge", "nonce", "redirect_uri"}  # what binds a code to its login
        self.down: set[str] = set()
        self.refusing: dict[str, str] = {}
        self.asked: list[str] = []
        self.live: dict[str, str] = {}
        self.handed_out: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.during: Callable[[str], Any] = lambda _: None
        self.open = threading.Event()
        self.open.set()
        self._codes: dict[str, tuple[str, dict[str, str]]] = {}
        self._count = 0

    async def visit(self, url: str, **more: str) -> str:
        query = dict(parse_qsl(urlsplit(url).query))
        self.queries.append(query)
        code = self._secret("code")
        self._codes[code] = (self.user, query)
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], **more})}"

    async def refuse(self, url: str, error: str = "access_denied") -> str:
        query = dict(parse_qsl(urlsplit(url).query))
        self.queries.append(query)
        return f"{query['redirect_uri']}?{urlencode({'error': error, 'state': query['state']})}"

    async def authorization_url(self, *, redirect_uri: str, state: str, challenge: str, nonce: str) -> str:
        await self._note("authorization_url")
        query = {"redirect_uri": redirect_uri, "state": state, "code_challenge": challenge, "nonce": nonce}
        return f"{self.issuer}/authorize?{urlencode(query)}"

    async def redeem(
        self, answer: Mapping[str, str], *, redirect_uri: str, verifier: str, nonce: str
    ) -> tuple[Identity, UpstreamTokens]:
        await self._note("redeem")
        if "error" in answer:
            raise UpstreamRefusedError(answer["error"], "the user refused")
        user, query = self._codes.pop(answer.get("code", ""), ("", {}))
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        expected = {"code_challenge": digest, "nonce": nonce, "redirect_uri": redirect_uri}
        if not query or any(query[name] != expected[name] for name in self.bound):
            raise UpstreamRefusedError("invalid_grant", "the code is none of this login")
        return Identity(user, dict(self.claims)), self._issued(user)

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        await self._note("refresh")
        while not self.open.is_set():
            await asyncio.sleep(0.01)
        user = self.live.pop(tokens.refresh_token or "", None)
        if user is None:
            raise UpstreamRefusedError("invalid_grant", "the refresh token is not known")
        self.live.pop(tokens.access_token, None)
        return self._issued(user)

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        await self._note("identify")
        if tokens.access_token not in self.live:
            raise UpstreamRefusedError("invalid_token", "the token is not known")
        return Identity(self.live[tokens.access_token], dict(self.claims))

    async def revoke(self, tokens: UpstreamTokens) -> None:
        await self._note("revoke")
        user = self.live.get(tokens.access_token)
        for token, whose in tuple(self.live.items()):
            if token in {tokens.access_token, tokens.refresh_token} or (self.revokes_all and whose == user):
                del self.live[token]

    async def aclose(self) -> None:
        pass

    def _issued(self, user: str) -> UpstreamTokens:
        access, refresh = self._secret("access"), self._secret("refresh") if self.is_refreshing else None
        self.live[access] = user
        if refresh is not None:
            self.live[refresh] = user
        expires = None if self.lifetime is None else self.clock() + self.lifetime
        return UpstreamTokens(access, refresh, expires, ("openid",))

    def _secret(self, kind: str) -> str:
        self._count += 1
        secret = f"upstream-{kind}-{self._count}-{hashlib.sha256(str(self._count).encode()).hexdigest()}"
        self.handed_out.append(secret)
        return secret

    async def _note(self, operation: str) -> None:
        self.asked.append(operation)
        self.during(operation)
        if operation in self.down:
            raise UpstreamUnavailableError(f"{self.issuer} does not answer")
        if operation in self.refusing:
            raise UpstreamRefusedError(self.refusing[operation], "the provider refused")


Visit = Callable[[str], Awaitable[str]]


def browser_at(app: Any, origin: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=origin)


class ProxyFlow:
    def __init__(
        self,
        browser: httpx2.AsyncClient,
        visit: Visit,
        client: httpx2.AsyncClient | None = None,
        *,
        path: str = "",
        callback: str = "http://127.0.0.1:3000/callback",
        **query: Any,
    ) -> None:
        self.browser = browser
        self.client = client or browser
        self.visit = visit
        self.path = path
        self.callback = callback
        self.query = {"resource": f"{str(browser.base_url).rstrip('/')}/mcp", **query}
        self.login: Login | None = None

    async def begun(self) -> Login:
        if self.login is None:
            metadata = registration(redirect_uris=[self.callback])
            response = await self.client.post(f"{self.path}/register", json=metadata)
            assert response.status_code == 201, response.text
            self.login = Login(response.json()["client_id"], self.callback, **self.query)
        return self.login

    async def page(self) -> httpx2.Response:
        return await self.browser.get(f"{self.path}/authorize", params=(await self.begun()).query)

    async def answered(self, answer: str = "allow") -> httpx2.Response:
        page = await self.page()
        if page.status_code == 303:  # nobody was asked
            return page
        assert page.status_code == 200, page.text
        form = form_of(page, answer)
        return await self.browser.post(f"{self.path}/authorize", data=form)

    async def at_provider(self) -> str:
        forward = await self.answered()
        assert forward.status_code == 303, forward.text
        return await self.visit(forward.headers["location"])

    async def back(self, url: str | None = None) -> httpx2.Response:
        return await self.browser.get(url or await self.at_provider())

    async def code(self) -> str:
        response = await self.back()
        assert "code" in redirect_params(response), response.headers["location"]
        return code_of(response)

    async def redeemed(self, code: str | None = None, **more: Any) -> httpx2.Response:
        code = code or await self.code()
        return await self.post("/token", (await self.begun()).form(code, **more))

    async def tokens(self, **more: Any) -> dict[str, Any]:
        response = await self.redeemed(**more)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def refreshed(self, tokens: Mapping[str, Any], **more: Any) -> httpx2.Response:
        return await self.post("/token", (await self.begun()).refresh_form(tokens, **more))

    async def revoked(self, token: str) -> httpx2.Response:
        return await self.post("/revoke", {"token": token, "client_id": (await self.begun()).client_id})

    async def post(self, path: str, form: Mapping[str, Any]) -> httpx2.Response:
        return await self.client.post(f"{self.path}{path}", data=form)


def form_of(page: httpx2.Response, answer: str = "allow") -> dict[str, str]:
    [form] = [form for form in PageForms(page.text).forms if "answer" in form]
    return {**form, "answer": answer}


PROXY_ORIGIN = "https://mcp.example.com"
PROXY_MCP = f"{PROXY_ORIGIN}/mcp"


class ProxyServer:
    def __init__(
        self,
        upstream: FakeUpstream | None = None,
        *,
        clock: Clock | None = None,
        origin: str = PROXY_ORIGIN,
        site_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.clock = clock or (Clock() if upstream is None else upstream.clock)
        self.upstream = upstream or FakeUpstream(self.clock)
        self.origin = origin
        self.site = site(origin=origin, **(site_options or {}))
        self.auth = OAuthProxy(self.upstream, clock=self.clock, **options)
        self.auth.bind(self.site)
        self.app = Starlette(routes=[*self.auth.routes()])

    @property
    def context(self) -> VerifierContext:
        return VerifierContext(self.site.name, self.site.keys, self.site.storage, self.site.audit)

    def browser(self) -> httpx2.AsyncClient:
        return browser_at(self.app, self.origin)

    def flow(self, browser: httpx2.AsyncClient | None = None, **more: Any) -> ProxyFlow:
        return ProxyFlow(browser or self.browser(), more.pop("visit", self.upstream.visit), **more)

    async def granted(self, tokens: dict[str, Any]) -> AccessToken:
        return await self.auth.verify(tokens["access_token"], f"{self.origin}/mcp")

    async def token_for(self, tokens: dict[str, Any], provider: str = "example") -> str:
        principal = (await self.granted(tokens)).principal
        return await self.auth.token_for(principal, provider, self.context)


@contextmanager
def client_documents(documents: Mapping[str, object]) -> Iterator[list[str]]:
    """Serve these client ID metadata documents by URL, and no other; gives the requested URLs."""
    requested: list[str] = []

    async def respond(request: httpx2.Request) -> httpx2.Response:
        requested.append(str(request.url))
        document = documents.get(requested[-1])
        return httpx2.Response(404) if document is None else httpx2.Response(200, json=document)

    def client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(respond))

    with patch("mcpkit.auth.ssrf_guard.public_client", client):
        yield requested


class User:
    """A user in front of a browser.

    Args:
        name: The user that they click on; None for the button that refuses.

    Attributes:
        asked: The scopes of each page that they were shown.
        storage: What their client keeps.
    """

    def __init__(self, name: str | None = "ada") -> None:
        self.name = name
        self.asked: list[set[str]] = []
        self.storage = MemoryTokens()

    @property
    def auth(self) -> OAuth:
        """Their login, for `Client(auth=...)`."""
        return OAuth(browser=LocalCallbackServer(open_browser=self._visit), storage=self.storage)

    async def _visit(self, url: str) -> None:
        self.asked.append(set(parse_qs(urlsplit(url).query).get("scope", [""])[0].split()))
        async with httpx2.AsyncClient() as browser:
            page = await browser.get(url)
            assert page.status_code == 200, page.text
            wanted = ("answer", "deny") if self.name is None else ("user", self.name)
            [form] = [form for form in PageForms(page.text).forms if wanted in form.items()]
            answer = await browser.post(url, data=form)
            assert answer.status_code == 303, answer.text
            await browser.get(answer.headers["location"])


class MemoryKeyring(KeyringBackend):
    """Keeps passwords of at most 2,560 bytes in UTF-16, as the Credential Locker does."""

    priority = 5  # type: ignore[assignment]  # a property of the class there
    viable = False  # type: ignore[assignment]  # as well; so that it is used where it is set alone, and not found

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}
        self.problem: Exception | None = None

    def get_password(self, service: str, username: str) -> str | None:
        if self.problem is not None:
            raise self.problem
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        assert len(password.encode("utf-16-le")) <= 2560
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.entries.pop((service, username), None) is None:
            raise PasswordDeleteError("there is none")

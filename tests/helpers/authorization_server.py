"""A protected server and its authorization server at one origin, of which every part can be wrong."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx2
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mcpkit import CacheHint, Context, Scope, Server, ServerOptions
from mcpkit.auth import AccessToken, InvalidTokenError, OAuthProxy, ProtectedResource, TokenVerifier
from mcpkit.client import MemoryTokens, OAuth
from mcpkit.identity.principals_and_scopes import Principal, client
from tests.helpers.oauth_flow import FakeUpstream, Login, client_documents, registration
from tests.helpers.serving import in_thread, in_thread_at
from tests.helpers.waiting import Clock

Document = dict[str, Any]
RESOURCE_PATH = "/.well-known/oauth-protected-resource"
ISSUER_PATH = "/.well-known/oauth-authorization-server"


@dataclass
class Site:
    """Settings of the server; `{origin}` in texts stands for the origin.

    Attributes:
        first: The status of a request without a token.
        bad: The status of a request with a bad one.
        challenge: The header of a 401; None for none.
        headers: More headers of the first answer.
        resource: Changes to the metadata of the server; None removes a member.
        resource_at: The paths where it is.
        issuer: Changes to the metadata of the authorization server.
        issuer_at: The paths where it is.
        answer: What answers a path in the place of all this, by path.
        pages: Whether pages of the web may read it.
    """

    first: int = 401
    bad: int = 401
    challenge: str | None = (
        'Bearer resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp", scope="notes:read"'
    )
    headers: dict[str, str] = field(default_factory=dict)
    resource: Document = field(default_factory=dict)
    resource_at: tuple[str, ...] = (f"{RESOURCE_PATH}/mcp",)
    issuer: Document = field(default_factory=dict)
    issuer_at: tuple[str, ...] = (ISSUER_PATH,)
    answer: dict[str, Callable[[], Response]] = field(default_factory=dict)
    pages: bool = True
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)

    def app(self) -> ASGIApp:
        """Return the ASGI app."""
        app = Starlette()
        app.add_route("/{path:path}", self._serve, methods=["GET", "POST", "DELETE"])
        options: Any = {name: ["*"] for name in ("allow_origins", "allow_methods", "allow_headers")}
        return CORSMiddleware(app, **options, expose_headers=["WWW-Authenticate"]) if self.pages else app

    async def _serve(self, request: Request) -> Response:
        origin, path = str(request.base_url).rstrip("/"), request.url.path
        token = request.headers.get("authorization")
        self.seen.append((request.method, path, token))
        if path in self.answer:
            return self.answer[path]()
        if path in self.resource_at:
            return JSONResponse(_at(origin, {**_RESOURCE, **self.resource}))
        if path in self.issuer_at:
            return JSONResponse(_at(origin, {**_ISSUER, **self.issuer}))
        if path != "/mcp":
            return Response(status_code=404)
        status = self.first if token is None else self.bad
        challenge = {} if status != 401 else {"WWW-Authenticate": self.challenge}
        body = {"jsonrpc": "2.0", "id": 1, "result": {}}
        return JSONResponse(body, status, _at(origin, {**self.headers, **challenge}))


def _at(origin: str, value: Any) -> Any:
    """Replace `{origin}` in all texts of a JSON value, and leave out members that are None."""
    if isinstance(value, dict):
        return {name: _at(origin, each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_at(origin, each) for each in value]
    return value.replace("{origin}", origin) if isinstance(value, str) else value


_RESOURCE: Document = {
    "resource": "{origin}/mcp",
    "authorization_servers": ["{origin}"],
    "scopes_supported": ["notes:read"],
    "bearer_methods_supported": ["header"],
}
_ENDPOINTS: Document = {
    "authorization_endpoint": "{origin}/authorize", "token_endpoint": "{origin}/token",
    "registration_endpoint": "{origin}/register", "response_types_supported": ["code"],
    "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
    "authorization_response_iss_parameter_supported": True,
}  # fmt: skip
_ISSUER: Document = {
    "issuer": "{origin}",
    **_ENDPOINTS,
    "client_id_metadata_document_supported": True,
    "grant_types_supported": ["authorization_code", "refresh_token"],
}


WELL_KNOWN = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource/mcp"


class Granting(TokenVerifier):
    """Issues a token for each request, and accepts those that it has issued.

    Attributes:
        asked: What clients have asked, in order: an endpoint, and its parameters.
        metadata: Changes to its metadata; None removes a member.
        answers: What is answered at a path in the place of all else, one after the other, the last one from then on;
            None for what there is. At "token" and "register" only as often as there is something in the list.
        back: Changes the parameters with which users come back.
        lifetime: Seconds for which tokens are good.
        granted: The scopes that are granted of those asked for; None for all.
        may_refresh: Whether there are refresh tokens.
        live: The scopes of tokens that are good, by token.
        authorizations: The header `Authorization` of all requests to the server.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.metadata: dict[str, Any] = {}
        self.answers: dict[str, list[Any]] = {}
        self.back: Callable[[dict[str, str]], dict[str, str]] = dict
        self.lifetime: Any = 3600
        self.granted: set[str] | None = None
        self.may_refresh = True
        self.live: dict[str, frozenset[str]] = {}
        self.authorizations: list[str | None] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._refresh: dict[str, str] = {}
        self.origin = ""

    @property
    def url(self) -> str:
        """The URL of the protected server."""
        return f"{self.origin}/mcp"

    def of(self, endpoint: str) -> list[dict[str, Any]]:
        """Return the parameters of requests to an endpoint."""
        return [parameters for name, parameters in self.asked if name == endpoint]

    @property
    def grants(self) -> list[str]:
        """The kinds of grants that were asked for."""
        return [form["grant_type"] for form in self.of("token")]

    def bind(self, site: ProtectedResource) -> None:
        self.origin = site.public_url.removesuffix("/mcp")
        self.issuers = (self.origin,)

    async def verify(self, token: str, audience: str) -> AccessToken:
        if token not in self.live:
            raise InvalidTokenError("it is not known here")
        principal = Principal(
            f"{self.origin}#sub=ada", self.live[token], client_id="any", issuer=self.origin, subject="ada"
        )
        return AccessToken(principal, fresh_until=0.0)

    def routes(self) -> Sequence[Route]:
        """The authorization server, and others below paths of its origin."""
        return [
            Route(WELL_KNOWN + "{path:path}", self._describe),
            Route("/{issuer}/authorize", self._authorize),
            Route("/{issuer}/token", self._token, methods=["POST"]),
            Route("/{issuer}/register", self._register, methods=["POST"]),
        ]

    async def _describe(self, request: Request) -> Response:
        path = request.path_params["path"]
        document = _at(self.origin + (path or "/main"), _ENDPOINTS) | {"issuer": self.origin + path}
        return JSONResponse(_at("{origin}", {**document, **self.metadata}))

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        self.asked.append(("authorize", query))
        code = secrets.token_urlsafe()
        self._codes[code] = query
        issuer = request.path_params["issuer"]
        path = "" if issuer == "main" else f"/{issuer}"
        back = self.back({"code": code, "state": query["state"], "iss": self.origin + path})
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(back)}")

    async def _token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.asked.append(("token", form))
        if waiting := self.answers.get("token"):
            return waiting.pop(0)
        if form["grant_type"] == "refresh_token":
            scope = self._refresh.pop(form["refresh_token"], None)
            if scope is None:
                return JSONResponse({"error": "invalid_grant"}, 400)
        else:
            scope = self._codes.pop(form["code"]).get("scope", "")
        return JSONResponse(self.issued(scope))

    def issued(self, scope: str) -> dict[str, Any]:
        """Issue a token for scopes, and return what the endpoint answers."""
        if self.granted is not None:
            scope = " ".join(each for each in scope.split() if each in self.granted)
        token = f"access-{secrets.token_urlsafe(24)}"
        self.live[token] = frozenset(scope.split())
        answer = {"access_token": token, "token_type": "bearer", "scope": scope}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        if self.may_refresh:
            answer["refresh_token"] = f"refresh-{secrets.token_urlsafe(24)}"
            self._refresh[answer["refresh_token"]] = scope
        return answer

    async def _register(self, request: Request) -> Response:
        content = await request.json()
        self.asked.append(("register", content))
        if waiting := self.answers.get("register"):
            return waiting.pop(0)
        return JSONResponse({"client_id": f"client-{secrets.token_urlsafe(6)}", **content}, 201)


@dataclass
class TokenRequest:
    """A request to a token endpoint."""

    path: str
    form: dict[str, str]
    headers: dict[str, str]


class TokenSite(Granting):
    """Issues tokens to programs: the authorization server of an MCP server, and an identity provider at `/idp`.

    Args:
        issuer: Changes to the metadata.
        answer: Answers a request for a token; by default with a new token.
        exchange: The same at the identity provider.
    """

    def __init__(self, issuer: Any = None, answer: Any = None, exchange: Any = None) -> None:
        super().__init__()
        self.metadata = {"token_endpoint_auth_methods_supported": None, **(issuer or {})}
        self.answer = answer
        self.exchange = exchange
        self.may_refresh = False
        self.requests: list[TokenRequest] = []

    @contextmanager
    def running(self) -> Iterator[str]:
        """Run it, and give the URL of the MCP server."""
        server = Server("notes", auth=self, scopes={"notes:read": Scope("Read", default=True)})

        @server.tool
        def whoami(ctx: Context) -> str:
            """Return the client of the token."""
            return str(ctx.principal.client_id)

        with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
            yield f"{origin}/mcp"

    async def verify(self, token: str, audience: str) -> AccessToken:
        grant = await super().verify(token, audience)
        return AccessToken(client(self.origin, "reports", grant.principal.scopes), fresh_until=0.0)

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode(), strict_parsing=True))
        self.requests.append(TokenRequest(request.url.path, form, dict(request.headers)))
        answer = self.exchange if request.url.path == "/idp/token" else self.answer
        return answer(self.requests[-1]) if answer else JSONResponse(self.issued(form.get("scope", "")))


class Answering:
    """An ASGI app that records `Authorization` headers; a test responds to some paths in its place."""

    def __init__(self, app: Any, granting: Granting) -> None:
        self._app = app
        self._granting = granting

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        app = self._app
        if scope["type"] == "http":
            if scope["path"] == "/mcp":
                headers = dict(scope["headers"])
                self._granting.authorizations.append(headers.get(b"authorization", b"").decode() or None)
            if waiting := self._granting.answers.get(scope["path"]):
                app = (waiting.pop(0) if len(waiting) > 1 else waiting[0]) or app
        await app(scope, receive, send)


def notes(auth: TokenVerifier) -> Server:
    """A server with tools for who may read, write and administer."""
    server = Server(
        "notes",
        auth=auth,
        options=ServerOptions(cache={"tools/list": CacheHint(ttl=300, scope="private")}),
        scopes={
            "notes:read": Scope("Read notes", default=True),
            "notes:write": Scope("Change notes", implies=["notes:read"]),
            "notes:admin": Scope("All notes", implies=["notes:write"]),
        },
    )

    @server.tool(scopes="notes:read")
    def whoami(ctx: Context) -> str:
        """Return the caller and its scopes."""
        return f"{ctx.principal.subject}: {' '.join(sorted(ctx.principal.scopes))}"

    @server.tool(scopes="notes:write")
    def add_note(text: str) -> str:
        """Add a note."""
        return f"added {text}"

    @server.tool(scopes="notes:read")
    def repeat(ctx: Context) -> str:
        """Return the caller's token, which no server should do."""
        return ctx.headers["authorization"].removeprefix("Bearer ") + " was sent"

    @server.tool(scopes="notes:admin")
    def clear() -> str:
        """Remove all notes."""
        return "cleared"

    return server


@contextmanager
def granting() -> Iterator[Granting]:
    """Serve both at one origin."""
    auth = Granting()
    server = notes(auth)
    with in_thread_at(
        lambda origin: Answering(server.asgi(public_url=f"{origin}/mcp"), auth),
        timeout_graceful_shutdown=1,  # of an answer that never ends
    ):
        yield auth


class Clicks:
    """A browser with a user who agrees to everything, without a page.

    Attributes:
        visits: The pages that were shown.
        registered: The redirect URIs that it might have waited at.
    """

    def __init__(self, redirect_uri: str = "http://127.0.0.1:3999/callback") -> None:
        self.redirect_uri = redirect_uri
        self.visits: list[dict[str, str]] = []
        self.registered: list[Sequence[str]] = []

    @asynccontextmanager
    async def receive_redirect(self, registered: Sequence[str] = ()) -> AsyncIterator[Clicks]:
        self.registered.append(registered)
        yield self

    async def authorize(self, url: str, state: str) -> Mapping[str, str]:
        self.visits.append(dict(parse_qsl(urlsplit(url).query)))
        async with httpx2.AsyncClient() as web:
            answer = await web.get(url, follow_redirects=False)
        return dict(parse_qsl(urlsplit(urljoin(url, answer.headers["location"])).query))


def clicking(browser: Clicks | None = None, **options: Any) -> OAuth:
    """Return the authorization that logs in with a browser, and keeps tokens in memory."""
    return OAuth(**{"browser": browser or Clicks(), "storage": MemoryTokens(), **options})


# The pages of an `OAuthProxy`, served for a real browser, before a provider who lets everybody in


LOGO = Path(__file__).with_name("logo.svg")
DOCUMENT = "https://claude.ai/oauth/mcp-oauth-client-metadata"
SCOPES = {
    "notes:read": Scope("Read your notes", default=True),
    "notes:write": Scope("Write and delete notes", implies=["notes:read"]),
}
LONG = "Extraordinarily-long-" * 4 + "name"
"""A name that wants to be wider than any page."""


class ConsentPages:
    """Pages by their kinds.

    Args:
        origin: Where the server is.
        client: Where a page of a client is, that leads to what it is given by `to`.
    """

    def __init__(self, origin: str, client: str) -> None:
        self.origin = origin
        self.client = client

    def url(self, kind: str) -> str:
        """Return the URL of a page: `local`, `private`, `web`, `document`, `long`, or `error`."""
        if kind == "error":
            return f"{self.origin}/authorize?client_id=unknown"
        if kind == "document":
            return self.authorize_url(DOCUMENT, "https://claude.ai/api/mcp/auth_callback")
        name, callback = {
            "local": ("Cursor", "http://127.0.0.1:33418/callback"),
            "private": ("Cursor", "cursor://anysphere.cursor-retrieval/oauth/user-mcp/callback"),
            "web": ("Helpful Assistant", "https://assistant.example.com/callback"),
            "long": (LONG, f"https://{'a' * 60}.{'b' * 60}.example.com/callback"),
        }[kind]
        return self.authorize_url(self.registered(callback, name), callback)

    def registered(self, callback: str, name: str = "Cursor") -> str:
        """The id of a new client."""
        metadata = registration(client_name=name, redirect_uris=[callback])
        answer = httpx2.post(f"{self.origin}/register", json=metadata, trust_env=False)
        client_id: str = answer.json()["client_id"]
        return client_id

    def authorize_url(self, client_id: str, callback: str, **more: Any) -> str:
        """Return the URL that a client opens in the browser."""
        query = {"scope": "notes:read notes:write", "resource": f"{self.origin}/mcp", **more}
        return f"{self.origin}/authorize?{urlencode(Login(client_id, callback, **query).query)}"


@contextmanager
def consent_pages() -> Iterator[ConsentPages]:
    """Serve the pages of a server with a name and a picture."""
    callbacks = ["https://claude.ai/api/mcp/auth_callback"]
    document = {"client_id": DOCUMENT, "client_name": "Claude", "redirect_uris": callbacks}

    async def callback(request: Request) -> Response:
        return HTMLResponse("<p>Done</p>")

    async def start(request: Request) -> Response:
        return HTMLResponse(f"<a id=go href='{request.query_params['to']}'>log in</a>")

    async def authorize(request: Request) -> Response:
        return RedirectResponse(await upstream.visit(str(request.url)), 303)

    pages = {"/callback": callback, "/start": start, "/authorize": authorize}
    with (
        client_documents({DOCUMENT: document}),
        in_thread(Starlette(routes=[Route(*each) for each in pages.items()])) as elsewhere,
    ):
        upstream = FakeUpstream(Clock(), name="GitHub", issuer=elsewhere)
        upstream.title = "GitHub"
        proxy = OAuthProxy(upstream, title="Acme Notes", logo=LOGO)
        server = Server("notes", auth=proxy, scopes=SCOPES)
        with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
            yield ConsentPages(origin, elsewhere)


DRAWN = Path(__file__).parents[2] / "docs" / "assets"
PICTURES = {
    "consent-light": ("local", 620, False),
    "consent-dark": ("document", 620, True),
    "consent-phone": ("local", 360, False),
    "consent-error": ("error", 620, False),
}
"""Of each picture the page, how wide the window is, and whether it is dark."""
COLOURS = 48


def main() -> None:
    """Draw the pages for the documentation: `python -m tests.helpers.authorization_server`."""
    from PIL import Image

    from tests.helpers.browser import browsing

    with (
        browsing() as browser,
        consent_pages() as pages,
        browser.profile() as profile,
        TemporaryDirectory() as folder,
    ):
        for name, (kind, width, dark) in PICTURES.items():
            drawn = Path(folder) / f"{name}.png"
            profile.show(width, height=200, dark=dark)
            profile.open(pages.url(kind))
            profile.screenshot(drawn)
            with Image.open(drawn) as picture:
                few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                few.save(DRAWN / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()

"""GitHub, Google and Entra in process, as their documentation describes them, and a client of a server before them."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcpkit import Scope, Server
from mcpkit.auth import Jwt, UpstreamProvider
from mcpkit.doctor import Finding, check_authorization
from tests.helpers import fake_idp as idp
from tests.helpers.oauth_flow import CALLBACK as CLIENT_CALLBACK
from tests.helpers.oauth_flow import PROXY_MCP as MCP
from tests.helpers.oauth_flow import PROXY_ORIGIN as ORIGIN
from tests.helpers.oauth_flow import ProxyFlow, redirect_params
from tests.helpers.pipe import http_request
from tests.helpers.raw_client import lifespan
from tests.helpers.signed_tokens import Signer
from tests.helpers.waiting import Clock

TENANT = "f7e1c2a4-0b3d-4c5e-8f60-112233445566"
CLIENT_ID = "11111111-2222-3333-4444-555555555555"
CLIENT_SECRET = "GOCSPX-given_out_once"
CALLBACK = f"{ORIGIN}/callback"
SCOPES = {"notes:read": Scope("Read notes", default=True)}
_ENTRA = f"https://login.microsoftonline.com/{TENANT}"
METADATA: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("provider_metadata.json").read_text()
)


class Provider(idp.UpstreamSite):
    """A provider at its own host names, with a user who consents without a page.

    Attributes:
        published_at: The URL of its metadata.
        recorded: Its metadata.
        origins: Where it is.
        urls: The paths of a site that other URLs stand for.
        requests: The method, URL and parameters of each request.
    """

    published_at: ClassVar[str]
    recorded: ClassVar[dict[str, Any]]
    origins: ClassVar[tuple[str, ...]]
    urls: ClassVar[dict[str, str]] = {}
    person: ClassVar[dict[str, Any]]

    def start(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.url = self.recorded["issuer"]
        self.client = (CLIENT_ID, CLIENT_SECRET)
        self.users = {"ada": self.person}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        endpoints = {
            "authorization_endpoint": idp.AUTHORIZE, "token_endpoint": idp.TOKEN, "userinfo_endpoint": idp.USERINFO,
            "revocation_endpoint": idp.REVOKE, "jwks_uri": idp.KEYS,
        }  # fmt: skip
        self._paths = {self.recorded.get(name): path for name, path in endpoints.items()} | self.urls

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        parameters = dict(parse_qsl((await request.body()).decode())) | dict(request.query_params)
        self.requests.append((request.method, self._url_of(request), parameters))
        response = await self.answer(request)
        await response(scope, receive, send)

    @staticmethod
    def _url_of(request: Request) -> str:
        return f"{request.url.scheme}://{request.url.hostname}{request.url.path}"

    def path_of(self, request: Request) -> str:
        return self._paths.get(self._url_of(request), "")

    async def respond(self, request: Request, path: str) -> Response:
        is_metadata = self._url_of(request) == self.published_at
        return JSONResponse(self.recorded) if is_metadata else await super().respond(request, path)

    async def page(self, request: Request) -> Response:
        query = request.query_params
        if query.get("client_id") != CLIENT_ID or query.get("redirect_uri") != CALLBACK:
            return Response("The redirect_uri is not associated with this application.", 400)
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        assert "resource" not in query
        return self.consented(query, "ada")

    def code_parameters(self) -> dict[str, str]:
        return {"iss": self.url}


class GitHub(Provider, idp.GitHubSite):
    # A copy of 2026-09-19: github.com/api-evangelist/github-copilot,
    # well-known/github-copilot-github-oauth-authorization-server.json at aa6983573e11cb852114554f238110e4743f49f8
    published_at = "https://github.com/.well-known/oauth-authorization-server/login/oauth"
    recorded = METADATA["GitHub"]
    origins = ("https://github.com", "https://api.github.com")
    paths = idp.UpstreamSite.paths
    urls = {
        "https://api.github.com/user": idp.GITHUB_USER,
        f"https://api.github.com/applications/{CLIENT_ID}/token": idp.GITHUB_APPLICATION,
    }
    person = {"id": 583231, "name": "Ada Lovelace"}

    def __init__(self, clock: Callable[[], float]) -> None:
        idp.GitHubSite.__init__(self)
        self.start(clock)

    async def more(self, request: Request, path: str) -> Response:
        user = self.user_of(request.headers.get("authorization", "").removeprefix("Bearer "))
        if self._url_of(request) == "https://api.github.com/user/repos" and user is not None:
            return JSONResponse([{"full_name": f"{user}/engine", "private": False, "id": 1}])
        return await super().more(request, path)


class _OpenIdProvider(Provider, idp.OpenIdSite):
    scope: ClassVar[str]
    lifetime: ClassVar[int]

    def __init__(self, clock: Callable[[], float]) -> None:
        idp.OpenIdSite.__init__(self, Signer("RS256", "one"))
        self.start(clock)
        self.seconds = self.lifetime

    def separated(self, scopes: tuple[str, ...]) -> str:
        return self.scope

    def extra(self, login: idp.IdpLogin, access_token: str) -> dict[str, Any]:
        if len(login.access) > 1:  # there is no ID token for a refreshed access token
            return {}
        digest = hashlib.sha256(access_token.encode()).digest()[:16]
        at_hash = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        self.claims = lambda claims: {**claims, "at_hash": at_hash, **self.person}
        return super().extra(login, access_token)


class Google(_OpenIdProvider):
    # A copy of 2026-06-20: github.com/api-evangelist/google-cloud-platform,
    # well-known/google-cloud-platform-openid-configuration.json at 05803a539ad4a42e5052eb2024c1900fab357277
    published_at = "https://accounts.google.com/.well-known/openid-configuration"
    recorded = METADATA["Google"]
    origins = (
        *("https://accounts.google.com", "https://oauth2.googleapis.com"),
        *("https://openidconnect.googleapis.com", "https://www.googleapis.com"),
    )
    scope = "openid https://www.googleapis.com/auth/userinfo.email https://www.googleapis.com/auth/userinfo.profile"
    lifetime = 3_599
    person = {
        "sub": "110169484474386276334", "name": "Ada Lovelace", "azp": CLIENT_ID, "email": "ada@example.com",
        "email_verified": True, "hd": "example.com",
    }  # fmt: skip

    def issue(self, login: idp.IdpLogin) -> dict[str, Any]:
        is_offline = (login.asked.get("access_type"), login.asked.get("prompt")) == ("offline", "consent")
        self.refreshes = is_offline and login.refresh is None
        return super().issue(login)

    async def more(self, request: Request, path: str) -> Response:
        if path == idp.REVOKE:  # one token ends them all
            self.end("ada")
        return await super().more(request, path)


class Entra(_OpenIdProvider):
    # A copy of 2024-10-01: github.com/panva/wellknown,
    # issuers/entra-organizations/entra-organizations.mjs at e88dd5e2d1c5cf40ee6358147c7b1117c4049a50
    published_at = f"{_ENTRA}/v2.0/.well-known/openid-configuration"
    recorded = METADATA["Entra"]
    origins = ("https://login.microsoftonline.com", "https://graph.microsoft.com")
    scope = "openid profile email User.Read"
    lifetime = 4_000
    person = {
        "sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "name": "Ada Lovelace", "tid": TENANT,
        "oid": "690222be-ff1a-4d56-abd1-7e4f7d38e474", "preferred_username": "ada@example.com", "ver": "2.0",
    }  # fmt: skip

    def code_parameters(self) -> dict[str, str]:
        return {}

    def issue(self, login: idp.IdpLogin) -> dict[str, Any]:
        self.refreshes = "offline_access" in login.scopes
        return {**super().issue(login), "ext_expires_in": self.lifetime}

    def refused(self, request: Request, error: str, status: int = 400) -> Response:
        number = {"invalid_client": 7000215, "invalid_grant": 70008}[error]
        members = {"error": error, "error_description": f"AADSTS{number}: ...", "error_codes": [number]}
        return JSONResponse(members, status)

    async def more(self, request: Request, path: str) -> Response:
        if path == idp.KEYS:
            return JSONResponse({"keys": [self.signer.public(alg=None, issuer=self.url)]})
        return await super().more(request, path)


KINDS: list[type[Provider]] = [GitHub, Google, Entra]


class Nowhere(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError(f"no test may request {request.url}")


def here(sites: Mapping[str, Any]) -> httpx2.AsyncClient:
    """Return a client of HTTP that reaches these apps, by origin, and nothing else."""
    mounts = {origin: httpx2.ASGITransport(app) for origin, app in sites.items()}
    return httpx2.AsyncClient(mounts=mounts, transport=Nowhere(), base_url=ORIGIN)


def upstream_of(site: Provider, clock: Clock) -> UpstreamProvider:
    options: Any = {"http_client": here(dict.fromkeys(site.origins, site)), "clock": clock}
    if isinstance(site, Entra):
        return UpstreamProvider.entra(TENANT, CLIENT_ID, CLIENT_SECRET, **options)
    make = UpstreamProvider.github if isinstance(site, GitHub) else UpstreamProvider.google
    return make(CLIENT_ID, CLIENT_SECRET, **options)


async def found_directly(kind: Any) -> list[Finding]:
    """Return what the check of authorization finds where clients log in at the provider."""
    site = kind(lambda: 0.0)
    app = Server("notes", auth=Jwt(site.url), scopes=SCOPES).asgi(public_url=MCP)
    async with before(site, app=app) as journey:
        return await check_authorization(MCP, http_client=journey.browser)


class Journey(ProxyFlow):
    """A login and calls at a server before a provider.

    Attributes:
        seen: All that the server has sent.
    """

    def __init__(self, net: httpx2.AsyncClient, site: Provider) -> None:
        super().__init__(net, self._visit)
        self.site = site
        self.seen: list[str] = []
        net.event_hooks = {"response": [self._keep]}

    async def _keep(self, response: httpx2.Response) -> None:
        if str(response.request.url).startswith(ORIGIN):
            await response.aread()
            self.seen.append(response.text + str(response.headers))

    async def _visit(self, url: str) -> str:
        back = await self.browser.get(url)
        assert back.status_code == 302, back.text
        return back.headers["location"]

    async def redirect_to_client(self) -> dict[str, str]:
        """Log in, and return the parameters of the redirect to the client."""
        response = await self.back()
        assert response.headers["location"].startswith(CLIENT_CALLBACK)
        return redirect_params(response)

    async def called(self, tokens: dict[str, Any], tool: str) -> httpx2.Response:
        headers, message = http_request("tools/call", name=tool, arguments={})
        headers["Authorization"] = f"Bearer {tokens['access_token']}"
        return await self.client.post(MCP, json=message, headers=headers)

    async def text(self, tokens: dict[str, Any], tool: str) -> str:
        answer = await self.called(tokens, tool)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["result"]["content"][0]["text"]
        return text


@asynccontextmanager
async def before(site: Provider, server: Server | None = None, app: Any = None) -> AsyncIterator[Journey]:
    """Serve an app, or that of a server, before a provider."""
    if app is None:
        assert server is not None
        app = server.asgi(public_url=MCP)
    async with lifespan(app), here({ORIGIN: app, **dict.fromkeys(site.origins, site)}) as net:
        yield Journey(net, site)

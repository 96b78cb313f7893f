"""GitHub, Google and Entra in process, as their documentation describes them, and a client of a server before them."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from mcpkit import Scope, Server
from mcpkit.auth import InvalidTokenError, TokenVerifier, UpstreamProvider
from mcpkit.doctor import Finding, check_authorization
from tests.helpers.clock import Clock
from tests.helpers.oauth_flow import CALLBACK as CLIENT_CALLBACK
from tests.helpers.oauth_flow import Login, PageForms, redirect_params
from tests.helpers.raw_client import lifespan
from tests.helpers.signed_tokens import Signer

TENANT = "f7e1c2a4-0b3d-4c5e-8f60-112233445566"


_LOGIN = "https://login.microsoftonline.com"


class Recorded(NamedTuple):
    published_at: str
    copy: str
    recorded: str
    metadata: dict[str, Any]


GITHUB = Recorded(
    "https://github.com/.well-known/oauth-authorization-server/login/oauth",
    "github.com/api-evangelist/github-copilot, well-known/github-copilot-github-oauth-authorization-server.json at"
    " aa6983573e11cb852114554f238110e4743f49f8",
    "2026-09-19",
    {
        "issuer": "https://github.com/login/oauth",
        "authorization_endpoint": "https://github.com/login/oauth/authorize",
        "token_endpoint": "https://github.com/login/oauth/access_token",
        "device_authorization_endpoint": "https://github.com/login/device/code",
        "response_types_supported": ["code"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
        ],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "scopes_supported": ["offline_access"],
    },
)


GOOGLE = Recorded(
    "https://accounts.google.com/.well-known/openid-configuration",
    "github.com/api-evangelist/google-cloud-platform, well-known/google-cloud-platform-openid-configuration.json at"
    " 05803a539ad4a42e5052eb2024c1900fab357277",
    "2026-06-20",
    {
        "issuer": "https://accounts.google.com",
        "authorization_endpoint": "https://accounts.google.com/o/oauth2/v2/auth",
        "token_endpoint": "https://oauth2.googleapis.com/token",
        "userinfo_endpoint": "https://openidconnect.googleapis.com/v1/userinfo",
        "revocation_endpoint": "https://oauth2.googleapis.com/revoke",
        "jwks_uri": "https://www.googleapis.com/oauth2/v3/certs",
        "response_types_supported": [
            "code", "token", "id_token", "code token", "code id_token", "token id_token",
            "code token id_token", "none",
        ],
        "response_modes_supported": ["query", "fragment", "form_post"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
            "urn:ietf:params:oauth:grant-type:jwt-bearer",
        ],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid", "email", "profile"],
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        "code_challenge_methods_supported": ["plain", "S256"],
        "authorization_response_iss_parameter_supported": True,
    },
)  # fmt: skip


ENTRA = Recorded(
    f"{_LOGIN}/{TENANT}/v2.0/.well-known/openid-configuration",
    "github.com/panva/wellknown, issuers/entra-organizations/entra-organizations.mjs at"
    " e88dd5e2d1c5cf40ee6358147c7b1117c4049a50",
    "2024-10-01",
    {
        "issuer": f"{_LOGIN}/{TENANT}/v2.0",
        "authorization_endpoint": f"{_LOGIN}/{TENANT}/oauth2/v2.0/authorize",
        "token_endpoint": f"{_LOGIN}/{TENANT}/oauth2/v2.0/token",
        "userinfo_endpoint": "https://graph.microsoft.com/oidc/userinfo",
        "jwks_uri": f"{_LOGIN}/{TENANT}/discovery/v2.0/keys",
        "end_session_endpoint": f"{_LOGIN}/{TENANT}/oauth2/v2.0/logout",
        "response_types_supported": ["code", "id_token", "code id_token", "id_token token"],
        "response_modes_supported": ["query", "fragment", "form_post"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid", "profile", "email", "offline_access"],
        "token_endpoint_auth_methods_supported": [
            "client_secret_post",
            "private_key_jwt",
            "client_secret_basic",
        ],
        "request_uri_parameter_supported": False,
    },
)


CLIENT_ID = "11111111-2222-3333-4444-555555555555"


CLIENT_SECRET = "GOCSPX-given_out_once"


CALLBACK = "https://mcp.example.com/callback"


class Provider:
    recorded: ClassVar[Recorded]
    origins: ClassVar[tuple[str, ...]]
    callback_has_issuer: ClassVar[bool] = True

    def __init__(self, clock: Callable[[], float]) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.given: set[str] = set()
        self.revoked: list[str] = []
        self.denies = False
        self.is_gone = False
        self._clock = clock
        self._signer = Signer("RS256", "one")
        self._codes: dict[str, dict[str, str]] = {}
        self._tokens: dict[str, float] = {}
        self._refresh_tokens: dict[str, str] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    @property
    def metadata(self) -> dict[str, Any]:
        return self.recorded.metadata

    async def _answer(self, request: Request) -> Response:
        url = f"{request.url.scheme}://{request.url.hostname}{request.url.path}"
        form = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        query = dict(parse_qsl(request.url.query, keep_blank_values=True))
        self.asked.append((request.method, url, {**query, **form}))
        if url == self.recorded.published_at:
            return JSONResponse(self.metadata)
        if url == self.metadata["authorization_endpoint"]:
            return self._authorized(query)
        if url == self.metadata["token_endpoint"] and request.method == "POST":
            return self._redeemed(request, form)
        return await self._more(url, request, form)

    def _authorized(self, query: Mapping[str, str]) -> Response:
        if query.get("client_id") != CLIENT_ID or query.get("redirect_uri") != CALLBACK:
            return Response("The redirect_uri is not associated with this application.", 400)
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert "resource" not in query
        redirect_params = {"state": query["state"]}
        if self.callback_has_issuer:
            redirect_params["iss"] = self.metadata["issuer"]
        if self.denies:
            redirect_params |= {
                "error": "access_denied",
                "error_description": "The user has denied your application access",
            }
        else:
            redirect_params["code"] = self._secret("code")
            self._codes[redirect_params["code"]] = dict(query)
        return RedirectResponse(f"{CALLBACK}?{urlencode(redirect_params)}", 302)

    def _redeemed(self, request: Request, form: Mapping[str, str]) -> Response:
        if not self._knows(request, form):
            return self._no("invalid_client")
        if form["grant_type"] == "refresh_token":
            begun = self._refresh_tokens.get(form["refresh_token"])
            if begun is None or self.is_gone:
                return self._no("invalid_grant")
            return JSONResponse(self._renewed(form["refresh_token"]))
        asked = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        self.given.add(form["code_verifier"])
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or form["redirect_uri"] != CALLBACK or asked["code_challenge"] != challenge:
            return self._no("invalid_grant")
        return JSONResponse(self._issued(asked))

    def _knows(self, request: Request, form: Mapping[str, str]) -> bool:
        in_form = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        return in_form != self._has_basic(request)

    @staticmethod
    def _has_basic(request: Request) -> bool:
        pair = f"{quote(CLIENT_ID, safe='')}:{quote(CLIENT_SECRET, safe='')}"
        return request.headers.get("authorization") == f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _no(self, error: str) -> Response:
        return JSONResponse(
            {"error": error, "error_description": "Bad Request"}, 401 if "client" in error else 400
        )

    def _secret(self, kind: str) -> str:
        secret = f"{kind}-{secrets.token_urlsafe(24)}"
        self.given.add(secret)
        return secret

    def _access_token(self, lifetime: float) -> str:
        token = self._secret("access")
        self._tokens[token] = self._clock() + lifetime
        return token

    def _refresh_token(self) -> str:
        token = self._secret("refresh")
        self._refresh_tokens[token] = token
        return token

    def _is_good(self, request: Request) -> bool:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self._tokens.get(token, 0.0) > self._clock() and token not in self.revoked and not self.is_gone

    def _id_token(self, asked: Mapping[str, str], access_token: str, **claims: Any) -> str:
        digest = hashlib.sha256(access_token.encode()).digest()[:16]
        now = int(self._clock())
        told = {
            "iss": self.metadata["issuer"],
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 3600,
            "nonce": asked["nonce"],
            "at_hash": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            **claims,
        }
        token = self._signer.token(told, {"typ": "JWT"})
        self.given.add(token)
        return token

    def _issued(self, asked: Mapping[str, str]) -> dict[str, Any]:
        raise NotImplementedError

    def _renewed(self, refresh_token: str) -> dict[str, Any]:
        raise NotImplementedError

    async def _more(self, url: str, request: Request, form: Mapping[str, str]) -> Response:
        raise NotImplementedError


class GitHub(Provider):
    recorded = GITHUB
    origins = ("https://github.com", "https://api.github.com")
    expires = False

    def _knows(self, request: Request, form: Mapping[str, str]) -> bool:
        return (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)

    def _no(self, error: str) -> Response:
        named = {"invalid_client": "incorrect_client_credentials", "invalid_grant": "bad_verification_code"}
        return JSONResponse({"error": named[error], "error_description": "It is incorrect or expired."})

    def _issued(self, asked: Mapping[str, str]) -> dict[str, Any]:
        scope = ",".join(asked.get("scope", "").split())
        lifetime = 28_800.0 if self.expires else 10.0**9
        told = {"access_token": self._access_token(lifetime), "scope": scope, "token_type": "bearer"}
        if not self.expires:
            return told
        return {
            **told,
            "expires_in": 28_800,
            "refresh_token": self._refresh_token(),
            "refresh_token_expires_in": 15_811_200,
        }

    def _renewed(self, refresh_token: str) -> dict[str, Any]:
        del self._refresh_tokens[refresh_token]
        return self._issued({})

    async def _more(self, url: str, request: Request, form: Mapping[str, str]) -> Response:
        if not request.headers.get("user-agent"):
            return Response("Request forbidden by administrative rules.", 403)
        if url == "https://api.github.com/user" and request.method == "GET":
            if not self._is_good(request):
                return JSONResponse({"message": "Bad credentials", "status": "401"}, 401)
            person = {"login": "ada", "id": 583231, "node_id": "MDQ6VXNlcjE=", "type": "User"}
            return JSONResponse({**person, "name": "Ada Lovelace", "email": None, "site_admin": False})
        if url == "https://api.github.com/user/repos" and self._is_good(request):
            return JSONResponse([{"full_name": "ada/engine", "private": False, "id": 1}])
        if url == f"https://api.github.com/applications/{CLIENT_ID}/token" and request.method == "DELETE":
            if not self._has_basic(request):
                return Response(status_code=404)
            self.revoked.append(json.loads(await request.body())["access_token"])
            return Response(status_code=204)
        return Response(status_code=404)


class Google(Provider):
    recorded = GOOGLE
    origins = (
        "https://accounts.google.com",
        "https://oauth2.googleapis.com",
        "https://openidconnect.googleapis.com",
        "https://www.googleapis.com",
    )

    _scope = "openid https://www.googleapis.com/auth/userinfo.email https://www.googleapis.com/auth/userinfo.profile"

    def _issued(self, asked: Mapping[str, str]) -> dict[str, Any]:
        token = self._access_token(3_599)
        told = {
            "access_token": token,
            "expires_in": 3_599,
            "scope": self._scope,
            "token_type": "Bearer",
            "id_token": self._id_token(asked, token, azp=CLIENT_ID, **self._person),
        }
        is_offline = asked.get("access_type") == "offline" and asked.get("prompt") == "consent"
        return {**told, "refresh_token": self._refresh_token()} if is_offline else told

    def _renewed(self, refresh_token: str) -> dict[str, Any]:
        token = self._access_token(3_599)
        return {"access_token": token, "expires_in": 3_599, "scope": self._scope, "token_type": "Bearer"}

    _person: ClassVar[dict[str, Any]] = {
        "sub": "110169484474386276334",
        "email": "ada@example.com",
        "email_verified": True,
        "hd": "example.com",
        "name": "Ada Lovelace",
    }

    async def _more(self, url: str, request: Request, form: Mapping[str, str]) -> Response:
        if url == self.metadata["jwks_uri"]:
            return JSONResponse({"keys": [self._signer.public()]})
        if url == self.metadata["userinfo_endpoint"]:
            if self._is_good(request):
                return JSONResponse(self._person)
            return JSONResponse({"error": "invalid_request", "error_description": "Invalid Credentials"}, 401)
        if url == self.metadata["revocation_endpoint"] and request.method == "POST":
            self.revoked.append(form["token"])
            self.is_gone = True  # one token ends them all
            return JSONResponse({})
        return Response(status_code=404)


class Entra(Provider):
    recorded = ENTRA
    origins = ("https://login.microsoftonline.com", "https://graph.microsoft.com")
    callback_has_issuer = False

    def _issued(self, asked: Mapping[str, str]) -> dict[str, Any]:
        token = self._access_token(4_000)
        told = {
            "token_type": "Bearer",
            "scope": "openid profile email User.Read",
            "expires_in": 4_000,
            "ext_expires_in": 4_000,
            "access_token": token,
        }
        if "nonce" in asked:
            told["id_token"] = self._id_token(
                asked,
                token,
                sub="AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ",
                oid="690222be-ff1a-4d56-abd1-7e4f7d38e474",
                tid=TENANT,
                preferred_username="ada@example.com",
                name="Ada Lovelace",
                ver="2.0",
            )
        if "offline_access" in asked["scope"].split():
            told["refresh_token"] = self._refresh_token()
        return told

    def _renewed(self, refresh_token: str) -> dict[str, Any]:
        return self._issued({"scope": "offline_access"})

    def _no(self, error: str) -> Response:
        number = {"invalid_client": 7000215, "invalid_grant": 70008}[error]
        told = {"error": error, "error_description": f"AADSTS{number}: ...", "error_codes": [number]}
        return JSONResponse(told, 401 if error == "invalid_client" else 400)

    async def _more(self, url: str, request: Request, form: Mapping[str, str]) -> Response:
        if url == self.metadata["jwks_uri"]:
            return JSONResponse({"keys": [self._signer.public(alg=None, issuer=self.metadata["issuer"])]})
        if url == self.metadata["userinfo_endpoint"]:
            if self._is_good(request):
                return JSONResponse(
                    {"sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "name": "Ada Lovelace"}
                )
            return JSONResponse({"error": {"code": "InvalidAuthenticationToken"}}, 401)
        return Response(status_code=404)


class Nowhere(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError(f"nobody may ask {request.url}")


def here(sites: Mapping[str, Any]) -> httpx2.AsyncClient:
    mounts = {origin: httpx2.ASGITransport(app) for origin, app in sites.items()}
    return httpx2.AsyncClient(mounts=mounts, transport=Nowhere())


ORIGIN = "https://mcp.example.com"


MCP = f"{ORIGIN}/mcp"


KINDS: list[type[Provider]] = [GitHub, Google, Entra]


SCOPES = {"notes:read": Scope("Read notes", default=True)}


def upstream_of(site: Provider, clock: Clock) -> UpstreamProvider:
    net = here(dict.fromkeys(site.origins, site))
    if isinstance(site, GitHub):
        return UpstreamProvider.github(CLIENT_ID, CLIENT_SECRET, http_client=net, clock=clock)
    if isinstance(site, Google):
        return UpstreamProvider.google(CLIENT_ID, CLIENT_SECRET, http_client=net, clock=clock)
    return UpstreamProvider.entra(TENANT, CLIENT_ID, CLIENT_SECRET, http_client=net, clock=clock)


class NoToken(TokenVerifier):
    def __init__(self, issuer: str) -> None:
        self.issuers = (issuer,)

    async def verify(self, token: str, audience: str) -> Any:
        raise InvalidTokenError("nobody has issued it")


async def found_directly(kind: type[Provider]) -> list[Finding]:
    site = kind(lambda: 0.0)
    app = Server("notes", auth=NoToken(site.metadata["issuer"]), scopes=SCOPES).asgi(public_url=MCP)
    async with before(site, app=app) as journey:
        return await check_authorization(MCP, http_client=journey.net)


class Journey:
    def __init__(self, net: httpx2.AsyncClient, site: Provider) -> None:
        self.net = net
        self.site = site
        self.seen: list[str] = []
        self.login = Login("")

    async def registered(self) -> None:
        metadata = {
            "client_name": "An editor",
            "redirect_uris": [CLIENT_CALLBACK],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
        }
        answer = self._kept(await self.net.post(f"{ORIGIN}/register", json=metadata))
        assert answer.status_code == 201, answer.text
        self.login = Login(answer.json()["client_id"], resource=MCP)

    async def consented(self) -> httpx2.Response:
        page = await self.net.get(f"{ORIGIN}/authorize", params=self.login.query)
        assert page.status_code == 200, page.text
        [form] = PageForms(page.text).forms
        return await self.net.post(f"{ORIGIN}/authorize", data={**form, "answer": "allow"})

    async def come_back(self) -> dict[str, str]:
        onward = await self.consented()
        assert onward.status_code == 303, onward.text
        back = await self.net.get(onward.headers["location"])
        assert back.status_code == 302, back.text
        ended = await self.net.get(back.headers["location"])
        self.seen.append(ended.headers["location"])
        assert ended.headers["location"].startswith(CLIENT_CALLBACK)
        return redirect_params(ended)

    async def tokens(self) -> dict[str, Any]:
        await self.registered()
        answer = await self.come_back()
        assert (answer["iss"], answer["state"]) == (ORIGIN, self.login.query["state"])
        granted = await self.posted("/token", self.login.form(answer["code"]))
        assert granted.status_code == 200, granted.text
        found: dict[str, Any] = granted.json()
        return found

    async def refreshed(self, tokens: dict[str, Any]) -> httpx2.Response:
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        return await self.posted("/token", {**form, "client_id": self.login.client_id})

    async def posted(self, path: str, form: dict[str, Any]) -> httpx2.Response:
        return self._kept(await self.net.post(f"{ORIGIN}{path}", data=form))

    async def called(self, tokens: dict[str, Any], tool: str) -> httpx2.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": tool, "arguments": {}, "_meta": meta}
        headers = {
            "Authorization": f"Bearer {tokens['access_token']}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return self._kept(await self.net.post(MCP, json=message, headers=headers))

    async def text(self, tokens: dict[str, Any], tool: str) -> str:
        answer = await self.called(tokens, tool)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["result"]["content"][0]["text"]
        return text

    def _kept(self, answer: httpx2.Response) -> httpx2.Response:
        self.seen.append(answer.text + str(answer.headers))
        return answer


@asynccontextmanager
async def before(site: Provider, server: Server | None = None, app: Any = None) -> AsyncIterator[Journey]:
    if app is None:
        assert server is not None
        app = server.asgi(public_url=MCP)
    async with lifespan(app), here({ORIGIN: app, **dict.fromkeys(site.origins, site)}) as net:
        yield Journey(net, site)

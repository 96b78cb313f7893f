"""GitHub, Google and Entra as far as a login goes, in this process and under their own names: nothing leaves it."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote, urlencode

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from tests.helpers.recorded_providers import ENTRA, GITHUB, GOOGLE, TENANT, Recorded
from tests.helpers.signed_tokens import Signer

CLIENT_ID = "11111111-2222-3333-4444-555555555555"
CLIENT_SECRET = "GOCSPX-given_out_once"
CALLBACK = "https://mcp.example.com/callback"


class Provider:
    """A provider with one client, that somebody has registered by hand, and one user, who agrees to everything.

    Args:
        clock: The time.

    Attributes:
        origin: The URL of each host of its.
        asked: What has been asked of it, as method, URL and form.
        given: Each secret that it has given out or been sent.
        revoked: The tokens that it was told to end.
        denies: Whether the user does not agree.
        is_gone: Whether the user has taken back what they have allowed.
    """

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
        """Answer a request to any of its hosts."""
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    @property
    def metadata(self) -> dict[str, Any]:
        """What it publishes."""
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
        """Send the user back, who sees a page of the provider's and agrees."""
        if query.get("client_id") != CLIENT_ID or query.get("redirect_uri") != CALLBACK:
            return Response("The redirect_uri is not associated with this application.", 400)
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert "resource" not in query
        said = {"state": query["state"]}
        if self.callback_has_issuer:
            said["iss"] = self.metadata["issuer"]
        if self.denies:
            said |= {
                "error": "access_denied",
                "error_description": "The user has denied your application access",
            }
        else:
            said["code"] = self._secret("code")
            self._codes[said["code"]] = dict(query)
        return RedirectResponse(f"{CALLBACK}?{urlencode(said)}", 302)

    def _redeemed(self, request: Request, form: Mapping[str, str]) -> Response:
        """Answer at the token endpoint."""
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
        """Whether the client has shown its secret, in either way."""
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
        """Return the tokens of a login."""
        raise NotImplementedError

    def _renewed(self, refresh_token: str) -> dict[str, Any]:
        """Return the tokens of a refresh."""
        raise NotImplementedError

    async def _more(self, url: str, request: Request, form: Mapping[str, str]) -> Response:
        """Answer what this provider alone has."""
        raise NotImplementedError


class GitHub(Provider):
    """GitHub, where each refusal of tokens has status 200, and the client ends a token by a request of its API.

    https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps,
    https://docs.github.com/en/rest/users/users#get-the-authenticated-user,
    https://docs.github.com/en/rest/apps/oauth-applications#delete-an-app-token,
    https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#user-agent (read 2026-11-23).

    Attributes:
        expires: Whether tokens expire, as the settings of the application say.
    """

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
    """Google, which gives a refresh token to whoever asks for offline access and consent, and never another one.

    https://developers.google.com/identity/protocols/oauth2/web-server,
    https://developers.google.com/identity/openid-connect/openid-connect (read 2026-11-23).
    """

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
    """One tenant of Entra, whose keys have no `alg`, and which ends no token that it is asked to end.

    https://learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow,
    https://learn.microsoft.com/entra/identity-platform/id-token-claims-reference (read 2026-11-23).
    """

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
    """What is asked of any other host fails: no test leaves this process."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError(f"nobody may ask {request.url}")


def here(sites: Mapping[str, Any]) -> httpx2.AsyncClient:
    """Return a client for which each origin is an ASGI app of this process.

    Args:
        sites: The apps, by origin.
    """
    mounts = {origin: httpx2.ASGITransport(app) for origin, app in sites.items()}
    return httpx2.AsyncClient(mounts=mounts, transport=Nowhere())

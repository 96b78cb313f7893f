"""An OpenID provider of which each part can be wrong: `Upstream.openid(site.url, *CLIENT)`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.helpers.signed_tokens import Signer
from tests.helpers.upstream_site import Login, UpstreamSite, serving_site

METADATA = "/.well-known/openid-configuration"
AUTHORIZE = "/authorize"
TOKEN = "/token"
USERINFO = "/userinfo"
REVOKE = "/revoke"
KEYS = "/keys"


class OpenIdSite(UpstreamSite):
    """An OpenID provider.

    Args:
        signer: What signs its ID tokens.

    Attributes:
        signer: What signs its ID tokens.
        published: The keys that it publishes.
        metadata: Changes to its metadata; None leaves a member out.
        claims: What becomes of the claims of ID tokens.
        header: Changes to the header of ID tokens.
        told: What becomes of what userinfo answers.
        clock: The time.
    """

    paths = {"authorize": AUTHORIZE, "token": TOKEN}

    def __init__(self, signer: Signer) -> None:
        super().__init__()
        self.signer = signer
        self.published = [signer]
        self.metadata: dict[str, Any] = {}
        self.claims: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.header: dict[str, Any] = {}
        self.told: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.clock: Callable[[], float] = time.time

    def extra(self, login: Login, access_token: str) -> dict[str, Any]:
        """Return an ID token."""
        now = int(self.clock())
        claims = {
            "iss": self.url,
            "sub": f"sub-of-{login.user}",
            "aud": self.client[0],
            "exp": now + 300,
            "iat": now,
            "nonce": login.asked.get("nonce"),
        }
        told = {name: value for name, value in self.claims(claims).items() if value is not None}
        token = self.signer.sign(json.dumps(told).encode(), {"typ": "JWT", **self.header})
        self.secrets.add(token)
        return {"id_token": token}

    async def more(self, request: Request, path: str) -> Response:
        """Answer what is OpenID Connect's own."""
        if path == METADATA:
            return JSONResponse(self._metadata())
        if path == KEYS:
            return JSONResponse({"keys": [each.public() for each in self.published]})
        if path == USERINFO:
            user = self.user_of(request.headers.get("authorization", "").removeprefix("Bearer "))
            if user is None:
                return Response(status_code=401, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})
            told = {"sub": f"sub-of-{user}", "name": user.title(), **self.users[user]}
            return JSONResponse(self.told(told))
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

    def _metadata(self) -> dict[str, Any]:
        members = {
            "issuer": self.url,
            "authorization_endpoint": self.url + AUTHORIZE,
            "token_endpoint": self.url + TOKEN,
            "userinfo_endpoint": self.url + USERINFO,
            "revocation_endpoint": self.url + REVOKE,
            "jwks_uri": self.url + KEYS,
            "scopes_supported": ["openid", "profile", "email", "offline_access"],
            "code_challenge_methods_supported": ["S256"],
            **self.metadata,
        }
        return {name: value for name, value in members.items() if value is not None}


@contextmanager
def openid(signer: Signer | None = None) -> Iterator[OpenIdSite]:
    """Serve an OpenID provider until the end of the block."""
    site = OpenIdSite(signer or Signer())
    with serving_site(site):
        yield site

"""A GitHub Enterprise Server as its documentation has it, with one OAuth app: `Upstream.github(*CLIENT, url=site.url)`.

https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps
https://docs.github.com/en/rest/apps/oauth-applications
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.helpers.upstream_site import CLIENT, Login, UpstreamSite, serving_site

USER = "/api/v3/user"
TOKEN = "/login/oauth/access_token"
AUTHORIZE = "/login/oauth/authorize"
APPLICATION = f"/api/v3/applications/{CLIENT[0]}/token"
IDS = {"ada": 1815, "bob": 1969}
_ERRORS = {
    "invalid_client": "incorrect_client_credentials",
    "invalid_grant": "bad_verification_code",
}


class GitHubSite(UpstreamSite):
    """GitHub. Its tokens do not expire, and have no refresh token, unless `seconds` and `refreshes` are set.

    Attributes:
        says_issuer: Whether callbacks say who it is.
    """

    remembers = True
    paths = {"authorize": AUTHORIZE, "token": TOKEN}

    def __init__(self) -> None:
        super().__init__()
        self.seconds = None
        self.refreshes = False
        self.says_issuer = True

    def code_parameters(self) -> dict[str, str]:
        """Return who it is."""
        return {"iss": f"{self.url}/login/oauth"} if self.says_issuer else {}

    def separated(self, scopes: tuple[str, ...]) -> str:
        """Return scopes with commas between them."""
        return ",".join(scopes)

    def refused(self, request: Request, error: str, status: int = 400) -> Response:
        """Refuse with the status 200."""
        if error == "invalid_grant" and self.forms[-1][1]["grant_type"] == "refresh_token":
            error = "bad_refresh_token"
        return self.granted(
            request,
            {
                "error": _ERRORS.get(error, error),
                "error_description": "The code passed is incorrect or expired.",
                "error_uri": "https://docs.github.com/",
            },
        )

    def granted(self, request: Request, members: dict[str, Any]) -> Response:
        """Answer with a form to whoever does not ask for JSON."""
        if "json" in request.headers.get("accept", ""):
            return JSONResponse(members)
        return Response(urlencode(members), media_type="application/x-www-form-urlencoded")

    def extra(self, login: Login, access_token: str) -> dict[str, Any]:
        """Return for how long a refresh token is good."""
        return {"refresh_token_expires_in": 15_897_600} if self.refreshes else {}

    async def more(self, request: Request, path: str) -> Response:
        """Answer a request to the API."""
        if not request.headers.get("user-agent"):
            return JSONResponse({"message": "Request forbidden by administrative rules."}, 403)
        if path == USER:
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            user = self.user_of(token)
            if user is None:
                return JSONResponse({"message": "Bad credentials", "status": "401"}, 401)
            return JSONResponse(self._profile(user))
        if path == APPLICATION and request.method == "DELETE":
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
            "login": user,
            "id": IDS[user],
            "node_id": f"U_{IDS[user]}",
            "avatar_url": f"https://avatars.githubusercontent.com/u/{IDS[user]}",
            "html_url": f"https://github.com/{user}",
            "type": "User",
            "site_admin": False,
            "name": user.title(),
            "company": None,
            "email": None,
            "two_factor_authentication": True,
            "plan": {"name": "pro", "space": 976_562_499},
            "followers_url": f"https://api.github.com/users/{user}/followers",
            **self.users[user],
        }


@contextmanager
def github() -> Iterator[GitHubSite]:
    """Serve GitHub until the end of the block."""
    site = GitHubSite()
    with serving_site(site):
        yield site

"""GitHub: its own kind of OAuth, and an API for the identity of the user. Pages were read on 2026-11-23."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from ..urls import check_url
from .endpoints import Endpoints
from .errors import UpstreamRefusedError, UpstreamUnavailableError
from .oauth import OAuthProvider
from .options import Settings
from .tokens import Identity, UpstreamTokens

# Who it says that it is, in `iss` too, which its callbacks have since 2026: the metadata at
# https://github.com/.well-known/oauth-authorization-server/login/oauth, and
# https://docs.github.com/en/apps/github-authentication-discovery-endpoints
_ISSUER_PATH: Final = "/login/oauth"
_GITHUB: Final = "https://github.com"
_HEADERS: Final = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
# /user also has what is nobody's business here, such as the plan and how much of the disk is used:
# https://docs.github.com/en/rest/users/users#get-the-authenticated-user
_KEPT: Final = (
    "login",
    "id",
    "node_id",
    "name",
    "email",
    "company",
    "avatar_url",
    "html_url",
    "type",
    "site_admin",
)


def github_issuer(url: str) -> str:
    """Return the issuer of GitHub, or of a GitHub Enterprise Server.

    Raises:
        MetadataError: The URL is not https.
    """
    return check_url(url, "url").rstrip("/") + _ISSUER_PATH


class GitHubProvider(OAuthProvider):
    """GitHub, or a GitHub Enterprise Server.

    Args:
        settings: Settings of the provider.
        url: URL of the server.
    """

    # "scope":"repo,gist" in answers, though requests have spaces:
    # https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps
    separators = " ,"

    def __init__(self, settings: Settings, url: str) -> None:
        base = url.rstrip("/")
        self._api = _api_of(base)
        endpoints = Endpoints(
            f"{settings.issuer}/authorize",
            f"{settings.issuer}/access_token",
            f"{self._api}/user",
            says_issuer=base == _GITHUB,  # servers of enterprises are older
            authentication="post",  # as the same page has it
        )
        super().__init__(settings, endpoints, "id")

    async def userinfo(
        self, endpoints: Endpoints, tokens: UpstreamTokens, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, object]:
        """Return the response of the API for the user of an access token."""
        return await super().userinfo(endpoints, tokens, _HEADERS)

    def identity_in(self, members: Mapping[str, object]) -> Identity:
        """Return the identity in a response. The subject is the numeric ID, because names can change owners."""
        told = {name: members[name] for name in _KEPT if members.get(name) is not None}
        if not isinstance(told.get("id"), int):
            told.pop("id", None)
        return super().identity_in(told)

    async def revoke(self, tokens: UpstreamTokens) -> None:
        """Delete a token at GitHub, and with it its refresh token."""
        # https://docs.github.com/en/rest/apps/oauth-applications#delete-an-app-token
        if tokens.expires is not None and self.settings.clock() >= tokens.expires:
            try:
                tokens = await self.refresh(tokens)  # only a token that lives can be deleted
            except UpstreamRefusedError:
                return
        client = self.settings.client
        pair = base64.b64encode(f"{client.id}:{client.secret}".encode()).decode()
        answer = await self.ask(
            "DELETE",
            f"{self._api}/applications/{quote(client.id, safe='')}/token",
            "revocation",
            {**_HEADERS, "Authorization": f"Basic {pair}", "Content-Type": "application/json"},
            json.dumps({"access_token": tokens.access_token}).encode(),
        )
        if answer.status not in {204, 404, 422}:  # the latter two: there is no such token any more
            raise UpstreamUnavailableError(
                f"{answer.what} ({answer.url}) responded with HTTP {answer.status}"
            )


def _api_of(url: str) -> str:
    """Return the URL of the API of GitHub or GitHub Enterprise.

    https://docs.github.com/en/enterprise-server/rest/using-the-rest-api/getting-started-with-the-rest-api
    https://docs.github.com/en/enterprise-cloud@latest/rest/using-the-rest-api/getting-started-with-the-rest-api
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host == "github.com" or host.endswith(".ghe.com"):
        return f"{parts.scheme}://api.{parts.netloc}"
    return f"{url}/api/v3"

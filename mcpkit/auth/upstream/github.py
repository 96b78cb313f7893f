"""GitHub: its own kind of OAuth, and an API for the identity of the user. Pages were read on 2026-11-23."""

from __future__ import annotations

import base64
import json
from typing import Final
from urllib.parse import quote, urlsplit

from ..urls import check_url
from .upstream_client import (
    Endpoints,
    Identity,
    OAuthClient,
    UpstreamRefusedError,
    UpstreamSettings,
    UpstreamTokens,
    unexpected_status,
)

_GITHUB: Final = "https://github.com"
_HEADERS: Final = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
# /user has more, such as the plan and the disk usage, which no server needs:
# https://docs.github.com/en/rest/users/users#get-the-authenticated-user
_CLAIMS: Final = (
    *("login", "id", "node_id", "name", "email"),
    *("company", "avatar_url", "html_url", "type", "site_admin"),
)


def github_issuer(url: str) -> str:
    """Return the issuer of GitHub, or of a GitHub Enterprise Server.

    It is the value of `iss`, which callbacks contain since 2026; see the metadata at
    https://github.com/.well-known/oauth-authorization-server/login/oauth, and
    https://docs.github.com/en/apps/github-authentication-discovery-endpoints

    Raises:
        MetadataError: The URL is not https.
    """
    return check_url(url, "url").rstrip("/") + "/login/oauth"


class GitHubClient(OAuthClient):
    """OAuth client at GitHub, or at a GitHub Enterprise Server.

    Args:
        settings: Settings of the provider.
        url: URL of the server.
    """

    # Responses contain "scope":"repo,gist", although requests have spaces:
    # https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps
    scope_separators = " ,"

    def __init__(self, settings: UpstreamSettings, url: str) -> None:
        url = url.rstrip("/")
        parts = urlsplit(url)
        host = parts.hostname or ""
        # https://docs.github.com/en/enterprise-server/rest/using-the-rest-api/getting-started-with-the-rest-api
        # https://docs.github.com/en/enterprise-cloud@latest/rest/using-the-rest-api/getting-started-with-the-rest-api
        has_api_host = host == "github.com" or host.endswith(".ghe.com")
        self._api = f"{parts.scheme}://api.{parts.netloc}" if has_api_host else f"{url}/api/v3"
        endpoints = Endpoints(
            f"{settings.issuer}/authorize",
            f"{settings.issuer}/access_token",
            sends_iss=url == _GITHUB,  # Enterprise Servers are older
            authentication="post",  # as in the page about scopes
        )
        super().__init__(settings, endpoints, f"{self._api}/user", "id")

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return the identity of the user. The subject is the numeric ID, because names can change owners."""
        user = await self.userinfo(f"{self._api}/user", tokens, _HEADERS)
        claims = {name: user[name] for name in _CLAIMS if user.get(name) is not None}
        subject = claims.get("id")
        is_number = isinstance(subject, int) and not isinstance(subject, bool)
        return self.identity(str(subject) if is_number else None, claims)

    async def revoke(self, tokens: UpstreamTokens) -> None:
        """Delete a token at GitHub, and with it its refresh token."""
        # https://docs.github.com/en/rest/apps/oauth-applications#delete-an-app-token
        if tokens.expires is not None and self.settings.clock() >= tokens.expires:
            try:
                tokens = await self.refresh(tokens)  # GitHub deletes valid tokens only
            except UpstreamRefusedError:
                return
        client = self.settings.client
        credentials = base64.b64encode(f"{client.id}:{client.secret}".encode()).decode()
        answer = await self.send(
            "DELETE",
            f"{self._api}/applications/{quote(client.id, safe='')}/token",
            "revocation",
            {**_HEADERS, "Authorization": f"Basic {credentials}", "Content-Type": "application/json"},
            json.dumps({"access_token": tokens.access_token}).encode(),
        )
        if answer.status not in {204, 404, 422}:  # the last two: the token does not exist any more
            raise unexpected_status(answer)

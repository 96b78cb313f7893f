"""The provider that users log in with."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import Unpack

from .errors import UpstreamUnavailableError
from .options import UpstreamOptions
from .tokens import Identity, UpstreamTokens


class Upstream:
    """The provider that users log in with, and this server as its client: `Upstream.github(CLIENT_ID, CLIENT_SECRET)`.

    Attributes:
        name: What it is called in code, such as `github`.
        title: What it is called before people, such as `GitHub`.
        issuer: Who vouches for its users.
    """

    name: str
    title: str
    issuer: str

    def __init__(self, name: str, title: str, issuer: str) -> None:
        self.name = name
        self.title = title
        self.issuer = issuer

    @classmethod
    def github(
        cls,
        client_id: str,
        client_secret: str,
        *,
        url: str = "https://github.com",
        **options: Unpack[UpstreamOptions],
    ) -> Upstream:
        """Return GitHub, or a GitHub Enterprise Server at another URL."""
        return cls("github", "GitHub", f"{url}/login/oauth")

    @classmethod
    def google(cls, client_id: str, client_secret: str, **options: Unpack[UpstreamOptions]) -> Upstream:
        """Return Google."""
        return cls("google", "Google", "https://accounts.google.com")

    @classmethod
    def entra(
        cls, tenant_id: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> Upstream:
        """Return one tenant of Microsoft Entra ID."""
        return cls("entra", "Microsoft", f"https://login.microsoftonline.com/{tenant_id}/v2.0")

    @classmethod
    def cognito(
        cls, user_pool_id: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> Upstream:
        """Return a user pool of Amazon Cognito."""
        return cls("cognito", "Amazon Cognito", f"https://cognito-idp.amazonaws.com/{user_pool_id}")

    @classmethod
    def auth0(
        cls,
        domain: str,
        client_id: str,
        client_secret: str | None,
        *,
        audience: str | None = None,
        **options: Unpack[UpstreamOptions],
    ) -> Upstream:
        """Return a tenant of Auth0."""
        return cls("auth0", "Auth0", f"https://{domain}/")

    @classmethod
    def okta(
        cls, issuer: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> Upstream:
        """Return Okta: the organization itself, or an authorization server of its own."""
        return cls("okta", "Okta", issuer)

    @classmethod
    def keycloak(
        cls, issuer: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> Upstream:
        """Return a realm of Keycloak."""
        return cls("keycloak", "Keycloak", issuer)

    @classmethod
    def openid(
        cls, issuer: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> Upstream:
        """Return any OpenID provider."""
        return cls("openid", issuer, issuer)

    @classmethod
    def oauth(
        cls,
        issuer: str,
        client_id: str,
        client_secret: str | None,
        *,
        authorization_endpoint: str,
        token_endpoint: str,
        userinfo_endpoint: str,
        revocation_endpoint: str | None = None,
        subject_claim: str = "sub",
        **options: Unpack[UpstreamOptions],
    ) -> Upstream:
        """Return a provider of OAuth without OpenID Connect, by its endpoints."""
        return cls("oauth", issuer, issuer)

    async def authorization_url(self, *, redirect_uri: str, state: str, challenge: str, nonce: str) -> str:
        """Return where a browser is sent to log in.

        Args:
            redirect_uri: Where the provider sends it back to.
            state: What it brings back.
            challenge: The PKCE challenge (S256).
            nonce: What the ID token must say; providers without one do not hear of it.

        Raises:
            UpstreamUnavailableError: The provider's metadata cannot be had.
        """
        raise UpstreamUnavailableError(self.issuer)

    async def redeem(
        self, answer: Mapping[str, str], *, redirect_uri: str, verifier: str, nonce: str
    ) -> tuple[Identity, UpstreamTokens]:
        """Return who has logged in, and their tokens.

        Args:
            answer: The parameters of the callback.
            redirect_uri: Where the browser was sent back to.
            verifier: The PKCE verifier of this login.
            nonce: The nonce of this login.

        Raises:
            UpstreamRefusedError: The provider, or the user there, says no.
            UpstreamUnavailableError: It does not answer, or not as it must.
        """
        raise UpstreamUnavailableError(self.issuer)

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Return new tokens; the old refresh token stays where no new one comes back.

        Raises:
            UpstreamRefusedError: The provider says no: `invalid_grant` where the login is over. Also without a refresh
                token.
            UpstreamUnavailableError: It does not answer, or not as it must.
        """
        raise UpstreamUnavailableError(self.issuer)

    async def identify(self, tokens: UpstreamTokens) -> Identity | None:
        """Return who a user is now; None where the provider has no way to say that, but at a login.

        The claims may be fewer than those of the login.

        Raises:
            UpstreamRefusedError: The access token is worth nothing (any more): `invalid_token`.
            UpstreamUnavailableError: It does not answer, or not as it must.
        """
        raise UpstreamUnavailableError(self.issuer)

    async def revoke(self, tokens: UpstreamTokens) -> None:
        """Have the provider end tokens; where it has no way to do that, nothing is done.

        Raises:
            UpstreamUnavailableError: It does not answer, or not as it must.
        """
        raise UpstreamUnavailableError(self.issuer)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""

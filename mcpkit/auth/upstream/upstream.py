"""The provider that users log in with. Pages without a date of their own were read on 2026-11-23."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from typing_extensions import Unpack

from ..client_secret import ClientSecret, check_text
from ..tenants import auth0_issuer, cognito_issuer, entra_issuer
from .endpoints import Endpoints
from .github import GitHubProvider, github_issuer
from .oauth import OAuthProvider
from .openid import OpenIdProvider
from .options import UpstreamOptions, settings_of
from .provider import Provider

_OPENID: Final = ("openid", "profile", "email")
_OFFLINE: Final = (*_OPENID, "offline_access")


class Upstream:
    """The provider that users log in with, and this server as its client: `Upstream.github(CLIENT_ID, CLIENT_SECRET)`.

    It is made by one of the class methods; all of them take these options:

    - `name`: what it is called in code, such as in `ctx.upstream_token("github")`;
    - `title`: what it is called before people;
    - `scopes`: what is asked for, in the place of the usual scopes;
    - `parameters`: more of the authorization request, such as `{"hd": "example.com"}`;
    - `claims`: names of claims that are kept of a user whatever their size; others are, up to 1,024 characters;
    - `authentication`: how this server says which client it is, `"basic"` or `"post"`, where the metadata is wrong;
    - `timeout`: seconds in which each answer must have come, 10;
    - `leeway`: seconds by which the clocks of provider and server may differ, 5;
    - `http_client`: an `httpx2.AsyncClient` of your own to ask with, which says all about TLS and proxies, and is not
      closed;
    - `clock`: the time in Unix seconds.

    Args:
        provider: What asks it, as its client.

    Attributes:
        provider: What asks it, as its client.
        name: What it is called in code, such as `github`.
        title: What it is called before people, such as `GitHub`.
        issuer: Who vouches for its users: the `Principal.issuer` of whoever logs in.
        is_public: Whether anybody may have an account there.
        revokes_all: Whether the end of one login there ends the other logins of the same user by this client.
    """

    def __init__(self, provider: Provider) -> None:
        settings = provider.settings
        self.provider = provider
        self.name = settings.name
        self.title = settings.title
        self.issuer = settings.issuer
        self.is_public = settings.is_public
        self.revokes_all = settings.revokes_all

    @classmethod
    def github(
        cls,
        client_id: str,
        client_secret: str,
        *,
        url: str = "https://github.com",
        **options: Unpack[UpstreamOptions],
    ) -> Upstream:
        """Return GitHub: an OAuth app, or a GitHub App, that users authorize.

        Register the callback URL of this server. Users are told apart by their number, which is the subject; `login`
        is what they call themselves now. The token of an OAuth app does not expire unless the app, or the scope
        `offline_access`, says so. GitHub keeps ten tokens of a user, an app and a list of scopes; an eleventh login
        ends the oldest.

        Args:
            client_id: The app's client ID.
            client_secret: Its secret.
            url: Where GitHub is; for an Enterprise Server its URL, for data residency `https://NAME.ghe.com`.
            options: More of what `Upstream` takes.
        """
        # Without a scope, a token gets all that the user has ever given the app: "scope" at
        # https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps
        usual: UpstreamOptions = {"scopes": ("read:user",)}
        check_text("client_secret", client_secret)
        client = ClientSecret(client_id, client_secret)
        settings = settings_of("github", "GitHub", github_issuer(url), client, usual, options, is_public=True)
        return cls(GitHubProvider(settings, url))

    @classmethod
    def google(cls, client_id: str, client_secret: str, **options: Unpack[UpstreamOptions]) -> Upstream:
        """Return Google: an OAuth client of the type "Web application".

        Anybody with an account of Google may log in; `parameters={"hd": "example.com"}` asks for one of an
        organization, and `allow=` has to look at the claim `hd` all the same. Users may grant less than was asked for.
        What is revoked there is all that the user has granted the client, so it is with their last login here.

        Args:
            client_id: The client ID.
            client_secret: Its secret.
            options: More of what `Upstream` takes.
        """
        # A refresh token comes with access_type=offline alone, and after the first time with prompt=consent alone:
        # https://developers.google.com/identity/protocols/oauth2/web-server#offline
        # Google has no scope offline_access: https://accounts.google.com/.well-known/openid-configuration
        # What is revoked is the access that the application has been given, and not one token of it:
        # https://developers.google.com/identity/protocols/oauth2/web-server#tokenrevoke
        usual: UpstreamOptions = {
            "scopes": _OPENID,
            "parameters": {"access_type": "offline", "prompt": "consent"},
        }
        check_text("client_secret", client_secret)
        client = ClientSecret(client_id, client_secret)
        issuer = "https://accounts.google.com"
        settings = settings_of(
            "google", "Google", issuer, client, usual, options, is_public=True, revokes_all=True
        )
        return cls(OpenIdProvider(settings))

    @classmethod
    def entra(
        cls,
        tenant_id: str,
        client_id: str,
        client_secret: str | None,
        *,
        authority: str = "https://login.microsoftonline.com",
        **options: Unpack[UpstreamOptions],
    ) -> Upstream:
        """Return one tenant of Microsoft Entra ID: an app registration with the platform "Web".

        The subject is `sub`, which no other application gets of the same user; `oid` and `tid`, which all of the tenant
        get, are among the claims. Tokens are for Microsoft Graph unless `scopes` names another API.

        Args:
            tenant_id: The tenant, as a GUID. `common` and the like are no issuers.
            client_id: The application (client) ID.
            client_secret: The value of a client secret; None for a public client.
            authority: Where the tenant logs in, which national clouds have elsewhere.
            options: More of what `Upstream` takes.
        """
        # sub is immutable and of this application alone, oid of the whole tenant. The token's user is who the standard
        # says, sub, as for `mcpkit.auth.Entra`, so that both say the same of one application:
        # https://learn.microsoft.com/entra/identity-platform/id-token-claims-reference
        # Userinfo says less than the ID token, which is advised to be taken, and wants a token for Graph:
        # https://learn.microsoft.com/entra/identity-platform/userinfo
        # Its metadata has no revocation_endpoint and no code_challenge_methods_supported; it knows S256 all the same:
        # https://learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow
        usual: UpstreamOptions = {"scopes": _OFFLINE}
        client = ClientSecret(client_id, client_secret)
        settings = settings_of(
            "entra", "Microsoft", entra_issuer(tenant_id, authority), client, usual, options
        )
        return cls(OpenIdProvider(settings, asks_userinfo=False))

    @classmethod
    def cognito(
        cls, user_pool_id: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> Upstream:
        """Return a user pool of Amazon Cognito, which must have a domain: an app client with the code grant.

        Args:
            user_pool_id: The user pool, such as `eu-west-1_abcdefghi`.
            client_id: The app client.
            client_secret: Its secret; None for one without.
            options: More of what `Upstream` takes.
        """
        # A scope that the app client may not use is an error; there is no offline_access, and always a refresh token:
        # https://docs.aws.amazon.com/cognito/latest/developerguide/authorization-endpoint.html
        # Userinfo says no groups, and that an e-mail address is verified in a text, "true"; the ID token says both as
        # they are: https://docs.aws.amazon.com/cognito/latest/developerguide/userinfo-endpoint.html
        # Its metadata does not have code_challenge_methods_supported, though it knows S256:
        # https://docs.aws.amazon.com/cognito/latest/developerguide/using-pkce-in-authorization-code.html
        usual: UpstreamOptions = {"scopes": ("openid", "email")}
        client = ClientSecret(client_id, client_secret)
        issuer = cognito_issuer(user_pool_id)
        settings = settings_of("cognito", "Amazon Cognito", issuer, client, usual, options)
        return cls(OpenIdProvider(settings, asks_userinfo=False))

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
        """Return a tenant of Auth0: a "Regular Web Application" with the grants of code and refresh token.

        The end of a login of ours ends all that the user has granted the application, unless the tenant's setting
        "Refresh Token Revocation Deletes Grant" is off.

        Args:
            domain: The tenant's domain, or its custom domain.
            client_id: The application.
            client_secret: Its secret; None for one without.
            audience: The API that access tokens are for; None for Auth0's own userinfo alone.
            options: More of what `Upstream` takes.
        """
        # An application has one of the methods that the metadata names: Post, unless somebody chooses another:
        # https://auth0.com/docs/get-started/applications/credentials
        # audience is its own parameter: https://auth0.com/docs/api/authentication#authorize-application
        usual: UpstreamOptions = {
            "scopes": _OFFLINE,
            "authentication": "post",
            "parameters": {} if audience is None else {"audience": audience},
        }
        client = ClientSecret(client_id, client_secret)
        settings = settings_of(
            "auth0", "Auth0", auth0_issuer(domain), client, usual, options, revokes_all=True
        )
        return cls(OpenIdProvider(settings))

    @classmethod
    def okta(
        cls, issuer: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> Upstream:
        """Return Okta: a "Web Application" with the grants of code and refresh token.

        Args:
            issuer: The organization, `https://example.okta.com`, or an authorization server of your own,
                `https://example.okta.com/oauth2/default`.
            client_id: The application.
            client_secret: Its secret; None for one without.
            options: More of what `Upstream` takes.
        """
        # Of both, the ID token has the user's ID as its sub; an organization's access tokens are for Okta's APIs alone:
        # https://developer.okta.com/docs/concepts/auth-servers/
        usual: UpstreamOptions = {"scopes": _OFFLINE}
        settings = settings_of("okta", "Okta", issuer, ClientSecret(client_id, client_secret), usual, options)
        return cls(OpenIdProvider(settings))

    @classmethod
    def keycloak(
        cls, issuer: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> Upstream:
        """Return a realm of Keycloak: a client with "Standard flow", and client authentication where it has a secret.

        Args:
            issuer: The realm's URL, `https://id.example.com/realms/example`.
            client_id: The client.
            client_secret: Its secret; None for one without.
            options: More of what `Upstream` takes.
        """
        # Without offline_access a refresh token lives as long as the session in the browser, half an hour when idle:
        # https://www.keycloak.org/docs/latest/server_admin/#_offline-access
        usual: UpstreamOptions = {"scopes": _OFFLINE}
        client = ClientSecret(client_id, client_secret)
        settings = settings_of("keycloak", "Keycloak", issuer, client, usual, options, revokes_all=True)
        return cls(OpenIdProvider(settings))

    @classmethod
    def openid(
        cls, issuer: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> Upstream:
        """Return any OpenID provider, found by its metadata.

        `offline_access`, and with it `prompt=consent`, is asked for where its metadata has that scope.

        Args:
            issuer: Its issuer, to the byte as its metadata has it.
            client_id: The client.
            client_secret: Its secret; None for one without.
            options: More of what `Upstream` takes; `name` is `openid`, and `title` the host, where you do not say.
        """
        usual: UpstreamOptions = {"scopes": _OPENID}
        client = ClientSecret(client_id, client_secret)
        settings = settings_of("openid", _host(issuer), issuer, client, usual, options)
        return cls(OpenIdProvider(settings, seeks_offline_access=True))

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
        """Return a provider of OAuth without OpenID Connect, by its endpoints.

        Args:
            issuer: A URL that stands for it, of which each user has their number.
            client_id: The client.
            client_secret: Its secret; None for one without.
            authorization_endpoint: Where browsers are sent.
            token_endpoint: Where codes are redeemed.
            userinfo_endpoint: What answers a GET with an access token by a JSON object of the user.
            revocation_endpoint: Where tokens are revoked (RFC 7009); None where they are not.
            subject_claim: The member of that object which names the user and never changes: an ID, and no name.
            options: More of what `Upstream` takes; `name` is `oauth`, and `title` the host, where you do not say.
        """
        client = ClientSecret(client_id, client_secret)
        settings = settings_of("oauth", _host(issuer), issuer, client, {}, options)
        endpoints = Endpoints(authorization_endpoint, token_endpoint, userinfo_endpoint, revocation_endpoint)
        return cls(OAuthProvider(settings, endpoints, subject_claim))


def _host(issuer: str) -> str:
    return urlsplit(issuer).hostname or issuer

"""Identity providers for `OAuthProxy`, and login by OpenID Connect: identity from a signed ID token and from userinfo.

Pages without a date of their own were read on 2026-11-23.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, TypedDict
from urllib.parse import quote, urlsplit

from typing_extensions import Unpack

from ..._utils.option_checks import nearest
from ..issuer_documents import IssuerMetadata, PublishedKeys
from ..jws import ALGORITHMS, Jws, base64url_encode, parse_jws
from ..jwt import EXPIRED, INVALID_TIMES, NOT_YET_VALID, check_times, read_audiences
from ..oauth_http_client import Authentication, ClientSecret, FetchError, check_text
from ..presets import auth0_issuer, cognito_issuer, entra_issuer
from ..urls_and_discovery import MetadataError, check_url
from ..verifier import InvalidTokenError, VerifierUnavailableError
from .upstream_client import (
    Endpoints,
    Identity,
    OAuthClient,
    UpstreamClient,
    UpstreamRefusedError,
    UpstreamSettings,
    UpstreamTokens,
    UpstreamUnavailableError,
    unexpected_status,
)

if TYPE_CHECKING:
    import httpx2

# Login by OpenID Connect

logger = logging.getLogger(__name__)

REFRESH_TIMEOUT = 5.0
"""Seconds for the verification of the ID token of a refresh. After that the new tokens are stored without it."""

_OFFLINE_ACCESS = "offline_access"
_COOLDOWN = 10.0  # seconds in which keys are fetched at most once for ID tokens that name an unknown one
_HASHES: Final = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512}
"""Hash for `at_hash` by the last digits of the algorithm. Others are Ed25519, which uses SHA-512 (RFC 8032, 5.1)."""


class OpenIdClient(UpstreamClient):
    """OAuth client at an OpenID provider, found by its metadata.

    Args:
        settings: Settings of the provider.
        uses_userinfo: Request userinfo in addition to the ID token.
        seeks_offline_access: Request `offline_access` if the metadata lists it and the scopes are the default ones. The
            provider then shows a consent page (OpenID Connect Core 1.0, section 11).
    """

    def __init__(
        self, settings: UpstreamSettings, *, uses_userinfo: bool = True, seeks_offline_access: bool = False
    ) -> None:
        super().__init__(settings)
        self._metadata = IssuerMetadata(
            settings.issuer,
            timeout=settings.timeout,
            http_client=settings.http_client,
            clock=settings.clock,
            is_openid=True,
        )
        self._keys = PublishedKeys(self._metadata, None, cooldown=_COOLDOWN)
        self._uses_userinfo = uses_userinfo
        self._seeks_offline_access = seeks_offline_access and settings.has_default_scopes

    async def endpoints(self) -> Endpoints:
        """Return the endpoints in the metadata, without userinfo if it is not to be requested."""
        try:
            metadata = await self._metadata.read("authorization_endpoint", "token_endpoint")
            # Without the member, the method is client_secret_basic (RFC 8414, section 2).
            methods = metadata.strings("token_endpoint_auth_methods_supported") or ("client_secret_basic",)
            has_basic = "client_secret_basic" in methods or "client_secret_post" not in methods
            default: Authentication = "basic" if has_basic else "post"
            userinfo, revocation = (
                metadata.endpoint(name) if metadata.has(name) else None
                for name in ("userinfo_endpoint", "revocation_endpoint")
            )
            return Endpoints(
                metadata.endpoint("authorization_endpoint"),
                metadata.endpoint("token_endpoint"),
                userinfo if self._uses_userinfo else None,
                revocation,
                metadata.is_true("authorization_response_iss_parameter_supported"),
                self._seeks_offline_access
                and _OFFLINE_ACCESS in (metadata.strings("scopes_supported") or ()),
                self.settings.authentication or default,
            )
        except (FetchError, MetadataError) as error:
            raise UpstreamUnavailableError(str(error)) from None

    def request_parameters(self, endpoints: Endpoints, nonce: str) -> Mapping[str, str]:
        """Return additional parameters of an authorization request."""
        return {"nonce": nonce, "prompt": "consent"} if endpoints.needs_offline_access else {"nonce": nonce}

    def requested_scopes(self, endpoints: Endpoints) -> Collection[str]:
        """Return the scopes to request."""
        return (
            (*self.settings.scopes, _OFFLINE_ACCESS)
            if endpoints.needs_offline_access
            else self.settings.scopes
        )

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return the identity of a user: claims of the last ID token, updated by userinfo."""
        endpoints = await self.endpoints()
        subject = tokens.id_token_claims.get("sub")
        claims: Mapping[str, object] = {}
        if endpoints.userinfo is not None:
            claims = await self.userinfo(endpoints.userinfo, tokens)
            if claims.get("sub") != subject:  # OpenID Connect Core 1.0, 5.3.2
                raise UpstreamUnavailableError(
                    f"the userinfo response of {self.settings.title} is for another user (sub)"
                )
        return self.identity(subject, {**tokens.id_token_claims, **claims})

    async def id_token_claims(
        self,
        tokens: UpstreamTokens,
        response: Mapping[str, object],
        previous: Mapping[str, object],
        nonce: str | None = None,
    ) -> Mapping[str, object]:
        """Return the claims of the ID token; of a refresh, for the same user (OpenID Connect Core 1.0, 12.2)."""
        id_token = response.get("id_token")
        if nonce is not None:
            return await self._verified_claims(id_token, tokens.access_token, nonce)
        if id_token is None:
            return previous
        try:
            claims = await asyncio.wait_for(
                self._verified_claims(id_token, tokens.access_token), REFRESH_TIMEOUT
            )
        except (UpstreamUnavailableError, asyncio.TimeoutError) as error:
            why = str(error) or "the keys of the provider could not be fetched in time"
            logger.warning(
                "The ID token of a refresh was ignored, and the known claims of the user stay in use: %s", why
            )
            return previous
        if claims["sub"] != previous.get("sub"):
            raise UpstreamRefusedError(
                "invalid_grant", "the provider returned tokens of another user at a refresh"
            )
        return claims

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._keys.aclose()
        await super().aclose()

    async def _verified_claims(
        self, id_token: object, access_token: str, nonce: str | None = None
    ) -> Mapping[str, object]:
        """Verify an ID token (OpenID Connect Core 1.0, 3.1.3.7), and return its subject and the claims about the user.

        Args:
            id_token: The `id_token` of the token response.
            access_token: The access token of the same response.
            nonce: The nonce of the login; None for a refresh, whose ID token need not have one.

        Raises:
            UpstreamUnavailableError: The token is not valid for this login, or no keys are available.
        """
        try:
            if not isinstance(id_token, str):
                raise InvalidTokenError("the response has no id_token string")
            token = parse_jws(id_token)
            self._check_id_token(token, access_token, nonce)
            if not await self._keys.verifies(token):
                raise InvalidTokenError("no key of the provider verifies its signature")
        except InvalidTokenError as error:
            is_late = str(error) in {EXPIRED, NOT_YET_VALID}
            hint = ", although it was just issued. Check the clock of this machine" if is_late else ""
            raise UpstreamUnavailableError(
                f"the ID token of {self.settings.issuer} is invalid: {error}{hint}"
            ) from None
        except VerifierUnavailableError as error:
            raise UpstreamUnavailableError(str(error)) from None
        identity = self.identity(token.claims.get("sub"), token.claims)
        return {"sub": identity.subject, **identity.claims}

    def _check_id_token(self, token: Jws, access_token: str, nonce: str | None) -> None:
        """Check everything that needs no key: algorithm, type, issuer, audience, times, nonce and `at_hash`."""
        claims, client_id = token.claims, self.settings.client.id
        if token.algorithm not in ALGORITHMS:
            raise InvalidTokenError(
                "its signature algorithm is not accepted (alg). Use RS256 at the provider"
            )
        if token.type not in {None, "jwt"}:
            raise InvalidTokenError("it has another type than JWT (typ)")
        if claims.get("iss") != self.settings.issuer:
            raise InvalidTokenError("it has another issuer (iss)")
        audiences = read_audiences(claims.get("aud")) or []
        party = claims.get("azp")
        if client_id not in audiences or (len(audiences) > 1 and party is None):
            raise InvalidTokenError("it was issued to another client (aud)")
        if party is not None and party != client_id:
            raise InvalidTokenError("it was issued to another client (azp)")
        expires, issued = check_times(claims, self.settings.clock(), self.settings.leeway)
        if expires is None or issued is None:
            raise InvalidTokenError(INVALID_TIMES)
        if nonce is not None and not _is_same(claims.get("nonce"), nonce):
            raise InvalidTokenError("it belongs to another login (nonce)")
        if "at_hash" in claims:  # the left half of the hash of the access token (3.1.3.6)
            digest = _HASHES.get(token.algorithm[-3:], hashlib.sha512)(access_token.encode("ascii")).digest()
            if not _is_same(claims["at_hash"], base64url_encode(digest[: len(digest) // 2])):
                raise InvalidTokenError("it belongs to another access token (at_hash)")


def _is_same(claim: object, expected: str) -> bool:
    return isinstance(claim, str) and hmac.compare_digest(claim.encode(), expected.encode())


# Providers

_OPENID: Final = ("openid", "profile", "email")
_OFFLINE: Final = (*_OPENID, "offline_access")


class UpstreamOptions(TypedDict, total=False):
    """Keyword options of the class methods of `UpstreamProvider`."""

    name: str
    title: str
    scopes: Collection[str]
    parameters: Mapping[str, str]
    claims: Collection[str]
    authentication: Authentication
    timeout: float
    leeway: float
    http_client: httpx2.AsyncClient | None
    clock: Callable[[], float]


class _Defaults(UpstreamOptions, total=False):
    """Defaults of the options, and properties of a provider; see `UpstreamSettings`."""

    is_public: bool
    revokes_all: bool


class UpstreamProvider:
    """An identity provider with this server as its client: `UpstreamProvider.github(CLIENT_ID, CLIENT_SECRET)`.

    Use one of the class methods. All of them accept these options:

    - `name`: name in code, such as in `ctx.upstream_token("github")`;
    - `title`: name on pages;
    - `scopes`: scopes to request, in place of the default ones;
    - `parameters`: additional parameters of the authorization request, such as `{"hd": "example.com"}`;
    - `claims`: names of user claims that are kept at any size; others are kept up to 1,024 characters;
    - `authentication`: client authentication method, `"basic"` or `"post"`, if the metadata is wrong;
    - `timeout`: seconds in which each response must be received, by default 10;
    - `leeway`: tolerance for clock differences between provider and server in seconds, by default 5;
    - `http_client`: an `httpx2.AsyncClient` to use, with your TLS and proxy settings; it is not closed;
    - `clock`: returns the Unix time in seconds.

    Args:
        provider: OAuth client for the provider.

    Attributes:
        provider: OAuth client for the provider.
        name: Name in code, such as `github`.
        title: Name on pages, such as `GitHub`.
        issuer: Issuer of the user identities: `Principal.issuer` of users that log in.
        is_public: Whether anyone can have an account there.
        revokes_all: Whether a revocation also ends the other logins of the same user with this client.
    """

    def __init__(self, provider: UpstreamClient) -> None:
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
    ) -> UpstreamProvider:
        """Create an upstream for GitHub: an OAuth app, or a GitHub App that users authorize.

        Register the callback URL of this server. The subject is the numeric ID of the user; the claim `login` is the
        current name. Tokens of an OAuth app do not expire, unless the app or the scope `offline_access` requires it.
        GitHub keeps ten tokens for each user, app and list of scopes. The eleventh login ends the oldest.

        Args:
            client_id: Client ID of the app.
            client_secret: Client secret of the app.
            url: URL of GitHub: that of an Enterprise Server, or `https://NAME.ghe.com` with data residency.
            options: Other options; see `UpstreamProvider`.
        """
        # Without a scope, a token gets all that the user has ever given the app: "scope" at
        # https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps
        defaults = _Defaults(name="github", title="GitHub", scopes=("read:user",), is_public=True)
        check_text("client_secret", client_secret)
        # It is the value of `iss`, which callbacks contain since 2026; see the metadata at
        # https://github.com/.well-known/oauth-authorization-server/login/oauth, and
        # https://docs.github.com/en/apps/github-authentication-discovery-endpoints
        issuer = check_url(url, "url").rstrip("/") + "/login/oauth"
        settings = _settings(issuer, client_id, client_secret, defaults, options)
        return cls(GitHubClient(settings, url))

    @classmethod
    def google(
        cls, client_id: str, client_secret: str, **options: Unpack[UpstreamOptions]
    ) -> UpstreamProvider:
        """Create an upstream for Google: an OAuth client of the type "Web application".

        Anyone with a Google account can log in. `parameters={"hd": "example.com"}` requests an account of an
        organization, but `allow=` must check the claim `hd` as well. Users can grant fewer scopes than requested.
        Google revokes all grants of a user to the client at once, so tokens are revoked with the last login of the user
        here.

        Args:
            client_id: Client ID.
            client_secret: Client secret.
            options: Other options; see `UpstreamProvider`.
        """
        # A refresh token comes with access_type=offline alone, and after the first time with prompt=consent alone:
        # https://developers.google.com/identity/protocols/oauth2/web-server#offline
        # Google has no scope offline_access: https://accounts.google.com/.well-known/openid-configuration
        # What is revoked is the access that the application has been given, and not one token of it:
        # https://developers.google.com/identity/protocols/oauth2/web-server#tokenrevoke
        defaults = _Defaults(name="google", title="Google", scopes=_OPENID, is_public=True, revokes_all=True)
        defaults["parameters"] = {"access_type": "offline", "prompt": "consent"}
        check_text("client_secret", client_secret)
        issuer = "https://accounts.google.com"
        return cls(OpenIdClient(_settings(issuer, client_id, client_secret, defaults, options)))

    @classmethod
    def entra(
        cls,
        tenant_id: str,
        client_id: str,
        client_secret: str | None,
        *,
        authority: str = "https://login.microsoftonline.com",
        **options: Unpack[UpstreamOptions],
    ) -> UpstreamProvider:
        """Create an upstream for a tenant of Microsoft Entra ID: an app registration with the platform "Web".

        The subject is `sub`, which is specific to this application. `oid` and `tid`, the same for the whole tenant, are
        in the claims. Tokens are for Microsoft Graph, unless `scopes` contains another API.

        Args:
            tenant_id: GUID of the tenant. `common` and similar values are not issuers.
            client_id: Application (client) ID.
            client_secret: Value of a client secret; None for a public client.
            authority: URL of the login service. National clouds have others.
            options: Other options; see `UpstreamProvider`.
        """
        # sub is immutable and specific to this application, oid to the tenant. The subject is sub, as in OpenID Connect
        # and in `mcpkit.auth.Entra`, so that both give one user the same ID:
        # https://learn.microsoft.com/entra/identity-platform/id-token-claims-reference
        # Userinfo has fewer claims than the ID token, which Microsoft recommends, and needs a token for Graph:
        # https://learn.microsoft.com/entra/identity-platform/userinfo
        # Its metadata has no revocation_endpoint and no code_challenge_methods_supported; it knows S256 all the same:
        # https://learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow
        defaults = _Defaults(name="entra", title="Microsoft", scopes=_OFFLINE)
        settings = _settings(entra_issuer(tenant_id, authority), client_id, client_secret, defaults, options)
        return cls(OpenIdClient(settings, uses_userinfo=False))

    @classmethod
    def cognito(
        cls, user_pool_id: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> UpstreamProvider:
        """Create an upstream for a user pool of Amazon Cognito with a domain: an app client with the code grant.

        Args:
            user_pool_id: ID of the user pool, such as `eu-west-1_abcdefghi`.
            client_id: ID of the app client.
            client_secret: Client secret; None for a public client.
            options: Other options; see `UpstreamProvider`.
        """
        # A scope that the app client may not use is an error; there is no offline_access, and always a refresh token:
        # https://docs.aws.amazon.com/cognito/latest/developerguide/authorization-endpoint.html
        # Userinfo has no groups, and `email_verified` as the string "true"; the ID token has both:
        # https://docs.aws.amazon.com/cognito/latest/developerguide/userinfo-endpoint.html
        # Its metadata does not have code_challenge_methods_supported, though it knows S256:
        # https://docs.aws.amazon.com/cognito/latest/developerguide/using-pkce-in-authorization-code.html
        defaults = _Defaults(name="cognito", title="Amazon Cognito", scopes=("openid", "email"))
        settings = _settings(cognito_issuer(user_pool_id), client_id, client_secret, defaults, options)
        return cls(OpenIdClient(settings, uses_userinfo=False))

    @classmethod
    def auth0(
        cls,
        domain: str,
        client_id: str,
        client_secret: str | None,
        *,
        audience: str | None = None,
        **options: Unpack[UpstreamOptions],
    ) -> UpstreamProvider:
        """Create an upstream for Auth0: a "Regular Web Application" with the grants of code and refresh token.

        A revocation ends all grants of the user to the application, unless the tenant setting "Refresh Token Revocation
        Deletes Grant" is off.

        Args:
            domain: Domain of the tenant, or its custom domain.
            client_id: Client ID of the application.
            client_secret: Client secret; None for a public client.
            audience: API that access tokens are for; None for Auth0's own userinfo only.
            options: Other options; see `UpstreamProvider`.
        """
        # An application has one of the methods that the metadata names: Post, unless the operator selects another:
        # https://auth0.com/docs/get-started/applications/credentials
        # audience is its own parameter: https://auth0.com/docs/api/authentication#authorize-application
        defaults = _Defaults(
            name="auth0", title="Auth0", scopes=_OFFLINE, authentication="post", revokes_all=True
        )
        defaults["parameters"] = {} if audience is None else {"audience": audience}
        return cls(OpenIdClient(_settings(auth0_issuer(domain), client_id, client_secret, defaults, options)))

    @classmethod
    def okta(
        cls, issuer: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> UpstreamProvider:
        """Create an upstream for Okta: a "Web Application" with the grants of code and refresh token.

        Args:
            issuer: URL of the organization, `https://example.okta.com`, or of an authorization server of your own,
                `https://example.okta.com/oauth2/default`.
            client_id: Client ID of the application.
            client_secret: Client secret; None for a public client.
            options: Other options; see `UpstreamProvider`.
        """
        # Of both, the ID token has the user's ID as its sub; an organization's access tokens are for Okta's APIs alone:
        # https://developer.okta.com/docs/concepts/auth-servers/
        defaults = _Defaults(name="okta", title="Okta", scopes=_OFFLINE)
        return cls(OpenIdClient(_settings(issuer, client_id, client_secret, defaults, options)))

    @classmethod
    def keycloak(
        cls, issuer: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> UpstreamProvider:
        """Create an upstream for a Keycloak realm: a client with "Standard flow".

        A client with a secret also needs "Client authentication".

        Args:
            issuer: URL of the realm, `https://id.example.com/realms/example`.
            client_id: Client ID.
            client_secret: Client secret; None for a public client.
            options: Other options; see `UpstreamProvider`.
        """
        # Without offline_access a refresh token lives as long as the session in the browser, half an hour when idle:
        # https://www.keycloak.org/docs/latest/server_admin/#_offline-access
        defaults = _Defaults(name="keycloak", title="Keycloak", scopes=_OFFLINE, revokes_all=True)
        return cls(OpenIdClient(_settings(issuer, client_id, client_secret, defaults, options)))

    @classmethod
    def openid(
        cls, issuer: str, client_id: str, client_secret: str | None, **options: Unpack[UpstreamOptions]
    ) -> UpstreamProvider:
        """Create an upstream for any OpenID provider, found by its metadata.

        `offline_access`, and with it `prompt=consent`, is requested if the metadata lists that scope.

        Args:
            issuer: The issuer, exactly as in its metadata.
            client_id: Client ID.
            client_secret: Client secret; None for a public client.
            options: Other options; see `UpstreamProvider`. By default `name` is `openid`; `title` is the issuer's host.
        """
        defaults = _Defaults(name="openid", title=urlsplit(issuer).hostname or issuer, scopes=_OPENID)
        settings = _settings(issuer, client_id, client_secret, defaults, options)
        return cls(OpenIdClient(settings, seeks_offline_access=True))

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
    ) -> UpstreamProvider:
        """Create an upstream for a provider of OAuth without OpenID Connect, by its endpoints.

        Args:
            issuer: URL that identifies the provider. User IDs are unique within it.
            client_id: Client ID.
            client_secret: Client secret; None for a public client.
            authorization_endpoint: URL of the authorization endpoint.
            token_endpoint: URL of the token endpoint.
            userinfo_endpoint: URL that returns a JSON object about the user of an access token, by GET.
            revocation_endpoint: URL of the revocation endpoint (RFC 7009); None if there is none.
            subject_claim: Member of that object with the ID of the user. It must never change, so it is not a name.
            options: Other options; see `UpstreamProvider`. By default `name` is `oauth`; `title` is the issuer's host.
        """
        defaults = _Defaults(name="oauth", title=urlsplit(issuer).hostname or issuer)
        settings = _settings(issuer, client_id, client_secret, defaults, options)
        endpoints = Endpoints(authorization_endpoint, token_endpoint, userinfo_endpoint, revocation_endpoint)
        return cls(OAuthClient(settings, endpoints, subject_claim))


def _settings(
    issuer: str, client_id: str, client_secret: str | None, defaults: _Defaults, options: UpstreamOptions
) -> UpstreamSettings:
    """Return the settings of a provider. `parameters` of the caller are merged with the default ones.

    Raises:
        TypeError: An option does not exist.
    """
    known = UpstreamOptions.__annotations__
    for option in options:
        if option not in known:
            guess = nearest(option, known)
            hint = f"did you mean {guess}?" if guess else f"its options are {', '.join(known)}"
            raise TypeError(f"{defaults.get('title')} has no option {option}=; {hint}")
    parameters = options.get("parameters", {})
    if not isinstance(parameters, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
        raise TypeError("parameters must be a mapping of strings to strings")
    merged: _Defaults = {**defaults, **options}
    merged["parameters"] = {**defaults.get("parameters", {}), **parameters}
    client = ClientSecret(client_id, client_secret)
    return UpstreamSettings(issuer, client, has_default_scopes="scopes" not in options, **merged)


_GITHUB_HEADERS: Final = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
# /user has more, such as the plan and the disk usage, which no server needs:
# https://docs.github.com/en/rest/users/users#get-the-authenticated-user
_GITHUB_CLAIMS: Final = (
    "login", "id", "node_id", "name", "email", "company", "avatar_url", "html_url", "type", "site_admin"
)  # fmt: skip


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
            f"{self._api}/user",
            sends_iss=url == "https://github.com",  # Enterprise Servers are older
            authentication="post",  # as in the page about scopes
        )
        super().__init__(settings, endpoints, "id")

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return the identity of the user. The subject is the numeric ID, because names can change owners."""
        user = await self.userinfo(f"{self._api}/user", tokens, _GITHUB_HEADERS)
        claims = {name: user[name] for name in _GITHUB_CLAIMS if user.get(name) is not None}
        subject = claims.get("id")
        return self.identity(str(subject) if type(subject) is int else None, claims)

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
            {**_GITHUB_HEADERS, "Authorization": f"Basic {credentials}", "Content-Type": "application/json"},
            json.dumps({"access_token": tokens.access_token}).encode(),
        )
        if answer.status not in {204, 404, 422}:  # the last two: the token does not exist any more
            raise unexpected_status(answer)

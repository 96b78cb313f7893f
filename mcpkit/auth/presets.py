"""Verifiers for providers with access tokens of their own kind: differences from the standard, with sources.

Pages without a date of their own were read on 2026-11-22.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import Unpack

from ..identity.principals_and_scopes import Principal, client, user
from .jwt import NO_SUBJECT, Jwt, JwtOptions, read_scopes, select_claims, string_claim, token_principal
from .verifier import InvalidTokenError, ProtectedResource

if TYPE_CHECKING:
    from .jwt import Audience

logger = logging.getLogger(__name__)

_NO_PKCE = (
    "%s: the metadata of %s does not announce PKCE (code_challenge_methods_supported), so clients that follow the "
    "specification do not log in there. Put an OAuth proxy in front of it"
)


# Issuers


def entra_issuer(tenant_id: str, authority: str = "https://login.microsoftonline.com") -> str:
    """Return the issuer of a tenant of Microsoft Entra ID.

    Args:
        tenant_id: GUID of the tenant.
        authority: URL of the login service.

    Raises:
        ValueError: `tenant_id` is not a GUID. With `common` and similar values, each token has another issuer.
    """
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", tenant_id):
        raise ValueError(
            f"tenant_id must be the GUID of one Entra tenant, got {tenant_id!r}. For several tenants, pass auth= a list"
        )
    return f"{authority}/{tenant_id.lower()}/v2.0"


def cognito_issuer(user_pool_id: str) -> str:
    """Return the issuer of a user pool of Amazon Cognito.

    Raises:
        ValueError: `user_pool_id` is not the ID of a user pool.
    """
    region = re.fullmatch(r"([a-z]{2}(?:-[a-z]+)+-\d+)_[0-9A-Za-z]+", user_pool_id)
    if region is None or region[1].startswith("cn-"):
        raise ValueError(
            f"user_pool_id must be the ID of a Cognito user pool, such as eu-west-1_abcdefghi, got {user_pool_id!r}"
        )
    return f"https://cognito-idp.{region[1]}.amazonaws.com/{user_pool_id}"


def auth0_issuer(domain: str) -> str:
    """Return the issuer of a tenant of Auth0, which ends with a slash.

    Raises:
        ValueError: `domain` is not a domain name.
    """
    if not re.fullmatch(r"[0-9A-Za-z.-]+", domain):
        raise ValueError(
            f"domain must be that of an Auth0 tenant, such as example.eu.auth0.com, got {domain!r}"
        )
    return f"https://{domain.lower()}/"


# Verifiers


class _Preset(Jwt):
    """Base class of the provider verifiers."""

    _defaults: ClassVar[JwtOptions]
    has_unannounced_pkce: ClassVar[bool] = False
    """Whether the provider supports PKCE but does not announce it in its metadata."""

    def __init__(self, issuer: str, *, audience: Audience = None, **options: Unpack[JwtOptions]) -> None:
        merged: JwtOptions = {**self._defaults, **options}
        super().__init__(issuer, audience=audience, **merged)

    def bind(self, resource: ProtectedResource) -> None:
        """Log a warning if clients that follow the specification cannot log in."""
        super().bind(resource)
        if self.has_unannounced_pkce:
            logger.warning(_NO_PKCE, resource.name, self.issuer)


class Entra(_Preset):
    """Verifier for Microsoft Entra ID: `Entra(tenant_id, client_id)`.

    Register the server as an application that exposes an API, and set `requestedAccessTokenVersion` to 2 in its
    manifest. Scopes have the names that clients request, such as `api://CLIENT_ID/Notes.Read`, not the short names in
    tokens.

    Args:
        tenant_id: GUID of the tenant. `common` and similar values are not issuers. For several tenants, pass `auth=` a
            list with one `Entra` for each.
        client_id: Application (client) ID of the server, the audience of the tokens.
        application_id_uri: Prefix of the scopes; None for `api://` and the client ID.
        options: Other options of `Jwt`.

    Raises:
        ValueError: `tenant_id` is not a GUID.
    """

    # aud is the client ID of the API in tokens of version 2.0, iss ends in /v2.0, typ is always JWT, scp is a text and
    # only in tokens of users, azp is the client, and roles takes the place of scopes in tokens of applications:
    # https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference (2023-05-26), which also names
    # the optional claim idtyp, which distinguishes tokens of applications from those of users.
    # No code_challenge_methods_supported:
    # https://github.com/modelcontextprotocol/typescript-sdk/issues/832 (2025-08-01)
    # Clients ask for scopes by their full URI, and aud is not the URL of the server:
    # https://github.com/anthropics/claude-ai-mcp/issues/786 (2026-08-10)
    has_unannounced_pkce = True
    _defaults: ClassVar[JwtOptions] = {"types": ["JWT"], "client_claims": ["azp"]}

    def __init__(
        self,
        tenant_id: str,
        client_id: str,
        *,
        application_id_uri: str | None = None,
        **options: Unpack[JwtOptions],
    ) -> None:
        super().__init__(entra_issuer(tenant_id), audience=client_id, **options)
        self._prefix = f"{application_id_uri or f'api://{client_id}'}/"

    def is_id_token(self, claims: Mapping[str, object]) -> bool:
        """Return True if a token is an ID token: it has no `azp` claim."""
        return "azp" not in claims

    def principal(self, claims: Mapping[str, object]) -> Principal:
        """Return the principal of a token. A token of an application has no `scp` claim, and `sub` equals `oid`."""
        subject = string_claim(claims, "sub")
        is_application = claims.get("idtyp") == "app" or (
            claims.get("scp") is None and subject is not None and subject == claims.get("oid")
        )
        return token_principal(
            self.issuer,
            None if is_application else subject,
            string_claim(claims, "azp"),
            [self._prefix + each for each in read_scopes(claims, ("roles",) if is_application else ("scp",))],
            select_claims(claims, self._claims),
        )


class Cognito(_Preset):
    """Verifier for Amazon Cognito: `Cognito("eu-west-1_abcdefghi", client_ids=[...])`.

    Cognito sets `aud` only if the client requested a resource. Tokens without `aud` must be of an app client in
    `client_ids`, and should have scopes of a resource server of your own.

    Args:
        user_pool_id: ID of the user pool.
        client_ids: App clients that may use tokens without `aud`.
        audience: Accepted audience of tokens with `aud`; None for the URL of the endpoint.
        options: Other options of `Jwt`.

    Raises:
        ValueError: `user_pool_id` is not the ID of a user pool.
    """

    # The header has kid and alg alone; token_use is "access"; client_id is the app client; there is no aud by default:
    # https://docs.aws.amazon.com/cognito/latest/developerguide/amazon-cognito-user-pools-using-the-access-token.html
    # https://docs.aws.amazon.com/verifiedpermissions/latest/userguide/cognito-validation.html
    # https://repost.aws/questions/QU4wv0qKIMSk2O64Wk5P4jdg/why-do-cognito-access-tokens-not-have-an-audience-claim
    # No code_challenge_methods_supported: https://github.com/anthropics/claude-code/issues/13275 (2025-12-07)
    has_unannounced_pkce = True
    _defaults: ClassVar[JwtOptions] = {
        "types": [""],
        "client_claims": ["client_id"],
        "scope_claims": ["scope"],
    }

    def __init__(
        self,
        user_pool_id: str,
        *,
        client_ids: Collection[str] = (),
        audience: Audience = None,
        **options: Unpack[JwtOptions],
    ) -> None:
        if isinstance(client_ids, str):
            raise TypeError('client_ids must be a list of strings such as ["1example23456789"], not a string')
        super().__init__(cognito_issuer(user_pool_id), audience=audience, **options)
        self._client_ids = frozenset(client_ids)

    def check(self, claims: Mapping[str, object]) -> None:
        """Refuse a token that is not an access token (`token_use`), and check the other conditions."""
        if claims.get("token_use") != "access":
            raise InvalidTokenError(
                "the token is not an access token (token_use); send the access token, not the ID token"
            )
        super().check(claims)

    def check_audience(self, claims: Mapping[str, object], audience: str) -> None:
        """Check the audience of a token or, without `aud`, its client."""
        if "aud" in claims or claims.get("client_id") not in self._client_ids:
            super().check_audience(claims, audience)


class Keycloak(_Preset):
    """Verifier for Keycloak: `Keycloak("https://id.example.com/realms/example")`.

    Add an audience mapper to the client scope of the server, with the URL of the endpoint as custom audience. Without
    one, tokens have the audience `account`, or none.

    Args:
        issuer: URL of the realm.
        audience: Accepted audience; None for the URL of the endpoint.
        options: Other options of `Jwt`.
    """

    # The claim typ is the kind of a token, Bearer, DPoP, ID, Refresh, Offline, and its header JWT or at+jwt:
    # https://github.com/keycloak/keycloak/blob/main/core/src/main/java/org/keycloak/util/TokenUtil.java
    # Access tokens had nonce before version 25, and may have it by a mapper:
    # https://www.keycloak.org/docs/25.0.0/upgrading/#nonce-claim-is-only-added-to-the-id-token (25.0.0, 2024-06)
    # aud is written by mappers alone, azp is the client: https://phasetwo.io/tutorials/clients/audience/ (2026-10-26)
    # Tokens have sub by a mapper, those of a client by itself always (the same page, "sub claim is added to access
    # token via protocol mapper").
    # Tokens of a client by itself are of its service account, a user called service-account-CLIENT, and have client_id:
    # https://github.com/keycloak/keycloak, common/.../constants/ServiceAccountConstants.java

    _defaults: ClassVar[JwtOptions] = {"client_claims": ["azp", "client_id"], "scope_claims": ["scope"]}

    def is_id_token(self, claims: Mapping[str, object]) -> bool:
        """Return True if a token is not an access token: its claim `typ` is not `Bearer`."""
        return claims.get("typ") != "Bearer"

    def principal(self, claims: Mapping[str, object]) -> Principal:
        """Return the principal of a token: the client for a token of a service account, else the user."""
        if claims.get("sub") is None:
            raise InvalidTokenError(NO_SUBJECT)  # of a user whose client has no mapper for it
        found = super().principal(claims)
        client_id = claims.get("client_id")
        # A user may have chosen such a name, and a mapper may write client_id for users: both together are no accident.
        if (
            isinstance(client_id, str)
            and client_id == found.client_id
            and claims.get("preferred_username") == f"service-account-{client_id.lower()}"
        ):
            return client(self.issuer, client_id, found.scopes, claims=found.claims)
        return found


class Auth0(_Preset):
    """Verifier for Auth0: `Auth0("example.eu.auth0.com")`.

    Register the server as an API with the URL of the endpoint as its identifier. Switch on "Resource Parameter
    Compatibility Profile" in the settings of the tenant: without it, Auth0 ignores `resource` and issues opaque tokens.
    With role-based access control, `scope_claims=["permissions"]` takes the permissions of the user as scopes.

    Args:
        domain: Domain of the tenant.
        audience: Identifier of the API; None for the URL of the endpoint.
        options: Other options of `Jwt`.

    Raises:
        ValueError: `domain` is not a domain name.
    """

    # iss ends in a slash; typ is JWT with azp, or at+jwt with client_id; sub of a client by itself is CLIENT@clients:
    # https://auth0.com/docs/secure/tokens/access-tokens/access-token-profiles
    # https://auth0.com/blog/jwt-access-tokens-profiles-now-in-ga/ (2024-07-10)
    # The parameter resource: https://auth0.com/ai/docs/mcp/guides/resource-param-compatibility-profile

    _defaults: ClassVar[JwtOptions] = {"client_claims": ["client_id", "azp"], "scope_claims": ["scope"]}

    def __init__(self, domain: str, *, audience: Audience = None, **options: Unpack[JwtOptions]) -> None:
        super().__init__(auth0_issuer(domain), audience=audience, **options)

    def principal(self, claims: Mapping[str, object]) -> Principal:
        """Return the principal of a token: the client if the subject is `CLIENT_ID@clients`, else the user."""
        found = super().principal(claims)
        if found.client_id is not None and found.subject == f"{found.client_id}@clients":
            return client(self.issuer, found.client_id, found.scopes, claims=found.claims)
        return found


class Okta(_Preset):
    """Verifier for an Okta authorization server of your own: `Okta("https://example.okta.com/oauth2/default")`.

    Tokens of the organization's own authorization server, without `/oauth2/` in its URL, are only for Okta itself.

    Args:
        issuer: Issuer of the authorization server.
        audience: Audience of the authorization server, such as `api://default`; None for the URL of the endpoint.
        options: Other options of `Jwt`.

    Raises:
        ValueError: The issuer is that of the organization.
    """

    # The header has kid and alg alone, cid is the client, scp a list, uid the user where there is one:
    # https://developer.okta.com/docs/api/openapi/okta-oauth/guides/overview/#access-token-payload
    # sub is the user's name, which may change, or the client:
    # https://developer.okta.com/docs/api/openapi/okta-management/management/tag/AuthorizationServerClaims
    # Those of the organization itself cannot be verified by others: https://www.npmjs.com/package/@okta/jwt-verifier

    _defaults: ClassVar[JwtOptions] = {
        "types": ["", "JWT", "at+jwt"],
        "client_claims": ["cid"],
        "scope_claims": ["scp"],
    }

    def __init__(self, issuer: str, *, audience: Audience = None, **options: Unpack[JwtOptions]) -> None:
        if "/oauth2/" not in issuer:
            raise ValueError(
                "issuer must be that of an Okta authorization server, such as https://example.okta.com/oauth2/default, "
                f"got {issuer!r}"
            )
        super().__init__(issuer, audience=audience, **options)

    def is_id_token(self, claims: Mapping[str, object]) -> bool:
        """Return True if a token is an ID token: it has no `cid` claim, or the marks of an ID token."""
        return "cid" not in claims or super().is_id_token(claims)

    def principal(self, claims: Mapping[str, object]) -> Principal:
        """Return the principal of a token. A user is identified by `uid`, because the name in `sub` can change."""
        found = super().principal(claims)
        user_id = string_claim(claims, "uid")
        if user_id is not None:
            return user(self.issuer, user_id, found.scopes, client_id=found.client_id, claims=found.claims)
        if found.client_id is None:
            return found
        return client(self.issuer, found.client_id, found.scopes, claims=found.claims)

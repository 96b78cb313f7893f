"""Grants without a login: client credentials, workload identity, and enterprise-managed authorization (ID-JAG)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.urls import MetadataError, check_url, shortened
from ...protocol.jsonrpc import Json
from .authorization_server_client import AuthorizationFailedError
from .authorizer import Authorization
from .client_authentication import (
    PresentedToken,
    RegisteredClient,
    SecretAuthentication,
    TokenReader,
    TokenRequest,
    by_method,
    method_for,
)
from .server_discovery import authorization_server_metadata
from .token_endpoint import GrantContext, refusal
from .token_storage import MemoryTokens, Tokens, TokenStorage

_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN_TYPES: Final = "urn:ietf:params:oauth:token-type:"


class _GrantWithoutLogin(Authorization):
    """Base class of grants for one client. Its tokens can be obtained again at any time."""

    def __init__(
        self,
        client_id: str,
        issuer: str | None,
        scopes: Iterable[str] | None,
        storage: TokenStorage | None,
        dpop: bool,
        accept_plain_http: bool,
    ) -> None:
        super().__init__(
            scopes=scopes,
            storage=MemoryTokens() if storage is None else storage,
            issuer=issuer,
            dpop=dpop,
            accept_plain_http=accept_plain_http,
        )
        self._client_id = client_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client_id!r})"

    @property
    def client(self) -> str:
        """The client id."""
        return self._client_id


class ClientCredentials(_GrantWithoutLogin):
    """Obtains tokens for a program that acts for itself, such as a service or a job, without a login.

        Client(url, auth=ClientCredentials("reports", secret=SECRET, issuer="https://id.example.com"))
        Client(url, auth=ClientCredentials("reports", private_key=Path("reports.pem")))

    The client must be registered at the authorization server. Expired tokens are requested again (OAuth 2.1, section
    4.2; ext-auth, "OAuth Client Credentials Extension").

    Args:
        client_id: The client id.
        secret: The client secret. It is sent in a header or in the form, as the authorization server requires.
        private_key: The private key that signs assertions (`private_key_jwt`): the text of a PEM file, its path, or a
            JWK.
        assertion: A JWT from another issuer that authenticates the client, such as the platform that it runs on: the
            token, the path of a file that holds it, or a function that returns it.
        issuer: The authorization server that the secret or the assertion is sent to, and no other. It may be left out
            with a private key, since each signed assertion is valid for one authorization server only.
        scopes: The scopes to request. None takes those that the server names.
        algorithm: The algorithm of the signature, such as `ES256`. None takes one that suits the key and the
            authorization server.
        key_id: The `kid` of the key.
        audience: The `aud` of signed assertions. None takes the issuer. Some servers require the URL of their token
            endpoint.
        storage: The storage of the tokens. None takes memory.
        dpop: Whether tokens are bound to a key of the client (DPoP, RFC 9449).
        accept_plain_http: Whether servers and authorization servers on other machines may have URLs with `http`, as in
            a cluster. Everything in between can then read the tokens.

    Raises:
        ImportError: `private_key` requires the extra `mcpkit[auth]`.
        OSError: The file of the key cannot be read.
        ValueError: Not exactly one of `secret`, `private_key` and `assertion` is given; or `issuer` is missing.
    """

    def __init__(
        self,
        client_id: str,
        secret: str | None = None,
        *,
        private_key: str | Path | Json | None = None,
        assertion: PresentedToken | None = None,
        issuer: str | None = None,
        scopes: Iterable[str] | None = None,
        algorithm: str | None = None,
        key_id: str | None = None,
        audience: str | None = None,
        storage: TokenStorage | None = None,
        dpop: bool = False,
        accept_plain_http: bool = False,
    ) -> None:
        self._registered = RegisteredClient(
            client_id,
            issuer,
            secret=secret,
            private_key=private_key,
            assertion=assertion,
            algorithm=algorithm,
            key_id=key_id,
            audience=audience,
        )
        super().__init__(client_id, issuer, scopes, storage, dpop, accept_plain_http)

    async def obtain(self, context: GrantContext) -> Tokens:
        """Request tokens from the token endpoint; see `Authorization.obtain`."""
        form = {"grant_type": "client_credentials"}
        return await context.tokens(form, self._registered.authentication(context.server))


class WorkloadIdentity(_GrantWithoutLogin):
    """Obtains tokens for a program by the identity token of its platform, without a secret.

        Client(url, auth=WorkloadIdentity("reports", Path("/var/run/secrets/tokens/mcp"), issuer="https://id.example.com"))

    The platform provides a JWT with the authorization server as audience, for example Kubernetes in a file and cloud
    providers by a request (RFC 7523, section 2.1). After a refusal the client does not try again, or in another way
    (ext-auth, workload identity federation, a draft: SEP-1933).

    Args:
        client_id: The client id at the authorization server.
        token: The JWT; the path of a file that holds it, read each time; or a function that returns it.
        issuer: The authorization server that the JWT is for. It is sent to no other server.
        scopes: The scopes to request. None takes those that the server names.
        storage: The storage of the tokens. None takes memory.
        dpop: Whether tokens are bound to a key of the client (DPoP, RFC 9449).
        accept_plain_http: Whether servers and authorization servers on other machines may have URLs with `http`, as in
            a cluster. Everything in between can then read the tokens.

    Raises:
        TypeError: `token` is none of these.
        ValueError: `issuer` is not a URL with `https`.
    """

    def __init__(
        self,
        client_id: str,
        token: PresentedToken,
        *,
        issuer: str,
        scopes: Iterable[str] | None = None,
        storage: TokenStorage | None = None,
        dpop: bool = False,
        accept_plain_http: bool = False,
    ) -> None:
        self._token = TokenReader("token", token)
        super().__init__(client_id, issuer, scopes, storage, dpop, accept_plain_http)

    async def obtain(self, context: GrantContext) -> Tokens:
        """Request tokens from the token endpoint, once, with the token of the platform; see `Authorization.obtain`."""
        form = {"grant_type": _JWT_BEARER, "assertion": await self._token.read()}
        return await context.tokens(form, SecretAuthentication(self._client_id))


class EnterpriseManaged(_GrantWithoutLogin):
    """Obtains tokens for a user by a login at the identity provider of an enterprise.

        auth = EnterpriseManaged(
            "notes-client", secret=SECRET, issuer="https://auth.notes.example",
            idp="https://acme.idp.example", idp_client_id="our-client", identity=id_token,
        )

    The user is not prompted. The identity provider decides what the client may do, and exchanges the user's identity
    token for a grant (ID-JAG). The authorization server of the MCP server exchanges the grant for a token
    (ext-auth, "Enterprise-Managed Authorization").

    Args:
        client_id: The client id at the authorization server of the MCP server.
        secret: The client secret there. Give either `secret` or `private_key`.
        private_key: The private key of the client there: the text of a PEM file, its path, or a JWK.
        issuer: That authorization server. Grants are sent to no other server.
        idp: The issuer of the enterprise's identity provider.
        idp_client_id: The client id at the identity provider.
        identity: The identity token of the user from the login, an ID token or a SAML assertion: the token, the path of
            a file that holds it, or a function that returns it.
        idp_secret: The client secret at the identity provider; None if there is none.
        identity_type: The type of `identity`: `id_token` or `saml2`.
        idp_token_endpoint: The token endpoint of the identity provider. None takes it from the provider's metadata.
        scopes: The scopes to request. None takes those that the server names.
        storage: The storage of the tokens, for this user only. None takes memory, since tokens can be obtained again at
            any time.
        dpop: Whether tokens are bound to a key of the client (DPoP, RFC 9449).
        accept_plain_http: Whether servers and authorization servers on other machines may have URLs with `http`, as in
            a cluster. Everything in between can then read the tokens.

    Raises:
        ImportError: `private_key` requires the extra `mcpkit[auth]`.
        OSError: The file of the key cannot be read.
        ValueError: A URL does not begin with `https`, `identity_type` is unknown, or not exactly one of `secret` and
            `private_key` is given.
    """

    def __init__(
        self,
        client_id: str,
        *,
        issuer: str,
        idp: str,
        idp_client_id: str,
        identity: PresentedToken,
        secret: str | None = None,
        private_key: str | Path | Json | None = None,
        idp_secret: str | None = None,
        identity_type: str = "id_token",
        idp_token_endpoint: str | None = None,
        scopes: Iterable[str] | None = None,
        storage: TokenStorage | None = None,
        dpop: bool = False,
        accept_plain_http: bool = False,
    ) -> None:
        if identity_type not in {"id_token", "saml2"}:
            raise ValueError(f"identity_type must be 'id_token' or 'saml2', got {identity_type!r}")
        self._registered = RegisteredClient(client_id, issuer, secret=secret, private_key=private_key)
        self._idp = check_url(idp, "idp=", accepts_http=accept_plain_http)
        self._idp_client_id = idp_client_id
        self._idp_secret = idp_secret
        self._identity = TokenReader("identity", identity)
        self._identity_type = _TOKEN_TYPES + identity_type
        self._endpoint = idp_token_endpoint
        if idp_token_endpoint is not None:
            check_url(idp_token_endpoint, "idp_token_endpoint=", accepts_http=accept_plain_http)
        super().__init__(client_id, issuer, scopes, storage, dpop, accept_plain_http)

    def __repr__(self) -> str:
        return f"EnterpriseManaged({self.client!r}, idp={self._idp!r})"

    async def obtain(self, context: GrantContext) -> Tokens:
        """Request a grant from the identity provider, and tokens for it; see `Authorization.obtain`."""
        form = {"grant_type": _JWT_BEARER, "assertion": await self._request_grant(context)}
        return await context.tokens(form, self._registered.authentication(context.server))

    async def _request_grant(self, context: GrantContext) -> str:
        """Return the grant of the identity provider for one server (section 4)."""
        what = f"the identity provider {shortened(self._idp)}"
        form = {
            "grant_type": _TOKEN_EXCHANGE,
            "requested_token_type": f"{_TOKEN_TYPES}id-jag",
            "audience": context.server.issuer,
            "resource": context.resource,
            "subject_token_type": self._identity_type,
        }
        if context.scopes:
            form["scope"] = " ".join(context.scopes)
        try:
            if self._endpoint is not None:
                document: Mapping[str, object] = {"issuer": self._idp, "token_endpoint": self._endpoint}
                idp = AuthorizationServerMetadata(self._idp, document, context.http.accepts_http)
            else:
                name = f"the metadata of the identity provider {shortened(self._idp)}"
                idp = await authorization_server_metadata(context.http, self._idp, name)
            url = idp.endpoint("token_endpoint")
            request = TokenRequest(url, {**form, "subject_token": await self._identity.read()})
            # A public client has no method, whatever the metadata lists.
            method = "none" if self._idp_secret is None else method_for(self._idp_secret, idp)
            await by_method(method, self._idp_client_id, self._idp_secret).sign(request, idp)
            response = await context.http.post(url, what, form=request.form, headers=request.headers)
        except MetadataError as error:
            raise AuthorizationFailedError(str(error)) from None
        refused = refusal(response, what, request.secrets)
        if refused is not None:
            raise refused
        grant = response.members.get("access_token")
        is_grant = response.members.get("issued_token_type") == f"{_TOKEN_TYPES}id-jag"
        if response.status != 200 or not isinstance(grant, str) or not is_grant:
            raise AuthorizationFailedError(
                f"{what} responded with HTTP {response.status} without an identity assertion grant (ID-JAG)",
                may_pass=response.status >= 500,
            )
        return grant

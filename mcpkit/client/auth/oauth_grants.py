"""The OAuth grants of clients: a login of the user (OAuth 2.1, 4.1), and grants without a login."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ...auth.jws import base64url_encode
from ...auth.urls_and_discovery import AuthorizationServerMetadata, MetadataError, check_url, shortened
from ...auth.verifier import warn_insecure_options
from ...protocol.jsonrpc import Json
from .authorization_server_client import (
    OFFLINE_ACCESS,
    AuthorizationFailedError,
    TokenRefusedError,
    authorization_server_metadata,
)
from .authorizer import Authorization
from .login_callback import Browser, LocalCallbackServer, RedirectReceiver
from .token_endpoint import (
    ClientAuthentication,
    ForeignAssertion,
    GrantContext,
    PresentedToken,
    PrivateKeyJwt,
    SecretAuthentication,
    TokenReader,
    TokenRequest,
    by_method,
    error_words,
    method_for,
    method_to_register,
    raise_refusal,
)
from .token_storage import MemoryTokens, Registration, Tokens, TokenStorage


class OAuth(Authorization):
    """Obtains tokens by a login of the user in a browser, when a server requires them.

    The client identifies itself by the first of these that is available: a `client_id` registered by hand, a client ID
    metadata document, or dynamic client registration. A registration is stored.

    Args:
        client_id: The id of a client that was registered by hand at `issuer`.
        client_secret: The client secret, if there is one.
        issuer: The only authorization server that may issue tokens. It is required with `client_id`, which is sent to
            no other server.
        client_metadata_url: The URL of the client ID metadata document. It is the client id at authorization servers
            that support it.
        client_name: The name of the client that users see.
        authentication: Client authentication in place of a secret, such as `PrivateKeyJwt`.
        scopes: The scopes to request. None takes those that the server names. Scopes of a challenge are added.
        storage: The storage of tokens and registrations. None takes the system keyring if there is one, and memory
            otherwise.
        browser: Shows pages to the user and receives the redirect. None takes a `LocalCallbackServer`.
        dpop: Whether tokens are bound to a key of the client (DPoP, RFC 9449).
        accept_plain_http: Whether servers and authorization servers on other machines may have URLs with `http`, as in
            a cluster. Everything in between can then read the tokens.
        accept_unannounced_pkce: Whether to accept authorization servers whose metadata does not announce PKCE, such as
            Microsoft Entra ID and Amazon Cognito.

    Raises:
        TypeError: `scopes` is a string.
        ValueError: The arguments about the client do not fit together.
    """

    is_interactive: ClassVar[bool] = True

    def __init__(
        self,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        issuer: str | None = None,
        client_metadata_url: str | None = None,
        client_name: str = "mcpkit",
        authentication: ClientAuthentication | None = None,
        scopes: Iterable[str] | None = None,
        storage: TokenStorage | None = None,
        browser: Browser | None = None,
        dpop: bool = False,
        accept_plain_http: bool = False,
        accept_unannounced_pkce: bool = False,
    ) -> None:
        super().__init__(
            scopes=scopes, storage=storage, issuer=issuer, dpop=dpop, accept_plain_http=accept_plain_http
        )
        self._accepts_unannounced_pkce = accept_unannounced_pkce
        warn_insecure_options(
            "OAuth", issuer or "authorization servers", {"accept_unannounced_pkce": accept_unannounced_pkce}
        )
        if client_secret is not None and (client_id is None or authentication is not None):
            raise ValueError("client_secret= requires client_id= and excludes authentication=")
        if authentication is not None and authentication.client_id not in {client_id, client_metadata_url}:
            raise ValueError("the client_id of authentication= must equal client_id= or client_metadata_url=")
        if client_id is not None and issuer is None:
            raise ValueError("client_id= requires issuer=, the authorization server that issued the ID")
        if client_metadata_url is not None:
            check_url(client_metadata_url, "client_metadata_url=")
            if not client_metadata_url.startswith("https://") or client_metadata_url.count("/") < 3:
                raise ValueError(
                    f"client_metadata_url= must begin with https:// and have a path, got {client_metadata_url!r}"
                )
        self._client_id = client_id
        self._client_secret = client_secret
        self._metadata_url = client_metadata_url
        self._client_name = client_name
        self._authentication = authentication
        self._browser: Browser = LocalCallbackServer() if browser is None else browser

    def __repr__(self) -> str:
        """Return a representation without secrets."""
        return f"OAuth({self._client_id or self._metadata_url or self._client_name!r})"

    @property
    def client(self) -> str:
        """The key that separates its tokens from those of other clients in the same storage."""
        return self._client_id or self._metadata_url or ""

    async def obtain(self, context: GrantContext) -> Tokens:
        """Let the user log in, and exchange the authorization code for tokens; see `Authorization.obtain`."""
        server = context.server
        server.check_pkce(may_be_unannounced=self._accepts_unannounced_pkce)
        for endpoint in ("authorization_endpoint", "token_endpoint"):
            server.endpoint(endpoint)  # raises before the client registers, and before the user is involved
        known = await self._find_registration(server)
        async with self._browser.receive_redirect(() if known is None else known.redirect_uris) as receiver:
            uri = receiver.redirect_uri
            if known is not None and (
                # The redirect may only go to a registered URI.
                (known.redirect_uris and uri not in known.redirect_uris)
                or not await self._is_still_registered(context, known, uri)
            ):
                known = None
            registration = known or await self._register(context, uri)
            try:
                return await self._log_in(context, receiver, registration)
            except TokenRefusedError as error:
                is_unknown = error.error in {"invalid_client", "unauthorized_client"}
                if not is_unknown or self._needs_no_registration(server):
                    raise
                await self.storage.delete_registration(server.issuer, self.client)
                return await self._log_in(context, receiver, await self._register(context, uri))

    async def authentication(self, context: GrantContext, tokens: Tokens) -> ClientAuthentication | None:
        """Return the client authentication for refreshing tokens; None if the client is not registered.

        Args:
            context: The server and its authorization server.
            tokens: The tokens to refresh.
        """
        registration = await self._find_registration(context.server)
        return None if registration is None else self._client_authentication(registration)

    async def _log_in(
        self, context: GrantContext, receiver: RedirectReceiver, registration: Registration
    ) -> Tokens:
        request = AuthorizationRequest(context, registration.client_id, receiver.redirect_uri)
        response = await receiver.authorize(request.url(), request.state)
        form = {
            "grant_type": "authorization_code",
            "code": request.code(response),
            "redirect_uri": receiver.redirect_uri,
            "code_verifier": request.verifier,
            "scope": "",
        }
        return await context.tokens(form, self._client_authentication(registration))

    def _client_authentication(self, registration: Registration) -> ClientAuthentication:
        if self._authentication is not None and registration.client_id == self._authentication.client_id:
            return self._authentication
        return by_method(registration.method, registration.client_id, registration.secret)

    # Registration of the client

    def _needs_no_registration(self, server: AuthorizationServerMetadata) -> bool:
        """Return whether the client is registered by hand, or has a metadata document."""
        has_document = server.is_true("client_id_metadata_document_supported")
        return self._client_id is not None or (self._metadata_url is not None and has_document)

    async def _find_registration(self, server: AuthorizationServerMetadata) -> Registration | None:
        """Return the registration at an authorization server; None if the client has to register first."""
        if self._client_id is not None:
            method = method_for(self._client_secret, server)
            return Registration(server.issuer, self._client_id, self._client_secret, method)
        if self._metadata_url is not None and self._needs_no_registration(server):
            return Registration(server.issuer, self._metadata_url)
        stored = await self.storage.get_registration(server.issuer, self.client)
        has_expired = stored is not None and stored.expires is not None and stored.expires <= time.time()
        return None if has_expired else stored

    async def _is_still_registered(
        self, context: GrantContext, registration: Registration, redirect_uri: str
    ) -> bool:
        """Return whether an authorization server still knows a stored registration.

        Otherwise it would show the user an error without a redirect, and the client would wait in vain.
        """
        if self._needs_no_registration(context.server):
            return True
        request = AuthorizationRequest(context, registration.client_id, redirect_uri)
        page = f"the login page of {shortened(context.server.issuer)}"
        return await context.http.page_status(request.url(), page) not in {400, 401}

    async def _register(self, context: GrantContext, redirect_uri: str) -> Registration:
        if not context.server.has("registration_endpoint"):
            alternative = (
                " nor client ID metadata documents"
                if not context.server.is_true("client_id_metadata_document_supported")
                else ", only client ID metadata documents (client_metadata_url=)"
            )
            raise AuthorizationFailedError(
                f"the authorization server {shortened(context.server.issuer)} does not support dynamic registration"
                f"{alternative}. Register a client there by hand, and pass its client_id= and issuer="
            )
        registration = await register(context, self._client_name, redirect_uri)
        await self.storage.set_registration(registration, self.client)
        return registration


async def register(context: GrantContext, name: str, redirect_uri: str) -> Registration:
    """Register a client on a user's machine (dynamic client registration, RFC 7591).

    Args:
        context: The authorization server and the scopes.
        name: The name of the client that users see.
        redirect_uri: The redirect URI.

    Raises:
        AuthorizationFailedError: The authorization server refused the registration, or did not respond.
        MetadataError: The URL of the endpoint may not be requested.
    """
    server = context.server
    what = f"the registration endpoint of {shortened(server.issuer)}"
    scopes = dict.fromkeys((*(context.scopes or ()), *context.published))
    content: dict[str, object] = {
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method_to_register(server),
        "application_type": "native",
        **({"scope": " ".join(scopes)} if scopes else {}),
    }
    response = await context.http.post(server.endpoint("registration_endpoint"), what, content=content)
    members = response.members
    if "error" in members:
        raise AuthorizationFailedError(
            f"{what} rejected the registration of a client with the redirect URI {redirect_uri}: {error_words(members)}"
        )
    client_id = members.get("client_id")
    if not 200 <= response.status < 300 or not isinstance(client_id, str) or not client_id:
        raise AuthorizationFailedError(
            f"{what} responded with HTTP {response.status} without a client_id. If clients are registered there by "
            "hand, pass client_id= and issuer=",
            may_pass=response.status >= 500,
        )
    secret, method = members.get("client_secret"), members.get("token_endpoint_auth_method")
    secret = secret if isinstance(secret, str) and secret else None
    method = method if isinstance(method, str) and method else method_for(secret, server)
    expires = members.get("client_secret_expires_at")  # 0 for never
    is_time = isinstance(expires, int | float) and not isinstance(expires, bool) and expires > 0
    expiry = float(str(expires)) if is_time else None
    return Registration(server.issuer, client_id, secret, method, (redirect_uri,), expiry)


@dataclass(frozen=True)
class AuthorizationRequest:
    """An authorization request, stored until its response arrives.

    Attributes:
        context: The server, the scopes, and the authorization server, the only one that may respond.
        client_id: The client id.
        redirect_uri: The redirect URI of the response.
        state: The `state` that the response must repeat.
        verifier: The PKCE code verifier.
    """

    context: GrantContext
    client_id: str
    redirect_uri: str
    state: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)

    def url(self) -> str:
        """Return the URL of the authorization page.

        Raises:
            MetadataError: There is no such endpoint, or its URL may not be shown.
        """
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": base64url_encode(sha256(self.verifier.encode("ascii")).digest()),
            "code_challenge_method": "S256",
            "resource": self.context.resource,
        }
        if scopes := self.context.scopes:
            parameters["scope"] = " ".join(scopes)
            if OFFLINE_ACCESS in scopes:
                parameters["prompt"] = "consent"  # or it is not granted (OpenID Connect Core 1.0, 11)
        parts = urlsplit(self.context.server.endpoint("authorization_endpoint"))
        own = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in parameters]
        query = urlencode([*own, *parameters.items()])
        return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))

    def code(self, response: Mapping[str, str]) -> str:
        """Return the authorization code of a response to this request from this authorization server.

        An error is read only after these checks, since it may come from another server, too (RFC 9207, 2.4).

        Args:
            response: The query parameters of the redirect.

        Raises:
            AuthorizationFailedError: The response belongs to another request or server, or has no code.
            TokenRefusedError: The authorization server refused the request.
        """
        server = self.context.server
        name, issuer = shortened(server.issuer), response.get("iss")
        if not hmac.compare_digest(response.get("state", "").encode(), self.state.encode()):
            raise AuthorizationFailedError(
                "the authorization response has the wrong `state`: it belongs to another login or is forged. Log in"
                " again"
            )
        if issuer is None and server.is_true("authorization_response_iss_parameter_supported"):
            raise AuthorizationFailedError(
                f"the authorization response has no `iss`, although the metadata of {name} announces it: "
                "the response may come from another authorization server. Log in again"
            )
        if issuer not in {None, server.issuer}:
            raise AuthorizationFailedError(
                f"the authorization response has `iss` {shortened(str(issuer))}, but the login was at {name}: "
                "the client discards its code. Log in again"
            )
        raise_refusal(response, f"the authorization server {name}")
        code = response.get("code")
        if not code:
            raise AuthorizationFailedError(
                f"the authorization response of {name} has no `code`. Log in again"
            )
        return code


# Grants without a login

_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN_TYPES: Final = "urn:ietf:params:oauth:token-type:"


class _GrantWithoutLogin(Authorization):
    """Base class of grants for one client. Its tokens can be obtained again at any time."""

    def __init__(
        self,
        client_id: str,
        authentication: Callable[[AuthorizationServerMetadata], ClientAuthentication],
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
        self._authentication_at = authentication

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client_id!r})"

    @property
    def client(self) -> str:
        """The client id."""
        return self._client_id


def _registered_client(
    client_id: str,
    issuer: str | None,
    secret: str | None,
    private_key: str | Path | Json | None,
    assertion: PresentedToken | None = None,
    algorithm: str | None = None,
    key_id: str | None = None,
    audience: str | None = None,
) -> Callable[[AuthorizationServerMetadata], ClientAuthentication]:
    """Return the function with the authentication of a registered client at an authorization server.

    Raises:
        ValueError: Not exactly one of secret, key and assertion is given; or `issuer` is missing.
    """
    if not client_id:
        raise ValueError("client_id is empty. Pass the client ID that the authorization server has issued")
    if sum(each is not None for each in (secret, private_key, assertion)) != 1:
        raise ValueError("pass exactly one of secret=, private_key= and assertion=")
    if issuer is None and (private_key is None or audience is not None):
        raise ValueError(
            "issuer= is missing. Pass the issuer of the authorization server that registered the client: without"
            " it, any authorization server that an MCP server names would get the credentials"
        )
    if private_key is None and (algorithm, key_id, audience) != (None, None, None):
        raise ValueError("algorithm=, key_id= and audience= require private_key=")
    authentication: ClientAuthentication
    if private_key is not None:
        authentication = PrivateKeyJwt(client_id, private_key, algorithm, key_id, audience)
    elif assertion is not None:
        authentication = ForeignAssertion(client_id, TokenReader("assertion=", assertion))
    else:
        return lambda server: by_method(method_for(secret, server), client_id, secret)
    return lambda server: authentication


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
        authentication = _registered_client(
            client_id, issuer, secret, private_key, assertion, algorithm, key_id, audience
        )
        super().__init__(client_id, authentication, issuer, scopes, storage, dpop, accept_plain_http)

    async def obtain(self, context: GrantContext) -> Tokens:
        """Request tokens from the token endpoint; see `Authorization.obtain`."""
        form = {"grant_type": "client_credentials"}
        return await context.tokens(form, self._authentication_at(context.server))


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
        authentication = SecretAuthentication(client_id)
        super().__init__(
            client_id, lambda _: authentication, issuer, scopes, storage, dpop, accept_plain_http
        )

    async def obtain(self, context: GrantContext) -> Tokens:
        """Request tokens from the token endpoint, once, with the token of the platform; see `Authorization.obtain`."""
        form = {"grant_type": _JWT_BEARER, "assertion": await self._token.read()}
        return await context.tokens(form, self._authentication_at(context.server))


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
        authentication = _registered_client(client_id, issuer, secret, private_key)
        self._idp = check_url(idp, "idp=", accepts_http=accept_plain_http)
        self._idp_client_id = idp_client_id
        self._idp_secret = idp_secret
        self._identity = TokenReader("identity", identity)
        self._identity_type = _TOKEN_TYPES + identity_type
        self._endpoint = idp_token_endpoint
        if idp_token_endpoint is not None:
            check_url(idp_token_endpoint, "idp_token_endpoint=", accepts_http=accept_plain_http)
        super().__init__(client_id, authentication, issuer, scopes, storage, dpop, accept_plain_http)

    def __repr__(self) -> str:
        return f"EnterpriseManaged({self.client!r}, idp={self._idp!r})"

    async def obtain(self, context: GrantContext) -> Tokens:
        """Request a grant from the identity provider, and tokens for it; see `Authorization.obtain`."""
        form = {"grant_type": _JWT_BEARER, "assertion": await self._request_grant(context)}
        return await context.tokens(form, self._authentication_at(context.server))

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
            method = method_for(self._idp_secret, idp)
            await by_method(method, self._idp_client_id, self._idp_secret).sign(request, idp)
            response = await context.http.post(url, what, form=request.form, headers=request.headers)
        except MetadataError as error:
            raise AuthorizationFailedError(str(error)) from None
        raise_refusal(response.members, what, request.secrets)
        grant = response.members.get("access_token")
        is_grant = response.members.get("issued_token_type") == f"{_TOKEN_TYPES}id-jag"
        if response.status != 200 or not isinstance(grant, str) or not is_grant:
            raise AuthorizationFailedError(
                f"{what} responded with HTTP {response.status} without an identity assertion grant (ID-JAG)",
                may_pass=response.status >= 500,
            )
        return grant

"""The authorization code grant: login of the user with a browser (OAuth 2.1, 4.1), and registration of the client."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.jws import base64url_encode
from ...auth.urls import check_url, shortened
from ...auth.verifier import warn_insecure_options
from .authorization_server_client import AuthorizationFailedError, EndpointResponse, TokenRefusedError
from .authorizer import Authorization
from .client_authentication import ClientAuthentication, by_method, method_for, method_to_register
from .login_callback import Browser, LocalCallbackServer, RedirectReceiver
from .server_discovery import OFFLINE_ACCESS
from .token_endpoint import GrantContext, error_words, refusal
from .token_storage import Registration, Tokens, TokenStorage


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
        try:
            stored = await self.storage.get_registration(server.issuer, self.client)
        except OSError as error:
            raise AuthorizationFailedError(str(error)) from error
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
        try:
            await self.storage.set_registration(registration, self.client)
        except OSError as error:
            raise AuthorizationFailedError(str(error)) from error
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
        refused = refusal(EndpointResponse(400, response), f"the authorization server {name}")
        if refused is not None:
            raise refused
        code = response.get("code")
        if not code:
            raise AuthorizationFailedError(
                f"the authorization response of {name} has no `code`. Log in again"
            )
        return code

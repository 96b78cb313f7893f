"""The authorization code grant: the user logs in with a browser (OAuth 2.1, 4.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ...auth.urls import check_url, shortened
from ...auth.verifier import warn_insecure_options
from .authorization import Authorization
from .client_authentication import by_method, method_for
from .code_flow import AuthorizationRequest
from .errors import AuthorizationFailedError, TokenRefusedError
from .grant_context import GrantContext
from .registering import has_expired, register
from .roles import Browser, ClientAuthentication, RedirectReceiver
from .storage import TokenStorage
from .tokens import Registration, Tokens


class OAuth(Authorization):
    """Obtains tokens by a login of the user in a browser, when a server requires them.

    The client identifies itself by the first of these that is available: a `client_id` registered by hand, a client ID
    metadata document, or dynamic client registration, whose result is stored.

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
        if browser is None:
            from .loopback import LocalCallbackServer

            browser = LocalCallbackServer()
        self._browser = browser

    def __repr__(self) -> str:
        """Return a representation without secrets."""
        known = self._client_id or self._metadata_url or self._client_name
        return f"OAuth({known!r})"

    @property
    def client(self) -> str:
        """The key that separates its tokens from those of other clients in the same storage."""
        return self._client_id or self._metadata_url or ""

    async def obtain(self, context: GrantContext) -> Tokens:
        """Let the user log in, and exchange the authorization code for tokens; see `Authorization.obtain`."""
        context.server.check_pkce(may_be_unannounced=self._accepts_unannounced_pkce)
        for endpoint in ("authorization_endpoint", "token_endpoint"):
            context.server.endpoint(endpoint)  # before anybody registers, or is asked
        before = await self._known(context)
        async with self._browser.receive_redirect(() if before is None else before.redirect_uris) as receiver:
            redirect_uri = receiver.redirect_uri
            if before is not None and before.redirect_uris and redirect_uri not in before.redirect_uris:
                before = None  # it may be answered elsewhere alone
            if before is not None and not await self._is_known_still(context, before, redirect_uri):
                before = None
            registration = before or await self._register(context, redirect_uri)
            try:
                return await self._logged_in(context, receiver, registration)
            except TokenRefusedError as error:
                if error.error not in {"invalid_client", "unauthorized_client"} or self._is_known_otherwise(
                    context
                ):
                    raise
                await self.storage.delete_registration(context.server.issuer, self.client)
                registration = await self._register(context, redirect_uri)
                return await self._logged_in(context, receiver, registration)

    async def authentication(self, context: GrantContext, tokens: Tokens) -> ClientAuthentication | None:
        """Return the client authentication for refreshing tokens; None if the client is not registered.

        Args:
            context: The server and its authorization server.
            tokens: The tokens to refresh.
        """
        registration = await self._known(context)
        return None if registration is None else self._as_client(registration)

    async def _is_known_still(
        self, context: GrantContext, registration: Registration, redirect_uri: str
    ) -> bool:
        """Return whether an authorization server still knows a stored registration.

        Otherwise it would show the user an error without a redirect, and the client would wait in vain.
        """
        if self._is_known_otherwise(context):
            return True
        request = AuthorizationRequest(
            context.server, registration.client_id, redirect_uri, context.resource, context.scopes
        )
        page = f"the login page of {shortened(context.server.issuer)}"
        return await context.web.status(request.url(), page) not in {400, 401}

    async def _logged_in(
        self, context: GrantContext, receiver: RedirectReceiver, registration: Registration
    ) -> Tokens:
        request = AuthorizationRequest(
            context.server, registration.client_id, receiver.redirect_uri, context.resource, context.scopes
        )
        answer = await receiver.authorize(request.url(), request.state)
        form = {
            "grant_type": "authorization_code",
            "code": request.code(answer),
            "redirect_uri": receiver.redirect_uri,
            "code_verifier": request.verifier,
            "scope": "",
        }
        return await context.tokens(form, self._as_client(registration))

    def _as_client(self, registration: Registration) -> ClientAuthentication:
        if self._authentication is not None and registration.client_id == self._authentication.client_id:
            return self._authentication
        return by_method(registration.method, registration.client_id, registration.secret)

    # Whom it is known as

    def _is_known_otherwise(self, context: GrantContext) -> bool:
        """Return whether the client needs no registration."""
        return self._client_id is not None or (
            self._metadata_url is not None and context.server.is_true("client_id_metadata_document_supported")
        )

    async def _known(self, context: GrantContext) -> Registration | None:
        """Return the registration at an authorization server; None if the client has to register first."""
        server = context.server
        if self._client_id is not None:
            method = method_for(self._client_secret, server)
            return Registration(server.issuer, self._client_id, self._client_secret, method)
        if self._metadata_url is not None and server.is_true("client_id_metadata_document_supported"):
            return Registration(server.issuer, self._metadata_url)
        try:
            kept = await self.storage.get_registration(server.issuer, self.client)
        except OSError as error:
            raise AuthorizationFailedError(str(error)) from error
        return None if kept is None or has_expired(kept) else kept

    async def _register(self, context: GrantContext, redirect_uri: str) -> Registration:
        if not context.server.has("registration_endpoint"):
            understood = (
                " nor client ID metadata documents"
                if not context.server.is_true("client_id_metadata_document_supported")
                else ", only client ID metadata documents (client_metadata_url=)"
            )
            raise AuthorizationFailedError(
                f"the authorization server {shortened(context.server.issuer)} does not support dynamic registration"
                f"{understood}. Register a client there by hand, and pass its client_id= and issuer="
            )
        registration = await register(context, self._client_name, [redirect_uri])
        try:
            await self.storage.set_registration(registration, self.client)
        except OSError as error:
            raise AuthorizationFailedError(str(error)) from error
        return registration

"""`OAuthProxy`: an authorization server with open registration in front of a provider with one fixed client ID."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..._utils.exceptions import LoginNeededError, ProviderUnavailableError
from ..._utils.option_checks import check_seconds
from ..authorization_server.html_pages import Branding, check_branding
from ..oauth_http_client import SingleFlight
from ..upstream.identity_providers import UpstreamProvider
from ..urls_and_discovery import check_url, origin
from ..verifier import AccessToken, ProtectedResource, TokenVerifier, VerifierContext

if TYPE_CHECKING:
    from starlette.routing import Route

    from ...identity.principals_and_scopes import Principal
    from ..authorization_server.grants import GrantRecord
    from .proxy_endpoints import Allow, ProxyServer
    from .upstream_logins import UpstreamLogins

logger = logging.getLogger(__name__)

_SHUTDOWN_TIMEOUT = 10.0
"""Seconds for which running token refreshes may finish at shutdown, because the old tokens may already be invalid."""


class OAuthProxy(TokenVerifier):
    """Authorization server for any client, with login at an identity provider where only this server is registered.

    `Server("notes", auth=OAuthProxy(UpstreamProvider.github(CLIENT_ID, CLIENT_SECRET)), storage=Sqlite("notes.db"))`.
    Clients register themselves, or use a client ID metadata document. Each user allows the client on a consent page,
    and then logs in at the provider. Register the redirect URI `https://.../callback` there.

    Tokens of the provider are stored encrypted and never sent to a client. Clients get tokens of this server, valid
    only for this server. `ctx.upstream_token(...)` returns the token of the provider.

    Args:
        upstream: The identity provider.
        allow: Function of the `Principal`, async or not, that returns True, False, or the scopes that the user may
            have. It is called at each login and each refresh. None allows every user of the provider.
        issuer: URL of the authorization server, at the origin of the server's `public_url`. None takes that origin, the
            only place where clients of revision 2025-03-26 find it.
        token_lifetime: Seconds for which an access token is valid.
        client_documents: Allow client ID metadata documents, which are fetched from the public internet without a
            proxy. False makes all clients register themselves.
        title: Name of the server on the pages; None for the name of the server.
        logo: Image on the pages, as a path or as bytes: PNG, JPEG, GIF, WebP or SVG.
        remember_consent: Offer users to skip the consent page for a client, in the same browser, for 30 days. It is
            offered for self-registered programs on the machine of the user. The page is skipped only for the same
            program and no additional scopes or resources. All other requests show the page.
        clock: Returns the Unix time in seconds.

    Raises:
        TypeError: `upstream` is not an `UpstreamProvider`, or `allow` is not a function.
        ValueError: `token_lifetime` is not positive, or the title or logo is not valid.
        OSError: The logo cannot be read.
    """

    def __init__(
        self,
        upstream: UpstreamProvider,
        *,
        allow: Allow | None = None,
        issuer: str | None = None,
        token_lifetime: float = 600.0,
        client_documents: bool = True,
        title: str | None = None,
        logo: Path | str | bytes | None = None,
        remember_consent: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(upstream, UpstreamProvider):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(
                "upstream must be an UpstreamProvider, such as UpstreamProvider.github(CLIENT_ID, CLIENT_SECRET), got"
                f" {type(upstream).__name__}"
            )
        if allow is not None and not callable(allow):
            raise TypeError(
                "allow= must be a function of the principal that returns True, False or the scopes they may have, such"
                f' as lambda who: who.claims["login"] == "ada"; got {allow!r}'
            )
        check_seconds("token_lifetime", token_lifetime)
        self._upstream = upstream
        self._allow = allow
        self._issuer = issuer
        self._lifetime = token_lifetime
        self._has_documents = client_documents
        self._has_title = title is not None
        self._branding = check_branding("any" if title is None else title, logo)
        self._remembers_consent = remember_consent
        self._clock = clock
        self._refreshes: SingleFlight[GrantRecord] = SingleFlight(60.0)
        self._server: ProxyServer | None = None
        self._routes: Sequence[Route] = ()
        self._resource: str | None = None
        self.providers = (upstream.name,)

    def bind(self, resource: ProtectedResource) -> None:
        """Bind the authorization server to a protected server.

        Args:
            resource: The protected server.

        Raises:
            ValueError: The public URL or the issuer is not valid, or this OAuthProxy serves another server.
            ImportError: The extra `auth` is not installed.
        """
        # A server over stdio needs neither Starlette nor the authorization server.
        from ..authorization_server.oauth_clients import ClientDocuments
        from .proxy_endpoints import ProxyServer, protect_routes

        issuer = origin(resource.public_url) if self._issuer is None else self._issuer
        for url, what in ((resource.public_url, "public_url"), (issuer, "the issuer of OAuthProxy")):
            check_url(url, what)
        if origin(issuer) != origin(resource.public_url) or urlsplit(issuer).query:
            raise ValueError(
                f"the issuer {issuer} of OAuthProxy must be on the origin of public_url, {origin(resource.public_url)},"
                " with or without a path, and have no query"
            )
        name = f"{resource.name} at {resource.public_url}"
        if self._resource not in {None, name}:
            raise ValueError(
                f"this OAuthProxy already serves {self._resource} and cannot serve {name}. Use one public_url= for a"
                " server, and a separate OAuthProxy for each server. Two of them at one origin need different issuer="
            )
        is_first, self._resource, self.issuers = self._resource is None, name, (issuer,)

        branding = self._branding if self._has_title else Branding(resource.name, self._branding.logo)
        logins = self._logins(VerifierContext(resource.name, resource.keys, resource.storage, resource.audit))
        self._server = ProxyServer(
            issuer,
            resource,
            logins,
            self._lifetime,
            ClientDocuments() if self._has_documents else None,
            branding,
            self._allow,
            remembers_consent=self._remembers_consent,
            clock=self._clock,
        )
        self._routes = protect_routes(self._server.routes(), resource, branding)
        if not is_first:
            return
        if self._allow is None and self._upstream.is_public:
            logger.warning(
                "%s: every user with an account at %s can log in. Restrict the users with OAuthProxy(allow=...)",
                resource.name,
                self._upstream.title,
            )
        if not resource.storage.is_persistent:
            logger.warning(
                "%s: logins are kept in memory, so they end with this process and other processes do not know them. "
                'Store them, as in Server(storage=Sqlite("notes.db"), secret_key=...)',
                resource.name,
            )

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token of this authorization server.

        Raises:
            InvalidTokenError: The token was not issued here, has expired, was revoked, or has another audience.
            VerifierUnavailableError: The storage does not respond.
        """
        return await self._bound().verify(token, audience)

    def routes(self) -> Sequence[Route]:
        """Return the endpoints of the authorization server, and the callback for the provider."""
        self._bound()
        return self._routes

    def notices(self) -> Sequence[str]:
        """Return a notice with the provider and the redirect URI to register there."""
        server = self._bound()
        name, title = server.resource.name, self._upstream.title
        return (f"{name}: users log in with {title}. Register the redirect URI {server.callback_url} there",)

    async def token_for(self, principal: Principal, provider: str, context: VerifierContext) -> str:
        """Return the access token of a user at the provider.

        Raises:
            LoginNeededError: The user has not logged in there, or must log in again.
            ProviderUnavailableError: The provider does not respond.
            OSError: The storage does not respond.
        """
        from ..upstream.upstream_client import UpstreamUnavailableError
        from .upstream_logins import LoginEndedError, UpstreamLogin

        logins, title = self._logins(context), self._upstream.title
        record = await logins.find(principal)
        if record is None:
            raise LoginNeededError(provider, title, has_ended=logins.is_upstream_user(principal))
        try:
            return UpstreamLogin.of(await logins.with_fresh_tokens(record)).tokens.access_token
        except LoginEndedError:
            raise LoginNeededError(provider, title, has_ended=True) from None
        except UpstreamUnavailableError:
            raise ProviderUnavailableError(provider) from None

    async def revoke(self, principal: Principal, context: VerifierContext) -> None:
        """End all logins of a principal, here and at the provider.

        Raises:
            OSError: The storage does not respond.
        """
        await self._logins(context).end_all(principal)

    async def aclose(self) -> None:
        """Wait for running token refreshes, and close the connections to the provider."""
        if self._server is not None and self._server.clients.documents is not None:
            await self._server.clients.documents.aclose()
        await self._refreshes.aclose(_SHUTDOWN_TIMEOUT)
        await self._upstream.provider.aclose()

    def _logins(self, context: VerifierContext) -> UpstreamLogins:
        from .upstream_logins import UpstreamLogins

        return UpstreamLogins(self._upstream, context, self._refreshes, self._clock)

    def _bound(self) -> ProxyServer:
        if self._server is None:
            raise RuntimeError("OAuthProxy is not part of a server yet. Call bind(resource) first")
        return self._server

"""`OAuthProxy`: an authorization server with open registration in front of a provider with one fixed client ID."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..._utils.exceptions import LoginNeededError, ProviderUnavailableError
from ..._utils.option_checks import check_seconds
from ..authority.look import Look, look_of
from ..one_at_a_time import OneAtATime
from ..upstream.upstream import UpstreamProvider
from ..verifier import AccessToken, ProtectedResource, TokenVerifier, VerifierContext
from .admission import Allow, check_allow

if TYPE_CHECKING:
    from starlette.routing import Route

    from ...identity.principal import Principal
    from ..authority.grants import GrantRecord
    from .entering import Entered
    from .logins import Logins

_GRACE = 10.0
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
        check_allow(allow)
        check_seconds("token_lifetime", token_lifetime)
        self._upstream = upstream
        self._allow = allow
        self._issuer = issuer
        self._lifetime = token_lifetime
        self._has_documents = client_documents
        self._has_title = title is not None
        self._look = look_of("any" if title is None else title, logo)
        self._remember_consent = remember_consent
        self._clock = clock
        self._refreshing: OneAtATime[GrantRecord] = OneAtATime(60.0)
        self._entered: Entered | None = None
        self._serves: str | None = None
        self.providers = (upstream.name,)

    def bind(self, resource: ProtectedResource) -> None:
        """Bind the authorization server to a protected server.

        Args:
            resource: The protected server.

        Raises:
            ValueError: The public URL or the issuer is not valid, or this OAuthProxy serves another server.
            ImportError: The extra `auth` is not installed.
        """
        from .entering import entered, issuer_at

        issuer = issuer_at(resource, self._issuer)
        here = f"{resource.name} at {resource.public_url}"
        if self._serves not in {None, here}:
            raise ValueError(
                f"this OAuthProxy already serves {self._serves} and cannot serve {here}. Use one public_url= for a"
                " server, and a separate OAuthProxy for each server. Two of them at one origin need different issuer="
            )
        is_new, self._serves, self.issuers = self._serves is None, here, (issuer,)
        self._entered = entered(
            issuer,
            resource,
            self._upstream,
            self._logins(_context_of(resource)),
            self._allow,
            self._lifetime,
            self._has_documents,
            self._look if self._has_title else Look(resource.name, self._look.logo),
            self._remember_consent,
            self._clock,
        )
        if is_new:
            self._entered.announce(resource, is_open=self._allow is None)

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token of this authorization server.

        Raises:
            InvalidTokenError: The token was not issued here, has expired, was revoked, or has another audience.
            VerifierUnavailableError: The storage does not respond.
        """
        return await self._serving().authority.verify(token, audience)

    def routes(self) -> Sequence[Route]:
        """Return the endpoints of the authorization server, and the callback for the provider."""
        return self._serving().routes()

    def notices(self) -> Sequence[str]:
        """Return a notice with the provider and the redirect URI to register there."""
        return (self._serving().notice(),)

    async def token_for(self, principal: Principal, provider: str, context: VerifierContext) -> str:
        """Return the access token of a user at the provider.

        Raises:
            LoginNeededError: The user has not logged in there, or must log in again.
            ProviderUnavailableError: The provider does not respond.
            OSError: The storage does not respond.
        """
        from ..upstream.errors import UpstreamUnavailableError
        from .logins import LoginEndedError

        logins, title = self._logins(context), self._upstream.title
        record = await logins.find(principal)
        if record is None:
            raise LoginNeededError(provider, title, has_ended=logins.has_been(principal))
        try:
            return logins.access_token(await logins.fresh(record))
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
        if self._entered is not None:
            await self._entered.authority.parts.clients.aclose()
        await self._refreshing.aclose(_GRACE)
        await self._upstream.provider.aclose()

    def _logins(self, context: VerifierContext) -> Logins:
        from ..authority.grants import Grants
        from .logins import Logins

        # Of two providers of one server, none is ever asked about the other's tokens.
        grants = Grants(context.storage, context.keys, self._clock, self._upstream.name)
        return Logins(self._upstream, grants, context, self._refreshing, self._clock)

    def _serving(self) -> Entered:
        if self._entered is None:
            raise RuntimeError("OAuthProxy is not part of a server yet. Call bind(resource) first")
        return self._entered


def _context_of(site: ProtectedResource) -> VerifierContext:
    return VerifierContext(site.name, site.keys, site.storage, site.audit)

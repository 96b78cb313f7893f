"""`OAuthProxy`: users log in with a provider that gives out client ids by hand, clients with whatever id they bring."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...common.errors import LoginNeededError, ProviderUnavailableError
from ...common.numbers import check_seconds
from ..authority.look import Look, look_of
from ..one_at_a_time import OneAtATime
from ..upstream.upstream import Upstream
from ..verifier import AccessToken, ProtectedResource, TokenVerifier, VerifierContext
from .admission import Allow, check_allow

if TYPE_CHECKING:
    from starlette.routing import Route

    from ...state.principal import Principal
    from ..authority.grants import GrantRecord
    from .entering import Entered
    from .logins import Logins

_GRACE = 10.0
"""Seconds in which tokens may come that are being refreshed: the old ones may be worth nothing already."""


class OAuthProxy(TokenVerifier):
    """An authorization server for clients of any kind, whose users log in with a provider that knows one client alone.

    `Server("notes", auth=OAuthProxy(Upstream.github(CLIENT_ID, CLIENT_SECRET)), storage=Sqlite("notes.db"))`. Clients
    register themselves, or are known by a document of theirs; each user is asked whether a client may, and then sent
    to the provider, where the callback `https://.../callback` has to be registered.

    The provider's tokens stay here, encrypted, and are no client's: those get tokens of this server's, for this server.
    `ctx.upstream_token(...)` has the provider's.

    Args:
        upstream: The provider.
        allow: Says whether a user may come in: a function of the `Principal`, async or not, that returns True or False,
            or the scopes that they may have. It is asked at each login and each refresh. None admits everybody whom
            the provider lets in.
        issuer: Its URL, at the origin of the server's `public_url`, which it is where nothing is said: the only place
            in which clients of revision 2025-03-26 find it.
        token_lifetime: Seconds for which an access token is good.
        client_documents: Whether clients may be known by the URL of a document of theirs, which is fetched from the
            public internet, without a proxy. False has all of them register themselves.
        title: What users are told that the server is called; its name, if nothing else is said.
        picture: A picture on the pages that users see: PNG, JPEG, GIF, WebP or SVG, where it is or its bytes.
        remember: Whether users may say on the page that they need not be asked again for a client, in the same browser
            and within 30 days. That is offered for programs on their machine that have registered themselves, and
            holds where one of these asks for the same again; all others are asked each time.
        clock: The time in Unix seconds.

    Raises:
        TypeError: The provider is none, or `allow` no function.
        ValueError: The lifetime is not above 0, or the title or the picture cannot be shown.
        OSError: The picture cannot be read.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        allow: Allow | None = None,
        issuer: str | None = None,
        token_lifetime: float = 600.0,
        client_documents: bool = True,
        title: str | None = None,
        picture: Path | str | bytes | None = None,
        remember: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(upstream, Upstream):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(
                "upstream must be an Upstream, such as Upstream.github(CLIENT_ID, CLIENT_SECRET), got"
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
        self._look = look_of("any" if title is None else title, picture)
        self._remember = remember
        self._clock = clock
        self._refreshing: OneAtATime[GrantRecord] = OneAtATime(60.0)
        self._entered: Entered | None = None
        self._serves: str | None = None
        self.providers = (upstream.name,)

    def enter(self, site: ProtectedResource) -> None:
        """Serve a site.

        Raises:
            ValueError: It cannot be served there, or it has served another site before.
            ImportError: What the extra `auth` installs is not there.
        """
        from .entering import entered, issuer_at

        issuer = issuer_at(site, self._issuer)
        here = f"{site.name} at {site.public_url}"
        if self._serves not in {None, here}:
            raise ValueError(
                f"this OAuthProxy already serves {self._serves} and cannot serve {here}. Use one public_url= for a"
                " server, and a separate OAuthProxy for each server. Two of them at one origin need different issuer="
            )
        is_new, self._serves, self.issuers = self._serves is None, here, (issuer,)
        self._entered = entered(
            issuer,
            site,
            self._upstream,
            self._logins(_ground(site)),
            self._allow,
            self._lifetime,
            self._has_documents,
            self._look if self._has_title else Look(site.name, self._look.picture),
            self._remember,
            self._clock,
        )
        if is_new:
            self._entered.announce(site, is_open=self._allow is None)

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Return what a token grants that has been issued here.

        Raises:
            InvalidTokenError: It was not, has expired, has been revoked, or is for another resource.
            VerifierUnavailableError: The store does not answer.
        """
        return await self._serving().authority.verify(token, audience)

    def routes(self) -> Sequence[Route]:
        """Return the endpoints of the authorization server, and the callback of the provider."""
        return self._serving().routes()

    def notices(self) -> Sequence[str]:
        """Return with whom users log in, and what has to be registered there."""
        return (self._serving().notice(),)

    async def token_for(self, principal: Principal, provider: str, context: VerifierContext) -> str:
        """Return the access token that a user has at the provider.

        Raises:
            LoginNeededError: They have not logged in there, or have to do so again.
            ProviderUnavailableError: It does not answer.
            OSError: The store does not answer.
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
        """End all logins of somebody, here and at the provider.

        Raises:
            OSError: The store does not answer.
        """
        await self._logins(context).end_all(principal)

    async def aclose(self) -> None:
        """Close the connections to the provider, when the tokens have come that it has been asked for."""
        if self._entered is not None:
            await self._entered.authority.parts.clients.aclose()
        await self._refreshing.aclose(_GRACE)
        await self._upstream.provider.aclose()

    def _logins(self, context: VerifierContext) -> Logins:
        from ..authority.grants import Grants
        from .logins import Logins

        # Of two providers of one server, none is ever asked about the other's tokens.
        grants = Grants(context.shared, context.keys, self._clock, self._upstream.name)
        return Logins(self._upstream, grants, context, self._refreshing, self._clock)

    def _serving(self) -> Entered:
        if self._entered is None:
            raise RuntimeError("OAuthProxy is not part of a server yet. Call enter(site) first")
        return self._entered


def _ground(site: ProtectedResource) -> VerifierContext:
    return VerifierContext(site.name, site.keys, site.shared, site.audit)

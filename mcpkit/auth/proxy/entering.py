"""Binding of an `OAuthProxy` to a protected server, and the components for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.routing import Route

from ...identity.revocation import Revocations
from ..authority.access_tokens import AccessTokens
from ..authority.authority import Authority
from ..authority.client_documents import ClientDocuments
from ..authority.clients import Clients
from ..authority.consent import Consent
from ..authority.look import Look
from ..authority.parts import Parts
from ..authority.registration import Registration
from ..upstream.upstream import UpstreamProvider
from ..urls import check_url, origin
from ..verifier import ProtectedResource
from .admission import Admission, Allow
from .edge import at_the_edge
from .limits import Limits
from .login import ProxyLogin
from .logins import Logins
from .remembered import Remembered
from .transactions import Transactions

logger = logging.getLogger(__name__)

CALLBACK = "/callback"
"""Path of the redirect URI for the provider, below the issuer."""


class Entered(NamedTuple):
    """Components for one protected server.

    Attributes:
        authority: The authorization server.
        login: The login of users.
        upstream: The provider.
        limits: The rate limits.
    """

    authority: Authority
    login: ProxyLogin
    upstream: UpstreamProvider
    limits: Limits

    def routes(self) -> Sequence[Route]:
        """Return the endpoints, with paths from the root of the origin."""
        come_back = self.authority.showing(partial(self.login.come_back, self.authority))
        path = urlsplit(self.authority.parts.url(CALLBACK)).path
        routes = [*self.authority.routes(), Route(path, come_back, methods=["GET"])]
        return at_the_edge(routes, self.limits)

    def notice(self) -> str:
        """Return a notice with the provider and the redirect URI to register there."""
        name, callback = self.authority.parts.name, self.authority.parts.url(CALLBACK)
        return f"{name}: users log in with {self.upstream.title}. Register the redirect URI {callback} there"

    def announce(self, site: ProtectedResource, *, is_open: bool) -> None:
        """Log warnings for the operator.

        Args:
            site: The protected server.
            is_open: Whether every user of the provider can log in.
        """
        if is_open and self.upstream.is_public:
            logger.warning(
                "%s: every user with an account at %s can log in. Restrict the users with OAuthProxy(allow=...)",
                site.name,
                self.upstream.title,
            )
        if not site.storage.is_persistent:
            logger.warning(
                "%s: logins are kept in memory, so they end with this process and other processes do not know them. "
                'Store them, as in Server(storage=Sqlite("notes.db"), secret_key=...)',
                site.name,
            )


def issuer_at(site: ProtectedResource, given: str | None) -> str:
    """Return the issuer URL of an authorization server.

    Args:
        site: The protected server.
        given: The option `issuer`; None for the origin of the server.

    Raises:
        ValueError: The URL is not allowed.
    """
    issuer = origin(site.public_url) if given is None else given
    for url, what in ((site.public_url, "public_url"), (issuer, "the issuer of OAuthProxy")):
        check_url(url, what)
    if origin(issuer) != origin(site.public_url) or urlsplit(issuer).query:
        raise ValueError(
            f"the issuer {issuer} of OAuthProxy must be on the origin of public_url, {origin(site.public_url)}, "
            "with or without a path, and have no query"
        )
    return issuer


def entered(
    issuer: str,
    site: ProtectedResource,
    upstream: UpstreamProvider,
    logins: Logins,
    allow: Allow | None,
    lifetime: float,
    has_documents: bool,
    look: Look,
    remember: bool,
    clock: Callable[[], float],
) -> Entered:
    """Create the components for a protected server.

    Args:
        issuer: URL of the authorization server.
        site: The protected server.
        upstream: The provider.
        logins: Logins at the provider.
        allow: Function that decides whether a user may log in.
        lifetime: Seconds for which an access token is valid.
        has_documents: Allow client ID metadata documents.
        look: Title and logo of the pages.
        remember: Offer users to skip the consent page.
        clock: Returns the Unix time in seconds.
    """
    registration = Registration(site.keys, clock)
    parts = Parts(
        issuer,
        site.name,
        site.resources,
        site.scopes,
        Clients(registration, ClientDocuments() if has_documents else None),
        logins.grants,
        AccessTokens(issuer, site.keys, lifetime, clock),
        site.audit,
        look,
        upstream.issuer,
        logins,
    )
    consent = Consent(parts, site.keys, clock)
    transactions = Transactions(issuer, site.keys, clock)
    remembered = _remembered(issuer, site, upstream, clock) if remember else None
    admission = Admission(allow, site.scopes, site.run_in_thread)
    login = ProxyLogin(upstream, consent, transactions, logins, admission, parts.url(CALLBACK), remembered)
    authority = Authority(parts, registration, login, clock)
    parts.tokens.key_set()  # what is not installed is missed now, and not at the first login
    return Entered(authority, login, upstream, Limits(site.storage, site.name, site.audit, look))


def _remembered(
    issuer: str, site: ProtectedResource, upstream: UpstreamProvider, clock: Callable[[], float]
) -> Remembered:
    revocations = Revocations(site.storage, site.name)
    return Remembered(issuer, upstream.issuer, site.scopes, site.keys, revocations, clock)

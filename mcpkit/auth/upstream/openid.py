"""OpenID Connect providers: identity from a signed ID token and from userinfo."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace

from ..issuer_metadata import IssuerMetadata
from ..published_keys import PublishedKeys
from .endpoints import Endpoints, PublishedEndpoints
from .errors import UpstreamRefusedError, UpstreamUnavailableError
from .id_tokens import IdTokens
from .options import Settings
from .provider import Provider
from .tokens import Identity, UpstreamTokens

logger = logging.getLogger(__name__)

SAID_AGAIN = 5.0
"""Seconds for the verification of the ID token of a refresh. After that the new tokens are stored without it."""

_OFFLINE_ACCESS = "offline_access"
_COOLDOWN = 10.0  # seconds in which keys are fetched at most once for ID tokens that name an unknown one


class OpenIdProvider(Provider):
    """An OpenID provider, found by its metadata.

    Args:
        settings: Settings of the provider.
        asks_userinfo: Request userinfo in addition to the ID token.
        seeks_offline_access: Request `offline_access` if the metadata lists it and the scopes are the default ones. The
            provider then shows a consent page (OpenID Connect Core 1.0, section 11).
    """

    def __init__(
        self, settings: Settings, *, asks_userinfo: bool = True, seeks_offline_access: bool = False
    ) -> None:
        metadata = IssuerMetadata(
            settings.issuer,
            timeout=settings.timeout,
            http_client=settings.http_client,
            clock=settings.clock,
            is_openid=True,
        )
        keys = PublishedKeys(
            settings.issuer,
            None,
            cooldown=_COOLDOWN,
            timeout=settings.timeout,
            http_client=settings.http_client,
            clock=settings.clock,
            metadata=metadata,
        )
        super().__init__(settings, PublishedEndpoints(metadata))
        self._asks_userinfo = asks_userinfo
        self._seeks_offline_access = seeks_offline_access and settings.is_usual
        self._id_tokens = IdTokens(
            settings.issuer, settings.client.id, keys, leeway=settings.leeway, clock=settings.clock
        )

    async def endpoints(self) -> Endpoints:
        """Return the endpoints, without userinfo if it is not to be requested."""
        found = await super().endpoints()
        return found if self._asks_userinfo else replace(found, userinfo=None)

    def parameters(self, endpoints: Endpoints, nonce: str) -> Mapping[str, str]:
        """Return additional parameters of an authorization request."""
        asked = {"nonce": nonce}
        if self._is_offline(endpoints):
            asked["prompt"] = "consent"
        return asked

    def scopes(self, endpoints: Endpoints) -> tuple[str, ...]:
        """Return the scopes to request."""
        usual = super().scopes(endpoints)
        return (*usual, _OFFLINE_ACCESS) if self._is_offline(endpoints) else usual

    async def said(
        self, tokens: UpstreamTokens, members: Mapping[str, object], nonce: str
    ) -> Mapping[str, object]:
        """Return the claims of the ID token of a login."""
        return self._kept(await self._id_tokens.verify(members.get("id_token"), tokens.access_token, nonce))

    async def said_again(
        self, tokens: UpstreamTokens, members: Mapping[str, object], before: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Return the claims of the ID token of a refresh, for the same user (OpenID Connect Core 1.0, 12.2)."""
        token = members.get("id_token")
        if token is None:
            return before
        try:
            verified = await asyncio.wait_for(self._id_tokens.verify(token, tokens.access_token), SAID_AGAIN)
            said = self._kept(verified)
        except (UpstreamUnavailableError, asyncio.TimeoutError) as error:
            why = str(error) or "the keys of the provider could not be fetched in time"
            logger.warning(
                "The ID token of a refresh was ignored, and the known claims of the user stay in use: %s", why
            )
            return before
        if said["sub"] != before.get("sub"):
            raise UpstreamRefusedError(
                "invalid_grant", "the provider returned tokens of another user at a refresh"
            )
        return said

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return the identity of a user: claims of the last ID token, updated by userinfo."""
        endpoints = await self.endpoints()
        subject = tokens.said.get("sub")
        told: Mapping[str, object] = {}
        if endpoints.userinfo is not None:
            told = await self.userinfo(endpoints, tokens)
            if told.get("sub") != subject:  # OpenID Connect Core 1.0, 5.3.2
                raise UpstreamUnavailableError(
                    f"the userinfo response of {self.settings.title} is for another user (sub)"
                )
        return self.identity_of(subject, {**tokens.said, **told})

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._id_tokens.aclose()
        await super().aclose()

    def _is_offline(self, endpoints: Endpoints) -> bool:
        return self._seeks_offline_access and endpoints.offers_offline_access

    def _kept(self, claims: Mapping[str, object]) -> Mapping[str, object]:
        """Return the claims of an ID token to keep: the subject, and the claims about the user."""
        subject, kept = self.identity_of(claims.get("sub"), claims)
        return {"sub": subject, **kept}

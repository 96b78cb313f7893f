"""Providers of OAuth without OpenID Connect, with an API for the identity of the user."""

from __future__ import annotations

from collections.abc import Mapping

from .endpoints import Endpoints, GivenEndpoints
from .options import Settings
from .provider import Provider
from .tokens import Identity, UpstreamTokens


class OAuthProvider(Provider):
    """A provider of OAuth without OpenID Connect, by its endpoints.

    Args:
        settings: Settings of the provider.
        endpoints: Its endpoints, with a userinfo endpoint.
        subject_claim: Member of the userinfo response that identifies the user.
    """

    def __init__(self, settings: Settings, endpoints: Endpoints, subject_claim: str) -> None:
        super().__init__(settings, GivenEndpoints(endpoints))
        self._subject_claim = subject_claim

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return the current identity of the user."""
        return self.identity_in(await self.userinfo(await self.endpoints(), tokens))

    def identity_in(self, members: Mapping[str, object]) -> Identity:
        """Return the identity in a userinfo response. Numeric subjects become strings.

        Raises:
            UpstreamUnavailableError: The response has no valid subject.
        """
        subject = members.get(self._subject_claim)
        named = str(subject) if isinstance(subject, int) and not isinstance(subject, bool) else subject
        return self.identity_of(named, members)

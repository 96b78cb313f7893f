"""Providers of OAuth alone: an API of theirs says who has logged in."""

from __future__ import annotations

from collections.abc import Mapping

from .endpoints import Endpoints, GivenEndpoints
from .options import Settings
from .provider import Provider
from .tokens import Identity, UpstreamTokens


class OAuthProvider(Provider):
    """A provider of OAuth without OpenID Connect, by its endpoints.

    Args:
        settings: What is known of it.
        endpoints: Its endpoints; there must be one that says who a user is.
        subject_claim: The member of what that answers which names the user.
    """

    def __init__(self, settings: Settings, endpoints: Endpoints, subject_claim: str) -> None:
        super().__init__(settings, GivenEndpoints(endpoints))
        self._subject_claim = subject_claim

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return who a user is now."""
        return self.identity_in(await self.userinfo(await self.endpoints(), tokens))

    def identity_in(self, members: Mapping[str, object]) -> Identity:
        """Return of whom an answer is; many number their users.

        Raises:
            UpstreamUnavailableError: It does not say.
        """
        subject = members.get(self._subject_claim)
        named = str(subject) if isinstance(subject, int) and not isinstance(subject, bool) else subject
        return self.identity_of(named, members)

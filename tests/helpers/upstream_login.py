"""One login at a provider, as the authorization server of a proxy does it, without that."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from mcpkit.auth import Upstream
from mcpkit.auth.base64url import encode
from mcpkit.auth.upstream.tokens import Identity, UpstreamTokens
from tests.helpers.upstream_site import log_in

CALLBACK = "http://127.0.0.1:1/callback"
"""Where nobody listens: what is sent there is read from the redirect."""


@dataclass
class UpstreamLogin:
    """A login.

    Attributes:
        upstream: Where.
        user: Who logs in.
        verifier: The PKCE verifier.
        nonce: The nonce.
        state: The state.
    """

    upstream: Upstream
    user: str = "ada"
    verifier: str = "verifier-" * 6
    nonce: str = "the-nonce"
    state: str = "the-state"

    async def url(self) -> str:
        """Return where the browser is sent."""
        challenge = encode(sha256(self.verifier.encode()).digest())
        return await self.upstream.provider.authorization_url(
            redirect_uri=CALLBACK, state=self.state, challenge=challenge, nonce=self.nonce
        )

    async def answered(self, button: str = "allow") -> dict[str, str]:
        """Log in, and return what comes back."""
        return await log_in(await self.url(), self.user, button=button)

    async def redeemed(self, answer: dict[str, str] | None = None) -> tuple[Identity, UpstreamTokens]:
        """Log in, and redeem what comes back, or something else."""
        answer = await self.answered() if answer is None else answer
        return await self.upstream.provider.redeem(
            answer, redirect_uri=CALLBACK, verifier=self.verifier, nonce=self.nonce
        )

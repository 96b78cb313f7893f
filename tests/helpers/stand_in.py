"""A provider in the test's process, which does at once what the test says."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from mcpkit.auth import Upstream
from mcpkit.auth.upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from mcpkit.auth.upstream.tokens import Identity, UpstreamTokens
from tests.helpers.clock import Clock

ISSUER = "https://id.example.com"


class StandIn(Upstream):
    """A provider; all of it may be changed at any time.

    Attributes:
        user: Who logs in next.
        claims: What is said of them.
        lifetime: Seconds for which tokens are good; None for ever.
        is_refreshing: Whether there are refresh tokens.
        down: The operations that do not answer.
        refusing: The operations that are refused, and how.
        asked: The operations, in order.
        live: Whose token is whose: those that have not been revoked.
        handed_out: All secrets that ever were.
        queries: What browsers were sent with.
        during: Called with the name of each operation.
        open: Cleared, refreshes are held until it is set.
    """

    def __init__(self, clock: Clock, *, name: str = "example", issuer: str = ISSUER) -> None:
        self.name, self.title, self.issuer = name, name.title(), issuer
        self.is_public = self.revokes_all = False
        self.provider: Any = self  # what is asked
        self.clock = clock
        self.user = "ada"
        self.claims: dict[str, Any] = {"login": "ada"}
        self.lifetime: float | None = 3600.0
        self.is_refreshing = True
        self.down: set[str] = set()
        self.refusing: dict[str, str] = {}
        self.asked: list[str] = []
        self.live: dict[str, str] = {}
        self.handed_out: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.during: Callable[[str], Any] = lambda _: None
        self.open = threading.Event()
        self.open.set()
        self._codes: dict[str, tuple[str, dict[str, str]]] = {}
        self._count = 0

    async def visit(self, url: str, **more: str) -> str:
        """Log in: from where the browser is sent to where it is sent back."""
        query = dict(parse_qsl(urlsplit(url).query))
        self.queries.append(query)
        code = self._secret("code")
        self._codes[code] = (self.user, query)
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], **more})}"

    async def refuse(self, url: str, error: str = "access_denied") -> str:
        """Do not: from where the browser is sent to where it is sent back."""
        query = dict(parse_qsl(urlsplit(url).query))
        self.queries.append(query)
        return f"{query['redirect_uri']}?{urlencode({'error': error, 'state': query['state']})}"

    async def authorization_url(self, *, redirect_uri: str, state: str, challenge: str, nonce: str) -> str:
        await self._note("authorization_url")
        query = {"redirect_uri": redirect_uri, "state": state, "code_challenge": challenge, "nonce": nonce}
        return f"{self.issuer}/authorize?{urlencode(query)}"

    async def redeem(
        self, answer: Mapping[str, str], *, redirect_uri: str, verifier: str, nonce: str
    ) -> tuple[Identity, UpstreamTokens]:
        await self._note("redeem")
        if "error" in answer:
            raise UpstreamRefusedError(answer["error"], "the user said no")
        user, query = self._codes.pop(answer.get("code", ""), ("", {}))
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        if (query.get("code_challenge"), query.get("nonce"), query.get("redirect_uri")) != (
            digest,
            nonce,
            redirect_uri,
        ):
            raise UpstreamRefusedError("invalid_grant", "the code is none of this login")
        return Identity(user, dict(self.claims)), self._issued(user)

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        await self._note("refresh")
        while not self.open.is_set():
            await asyncio.sleep(0.01)
        user = self.live.pop(tokens.refresh_token or "", None)
        if user is None:
            raise UpstreamRefusedError("invalid_grant", "the refresh token is not known")
        self.live.pop(tokens.access_token, None)
        return self._issued(user)

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        await self._note("identify")
        if tokens.access_token not in self.live:
            raise UpstreamRefusedError("invalid_token", "the token is not known")
        return Identity(self.live[tokens.access_token], dict(self.claims))

    async def revoke(self, tokens: UpstreamTokens) -> None:
        await self._note("revoke")
        user = self.live.get(tokens.access_token)
        for token, whose in tuple(self.live.items()):
            if token in {tokens.access_token, tokens.refresh_token} or (self.revokes_all and whose == user):
                del self.live[token]

    async def aclose(self) -> None:
        pass

    def _issued(self, user: str) -> UpstreamTokens:
        access, refresh = self._secret("access"), self._secret("refresh") if self.is_refreshing else None
        self.live[access] = user
        if refresh is not None:
            self.live[refresh] = user
        expires = None if self.lifetime is None else self.clock() + self.lifetime
        return UpstreamTokens(access, refresh, expires, ("openid",))

    def _secret(self, kind: str) -> str:
        self._count += 1
        secret = f"upstream-{kind}-{self._count}-{hashlib.sha256(str(self._count).encode()).hexdigest()}"
        self.handed_out.append(secret)
        return secret

    async def _note(self, operation: str) -> None:
        self.asked.append(operation)
        self.during(operation)
        if operation in self.down:
            raise UpstreamUnavailableError(f"{self.issuer} does not answer")
        if operation in self.refusing:
            raise UpstreamRefusedError(self.refusing[operation], "the provider says no")

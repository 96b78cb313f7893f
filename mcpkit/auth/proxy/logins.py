"""Logins of users at the provider: refreshed while their grants exist, and ended with them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from ...identity.principal import Principal, user
from ..authority.grants import CODE_LIFETIME, GrantRecord, Grants
from ..one_at_a_time import AbandonedError, OneAtATime
from ..upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from ..upstream.tokens import Identity, UpstreamTokens
from ..upstream.upstream import UpstreamProvider
from ..verifier import VerifierContext
from .held import Held

logger = logging.getLogger(__name__)

LOOKED_AGAIN = 600.0
"""Seconds after which the user is looked up at the provider again, when the client refreshes."""
ABANDONED = CODE_LIFETIME + 1.0
"""Seconds after which the login of an unredeemed code is ended."""
LEASE = 30.0
"""Maximum seconds of a refresh. After that its process counts as dead, and another one can start."""
DEFAULT_TIMEOUT = LEASE + 10.0
"""Seconds for which other processes wait for a refresh."""

_GLANCE = 0.1
_ANSWER = 22.0
"""Seconds in which the provider must respond, regardless of the timeout of its client."""
_FAREWELL = 5.0
"""Seconds for a revocation at the provider, on which nothing depends."""


class LoginEndedError(Exception):
    """The login at the provider has ended, and with it the grant. The user must log in again."""


class Logins:
    """Logins at one provider, in the grants of one server.

    Tokens are refreshed once across all processes with the same storage. One process claims the refresh, and the others
    poll the grant for the new tokens.

    Args:
        upstream: The provider.
        grants: The grants.
        context: Name, keys and storage of the server.
        running: Refreshes of this process.
        clock: Returns the Unix time in seconds.
    """

    def __init__(
        self,
        upstream: UpstreamProvider,
        grants: Grants,
        context: VerifierContext,
        running: OneAtATime[GrantRecord],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._upstream = upstream
        self._grants = grants
        self._context = context
        self._running = running
        self._clock = clock

    def holding(self, tokens: UpstreamTokens) -> Held:
        """Return the data for the grant of a new login."""
        return Held(tokens, self._clock(), self._clock())

    def begun(self, record: GrantRecord) -> None:
        """Schedule the release of the data of a grant, in case the client does not redeem its code in time."""
        key, loop = ("abandoned", record.id), asyncio.get_running_loop()
        loop.call_later(ABANDONED, lambda: self._running.begin(key, lambda: self._abandoned(record)))

    def access_token(self, record: GrantRecord) -> str:
        """Return the access token of the provider in a grant."""
        return Held.of(record).tokens.access_token

    @property
    def grants(self) -> Grants:
        """The grants."""
        return self._grants

    def has_been(self, principal: Principal) -> bool:
        """Return True if a principal logged in at this provider; the login may have ended."""
        claims, issuer = principal.claims, self._upstream.issuer
        is_by_proxy = claims.get("iss") != issuer and isinstance(claims.get("grant"), str)
        return is_by_proxy and principal.issuer == issuer

    async def find(self, principal: Principal) -> GrantRecord | None:
        """Return the grant of a principal; None if it has no grant here, or the grant has ended."""
        if not self.has_been(principal):
            return None
        record = await self._grants.find(str(principal.claims["grant"]))
        # Others may vouch for the same users: nothing is believed of what they claim.
        is_theirs = record is not None and (record.subject, record.client_id) == (
            principal.subject,
            principal.client_id,
        )
        return record if is_theirs else None

    async def fresh(self, record: GrantRecord) -> GrantRecord:
        """Return a grant with tokens that are valid for a minute, or for their whole lifetime if that is shorter.

        Raises:
            LoginEndedError: The login has ended.
            UpstreamUnavailableError: The provider does not respond. The login is not affected.
            OSError: The storage does not respond.
        """
        return record if not Held.of(record).is_due(self._clock()) else await self._refreshed(record)

    async def checked(self, record: GrantRecord) -> GrantRecord:
        """Return a grant with valid tokens, whose user was confirmed by the provider within the last minutes.

        Raises:
            LoginEndedError: The login has ended.
            UpstreamUnavailableError: The provider does not respond. The login is not affected.
            OSError: The storage does not respond.
        """
        record = await self.fresh(record)
        held = Held.of(record)
        if held.looked >= held.obtained and self._clock() - held.looked < LOOKED_AGAIN:
            return record
        try:
            return await self._running.wait(("who", record.id), lambda: self._looked_at(record))
        except AbandonedError:
            raise _unavailable("to look up a user") from None

    async def _looked_at(self, record: GrantRecord) -> GrantRecord:
        """Return a grant updated with the current identity of its user at the provider."""
        held, now = Held.of(record), self._clock()
        identity: Identity | None = None
        try:
            identity = await asyncio.wait_for(self._upstream.provider.identify(held.tokens), _ANSWER)
        except UpstreamRefusedError:
            if held.tokens.refresh_token is None:
                await self.end(record.id)
                raise LoginEndedError from None
            if held.looked >= held.obtained:  # the provider may have ended these alone
                record = await self._refreshed(record, held.tokens)
        except (UpstreamUnavailableError, asyncio.TimeoutError):
            if held.tokens.refresh_token is None:
                raise _unavailable("to look up a user") from None
            return record  # it has said by a refresh that they may go on; who they are is asked the next time
        if identity is not None and identity.subject != record.subject:
            logger.error(
                "%s: the provider returned another user for the tokens of a login; the login is ended",
                self._upstream.title,
            )
            await self.end(record.id)
            raise LoginEndedError
        return await self._changed(record.id, lambda record: _noted(record, identity, now))

    async def let_go(self, record: GrantRecord) -> None:
        """Revoke the tokens of an ended grant at the provider.

        If that would end other logins of the user, it happens only with the last grant of the user here.
        """
        if record.held is not None and not (self._upstream.revokes_all and await self._is_here(record)):
            await self._forget(Held.of(record).tokens)

    async def _is_here(self, record: GrantRecord) -> bool:
        """Return True if the user of an ended grant has another one, or if that is unknown."""
        whose = user(self._upstream.issuer, record.subject or "")
        try:
            return any([each.id != record.id async for each in self._grants.of(whose)])
        except OSError:
            return True

    async def _abandoned(self, record: GrantRecord) -> GrantRecord:
        """End a grant with an unredeemed code."""
        try:
            ended = await self._grants.end_abandoned(record.id)
        except OSError as error:
            logger.warning(
                "%s: cannot check whether the code of a login was redeemed. If not, its tokens stay "
                "valid at the provider until they expire: %r",
                self._upstream.title,
                str(error),
            )
            return record
        if ended is not None:
            await self.let_go(ended)
        return record

    async def end(self, grant_id: str) -> None:
        """End a grant, and release its data."""
        ended = await self._grants.end(grant_id)
        if ended is None:
            return
        whose = user(self._upstream.issuer, ended.subject or "", ended.scopes, client_id=ended.client_id)
        self._context.audit.emit("revocation", whose, detail="the login at the provider has ended")
        await self.let_go(ended)

    async def end_all(self, principal: Principal) -> None:
        """End all grants of a principal, for all clients, and release their data.

        Raises:
            OSError: The storage does not respond.
        """
        ids = [record.id async for record in self._grants.of(principal)]
        failed = await asyncio.gather(*map(self._sent_away, ids), return_exceptions=True)
        for error in filter(None, failed):  # when all that can end has ended
            raise error

    async def _sent_away(self, grant_id: str) -> None:
        """End one grant of a principal, and revoke its tokens."""
        ended = await self._grants.end(grant_id)
        if ended is not None and ended.held is not None:
            await self._forget(Held.of(ended).tokens)

    async def _refreshed(self, record: GrantRecord, worthless: UpstreamTokens | None = None) -> GrantRecord:
        """Return a grant after its tokens have been refreshed, by this or another process.

        Args:
            record: The grant.
            worthless: Tokens that the provider no longer accepts before their expiry.
        """
        try:
            return await self._running.wait(record.id, lambda: self._refresh(record.id, worthless))
        except AbandonedError:
            raise _unavailable("to refresh tokens") from None

    async def _refresh(self, grant_id: str, worthless: UpstreamTokens | None) -> GrantRecord:
        context, give_up = self._context, time.monotonic() + DEFAULT_TIMEOUT
        while time.monotonic() < give_up:
            held = Held.of(record := await self._kept(grant_id))
            if not self._is_wanted(held, worthless):
                return record
            if held.tokens.refresh_token is None:
                if (held.tokens.expires or 0.0) > self._clock():
                    return record  # to its last second
                await self.end(grant_id)
                raise LoginEndedError
            # Whoever is killed with it holds it for so long, by the clock of the store.
            if await context.storage.claim(f"{context.name}/refreshing/{grant_id}/{held.times}", LEASE):
                begun = time.monotonic()
                now = Held.of(await self._kept(grant_id))
                if (now.times, now.tokens) == (held.times, held.tokens):  # nobody has been faster
                    return await self._replaced(record, begun)
            await asyncio.sleep(_GLANCE)
        raise _unavailable("to refresh tokens (requested by another process)")

    def _is_wanted(self, held: Held, worthless: UpstreamTokens | None) -> bool:
        return held.tokens == worthless or held.is_due(self._clock())

    async def _replaced(self, record: GrantRecord, begun: float) -> GrantRecord:
        """Refresh the tokens at the provider, and return the grant with the new ones."""
        grant_id, held = record.id, Held.of(record)
        try:
            tokens = await asyncio.wait_for(self._upstream.provider.refresh(held.tokens), _ANSWER)
        except (UpstreamRefusedError, UpstreamUnavailableError, asyncio.TimeoutError) as error:
            if isinstance(error, UpstreamRefusedError) and error.error == "invalid_grant":
                await self.end(grant_id)
                raise LoginEndedError from None
            logger.warning(
                "%s: token refresh failed, so the client must repeat its request later: %r",
                self._upstream.title,
                _said(error),
            )
            await self._changed(
                grant_id, lambda now: replace(Held.of(now), times=held.times + 1).put_into(now)
            )
            raise _unavailable("to refresh tokens") from None
        new = Held(tokens, self._clock(), held.looked, held.times + 1)
        while True:
            try:
                return await self._changed(grant_id, lambda now: self._with(now, new))
            except (LoginEndedError, OSError) as error:
                # The old ones may be worth nothing by now, so these are lost as late as may be.
                if isinstance(error, OSError) and time.monotonic() < begun + LEASE - _FAREWELL:
                    await asyncio.sleep(1.0)
                    continue
                await self.let_go(new.put_into(record))
                raise

    def _with(self, record: GrantRecord, held: Held) -> GrantRecord:
        """Return a grant with new tokens, keeping the time of the last lookup."""
        return replace(held, looked=Held.of(record).looked).put_into(record)

    async def _kept(self, grant_id: str) -> GrantRecord:
        record = await self._grants.find(grant_id)
        if record is None:
            raise LoginEndedError
        return record

    async def _changed(self, grant_id: str, change: Callable[[GrantRecord], GrantRecord]) -> GrantRecord:
        record = await self._grants.change(grant_id, change)
        if record is None:
            raise LoginEndedError
        return record

    async def _forget(self, tokens: UpstreamTokens) -> None:
        """Revoke unused tokens at the provider; a failure is logged."""
        try:
            await asyncio.wait_for(self._upstream.provider.revoke(tokens), _FAREWELL)
        except (UpstreamRefusedError, UpstreamUnavailableError, asyncio.TimeoutError) as error:
            logger.warning(
                "%s: cannot revoke the tokens of an ended login. They stay valid at the provider "
                "until they expire: %r",
                self._upstream.title,
                _said(error),
            )


def _noted(record: GrantRecord, identity: Identity | None, now: float) -> GrantRecord:
    """Return a grant with the current identity of its user, or the previous one if `identity` is None."""
    noted = replace(Held.of(record), looked=now).put_into(record)
    return noted if identity is None else replace(noted, claims=dict(identity.claims))


def _said(error: Exception) -> str:
    return str(error) or "it did not respond in time"


def _unavailable(why: str) -> UpstreamUnavailableError:
    return UpstreamUnavailableError(f"the identity provider did not respond to a request {why}")

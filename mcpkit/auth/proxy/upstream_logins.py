"""Logins of users at the upstream provider: tokens refreshed while their grants exist, and revoked with them."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from ...identity.principals_and_scopes import Principal, user
from ...protocol.jsonrpc import Json
from ..authorization_server.grants import CODE_LIFETIME, GrantRecord, Grants
from ..authorization_server.oauth_requests import Clock
from ..oauth_http_client import AbandonedError, SingleFlight
from ..upstream.identity_providers import UpstreamProvider
from ..upstream.upstream_client import (
    Identity,
    UpstreamRefusedError,
    UpstreamTokens,
    UpstreamUnavailableError,
)
from ..verifier import VerifierContext

logger = logging.getLogger(__name__)

CHECK_INTERVAL = 600.0
"""Seconds after which the user is looked up at the provider again, when the client refreshes."""
ABANDONED = CODE_LIFETIME + 1.0
"""Seconds after which the login of an unredeemed code is ended."""
LEASE = 30.0
"""Maximum seconds of a refresh. After that its process counts as dead, and another one can start."""

_REFRESH_TIMEOUT = LEASE + 10.0
"""Seconds for which other processes wait for a refresh."""
_REFRESH_AHEAD = 60.0
"""Seconds before expiry at which tokens are refreshed, unless they were issued for less than twice as long."""
_POLL_INTERVAL = 0.1
_UPSTREAM_TIMEOUT = 22.0
"""Seconds in which the provider must respond, regardless of the timeout of its client."""
_REVOKE_TIMEOUT = 5.0
"""Seconds for a revocation at the provider. No response waits for its result."""


class LoginEndedError(Exception):
    """The login at the provider has ended, and with it the grant. The user must log in again."""


@dataclass(frozen=True)
class UpstreamLogin:
    """Login data of a grant: encrypted in its record, and deleted with it.

    Attributes:
        tokens: Tokens of the provider.
        obtained: Unix time in seconds at which they were issued.
        checked: Unix time in seconds of the last lookup of the user at the provider.
        attempts: Number of refresh attempts. One process claims the next number; see `UpstreamLogins`.
    """

    tokens: UpstreamTokens
    obtained: float
    checked: float
    attempts: int = 0

    @classmethod
    def of(cls, record: GrantRecord) -> UpstreamLogin:
        """Return the login of a grant."""
        members = dict(record.login_data or {})
        tokens: Json = dict(members.pop("tokens"))
        return cls(UpstreamTokens(scopes=tuple(tokens.pop("scopes")), **tokens), **members)

    def is_due(self, now: float) -> bool:
        """Return True if the tokens are near expiry: a minute, or half of their lifetime."""
        expires = self.tokens.expires
        return expires is not None and expires - now <= min(_REFRESH_AHEAD, (expires - self.obtained) / 2)

    @classmethod
    def change(cls, record: GrantRecord, **members: Any) -> GrantRecord:
        """Return a grant with changed members of its login."""
        return replace(cls.of(record), **members).put_into(record)

    def put_into(self, record: GrantRecord) -> GrantRecord:
        """Return a grant with this login."""
        return replace(record, login_data=asdict(self))


class UpstreamLogins:
    """Logins at one provider, in the grants of one server.

    Tokens are refreshed once across all processes with the same storage. One process claims the refresh, and the others
    poll the grant for the new tokens.

    Args:
        upstream: The provider.
        context: Name, keys and storage of the server.
        running: Refreshes of this process.
        clock: Returns the Unix time in seconds.

    Attributes:
        upstream: The provider.
        grants: The grants.
    """

    def __init__(
        self,
        upstream: UpstreamProvider,
        context: VerifierContext,
        running: SingleFlight[GrantRecord],
        clock: Clock = time.time,
    ) -> None:
        self.upstream = upstream
        # The name separates the grants of several providers of one server.
        self.grants = Grants(context.storage, context.keys, clock, upstream.name)
        self._context = context
        self._running = running
        self._clock = clock

    # Lookup

    def is_upstream_user(self, principal: Principal) -> bool:
        """Return True if a principal logged in at this provider; the login may have ended."""
        claims, issuer = principal.claims, self.upstream.issuer
        has_grant = claims.get("iss") != issuer and isinstance(claims.get("grant"), str)
        return has_grant and principal.issuer == issuer

    async def find(self, principal: Principal) -> GrantRecord | None:
        """Return the grant of a principal; None if it has no grant here, or the grant has ended."""
        if not self.is_upstream_user(principal):
            return None
        record = await self.grants.find(str(principal.claims["grant"]))
        # Another verifier may accept tokens with any claims for the same users. So the grant must be theirs.
        owner = (principal.subject, principal.client_id)
        return record if record is not None and (record.subject, record.client_id) == owner else None

    async def with_fresh_tokens(self, record: GrantRecord) -> GrantRecord:
        """Return a grant with tokens that are valid for a minute, or for their whole lifetime if that is shorter.

        Raises:
            LoginEndedError: The login has ended.
            UpstreamUnavailableError: The provider does not respond. The login is not affected.
            OSError: The storage does not respond.
        """
        return await self._refresh(record) if UpstreamLogin.of(record).is_due(self._clock()) else record

    async def with_checked_user(self, record: GrantRecord) -> GrantRecord:
        """Return a grant with valid tokens and a user that the provider confirmed within the last minutes.

        Raises:
            LoginEndedError: The login has ended.
            UpstreamUnavailableError: The provider does not respond. The login is not affected.
            OSError: The storage does not respond.
        """
        record = await self.with_fresh_tokens(record)
        login = UpstreamLogin.of(record)
        if login.checked >= login.obtained and self._clock() - login.checked < CHECK_INTERVAL:
            return record
        try:
            return await self._running.run(("check", record.id), lambda: self._check_user(record))
        except AbandonedError:
            raise _unavailable("to look up a user") from None

    async def _check_user(self, record: GrantRecord) -> GrantRecord:
        """Return a grant updated with the current identity of its user at the provider."""
        login, now = UpstreamLogin.of(record), self._clock()
        identity: Identity | None = None
        try:
            identity = await asyncio.wait_for(
                self.upstream.provider.identify(login.tokens), _UPSTREAM_TIMEOUT
            )
        except UpstreamRefusedError:
            if login.tokens.refresh_token is None:
                await self.end(record.id)
                raise LoginEndedError from None
            if login.checked >= login.obtained:  # the provider may have revoked the access token only
                record = await self._refresh(record, login.tokens)
        except (UpstreamUnavailableError, asyncio.TimeoutError):
            if login.tokens.refresh_token is None:
                raise _unavailable("to look up a user") from None
            return record  # a refresh succeeded recently; the next refresh of the client looks up the user
        if identity is not None and identity.subject != record.subject:
            logger.error(
                "%s: the provider returned another user for the tokens of a login; the login is ended",
                self.upstream.title,
            )
            await self.end(record.id)
            raise LoginEndedError

        def update(record: GrantRecord) -> GrantRecord:
            new = UpstreamLogin.change(record, checked=now)
            return new if identity is None else replace(new, claims=dict(identity.claims))

        return _existing(await self.grants.change(record.id, update))

    # Refresh

    async def _refresh(self, record: GrantRecord, revoked: UpstreamTokens | None = None) -> GrantRecord:
        """Return a grant after its tokens have been refreshed, by this or another process.

        Args:
            record: The grant.
            revoked: Tokens that the provider no longer accepts before their expiry.
        """
        try:
            return await self._running.run(record.id, lambda: self._refresh_once(record.id, revoked))
        except AbandonedError:
            raise _unavailable("to refresh tokens") from None

    async def _refresh_once(self, grant_id: str, revoked: UpstreamTokens | None) -> GrantRecord:
        context, end = self._context, time.monotonic() + _REFRESH_TIMEOUT
        while time.monotonic() < end:
            record = _existing(await self.grants.find(grant_id))
            login = UpstreamLogin.of(record)
            if login.tokens != revoked and not login.is_due(self._clock()):
                return record
            if login.tokens.refresh_token is None:
                if (login.tokens.expires or 0.0) > self._clock():
                    return record  # in use until they expire
                await self.end(grant_id)
                raise LoginEndedError
            # A process that is killed during its refresh keeps the claim until the lease ends, by the storage's clock.
            begun = time.monotonic()
            if await context.storage.claim(f"{context.name}/refreshing/{grant_id}/{login.attempts}", LEASE):
                now = UpstreamLogin.of(_existing(await self.grants.find(grant_id)))
                # Else another process was faster.
                if (now.attempts, now.tokens) == (login.attempts, login.tokens):
                    return await self._replace_tokens(record, begun)
            await asyncio.sleep(_POLL_INTERVAL)
        raise _unavailable("to refresh tokens (requested by another process)")

    async def _replace_tokens(self, record: GrantRecord, begun: float) -> GrantRecord:
        """Refresh the tokens at the provider, and return the grant with the new ones."""
        login = UpstreamLogin.of(record)
        try:
            tokens = await asyncio.wait_for(self.upstream.provider.refresh(login.tokens), _UPSTREAM_TIMEOUT)
        except (UpstreamRefusedError, UpstreamUnavailableError, asyncio.TimeoutError) as error:
            if isinstance(error, UpstreamRefusedError) and error.error == "invalid_grant":
                await self.end(record.id)
                raise LoginEndedError from None
            logger.warning(
                "%s: token refresh failed, so the client must repeat its request later: %r",
                self.upstream.title,
                str(error) or "it did not respond in time",
            )
            attempts = login.attempts + 1
            count = partial(UpstreamLogin.change, attempts=attempts)
            _existing(await self.grants.change(record.id, count))
            raise _unavailable("to refresh tokens") from None
        new = UpstreamLogin(tokens, self._clock(), login.checked, login.attempts + 1)
        update = partial(UpstreamLogin.change, tokens=tokens, obtained=new.obtained, attempts=new.attempts)
        while True:
            try:
                return _existing(await self.grants.change(record.id, update))
            except (LoginEndedError, OSError) as error:
                # The old tokens may be invalid by now. So the new ones are given up as late as possible.
                if isinstance(error, OSError) and time.monotonic() < begun + LEASE - _REVOKE_TIMEOUT:
                    await asyncio.sleep(1.0)
                    continue
                await self.release(new.put_into(record))
                raise

    # End

    def schedule_release(self, record: GrantRecord) -> None:
        """Schedule the end of a new grant, in case the client does not redeem its code in time."""

        async def end_unredeemed() -> GrantRecord:
            try:
                ended = await self.grants.end(record.id, only_unredeemed=True)
            except OSError as error:
                logger.warning(
                    "%s: cannot check whether the code of a login was redeemed. If not, its tokens stay "
                    "valid at the provider until they expire: %r",
                    self.upstream.title,
                    str(error),
                )
                return record
            if ended is not None:
                await self.release(ended)
            return record

        key = ("abandoned", record.id)
        asyncio.get_running_loop().call_later(ABANDONED, lambda: self._running.start(key, end_unredeemed))

    async def end(self, grant_id: str) -> None:
        """End a grant, and revoke its tokens."""
        ended = await self.grants.end(grant_id)
        if ended is None:
            return
        principal = user(self.upstream.issuer, ended.subject or "", ended.scopes, client_id=ended.client_id)
        self._context.audit.emit("revocation", principal, detail="the login at the provider has ended")
        await self.release(ended)

    async def end_all(self, principal: Principal) -> None:
        """End all grants of a principal, for all clients, and revoke their tokens.

        Raises:
            OSError: The storage does not respond.
        """

        async def end(grant_id: str) -> None:
            ended = await self.grants.end(grant_id)
            if ended is not None and ended.login_data is not None:
                await self._revoke(UpstreamLogin.of(ended).tokens)

        ids = [record.id async for record in self.grants.of(principal)]
        failed = await asyncio.gather(*map(end, ids), return_exceptions=True)
        for error in filter(None, failed):  # raised after all others have ended
            raise error

    async def release(self, record: GrantRecord) -> None:
        """Revoke the tokens of an ended grant at the provider.

        If that would end other logins of the user, it happens only with the last grant of the user here.
        """
        if record.login_data is None:
            return
        if self.upstream.revokes_all:
            principal = user(self.upstream.issuer, record.subject or "")
            try:
                if any([each.id != record.id async for each in self.grants.of(principal)]):
                    return
            except OSError:
                return
        await self._revoke(UpstreamLogin.of(record).tokens)

    async def _revoke(self, tokens: UpstreamTokens) -> None:
        """Revoke tokens at the provider; a failure is logged."""
        try:
            await asyncio.wait_for(self.upstream.provider.revoke(tokens), _REVOKE_TIMEOUT)
        except (UpstreamRefusedError, UpstreamUnavailableError, asyncio.TimeoutError) as error:
            logger.warning(
                "%s: cannot revoke the tokens of an ended login. They stay valid at the provider "
                "until they expire: %r",
                self.upstream.title,
                str(error) or "it did not respond in time",
            )


def _existing(record: GrantRecord | None) -> GrantRecord:
    if record is None:
        raise LoginEndedError
    return record


def _unavailable(why: str) -> UpstreamUnavailableError:
    return UpstreamUnavailableError(f"the identity provider did not respond to a request {why}")

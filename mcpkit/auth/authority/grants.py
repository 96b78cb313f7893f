"""Grants of users to clients: codes, refresh tokens, and their rotation."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256

from ...identity.principal import Principal
from ...protocol.jsonrpc import Json
from ...storage.base import Store
from ...storage.encryption_keys import EncryptedRecords, Keys, NewerRecordError
from ..base64url import decode, encode
from .errors import OAuthError

CODE_LIFETIME = 60.0
"""Seconds in which a code must be redeemed."""
REFRESH_LIFETIME = 30 * 24 * 3600.0
"""Seconds in which a refresh token must be used. Each use starts the period again."""
GRACE = 10.0
"""Seconds in which a used code or refresh token can be sent again without ending the grant, after a lost response."""

LINGERING = 60.0
"""Additional seconds for which a grant with an unredeemed code is stored, to revoke its upstream tokens."""

_VERSION = 2
"""Record version written by this release. The previous version, without upstream tokens, can be read too."""
_PRINCIPAL = "OAuth grants of a principal"
_CODE = "OAuth code"
_REFRESH = "OAuth refresh token"
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_HANDED_OUT = re.compile(
    r"(?P<signed>(?P<id>[A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{38})(?:\.(?P<generation>[0-9]{1,9}))?)\.(?P<proof>[A-Za-z0-9_-]{43})"
)


@dataclass(frozen=True)
class GrantRecord:
    """Stored record of a grant.

    Attributes:
        id: ID of the grant; see `Grants.new_id`. It is never reused, so tokens of an ended grant stay invalid.
        client_id: Client that has the grant.
        subject: User that allowed it; None with the client credentials grant.
        scopes: Granted scopes.
        resources: Granted resources.
        challenge: The PKCE challenge of the code (RFC 7636).
        redirect_uri: Redirect URI of the code.
        code_expires: Unix time in seconds at which the code expires.
        generation: Number of refresh tokens so far; 0 until the code is redeemed.
        rotated: Unix time in seconds at which the last refresh token was issued.
        claims: Claims of the user.
        held: Data of the login, such as upstream tokens; never shown.
    """

    id: str
    client_id: str
    subject: str | None
    scopes: tuple[str, ...]
    resources: tuple[str, ...]
    challenge: str = ""
    redirect_uri: str = ""
    code_expires: float = 0.0
    generation: int = 0
    rotated: float = 0.0
    claims: Mapping[str, object] = field(default_factory=dict[str, object])
    held: Json | None = field(default=None, repr=False)


class UsedAgainError(OAuthError):
    """A code or refresh token was used again, so its grant must end.

    Args:
        description: Description for the client.
        record: The grant.
    """

    def __init__(self, description: str, record: GrantRecord) -> None:
        super().__init__("invalid_grant", description)
        self.record = record


class Grants:
    """Storage for grants, one record for each, changed by compare-and-set.

    Codes and refresh tokens are not stored. They consist of the ID of the record and a signature.

    Args:
        store: The storage, shared by all workers.
        keys: Keys that sign tokens and encrypt records.
        clock: Returns the Unix time in seconds.
        place: Separates the grants of several authorization servers of one server.
    """

    def __init__(
        self, store: Store, keys: Keys, clock: Callable[[], float] = time.time, place: str = ""
    ) -> None:
        self._records = EncryptedRecords(store, keys, f"grants/{place}" if place else "grants")
        self._answered = EncryptedRecords(store, keys, "answered")
        self._keys = keys
        self._clock = clock

    async def claim(self, asked: str, lifetime: float) -> bool:
        """Mark an authorization request as answered, and return False if it already was.

        Args:
            asked: ID of the request.
            lifetime: Seconds in which the request could be answered.
        """
        return await self._answered.put(asked, {}, version=None, ttl=lifetime) is not None

    def new_id(self, principal: Principal) -> str:
        """Return the ID of a new grant. It begins with a keyed hash of the principal, for `of`."""
        return self._beginnings(principal)[0] + secrets.token_urlsafe(16)

    async def of(self, principal: Principal) -> AsyncIterator[GrantRecord]:
        """Iterate over the readable grants of a principal, for all clients."""
        for beginning in self._beginnings(principal):
            async for members in self._records.items(beginning):
                yield _record(members)

    async def begin(self, record: GrantRecord) -> str:
        """Store a new grant of a user, and return its code."""
        record = replace(record, code_expires=self._clock() + CODE_LIFETIME)
        await self._keep(record, None, CODE_LIFETIME + LINGERING)
        return f"{record.id}.{self._proof(_CODE, record.id)}"

    async def begin_for_client(self, record: GrantRecord, lifetime: float) -> None:
        """Store a grant of the client credentials flow, which cannot be refreshed, for some seconds."""
        await self._keep(replace(record, generation=1), None, lifetime)

    async def redeem(
        self,
        code: str,
        client_id: str,
        verifier: str,
        redirect_uri: str | None,
        check: Callable[[GrantRecord], object],
    ) -> GrantRecord:
        """Redeem a code once, and return its grant.

        A second use gets nothing. Within the grace period, the first one keeps its tokens. After that, or after a
        refresh, the grant must end (OAuth 2.1, section 4.1.3).

        Args:
            code: The code.
            client_id: Client that sent it.
            verifier: The PKCE verifier.
            redirect_uri: The `redirect_uri` of the token request, if given.
            check: Raises if the request exceeds the grant; called before the code is used up.

        Raises:
            UsedAgainError: The code was already redeemed.
            OAuthError: The code is not valid for this client, or has expired.
        """
        found = self._handed_out(_CODE, code)
        while found is not None:
            kept = await self._kept(found[0])
            if kept is None or kept[0].client_id != client_id:
                break
            record, version = kept
            if redirect_uri is not None and redirect_uri != record.redirect_uri:
                raise _invalid("redirect_uri differs from the one in the authorization request")
            if not _is_verified(verifier, record.challenge):
                raise _invalid("code_verifier does not match code_challenge")
            if record.generation == 1 and self._clock() - record.rotated <= GRACE:
                raise _invalid("the code was already redeemed")
            if record.generation:
                raise UsedAgainError(
                    "the code was already redeemed, so its tokens are revoked; log in again", record
                )
            if self._clock() >= record.code_expires:
                break
            check(record)
            redeemed = replace(record, generation=1, rotated=self._clock())
            if await self._keep(redeemed, version, REFRESH_LIFETIME):
                return redeemed
        raise _invalid("the code was not issued to this client, or it has expired")

    async def refreshable(
        self, token: str, client_id: str, check: Callable[[GrantRecord], object]
    ) -> GrantRecord:
        """Return the grant of a refresh token without using it up; see `refresh`."""
        return (await self._refreshable(token, client_id, check))[0]

    async def refresh(
        self, token: str, client_id: str, check: Callable[[GrantRecord], object]
    ) -> GrantRecord:
        """Use up a refresh token, and return its grant.

        A token used within the grace period yields the same successor. The use of an older one means that it was
        stolen, so the grant must end (OAuth 2.1, section 4.3.1).

        Args:
            token: The refresh token.
            client_id: Client that sent it.
            check: Raises if the request exceeds the grant; called before the token is used up.

        Raises:
            UsedAgainError: The token was already used.
            OAuthError: The token is not valid for this client.
        """
        while True:
            record, version, is_repeated = await self._refreshable(token, client_id, check)
            if is_repeated:
                return record
            rotated = replace(record, generation=record.generation + 1, rotated=self._clock())
            if await self._keep(rotated, version, REFRESH_LIFETIME):
                return rotated

    async def _refreshable(
        self, token: str, client_id: str, check: Callable[[GrantRecord], object]
    ) -> tuple[GrantRecord, str, bool]:
        """Return the grant of a refresh token, the record version, and True within the grace period of a used token."""
        found = self._handed_out(_REFRESH, token)
        kept = None if found is None else await self._kept(found[0])
        if found is None or kept is None or kept[0].client_id != client_id:
            raise _invalid("the refresh token was not issued to this client, has expired, or was revoked")
        (_, generation), (record, version) = found, kept
        check(record)
        is_repeated = generation == record.generation - 1 and self._clock() - record.rotated <= GRACE
        if generation != record.generation and not is_repeated:
            raise UsedAgainError(
                "the refresh token was already used, so its tokens are revoked; log in again", record
            )
        return record, version, is_repeated

    async def change(
        self, grant_id: str, changed: Callable[[GrantRecord], GrantRecord]
    ) -> GrantRecord | None:
        """Change a grant despite concurrent changes, and return it; None if it has ended.

        Args:
            grant_id: ID of the grant.
            changed: Returns the new record, or the same object to leave it unchanged.
        """
        while (kept := await self._kept(grant_id)) is not None:
            record, version = kept
            new = changed(record)
            if new is record or await self._keep(new, version, self._left(new)):
                return new
        return None

    def refresh_token(self, record: GrantRecord) -> str:
        """Return the next refresh token of a grant."""
        signed = f"{record.id}.{record.generation}"
        return f"{signed}.{self._proof(_REFRESH, signed)}"

    async def find(self, grant_id: str) -> GrantRecord | None:
        """Return a grant; None if it has ended."""
        kept = await self._kept(grant_id)
        return None if kept is None else kept[0]

    async def of_refresh_token(self, token: str) -> GrantRecord | None:
        """Return the grant of a refresh token, used or not."""
        found = self._handed_out(_REFRESH, token)
        return None if found is None else await self.find(found[0])

    async def end_abandoned(self, grant_id: str) -> GrantRecord | None:
        """End a grant if its code was not redeemed in time, and return it; None otherwise."""
        kept = await self._kept(grant_id)
        if kept is None or kept[0].generation or self._clock() < kept[0].code_expires:
            return None
        return kept[0] if await self._records.delete(grant_id, version=kept[1]) else None

    async def end(self, grant_id: str) -> GrantRecord | None:
        """End a grant, which invalidates all its tokens.

        Returns:
            The last record; None if the grant had already ended. Only one of several concurrent callers gets the
            record.
        """
        while (kept := await self._kept(grant_id)) is not None:
            if await self._records.delete(grant_id, version=kept[1]):
                return kept[0]
        return None

    async def _kept(self, grant_id: str) -> tuple[GrantRecord, str] | None:
        """Return a grant and the version of its record."""
        found = await self._records.get(grant_id)
        if found is None:
            return None
        return _record(found[0]), found[1]

    async def _keep(self, record: GrantRecord, version: str | None, ttl: float) -> bool:
        """Write a record, and return False if its version has changed meanwhile."""
        members = {"version": _VERSION, **asdict(record)}
        return await self._records.put(record.id, members, version=version, ttl=ttl) is not None

    def _left(self, record: GrantRecord) -> float:
        """Return the seconds until an unused grant expires."""
        if record.generation:
            return max(record.rotated + REFRESH_LIFETIME - self._clock(), 1.0)
        return max(record.code_expires + LINGERING - self._clock(), 1.0)

    def _beginnings(self, principal: Principal) -> list[str]:
        """Return the ID prefixes of the grants of a principal, a keyed hash for each secret."""
        whose = (principal.id or "").encode("utf-8", "surrogatepass")
        keys = self._keys.derive(_PRINCIPAL)
        return [encode(hmac.digest(key, whose, "sha256")[:12]) for key in keys]

    def _proof(self, purpose: str, signed: str) -> str:
        return encode(self._keys.sign(purpose, signed.encode()))

    def _handed_out(self, purpose: str, text: str) -> tuple[str, int] | None:
        """Return the grant ID and generation in a code or refresh token; None if its signature is not valid."""
        match = _HANDED_OUT.fullmatch(text)
        proof = decode(match["proof"]) if match else None
        if match is None or proof is None or not self._keys.verify(purpose, match["signed"].encode(), proof):
            return None
        return match["id"], int(match["generation"] or 0)


def _record(members: Json) -> GrantRecord:
    """Return a grant from its stored members."""
    if members.pop("version") not in {_VERSION - 1, _VERSION}:
        raise NewerRecordError("a stored grant was written by a later version of mcpkit. Upgrade mcpkit")
    for name in ("scopes", "resources"):
        members[name] = tuple(members[name])
    return GrantRecord(**members)


def _is_verified(verifier: str, challenge: str) -> bool:
    if not _VERIFIER.fullmatch(verifier):
        return False
    return hmac.compare_digest(encode(sha256(verifier.encode()).digest()), challenge)


def _invalid(description: str) -> OAuthError:
    return OAuthError("invalid_grant", description)

"""Grants: what users have allowed clients, from the code by which it is fetched to the last refresh."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256

from ...protocol.types import Json
from ...state.keys import Keys
from ...state.principal import Principal
from ...state.sealed import NewerRecordError, Sealed
from ...state.store import Store
from ..base64url import decode, encode
from .errors import OAuthError

CODE_LIFETIME = 60.0
"""Seconds in which a code has to be redeemed."""
REFRESH_LIFETIME = 30 * 24 * 3600.0
"""Seconds in which a refresh token has to be used; each use begins them anew."""
GRACE = 10.0
"""Seconds in which what has been used may come again and ends nothing: it was sent twice, or its answer was lost."""

LINGERING = 60.0
"""Seconds for which a grant with an unredeemed code is kept, so that its upstream tokens can be revoked."""

_VERSION = 2
"""What this version writes. It reads that, and what is one less, of which nothing was held."""
_PRINCIPAL = "OAuth grants of a principal"
_CODE = "OAuth code"
_REFRESH = "OAuth refresh token"
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_HANDED_OUT = re.compile(
    r"(?P<signed>(?P<id>[A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{38})(?:\.(?P<generation>[0-9]{1,9}))?)\.(?P<proof>[A-Za-z0-9_-]{43})"
)


@dataclass(frozen=True)
class GrantRecord:
    """What is kept of a grant.

    Attributes:
        id: Which one, see `Grants.new_id`; a new one each time, so that what an ended grant gave is never worth
            anything again.
        client_id: The client that has it.
        subject: The user who has given it; None where the client asks for itself.
        scopes: What was granted.
        resources: What it was granted for.
        challenge: What the code's verifier must hash to (RFC 7636).
        redirect_uri: Where the code was sent.
        code_expires: When the code expires, in Unix seconds.
        generation: How many refresh tokens there have been; 0 until the code is redeemed.
        rotated: When the last one was handed out, in Unix seconds.
        claims: What else is known of the user.
        held: What the login keeps with it; never shown.
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
    """A code or a refresh token was used that had been used before, so that its grant has to end.

    Args:
        description: What was used.
        record: The grant.
    """

    def __init__(self, description: str, record: GrantRecord) -> None:
        super().__init__("invalid_grant", description)
        self.record = record


class Grants:
    """Keeps grants, one record for each, so that whatever happens to one is decided by one compare-and-set.

    Codes and refresh tokens are not kept: they are the record's id and a signature.

    Args:
        store: Where they are kept; all workers need the same one.
        keys: Sign what is handed out, and encrypt what is kept.
        clock: The time in Unix seconds.
        place: What tells them from the grants of another authorization server of the same server.
    """

    def __init__(
        self, store: Store, keys: Keys, clock: Callable[[], float] = time.time, place: str = ""
    ) -> None:
        self._records = Sealed(store, keys, f"grants/{place}" if place else "grants")
        self._answered = Sealed(store, keys, "answered")
        self._keys = keys
        self._clock = clock

    async def claim(self, asked: str, lifetime: float) -> bool:
        """Say whether a request for authorization is answered for the first time; it is not the next time.

        Args:
            asked: Its id.
            lifetime: Seconds in which it could be answered.
        """
        return await self._answered.put(asked, {}, version=None, ttl=lifetime) is not None

    def new_id(self, principal: Principal) -> str:
        """Return the id of a new grant, which begins with what stands for whose it is; see `of`."""
        return self._beginnings(principal)[0] + secrets.token_urlsafe(16)

    async def of(self, principal: Principal) -> AsyncIterator[GrantRecord]:
        """Go through the grants of a principal, by whichever client, that can be read."""
        for beginning in self._beginnings(principal):
            async for members in self._records.items(beginning):
                yield _record(members)

    async def begin(self, record: GrantRecord) -> str:
        """Keep a new grant of a user, and return the code for it."""
        record = replace(record, code_expires=self._clock() + CODE_LIFETIME)
        await self._keep(record, None, CODE_LIFETIME + LINGERING)
        return f"{record.id}.{self._proof(_CODE, record.id)}"

    async def begin_for_client(self, record: GrantRecord, lifetime: float) -> None:
        """Keep a grant without a user, which is not refreshed, for some seconds."""
        await self._keep(replace(record, generation=1), None, lifetime)

    async def redeem(
        self,
        code: str,
        client_id: str,
        verifier: str,
        redirect_uri: str | None,
        check: Callable[[GrantRecord], object],
    ) -> GrantRecord:
        """Return what a code stands for, once.

        Whoever comes again with all that the code needs gets nothing. Who comes at once has lost a race, and the winner
        keeps what it got; later, or once that has been refreshed, the grant has to end (OAuth 2.1, section 4.1.3).

        Args:
            code: The code.
            client_id: Who brings it.
            verifier: What the client has kept to show that it has asked for it.
            redirect_uri: Where the client says that the code was sent, if it says so.
            check: Raises where the request wants what was not granted: before the code is used up.

        Raises:
            UsedAgainError: It has been redeemed before.
            OAuthError: It is none, has expired, or is not for whoever brings it.
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
                raise UsedAgainError("the code was already redeemed; its tokens are revoked", record)
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
        """Return what a refresh token stands for, and leave it as good as it was; as `refresh` has it."""
        return (await self._refreshable(token, client_id, check))[0]

    async def refresh(
        self, token: str, client_id: str, check: Callable[[GrantRecord], object]
    ) -> GrantRecord:
        """Return what a refresh token stands for; it counts as used from now on.

        One that was used some seconds ago gives the same successor. An older one has been stolen, from its owner or by
        somebody else: the grant has to end (OAuth 2.1, section 4.3.1).

        Args:
            token: The refresh token.
            client_id: Who brings it.
            check: Raises where the request wants what was not granted: before the token is used up.

        Raises:
            UsedAgainError: It has been used before.
            OAuthError: It is none of this client.
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
        """Return the grant of a refresh token, its version, and whether the token was used some seconds ago."""
        found = self._handed_out(_REFRESH, token)
        kept = None if found is None else await self._kept(found[0])
        if found is None or kept is None or kept[0].client_id != client_id:
            raise _invalid("the refresh token was not issued to this client, has expired, or was revoked")
        (_, generation), (record, version) = found, kept
        check(record)
        is_repeated = generation == record.generation - 1 and self._clock() - record.rotated <= GRACE
        if generation != record.generation and not is_repeated:
            raise UsedAgainError("the refresh token was already used; its tokens are revoked", record)
        return record, version, is_repeated

    async def change(
        self, grant_id: str, changed: Callable[[GrantRecord], GrantRecord]
    ) -> GrantRecord | None:
        """Change a grant, whatever others change of it meanwhile, and return it; None where it has ended.

        Args:
            grant_id: Which one.
            changed: Returns it as it is to be: the same object where it is to stay as it is.
        """
        while (kept := await self._kept(grant_id)) is not None:
            record, version = kept
            new = changed(record)
            if new is record or await self._keep(new, version, self._left(new)):
                return new
        return None

    def refresh_token(self, record: GrantRecord) -> str:
        """Return the refresh token that is to be used next."""
        signed = f"{record.id}.{record.generation}"
        return f"{signed}.{self._proof(_REFRESH, signed)}"

    async def find(self, grant_id: str) -> GrantRecord | None:
        """Return a grant that has not ended."""
        kept = await self._kept(grant_id)
        return None if kept is None else kept[0]

    async def of_refresh_token(self, token: str) -> GrantRecord | None:
        """Return the grant of a refresh token, whether that has been used or not."""
        found = self._handed_out(_REFRESH, token)
        return None if found is None else await self.find(found[0])

    async def end_abandoned(self, grant_id: str) -> GrantRecord | None:
        """End a grant whose code has not been redeemed in time, and return it; None where there is none such."""
        kept = await self._kept(grant_id)
        if kept is None or kept[0].generation or self._clock() < kept[0].code_expires:
            return None
        return kept[0] if await self._records.delete(grant_id, version=kept[1]) else None

    async def end(self, grant_id: str) -> GrantRecord | None:
        """End a grant: all that it gave is worth nothing from now on.

        Returns:
            The grant as it was last; None where it had ended, so that of several who end it one alone gets it.
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
        """Write a grant, unless somebody else has written it since that version; say whether it was written."""
        members = {"version": _VERSION, **asdict(record)}
        return await self._records.put(record.id, members, version=version, ttl=ttl) is not None

    def _left(self, record: GrantRecord) -> float:
        """Return the seconds until a grant expires, where nothing is done with it."""
        if record.generation:
            return max(record.rotated + REFRESH_LIFETIME - self._clock(), 1.0)
        return max(record.code_expires + LINGERING - self._clock(), 1.0)

    def _beginnings(self, principal: Principal) -> list[str]:
        """Return what the ids of a principal's grants begin with: for each secret something that tells nobody who."""
        whose = (principal.id or "").encode("utf-8", "surrogatepass")
        keys = self._keys.derive(_PRINCIPAL)
        return [encode(hmac.digest(key, whose, "sha256")[:12]) for key in keys]

    def _proof(self, purpose: str, signed: str) -> str:
        return encode(self._keys.sign(purpose, signed.encode()))

    def _handed_out(self, purpose: str, text: str) -> tuple[str, int] | None:
        """Return the id and the generation that a code or a refresh token names, if it was handed out here."""
        match = _HANDED_OUT.fullmatch(text)
        proof = decode(match["proof"]) if match else None
        if match is None or proof is None or not self._keys.verify(purpose, match["signed"].encode(), proof):
            return None
        return match["id"], int(match["generation"] or 0)


def _record(members: Json) -> GrantRecord:
    """Return a grant as it was kept."""
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

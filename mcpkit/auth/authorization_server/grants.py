"""Grants of users to clients: authorization codes, refresh tokens with rotation, and access tokens."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from ...identity.principals_and_scopes import Principal
from ...protocol.jsonrpc import Json
from ...storage.base import Store
from ...storage.encryption_keys import EncryptedRecords, Keys, NewerRecordError
from ..jws import base64url_decode, base64url_encode, parse_json_object
from ..verifier import InvalidTokenError, auth_library
from .oauth_requests import Clock, OAuthError

if TYPE_CHECKING:
    from joserfc.jwk import ECKey

CODE_LIFETIME = 60.0
"""Seconds in which a code must be redeemed."""
REFRESH_LIFETIME = 30 * 24 * 3600.0
"""Seconds in which a refresh token must be used. Each use starts the period again."""
GRACE = 10.0
"""Seconds in which a used code or refresh token can be sent again without ending the grant, after a lost response."""
LINGERING = 60.0
"""Additional seconds for which a grant with an unredeemed code is stored, to revoke its upstream tokens."""
RESERVED_CLAIMS = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "client_id", "scope", "grant"})
"""Claims of access tokens with a fixed meaning. Other claims of a user are stored with the grant, not in the token."""

_VERSION = 3
"""Version of stored records. Grants with an earlier version have ended."""
_PRINCIPAL = "OAuth grants of a principal"
_CODE = "OAuth code"
_REFRESH = "OAuth refresh token"
_ACCESS = "OAuth access token"
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_SIGNED_TOKEN = re.compile(
    r"(?P<signed>(?P<id>[A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{38})(?:\.(?P<generation>[0-9]{1,9}))?)\.(?P<proof>[A-Za-z0-9_-]{43})"
)
_JWT = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


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
        login_data: Data of the login, such as upstream tokens. No response contains it.
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
    login_data: Json | None = field(default=None, repr=False)


Check = Callable[[GrantRecord], object]
"""Raises an exception if a token request exceeds the grant."""


class TokenReuseError(OAuthError):
    """A code or refresh token was used again, so its grant must end.

    Args:
        description: Description for the client.
        record: The grant.
    """

    def __init__(self, description: str, record: GrantRecord) -> None:
        super().__init__("invalid_grant", description)
        self.record = record


# Codes and refresh tokens


class Grants:
    """Storage for grants, one record for each, changed by compare-and-set.

    Codes and refresh tokens are not stored. They consist of the ID of the record and a signature.

    Args:
        store: The storage, shared by all workers.
        keys: Keys that sign tokens and encrypt records.
        clock: Returns the Unix time in seconds.
        namespace: Separates the grants of several authorization servers of one server.
    """

    def __init__(self, store: Store, keys: Keys, clock: Clock = time.time, namespace: str = "") -> None:
        self._records = EncryptedRecords(store, keys, f"grants/{namespace}" if namespace else "grants")
        self._answered = EncryptedRecords(store, keys, "answered")
        self._keys = keys
        self._clock = clock

    async def claim(self, request_id: str, lifetime: float) -> bool:
        """Mark an authorization request as answered, and return False if it already was.

        Args:
            request_id: ID of the request.
            lifetime: Seconds in which the request could be answered.
        """
        return await self._answered.put(request_id, {}, version=None, ttl=lifetime) is not None

    def new_id(self, principal: Principal) -> str:
        """Return the ID of a new grant. It begins with a keyed hash of the principal, for `of`."""
        return self._id_prefixes(principal)[0] + secrets.token_urlsafe(16)

    async def of(self, principal: Principal) -> AsyncIterator[GrantRecord]:
        """Iterate over the readable grants of a principal, for all clients."""
        for prefix in self._id_prefixes(principal):
            async for members in self._records.items(prefix):
                if (record := _read_record(members)) is not None:
                    yield record

    async def find(self, grant_id: str) -> GrantRecord | None:
        """Return a grant; None if it has ended."""
        stored = await self._find(grant_id)
        return None if stored is None else stored[0]

    async def find_by_refresh_token(self, token: str) -> GrantRecord | None:
        """Return the grant of a refresh token, used or not."""
        parsed = self._parse(_REFRESH, token)
        return None if parsed is None else await self.find(parsed[0])

    async def begin(self, record: GrantRecord) -> str:
        """Store a new grant of a user, and return its code."""
        record = replace(record, code_expires=self._clock() + CODE_LIFETIME)
        await self._put(record, None, CODE_LIFETIME + LINGERING)
        return f"{record.id}.{self._signature(_CODE, record.id)}"

    async def begin_for_client(self, record: GrantRecord, lifetime: float) -> None:
        """Store a grant of the client credentials flow, which cannot be refreshed, for some seconds."""
        await self._put(replace(record, generation=1), None, lifetime)

    async def redeem(
        self, code: str, client_id: str, verifier: str, redirect_uri: str | None, check: Check
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
            TokenReuseError: The code was already redeemed.
            OAuthError: The code is not valid for this client, or has expired.
        """
        parsed = self._parse(_CODE, code)
        while parsed is not None:
            stored = await self._find(parsed[0])
            if stored is None or stored[0].client_id != client_id:
                break
            record, version = stored
            if redirect_uri is not None and redirect_uri != record.redirect_uri:
                raise _invalid_grant("redirect_uri differs from the one in the authorization request")
            challenge = base64url_encode(sha256(verifier.encode()).digest())
            if not _VERIFIER.fullmatch(verifier) or not hmac.compare_digest(challenge, record.challenge):
                raise _invalid_grant("code_verifier does not match code_challenge")
            if record.generation == 1 and self._clock() - record.rotated <= GRACE:
                raise _invalid_grant("the code was already redeemed")
            if record.generation:
                raise TokenReuseError(
                    "the code was already redeemed, so its tokens are revoked; log in again", record
                )
            if self._clock() >= record.code_expires:
                break
            check(record)
            redeemed = replace(record, generation=1, rotated=self._clock())
            if await self._put(redeemed, version, REFRESH_LIFETIME):
                return redeemed
        raise _invalid_grant("the code was not issued to this client, or it has expired")

    async def refresh(self, token: str, client_id: str, check: Check) -> GrantRecord:
        """Use up a refresh token, and return its grant.

        A token used within the grace period yields the same successor. The use of an older one means that it was
        stolen, so the grant must end (OAuth 2.1, section 4.3.1).

        Args:
            token: The refresh token.
            client_id: Client that sent it.
            check: Raises if the request exceeds the grant; called before the token is used up.

        Raises:
            TokenReuseError: The token was already used.
            OAuthError: The token is not valid for this client.
        """
        while True:
            record, version, is_repeated = await self.find_refreshable(token, client_id, check)
            if is_repeated:
                return record
            rotated = replace(record, generation=record.generation + 1, rotated=self._clock())
            if await self._put(rotated, version, REFRESH_LIFETIME):
                return rotated

    def refresh_token(self, record: GrantRecord) -> str:
        """Return the next refresh token of a grant."""
        signed = f"{record.id}.{record.generation}"
        return f"{signed}.{self._signature(_REFRESH, signed)}"

    async def change(self, grant_id: str, change: Callable[[GrantRecord], GrantRecord]) -> GrantRecord | None:
        """Change a grant despite concurrent changes, and return it; None if it has ended.

        Args:
            grant_id: ID of the grant.
            change: Returns the new record.
        """
        while (stored := await self._find(grant_id)) is not None:
            new = change(stored[0])
            end = new.rotated + REFRESH_LIFETIME if new.generation else new.code_expires + LINGERING
            if await self._put(new, stored[1], max(end - self._clock(), 1.0)):
                return new
        return None

    async def end(self, grant_id: str, *, only_unredeemed: bool = False) -> GrantRecord | None:
        """End a grant, which invalidates all its tokens.

        Args:
            grant_id: ID of the grant.
            only_unredeemed: End it only if its code was not redeemed in time.

        Returns:
            The last record; None if the grant had already ended. Only one of several concurrent callers gets the
            record.
        """
        while (stored := await self._find(grant_id)) is not None:
            record, version = stored
            if only_unredeemed and (record.generation or self._clock() < record.code_expires):
                break
            if await self._records.delete(grant_id, version=version):
                return record
        return None

    async def find_refreshable(
        self, token: str, client_id: str, check: Check
    ) -> tuple[GrantRecord, str, bool]:
        """Return the grant of a refresh token and its version, and True within the grace period of a used token.

        The token is not used up; see `refresh`.
        """
        parsed = self._parse(_REFRESH, token)
        stored = None if parsed is None else await self._find(parsed[0])
        if parsed is None or stored is None or stored[0].client_id != client_id:
            raise _invalid_grant(
                "the refresh token was not issued to this client, has expired, or was revoked"
            )
        generation, (record, version) = parsed[1], stored
        check(record)
        is_repeated = generation == record.generation - 1 and self._clock() - record.rotated <= GRACE
        if generation != record.generation and not is_repeated:
            raise TokenReuseError(
                "the refresh token was already used, so its tokens are revoked; log in again", record
            )
        return record, version, is_repeated

    async def _find(self, grant_id: str) -> tuple[GrantRecord, str] | None:
        """Return a grant and the version of its record; None if it has ended."""
        found = await self._records.get(grant_id)
        record = None if found is None else _read_record(found[0])
        return None if found is None or record is None else (record, found[1])

    async def _put(self, record: GrantRecord, version: str | None, ttl: float) -> bool:
        """Write a record, and return False if its version has changed meanwhile."""
        members = {"version": _VERSION, **asdict(record)}
        return await self._records.put(record.id, members, version=version, ttl=ttl) is not None

    def _id_prefixes(self, principal: Principal) -> list[str]:
        """Return the ID prefixes of the grants of a principal, a keyed hash for each secret."""
        id_ = (principal.id or "").encode("utf-8", "surrogatepass")
        return [
            base64url_encode(hmac.digest(key, id_, "sha256")[:12]) for key in self._keys.derive(_PRINCIPAL)
        ]

    def _signature(self, purpose: str, signed: str) -> str:
        return base64url_encode(self._keys.sign(purpose, signed.encode()))

    def _parse(self, purpose: str, text: str) -> tuple[str, int] | None:
        """Return the grant ID and generation in a code or refresh token; None if its signature is not valid."""
        match = _SIGNED_TOKEN.fullmatch(text)
        proof = base64url_decode(match["proof"]) if match else None
        if match is None or proof is None or not self._keys.verify(purpose, match["signed"].encode(), proof):
            return None
        return match["id"], int(match["generation"] or 0)


def _read_record(members: Json) -> GrantRecord | None:
    """Return a grant from its stored members; None if an earlier development version wrote it."""
    version = members.pop("version")
    if version > _VERSION:
        raise NewerRecordError("a stored grant was written by a later version of mcpkit. Upgrade mcpkit")
    if version < _VERSION:
        return None
    for name in ("scopes", "resources"):
        members[name] = tuple(members[name])
    return GrantRecord(**members)


def _invalid_grant(description: str) -> OAuthError:
    return OAuthError("invalid_grant", description)


# Access tokens


class AccessTokens:
    """Issues and verifies access tokens: JWTs (RFC 9068; ES256) that every process with the same secret can verify.

    The keys are derived from the secret of the server, so nothing is stored. Tokens signed with a replaced secret stay
    valid while it is listed.

    Args:
        issuer: The issuer.
        keys: Keys of the server.
        lifetime: Seconds for which a token is valid.
        clock: Returns the Unix time in seconds.
    """

    def __init__(self, issuer: str, keys: Keys, lifetime: float, clock: Clock = time.time) -> None:
        self._issuer = issuer
        self._keys = keys
        self.lifetime = lifetime
        self._clock = clock

    def issue(self, record: GrantRecord, audience: Collection[str], scopes: Collection[str]) -> str:
        """Issue a token of a grant. It is invalid once the grant has ended.

        Args:
            record: The grant.
            audience: Resources that the token is for.
            scopes: Granted scopes.
        """
        from joserfc import jwt

        now = self._clock()
        header, key = self._signing_keys[0]
        claims = {
            "iss": self._issuer,
            "sub": record.subject or record.client_id,
            "aud": list(audience) if len(audience) != 1 else next(iter(audience)),
            "iat": now,  # with fractions: a user whose access was revoked may log in again within the same second
            "exp": int(now + self.lifetime),
            "jti": base64url_encode(os.urandom(16)),
            "client_id": record.client_id,
            "scope": " ".join(scopes),
            "grant": record.id,
        }
        return jwt.encode(header, claims, key, algorithms=["ES256"])

    def read(self, token: str) -> dict[str, object]:
        """Verify a token of this issuer, and return its claims.

        Raises:
            InvalidTokenError: The token was not issued here, or has expired.
        """
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            match = _JWT.fullmatch(token)
            # Only a header that this class writes has a key.
            header = parse_json_object(base64url_decode(match[1]) or b"") if match else None
            key = next(key for known, key in self._signing_keys if known == header)
            claims = jwt.decode(token, key, algorithms=["ES256"]).claims
            if claims["iss"] != self._issuer:
                raise ValueError
        except (JoseError, ValueError, StopIteration):
            raise InvalidTokenError("the token was not issued by this authorization server") from None
        if self._clock() >= claims["exp"]:
            raise InvalidTokenError("the token has expired")
        return dict(claims)

    def key_set(self) -> dict[str, object]:
        """Return the public keys (RFC 7517, section 5).

        Raises:
            ImportError: The extra `auth` is not installed.
        """
        keys = [
            {**key.as_dict(private=False), "kid": header["kid"], "use": "sig", "alg": "ES256"}
            for header, key in self._signing_keys
        ]
        return {"keys": keys}

    @cached_property
    def _signing_keys(self) -> list[tuple[dict[str, str], ECKey]]:
        """Headers and keys, the newest first."""
        auth_library("joserfc.jwk")
        from cryptography.hazmat.primitives.asymmetric import ec
        from joserfc.jwk import ECKey

        found: list[tuple[dict[str, str], ECKey]] = []
        for material in self._keys.derive(_ACCESS):
            number = int.from_bytes(material, "big") % (_P256_ORDER - 1) + 1
            private = ec.derive_private_key(number, ec.SECP256R1())
            key = ECKey(private, private)
            found.append(({"alg": "ES256", "typ": "at+jwt", "kid": key.thumbprint()}, key))
        return found

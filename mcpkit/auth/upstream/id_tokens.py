"""Verification of ID tokens of an OpenID provider (OpenID Connect Core 1.0, 3.1.3.7)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final

from ..audiences import audiences_of
from ..base64url import encode
from ..claims import EXPIRED, NOT_YET, TIMES, times_of
from ..jws import Jws, read_token
from ..key_set import ALGORITHMS
from ..published_keys import PublishedKeys
from ..verifier import InvalidTokenError, VerifierUnavailableError
from .errors import UpstreamUnavailableError

_HASHES: Final = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512}
_HASH_OF_ED25519: Final = hashlib.sha512
"""The hash that Ed25519 itself uses, which `at_hash` goes by (RFC 8032, section 5.1)."""


class IdTokens:
    """Verifies the ID tokens of one provider for one client.

    Args:
        issuer: The provider.
        client_id: The client.
        keys: The provider's keys.
        leeway: Seconds by which clocks may differ.
        clock: The time in Unix seconds.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        keys: PublishedKeys,
        *,
        leeway: float,
        clock: Callable[[], float],
    ) -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._keys = keys
        self._leeway = leeway
        self._clock = clock

    async def verify(
        self, token: object, access_token: str, nonce: str | None = None
    ) -> Mapping[str, object]:
        """Verify an ID token, and return its claims.

        Args:
            token: The `id_token` of the token response.
            access_token: The access token of the same response.
            nonce: The nonce of the login; None for a refresh, whose ID token need not have one.

        Raises:
            UpstreamUnavailableError: The token is not valid for this login, or no keys are available.
        """
        try:
            if not isinstance(token, str):
                raise InvalidTokenError("the response has no id_token string")
            read = read_token(token)
            self._check(read, access_token, nonce)
            if not await self._keys.has_signed(read):
                raise InvalidTokenError("no key of the provider verifies its signature")
        except InvalidTokenError as error:
            is_late = str(error) in {EXPIRED, NOT_YET}
            hint = ", although it was just issued. Check the clock of this machine" if is_late else ""
            raise UpstreamUnavailableError(
                f"the ID token of {self._issuer} is invalid: {error}{hint}"
            ) from None
        except VerifierUnavailableError as error:
            raise UpstreamUnavailableError(str(error)) from None
        return read.claims

    async def aclose(self) -> None:
        """Cancel fetches of the running event loop."""
        await self._keys.aclose()

    def _check(self, token: Jws, access_token: str, nonce: str | None) -> None:
        """Check everything that needs no key: algorithm, type, issuer, audience, times, nonce and `at_hash`."""
        claims = token.claims
        if token.algorithm not in ALGORITHMS:
            raise InvalidTokenError(
                "its signature algorithm is not accepted (alg). Use RS256 at the provider"
            )
        if token.type not in {None, "jwt"}:
            raise InvalidTokenError("it has another type than JWT (typ)")
        if claims.get("iss") != self._issuer:
            raise InvalidTokenError("it has another issuer (iss)")
        audiences = audiences_of(claims.get("aud")) or []
        party = claims.get("azp")
        if self._client_id not in audiences or (len(audiences) > 1 and party is None):
            raise InvalidTokenError("it was issued to another client (aud)")
        if party is not None and party != self._client_id:
            raise InvalidTokenError("it was issued to another client (azp)")
        expires, issued = times_of(claims, self._clock(), self._leeway)
        if expires is None or issued is None:
            raise InvalidTokenError(TIMES)
        if nonce is not None and not _is_same(claims.get("nonce"), nonce):
            raise InvalidTokenError("it belongs to another login (nonce)")
        if "at_hash" in claims and not _is_same(claims["at_hash"], _half_hash(token.algorithm, access_token)):
            raise InvalidTokenError("it belongs to another access token (at_hash)")


def _half_hash(algorithm: str, access_token: str) -> str:
    """Return the left half of the hash of an access token, for `at_hash` (OpenID Connect Core 1.0, 3.1.3.6)."""
    digest = _HASHES.get(algorithm[-3:], _HASH_OF_ED25519)(access_token.encode("ascii")).digest()
    return encode(digest[: len(digest) // 2])


def _is_same(claim: object, expected: str) -> bool:
    return isinstance(claim, str) and hmac.compare_digest(claim.encode(), expected.encode())

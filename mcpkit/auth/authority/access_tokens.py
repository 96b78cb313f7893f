"""Access tokens of an authorization server: JWTs that every process with the same secret can verify."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING

from ...storage.encryption_keys import Keys
from ..base64url import decode, encode
from ..libraries import check_jose
from ..strict_json import read_object
from ..verifier import InvalidTokenError

if TYPE_CHECKING:
    from joserfc.jwk import ECKey

_PURPOSE = "OAuth access token"
_P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Number of points of the curve."""
_TOKEN = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
RESERVED = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "client_id", "scope", "grant"})
"""Claims with a fixed meaning. Other claims of a user are stored with the grant, not in the token."""


class AccessTokens:
    """Issues and verifies access tokens (RFC 9068; ES256).

    The keys are derived from the secret of the server, so nothing is stored. Tokens signed with a replaced secret stay
    valid while it is listed.

    Args:
        issuer: The issuer.
        keys: Keys of the server.
        lifetime: Seconds for which a token is valid.
        clock: Returns the Unix time in seconds.
    """

    def __init__(
        self, issuer: str, keys: Keys, lifetime: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._issuer = issuer
        self._keys = keys
        self.lifetime = lifetime
        self._clock = clock

    def issue(
        self,
        subject: str,
        client_id: str,
        audience: Collection[str],
        scopes: Collection[str],
        grant: str,
    ) -> str:
        """Issue a token.

        Args:
            subject: The user, or the client ID with the client credentials grant.
            client_id: Client that receives the token.
            audience: Resources that the token is for.
            scopes: Granted scopes.
            grant: ID of the grant. The token is invalid once the grant has ended.
        """
        from joserfc import jwt

        now = self._clock()
        header, key = self._signing[0]
        return jwt.encode(
            header,
            {
                "iss": self._issuer,
                "sub": subject,
                "aud": list(audience) if len(audience) != 1 else next(iter(audience)),
                "iat": now,  # with fractions: who is sent away may log in anew within the same second
                "exp": int(now + self.lifetime),
                "jti": encode(os.urandom(16)),
                "client_id": client_id,
                "scope": " ".join(scopes),
                "grant": grant,
            },
            key,
            algorithms=["ES256"],
        )

    def read(self, token: str) -> dict[str, object]:
        """Verify a token of this issuer, and return its claims.

        Raises:
            InvalidTokenError: The token was not issued here, or has expired.
        """
        from joserfc import jwt
        from joserfc.errors import JoseError

        key = self._key_of(token)
        if key is None:
            raise InvalidTokenError("the token was not issued by this authorization server")
        try:
            claims = jwt.decode(token, key, algorithms=["ES256"]).claims
        except (JoseError, ValueError):
            raise InvalidTokenError("the token was not issued by this authorization server") from None
        if claims["iss"] != self._issuer:
            raise InvalidTokenError("the token was not issued by this authorization server")
        if self._clock() >= claims["exp"]:
            raise InvalidTokenError("the token has expired")
        return dict(claims)

    def key_set(self) -> dict[str, object]:
        """Return the public keys (RFC 7517, section 5)."""
        return {
            "keys": [
                {**key.as_dict(private=False), "kid": header["kid"], "use": "sig", "alg": "ES256"}
                for header, key in self._signing
            ]
        }

    def _key_of(self, token: str) -> ECKey | None:
        """Return the key of a token by its header; None if the header is not one that this class writes."""
        match = _TOKEN.fullmatch(token)
        data = decode(match[1]) if match else None
        try:
            said = read_object(data) if data is not None else None
        except ValueError:
            return None
        return next((key for header, key in self._signing if header == said), None)

    @cached_property
    def _signing(self) -> list[tuple[dict[str, str], ECKey]]:
        """Headers and keys, the newest first."""
        keys = map(_key, self._keys.derive(_PURPOSE))
        return [({"alg": "ES256", "typ": "at+jwt", "kid": key.thumbprint()}, key) for key in keys]


def _key(material: bytes) -> ECKey:
    check_jose()
    from cryptography.hazmat.primitives.asymmetric import ec
    from joserfc.jwk import ECKey

    number = int.from_bytes(material, "big") % (_P256 - 1) + 1
    private = ec.derive_private_key(number, ec.SECP256R1())
    return ECKey(private, private)

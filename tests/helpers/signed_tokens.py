"""An issuer of tokens: its keys, and what it signs, as a provider would or as an attacker might."""

from __future__ import annotations

import base64
import json
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

ISSUER = "https://id.example.com"
AUDIENCE = "https://mcp.example.com/mcp"
NOW = 1_800_000_000.0

_KINDS = {"RS": RSAKey, "PS": RSAKey, "ES": ECKey, "Ed": OKPKey}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519", "Ed25519": "Ed25519"}


class Signer:
    """A key that signs tokens.

    Args:
        algorithm: How.
        key_id: Its name.
    """

    def __init__(self, algorithm: str = "ES256", key_id: str = "one") -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self.key: Any = _KINDS[algorithm[:2]].generate_key(_CURVES.get(algorithm, 2048))

    def public(self, **more: Any) -> dict[str, Any]:
        """Return its public key as the issuer publishes it; None leaves a member out."""
        members = {
            **self.key.as_dict(private=False),
            "kid": self.key_id,
            "alg": self.algorithm,
            "use": "sig",
            **more,
        }
        return {name: value for name, value in members.items() if value is not None}

    def token(self, claims: Any = None, header: dict[str, Any] | None = None, **changes: Any) -> str:
        """Return a token with what `claims_of` says, changed; None leaves a claim out, as it does in the header."""
        told = claims_of(**changes) if claims is None else claims
        return self.sign(told if isinstance(told, bytes) else json.dumps(told).encode(), header)

    def sign(self, payload: bytes, header: dict[str, Any] | bytes | None = None) -> str:
        """Return a token of bytes."""
        if not isinstance(header, bytes):
            members = {"alg": self.algorithm, "kid": self.key_id, "typ": "at+jwt", **(header or {})}
            header = json.dumps(
                {name: value for name, value in members.items() if value is not None}
            ).encode()
        signed = encoded(header) + b"." + encoded(payload)
        model = jws.JWSRegistry.algorithms[self.algorithm]
        return (signed + b"." + encoded(model.sign(signed, self.key))).decode()


def claims_of(**changes: Any) -> dict[str, Any]:
    """Return the claims of a good token, changed."""
    claims = {
        "iss": ISSUER,
        "sub": "ada",
        "aud": AUDIENCE,
        "exp": NOW + 600,
        "iat": NOW - 60,
        "client_id": "editor",
        "scope": "notes:read notes:write",
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not None}


def encoded(data: bytes) -> bytes:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")

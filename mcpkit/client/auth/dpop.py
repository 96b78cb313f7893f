"""DPoP: proofs of possession of the key that tokens are bound to (RFC 9449)."""

from __future__ import annotations

import re
import time
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlsplit

from ...auth.jws import base64url_encode
from ...auth.urls import origin
from ...auth.verifier import auth_library
from ...protocol.jsonrpc import Json

_ALGORITHM: Final = "ES256"
_PUBLIC: Final = ("crv", "kty", "x", "y")
"""The public members of a key, in the order of which RFC 7638 takes the thumbprint."""
_NONCE: Final = re.compile(r"[!#-\[\]-~]{1,1024}")
_MAX_ORIGINS: Final = 100


class Prover:
    """Makes DPoP proofs with one private key.

    Args:
        key: The private key, as a JWK, that tokens are bound to. None, or an invalid key, makes a new one; tokens bound
            to an invalid key cannot be used any more.

    Raises:
        ImportError: joserfc is not installed.
    """

    def __init__(self, key: Json | None = None) -> None:
        auth_library("joserfc.jwk")
        from joserfc.jwk import ECKey, generate_key, import_key

        private: ECKey | None = None
        members = key or {}
        if members.get("crv") == "P-256" and all(
            isinstance(members.get(name), str) for name in (*_PUBLIC, "d")
        ):
            try:
                private = import_key(members, "EC")
            except Exception:  # noqa: BLE001  # joserfc and cryptography raise many for an invalid key
                private = None
        self._key = private or generate_key("EC", "P-256")
        public = self._key.as_dict(private=False)
        self._public = {name: public[name] for name in _PUBLIC}
        self._nonces: dict[str, str] = {}

    @property
    def key(self) -> Json:
        """The private key, as a JWK, to store with the tokens."""
        return dict(self._key.as_dict(private=True))

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """Return a new proof for one request, the value of the header `DPoP` (section 4.2).

        Args:
            method: The HTTP method.
            url: The URL. Query and fragment are ignored.
            token: The access token of the request; None for the token endpoint.
        """
        from joserfc import jwt

        parts = urlsplit(url)
        claims: Json = {
            "jti": token_urlsafe(16),
            "htm": method,
            "htu": f"{parts.scheme}://{parts.netloc}{parts.path or '/'}",
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = base64url_encode(sha256(token.encode()).digest())
        if (nonce := self._nonces.get(origin(url))) is not None:
            claims["nonce"] = nonce
        header: Json = {"typ": "dpop+jwt", "alg": _ALGORITHM, "jwk": self._public}
        return jwt.encode(header, claims, self._key, algorithms=[_ALGORITHM])

    def set_nonce(self, url: str, nonce: str) -> None:
        """Store a nonce (`DPoP-Nonce`) for further proofs for the origin of a URL (sections 8 and 9).

        An invalid nonce is ignored.

        Args:
            url: A URL with that origin.
            nonce: The nonce.
        """
        if _NONCE.fullmatch(nonce) is None:
            return
        if len(self._nonces) >= _MAX_ORIGINS:
            self._nonces.clear()
        self._nonces[origin(url)] = nonce

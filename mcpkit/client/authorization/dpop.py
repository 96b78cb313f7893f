"""DPoP: proofs of possession of the key that tokens are bound to (RFC 9449)."""

from __future__ import annotations

import re
import time
from hashlib import sha256
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ...auth.jws import base64url_encode
from ...auth.urls import origin
from ...auth.verifier import auth_library
from ...protocol.jsonrpc import Json

if TYPE_CHECKING:
    from joserfc.jwk import ECKey

_ALGORITHM: Final = "ES256"
_NONCE: Final = re.compile(r"[!#-\[\]-~]{1,1024}")
_MOST_ORIGINS: Final = 100


class Proofs:
    """Makes DPoP proofs with one private key.

    Args:
        key: The private key, as a JWK, that tokens are bound to. None, or an invalid key, makes a new one; tokens bound
            to an invalid key cannot be used any more.

    Raises:
        ImportError: joserfc is not installed.
    """

    def __init__(self, key: Json | None = None) -> None:
        auth_library("joserfc.jwk")
        self._key = (None if key is None else _read(key)) or _made()
        # In this order it is the text of which RFC 7638 takes the thumbprint; only what it takes is shown of the key.
        self._public = {
            name: value
            for name, value in self._key.as_dict(private=False).items()
            if name in {"crv", "kty", "x", "y"}
        }
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
        """Store a nonce for further proofs for the origin of a URL (sections 8 and 9).

        An invalid nonce is ignored.
        """
        if _NONCE.fullmatch(nonce) is None:
            return
        if len(self._nonces) >= _MOST_ORIGINS:
            self._nonces.clear()
        self._nonces[origin(url)] = nonce


def _made() -> ECKey:
    from joserfc.jwk import generate_key

    return generate_key("EC", "P-256")


def _read(key: Json) -> ECKey | None:
    from joserfc.jwk import import_key

    if (
        not all(isinstance(key.get(name), str) for name in ("kty", "crv", "x", "y", "d"))
        or key["crv"] != "P-256"
    ):
        return None
    try:
        return import_key(key, "EC")
    except Exception:  # noqa: BLE001  # joserfc and cryptography raise many for what is no key
        return None

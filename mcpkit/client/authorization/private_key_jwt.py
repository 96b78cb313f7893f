"""Client authentication by an assertion, signed by the client or by another issuer (RFC 7523, section 2.2)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, Literal

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.verifier import auth_library
from ...protocol.jsonrpc import Json
from .errors import AuthorizationFailedError
from .presented import Presented
from .roles import TokenRequest

if TYPE_CHECKING:
    from joserfc.jwk import Key

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

_KINDS: Final[tuple[Literal["EC", "RSA", "OKP"], ...]] = ("EC", "RSA", "OKP")
_SECONDS: Final = 300
"""Seconds for which an assertion is valid, with a margin for clock differences."""
_ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("RS256", "PS256", "RS384", "PS384", "RS512", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
}
"""Algorithms of keys, the usual ones first."""
_NO_KEY: Final = (
    "private_key= must be an unencrypted private key: the text of a PEM file, its path as a pathlib.Path, or a JWK."
    " Supported are RSA, P-256, P-384, P-521 and Ed25519"
)


class SigningKey:
    """A private key that signs assertions.

    Args:
        key: The text of a PEM file, the file's path, or a JWK.
        algorithm: The algorithm, such as `ES256`. None takes one that suits the key and the authorization server.
        key_id: The `kid` of the key. None takes that of the JWK, if it has one.

    Raises:
        ImportError: joserfc is not installed.
        OSError: The file cannot be read.
        ValueError: It is not a private key, or does not suit the algorithm.
    """

    def __init__(
        self, key: str | Path | Json, algorithm: str | None = None, key_id: str | None = None
    ) -> None:
        given: str | Json = key.read_text("utf-8") if isinstance(key, Path) else key
        self._key = _read(given)
        kind = (
            self._key.key_type
            if self._key.key_type == "RSA"
            else str(self._key.as_dict(private=False)["crv"])
        )
        can = _ALGORITHMS.get(kind)
        if can is None:
            raise ValueError(_NO_KEY)
        if algorithm is not None and algorithm not in can:
            raise ValueError(f"algorithm={algorithm!r} does not fit a {kind} key. Use {' or '.join(can)}")
        self._can = can if algorithm is None else (algorithm,)
        named = given.get("kid") if isinstance(given, Mapping) else None
        self._key_id = str(named) if key_id is None and named is not None else key_id

    def signed(self, claims: Json, taken: tuple[str, ...] | None) -> str:
        """Return claims as a signed JWT.

        Args:
            claims: The claims.
            taken: The algorithms that the recipient accepts; None if it announces none.

        Raises:
            AuthorizationFailedError: The recipient accepts no algorithm of this key.
        """
        from joserfc import jwt

        algorithm = next((name for name in self._can if taken is None or name in taken), None)
        if algorithm is None:
            raise AuthorizationFailedError(
                f"the authorization server accepts client assertions signed with {', '.join(taken or ())[:200]}, but"
                f" private_key= can only sign with {' or '.join(self._can)}. Use a key of another kind"
            )
        header = {"typ": "JWT", "alg": algorithm} | ({} if self._key_id is None else {"kid": self._key_id})
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of EdDSA, which joserfc would rather have called Ed25519: few know that
            return jwt.encode(header, claims, self._key, algorithms=[algorithm])


class PrivateKeyJwt:
    """Authenticates a client by signed assertions (`private_key_jwt`).

    Args:
        client_id: The client id.
        key: The private key.
        audience: The `aud` of assertions. None takes the issuer of the authorization server, as the specification
            requires. Some servers require the URL of their token endpoint.
    """

    def __init__(self, client_id: str, key: SigningKey, audience: str | None = None) -> None:
        self.client_id = client_id
        self._key = key
        self._audience = audience

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add an assertion to the form. It is valid once and for a few minutes."""
        now = int(time.time())
        claims: Json = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self._audience or server.issuer,
            "jti": token_urlsafe(24),
            "iat": now,
            "exp": now + _SECONDS,
        }
        taken = server.strings("token_endpoint_auth_signing_alg_values_supported")
        _add(request, self.client_id, self._key.signed(claims, taken))


class ForeignAssertion:
    """Authenticates a client by an assertion of another issuer, such as the platform that it runs on.

    Args:
        client_id: The client id.
        assertion: The JWT, which may change.
    """

    def __init__(self, client_id: str, assertion: Presented) -> None:
        self.client_id = client_id
        self._assertion = assertion

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add the assertion to the form."""
        _add(request, self.client_id, await self._assertion.value())


def _add(request: TokenRequest, client_id: str, assertion: str) -> None:
    # The assertion says the id, too; there are authorization servers that look for it in the form (RFC 7521, 4.2).
    request.form["client_id"] = client_id
    request.form["client_assertion_type"] = ASSERTION_TYPE
    request.form["client_assertion"] = assertion


def _read(given: str | Json) -> Key:
    auth_library("joserfc.jwk")
    from joserfc.jwk import import_key

    for kind in _KINDS:
        try:
            key = import_key(given, kind)
        except Exception:  # noqa: BLE001  # joserfc and cryptography raise many for what is no key of a kind
            continue
        if key.is_private:
            return key
    raise ValueError(_NO_KEY)

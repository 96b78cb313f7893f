"""Public keys of an issuer, and verification of signatures (RFC 7517). joserfc is imported on use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from .libraries import check_jose
from .strict_json import items_in, members_in, several_of

if TYPE_CHECKING:
    from joserfc.jwk import Key

    from .jws import Jws

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""Asymmetric signature algorithms: no HMAC, and never `none` (RFC 7518, 3.1; RFC 9864)."""

MOST_KEYS = 100
"""Maximum keys of one issuer. Large providers have ten."""
MOST_TRIED = 8
"""Maximum keys tried for a token without a key ID, or with an ambiguous one."""

_RSA_BITS = 2048
_MOST_RSA_BITS = 8192
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA", "Ed25519"}),
}
_NAMED: Final = ("kty", "crv", "x", "y", "n", "e")
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


class PublicKey(NamedTuple):
    """A key that verifies signatures.

    Attributes:
        key_id: The key ID; None if missing.
        algorithms: Algorithms that the type and `alg` of the key allow.
        key: The key.
        parts: The public parameters, for comparison.
    """

    key_id: str | None
    algorithms: frozenset[str]
    key: Key
    parts: frozenset[tuple[str, object]]


class KeySet:
    """The keys of one issuer.

    Args:
        keys: The keys.
    """

    def __init__(self, keys: Sequence[PublicKey]) -> None:
        self._keys = tuple(keys)
        self._told_by = frozenset((each.key_id, each.algorithms, each.parts) for each in keys)

    def __eq__(self, other: object) -> bool:
        """Return True if both sets contain the same keys."""
        return isinstance(other, KeySet) and self._told_by == other._told_by

    def __hash__(self) -> int:
        """Return a hash of the keys."""
        return hash(self._told_by)

    def fitting(self, token: Jws) -> list[PublicKey]:
        """Return the keys that fit a token by type, algorithm and, if both have one, key ID."""
        return [
            each
            for each in self._keys
            if (token.key_id is None or each.key_id in {None, token.key_id})
            and token.algorithm in each.algorithms
        ]

    def knows(self, token: Jws) -> bool:
        """Return True if a key has the key ID of the token, or the token has none."""
        return token.key_id is None or any(each.key_id == token.key_id for each in self._keys)

    def has_signed(self, token: Jws) -> bool:
        """Return True if one of the keys verifies the signature of a token."""
        return any(_verifies(each.key, token) for each in self.fitting(token)[:MOST_TRIED])


def read_keys(document: Mapping[str, object]) -> list[PublicKey]:
    """Return the usable keys of a JWK Set. Others are ignored (RFC 7517, section 5).

    Raises:
        ValueError: The set has no usable key, or too many keys.
        ImportError: joserfc is not installed.
    """
    listed = items_in(document.get("keys"))
    if listed is None:
        raise ValueError("a JWK Set must have a list `keys`")
    if len(listed) > MOST_KEYS:
        raise ValueError(f"more than {MOST_KEYS} keys")
    read = (_read(each) for each in map(members_in, listed) if each is not None)
    keys = [each for each in read if each is not None]
    if not keys:
        raise ValueError("no key that can verify a signature")
    return keys


def given_keys(given: object) -> KeySet:
    """Return the keys of the option `keys`: a JWK Set, a JWK, a PEM, or a list of these.

    Raises:
        TypeError: A value has another type.
        ValueError: A value has no usable public key, or contains a private key.
        ImportError: joserfc is not installed.
    """
    keys: list[PublicKey] = []
    for each in several_of(given):
        if isinstance(each, str | bytes):
            keys.append(_from_pem(each))
        elif (members := members_in(each)) is not None:
            several = members.get("keys", [members])
            for one in items_in(several) or ():
                if not _PRIVATE.isdisjoint(members_in(one) or ()):
                    raise ValueError("keys= contains a private or secret key. Pass the issuer's public key")
            keys += read_keys({"keys": several})
        else:
            raise TypeError(
                f"keys= must be a JWK Set, a JWK, a PEM string, or a list of those, got {type(each).__name__}"
            )
    if not keys:
        raise ValueError("keys= contains no key")
    return KeySet(keys)


def check_algorithms(algorithms: Collection[str]) -> frozenset[str]:
    """Check the option `algorithms`, and return it as a set.

    Raises:
        TypeError: The option is not a list of strings.
        ValueError: The list is empty, or contains an unsupported algorithm.
    """
    if isinstance(algorithms, str) or not isinstance(algorithms, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
        raise TypeError(f'algorithms must be a list such as ["RS256"], got {algorithms!r}')
    others = [each for each in algorithms if each not in ALGORITHMS]
    if others or not algorithms:
        wrong = f"{others[0]!r} is not supported" if others else "the list is empty"
        raise ValueError(f"algorithms: {wrong}. Choose asymmetric ones among {', '.join(ALGORITHMS)}")
    return frozenset(algorithms)


def _read(members: dict[str, object]) -> PublicKey | None:
    """Return a key of a JWK Set; None if it is not for signatures, not supported, or not safe."""
    if members.get("use", "sig") != "sig" or not _PRIVATE.isdisjoint(members):
        return None
    if "verify" not in (items_in(members.get("key_ops", ["verify"])) or ()):
        return None
    parts: dict[str, str | list[str]] = {
        name: part for name in _NAMED if isinstance(part := members.get(name), str)
    }
    check_jose()
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    try:
        key = import_key(parts) if _is_strong(parts) else None
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return None if key is None else _of(key, members.get("kid"), members.get("alg"))


def _is_strong(parts: Mapping[str, object]) -> bool:
    """Return True for keys on curves, and for RSA keys of allowed length (at least as in RFC 7518, 3.3)."""
    if parts.get("kty") != "RSA":
        return True
    from joserfc.util import urlsafe_b64decode

    modulus = int.from_bytes(urlsafe_b64decode(str(parts.get("n", "")).encode()), "big")
    return _RSA_BITS <= modulus.bit_length() <= _MOST_RSA_BITS


def _of(key: Key, key_id: object, own: object) -> PublicKey | None:
    kind = (key.key_type, str(key.get("crv")))
    algorithms = _RSA if key.key_type == "RSA" else _CURVES.get(kind, frozenset())
    if own is not None:
        algorithms &= {own}
    if not algorithms or not (key_id is None or isinstance(key_id, str)):
        return None
    return PublicKey(key_id, algorithms, key, frozenset((name, key.get(name)) for name in _NAMED))


def _from_pem(pem: str | bytes) -> PublicKey:
    check_jose()
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    for kind in ("RSA", "EC", "OKP"):
        try:
            key = JWKRegistry.import_key(pem, kind)
        except (JoseError, ValueError, TypeError):
            continue
        if key.is_private:
            raise ValueError("keys= contains a private key. Pass the public key")
        found = _of(key, None, None) if _is_strong(dict(key.as_dict())) else None
        if found is not None:
            return found
    raise ValueError(
        "keys= contains a string that is not a PEM public key (-----BEGIN PUBLIC KEY-----). Supported are RSA with at "
        "least 2,048 bits, P-256, P-384, P-521 and Ed25519"
    )


def _verifies(key: Key, token: Jws) -> bool:
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    try:
        return JWSRegistry.algorithms[token.algorithm].verify(token.signed, token.signature, key)
    except (JoseError, ValueError, TypeError):
        return False

"""Signed tokens (JWS, RFC 7515) and the keys that verify them (JWK, RFC 7517). joserfc is imported on use.

A token is parsed here, so that it has one reading only: one text for the same bytes, no member twice, no unknown
critical header. joserfc, on cryptography, reads the keys and verifies the signatures.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from .._utils.exceptions import ProtocolError
from ..protocol.jsonrpc import BYTE_ORDER_MARK, decode, is_array, is_object
from .verifier import InvalidTokenError, auth_library

if TYPE_CHECKING:
    from joserfc.jwk import Key

MAX_TOKEN = 16 * 1024
"""Maximum characters of a token. Tokens of large directories have 8,000."""
MAX_KEY_ID = 512
"""Maximum characters of a key ID."""
MAX_KEYS = 100
"""Maximum keys of one issuer. Large providers have ten."""
MAX_KEYS_TRIED = 8
"""Maximum keys tried for a token without a key ID, or with an ambiguous one."""

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"
)  # fmt: skip
"""Asymmetric signature algorithms: no HMAC, and never `none` (RFC 7518, 3.1; RFC 9864)."""

_MIN_RSA_BITS = 2048
_MAX_RSA_BITS = 8192
_RSA_ALGORITHMS: Final = frozenset(each for each in ALGORITHMS if each[:2] in {"RS", "PS"})
_CURVE_ALGORITHMS: Final = {
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA", "Ed25519"}),
}
_PUBLIC_MEMBERS: Final = ("kty", "crv", "x", "y", "n", "e")
_PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


# Encodings


def base64url_encode(data: bytes) -> str:
    """Encode bytes as base64url without padding (RFC 7515, section 2)."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def base64url_decode(text: str) -> bytes | None:
    """Decode base64url without padding; None if the text is not base64url, or not in its canonical form."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if base64url_encode(data) == text else None


def parse_json_object(data: bytes) -> dict[str, object]:
    """Parse a JSON object strictly.

    Args:
        data: The text, of bounded length.

    Raises:
        ValueError: The text is not a JSON object in UTF-8, is nested too deeply, contains values outside JSON, begins
            with a byte order mark, or has a duplicate member. The message contains nothing of the text.
    """

    def check_members(members: list[tuple[str, object]]) -> None:
        if len({name for name, _ in members}) < len(members):
            raise ValueError("duplicate member")

    try:
        if data.startswith(BYTE_ORDER_MARK):  # which `decode` ignores
            raise ValueError
        value = decode(data)
        json.loads(data, object_pairs_hook=check_members)
    except (ProtocolError, ValueError, RecursionError):
        raise ValueError("not a valid JSON object") from None
    if not is_object(value):
        raise ValueError("not a JSON object")
    return value


def as_list(value: object) -> list[object]:
    """Return the items of a list, tuple or set; any other value as the only item."""
    if isinstance(value, list | tuple | set | frozenset):
        return [*value]  # pyright: ignore[reportUnknownVariableType]  # it is of objects
    return [value]


# Tokens


class Jws(NamedTuple):
    """A parsed token with an unverified signature. Its contents are not trusted yet.

    Attributes:
        algorithm: Signature algorithm (`alg`).
        key_id: Key ID (`kid`); None if missing.
        type: Token type (`typ`) in lower case, without `application/`; None if missing.
        claims: The claims.
        signed: The signed bytes.
        signature: The signature.
    """

    algorithm: str
    key_id: str | None
    type: str | None
    claims: dict[str, object]
    signed: bytes
    signature: bytes


def parse_jws(token: str) -> Jws:
    """Parse a token in compact serialization.

    Raises:
        InvalidTokenError: The token is not a signed JWT.
    """
    if len(token) > MAX_TOKEN:
        raise InvalidTokenError("the token is too long")
    segments = token.split(".") if token.isascii() else []
    if len(segments) == 5:
        raise InvalidTokenError("the token is encrypted, but only signed tokens are accepted")
    decoded = [base64url_decode(segment) for segment in segments]
    try:
        header_part, claims_part, signature = decoded
        if not header_part or not claims_part or not signature:
            raise ValueError
        header, claims = parse_json_object(header_part), parse_json_object(claims_part)
    except ValueError:
        raise InvalidTokenError("the token is not a signed JWT") from None
    if "crit" in header or "b64" in header:
        raise InvalidTokenError("the token has an unknown critical header (crit)")
    algorithm, key_id, type_ = header.get("alg"), header.get("kid", ""), header.get("typ", "")
    if isinstance(key_id, str) and len(key_id) > MAX_KEY_ID:
        key_id = None
    if not (isinstance(algorithm, str) and isinstance(key_id, str) and isinstance(type_, str)):
        raise InvalidTokenError("the header of the token is malformed (alg, kid, typ)")
    return Jws(
        algorithm,
        key_id if "kid" in header else None,
        type_.lower().removeprefix("application/") if "typ" in header else None,
        claims,
        token.rpartition(".")[0].encode("ascii"),
        signature,
    )


# Keys


class PublicKey(NamedTuple):
    """A key that verifies signatures.

    Attributes:
        key_id: The key ID; None if missing.
        algorithms: Algorithms that the type and `alg` of the key allow.
        key: The key.
    """

    key_id: str | None
    algorithms: frozenset[str]
    key: Key


class KeySet:
    """The keys of one issuer.

    Args:
        keys: The keys.

    Attributes:
        identity: Equal for two sets of the same keys.
    """

    def __init__(self, keys: Sequence[PublicKey]) -> None:
        self._keys = tuple(keys)
        self.identity = frozenset((each.key_id, each.algorithms, each.key.thumbprint()) for each in keys)

    def has_key_of(self, token: Jws) -> bool:
        """Return True if a key has the key ID of the token, or the token has none."""
        return token.key_id is None or any(each.key_id == token.key_id for each in self._keys)

    def verifies(self, token: Jws) -> bool:
        """Return True if one of the keys verifies the signature of a token."""
        candidates = [
            each
            for each in self._keys
            if (token.key_id is None or each.key_id in {None, token.key_id})
            and token.algorithm in each.algorithms
        ]
        if not candidates:
            return False
        from joserfc.errors import JoseError
        from joserfc.jws import JWSRegistry

        algorithm = JWSRegistry.algorithms[token.algorithm]
        for candidate in candidates[:MAX_KEYS_TRIED]:
            try:
                if algorithm.verify(token.signed, token.signature, candidate.key):
                    return True
            except (JoseError, ValueError, TypeError):
                continue
        return False


def read_jwk_set(document: Mapping[str, object]) -> KeySet:
    """Return the usable keys of a JWK Set. Others are ignored (RFC 7517, section 5).

    Raises:
        ValueError: The set has no usable key, or too many keys.
        ImportError: joserfc is not installed.
    """
    return KeySet(_read_jwks(document.get("keys")))


def configured_keys(option: object) -> KeySet:
    """Return the keys of the option `keys`: a JWK Set, a JWK, a PEM, or a list of these.

    Raises:
        TypeError: A value has another type.
        ValueError: A value has no usable public key, or contains a private key.
        ImportError: joserfc is not installed.
    """
    keys: list[PublicKey] = []
    for each in as_list(option):
        if isinstance(each, str | bytes):
            keys.append(_read_pem(each))
        elif is_object(each):
            jwks = each.get("keys", [each])
            for jwk in jwks if is_array(jwks) else ():
                if is_object(jwk) and not _PRIVATE_MEMBERS.isdisjoint(jwk):
                    raise ValueError("keys= contains a private or secret key. Pass the issuer's public key")
            keys += _read_jwks(jwks)
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


def _read_jwks(jwks: object) -> list[PublicKey]:
    if not is_array(jwks):
        raise ValueError("a JWK Set must have a list `keys`")
    if len(jwks) > MAX_KEYS:
        raise ValueError(f"more than {MAX_KEYS} keys")
    keys = [key for jwk in jwks if is_object(jwk) and (key := _read_jwk(jwk)) is not None]
    if not keys:
        raise ValueError("no key that can verify a signature")
    return keys


def _read_jwk(jwk: Mapping[str, object]) -> PublicKey | None:
    """Return a key of a JWK Set; None if it is not for signatures, not supported, or not safe."""
    operations = jwk.get("key_ops", ["verify"])
    if (
        jwk.get("use", "sig") != "sig"
        or not (is_array(operations) and "verify" in operations)
        or not _PRIVATE_MEMBERS.isdisjoint(jwk)
    ):
        return None
    auth_library("joserfc.jwk")
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    members: dict[str, str | list[str]] = {
        name: value for name in _PUBLIC_MEMBERS if isinstance(value := jwk.get(name), str)
    }
    try:
        # The size is checked first, because the import of a huge key takes long.
        if members.get("kty") == "RSA" and not _is_safe_modulus(members.get("n")):
            return None
        return _usable_key(import_key(members), jwk.get("kid"), jwk.get("alg"))
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _read_pem(pem: str | bytes) -> PublicKey:
    auth_library("joserfc.jwk")
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    for kind in ("RSA", "EC", "OKP"):
        try:
            key = JWKRegistry.import_key(pem, kind)
        except (JoseError, ValueError, TypeError):
            continue
        if key.is_private:
            raise ValueError("keys= contains a private key. Pass the public key")
        if kind != "RSA" or _is_safe_modulus(key.get("n")):
            usable = _usable_key(key, None, None)
            if usable is not None:
                return usable
    raise ValueError(
        "keys= contains a string that is not a PEM public key (-----BEGIN PUBLIC KEY-----). Supported are RSA with at "
        "least 2,048 bits, P-256, P-384, P-521 and Ed25519"
    )


def _is_safe_modulus(modulus: object) -> bool:
    """Return True if an RSA key is neither weak (RFC 7518, 3.3) nor so large that verification takes long."""
    from joserfc.util import urlsafe_b64decode

    number = int.from_bytes(urlsafe_b64decode(str(modulus or "").encode()), "big")
    return _MIN_RSA_BITS <= number.bit_length() <= _MAX_RSA_BITS


def _usable_key(key: Key, key_id: object, algorithm: object) -> PublicKey | None:
    """Return a key with the algorithms that its type and its `alg` allow; None if there are none."""
    if key.key_type == "RSA":
        algorithms = _RSA_ALGORITHMS
    else:
        algorithms = _CURVE_ALGORITHMS.get((key.key_type, str(key.get("crv"))), frozenset())
    if algorithm is not None:
        algorithms &= {algorithm}
    if not algorithms or not (key_id is None or isinstance(key_id, str)):
        return None
    return PublicKey(key_id, algorithms, key)

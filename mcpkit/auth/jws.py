"""Parsing of signed tokens before verification (RFC 7515, compact serialization)."""

from __future__ import annotations

from typing import NamedTuple

from .base64url import decode
from .strict_json import read_object
from .verifier import InvalidTokenError

MAX_TOKEN = 16 * 1024
"""Maximum characters of a token. Tokens of large directories have 8,000."""
MAX_KEY_ID = 512
"""Maximum characters of a key ID."""

_NO_TOKEN = "the token is not a signed JWT"
_TOO_LONG = "the token is too long"
_ENCRYPTED = "the token is encrypted, but only signed tokens are accepted"
_CRITICAL = "the token has an unknown critical header (crit)"
_HEADER = "the header of the token is malformed (alg, kid, typ)"


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


def read_token(token: str) -> Jws:
    """Parse a token.

    Raises:
        InvalidTokenError: The token is not a signed JWT.
    """
    if len(token) > MAX_TOKEN:
        raise InvalidTokenError(_TOO_LONG)
    if not token.isascii():
        raise InvalidTokenError(_NO_TOKEN)
    segments = token.split(".")
    if len(segments) != 3:
        raise InvalidTokenError(_ENCRYPTED if len(segments) == 5 else _NO_TOKEN)
    header, claims = (_object(segment) for segment in segments[:2])
    signature = _decoded(segments[2])
    if "crit" in header or "b64" in header:
        raise InvalidTokenError(_CRITICAL)
    algorithm, key_id, type_ = header.get("alg"), header.get("kid"), header.get("typ")
    if (
        not isinstance(algorithm, str)
        or not (key_id is None or (isinstance(key_id, str) and len(key_id) <= MAX_KEY_ID))
        or not (type_ is None or isinstance(type_, str))
        or not {"kid", "typ"}.isdisjoint(name for name, value in header.items() if value is None)
    ):
        raise InvalidTokenError(_HEADER)
    shown = None if type_ is None else type_.lower().removeprefix("application/")
    return Jws(algorithm, key_id, shown, claims, token.rpartition(".")[0].encode("ascii"), signature)


def _object(segment: str) -> dict[str, object]:
    try:
        return read_object(_decoded(segment))
    except ValueError:
        raise InvalidTokenError(_NO_TOKEN) from None


def _decoded(segment: str) -> bytes:
    data = decode(segment)
    if not data:
        raise InvalidTokenError(_NO_TOKEN)
    return data

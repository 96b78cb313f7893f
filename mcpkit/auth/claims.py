"""Claims of access tokens, and their checks (RFC 9068, RFC 7519)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Final

from ..identity.principal import Principal, client, user
from .strict_json import items_in, several_of
from .texts import texts_in
from .verifier import InvalidTokenError

MAX_NAME = 1_000
"""Maximum characters of a subject or client ID in a token."""
MAX_CLAIM = 1_024
"""Maximum characters of a claim, as JSON, that is kept without being listed in `claims`."""
MOST_SCOPES = 1_000
"""Maximum number of scopes of a token."""

OF_ID_TOKENS: Final = frozenset({"at_hash", "c_hash", "s_hash", "nonce"})
"""Claims that only ID tokens have (OpenID Connect Core 1.0, 2, 3.3.2.11; FAPI 1.0 part 2)."""

_NAME = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")  # what a description may hold (RFC 6750, section 3)
_LONGEST_TIME = 253_402_300_799.0  # the last second of the year 9999
_OWN: Final = frozenset(
    {"iss", "aud", "exp", "nbf", "iat", "cnf"}
)  # said by the grant, or by nothing that outlives the check

EXPIRED: Final = "the token has expired"
NOT_YET: Final = "the token is not valid yet"
TIMES: Final = "exp, nbf or iat of the token is missing or not a valid time"
ISSUER: Final = "the token has another issuer (iss)"
ISSUER_ADVICE: Final = "its `iss` must equal %s byte for byte, as configured in auth="
ID_TOKEN: Final = "the token is an ID token, not an access token"
NOBODY: Final = "the token has neither sub nor client_id"
SCOPES: Final = "the scopes of the token are malformed"
BOUND: Final = "the token is bound to a key of its client (cnf), which a bearer request does not prove"
BOUND_ADVICE: Final = (
    "this server accepts bearer tokens only, because anyone could send a bound token without its key. Configure the"
    " issuer to issue tokens for this server that are not bound to a key or certificate (DPoP, mTLS)"
)


def times_of(claims: Mapping[str, object], now: float, leeway: float) -> tuple[float | None, float | None]:
    """Check the period of validity of a token, and return its expiry and time of issue in Unix seconds.

    The expiry includes the leeway.

    Args:
        claims: Claims of the token.
        now: Current Unix time in seconds.
        leeway: Tolerance for clock differences, in seconds.

    Raises:
        InvalidTokenError: The token has expired, or is not valid yet.
    """
    expires, not_before, issued = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if expires is not None:
        expires += leeway
        if now >= expires:
            raise InvalidTokenError(EXPIRED)
    if any(begins is not None and now < begins - leeway for begins in (not_before, issued)):
        advice = (
            f"the clocks of this machine and the issuer differ by more than {leeway:g} s."
            " Correct them, or raise leeway="
        )
        raise InvalidTokenError(NOT_YET, advice=advice)
    return expires, issued


def scopes_of(claims: Mapping[str, object], names: Collection[str]) -> frozenset[str]:
    """Return the scopes in some claims, each a space-separated string or a list of strings.

    Raises:
        InvalidTokenError: A claim has another form.
    """
    found: set[str] = set()
    for name in names:
        value = claims.get(name)
        if value is None:
            continue
        listed = value.split(" ") if isinstance(value, str) else items_in(value)
        if listed is None or len(listed) > MOST_SCOPES:
            raise InvalidTokenError(SCOPES)
        texts = [each for each in listed if isinstance(each, str)]
        if len(texts) < len(listed):
            raise InvalidTokenError(SCOPES)
        found.update(filter(None, texts))
    return frozenset(found)


def name_in(claims: Mapping[str, object], *names: str) -> str | None:
    """Return the first of some claims that is present; None if none is.

    Raises:
        InvalidTokenError: The claim is not a string, is empty, or is too long.
    """
    for name in names:
        value = claims.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
            raise InvalidTokenError(NOBODY)
        return value
    return None


def principal_of(
    issuer: str,
    subject: str | None,
    client_id: str | None,
    scopes: Collection[str],
    claims: Mapping[str, object],
) -> Principal:
    """Return the principal of a token: the user, or the client if the subject is missing or equal to it (RFC 9068, 5).

    Raises:
        InvalidTokenError: The token has neither a subject nor a client ID.
    """
    if subject is not None and subject != client_id:
        return user(issuer, subject, scopes, client_id=client_id, claims=claims)
    if client_id is None:
        raise InvalidTokenError(NOBODY)
    return client(issuer, client_id, scopes, claims=claims)


def check_unbound(claims: Mapping[str, object]) -> None:
    """Check that a token is a plain bearer token, and not bound to a key of its client (RFC 7800, 3.1).

    A bound token must come with a proof of possession: with the header `DPoP` (RFC 9449, 7.1), or over a TLS connection
    with the certificate of the client (RFC 8705, 3). Accepted without one, a stolen token would be worth as much as if
    it were not bound.

    Args:
        claims: Claims of the token, or members of its introspection response.

    Raises:
        InvalidTokenError: The token is bound to a key.
    """
    if claims.get("cnf") is not None:
        raise InvalidTokenError(BOUND, advice=BOUND_ADVICE)


def kept_claims(claims: Mapping[str, object], wanted: Collection[str]) -> dict[str, object]:
    """Return the claims to keep with a principal: the listed ones, and others that are small."""
    return {
        name: value
        for name, value in claims.items()
        if name in wanted or (name not in _OWN and len(name) <= MAX_NAME and _is_small(value))
    }


def checked_requirements(required: object) -> Mapping[str, object]:
    """Check the option `required`, and return it as a mapping of claim names to required values.

    Raises:
        TypeError: The option is neither a mapping nor a list of strings.
        ValueError: A claim name contains characters that an error description cannot have.
    """
    found: dict[str, object] = {}
    for name in texts_in("required", required, or_else="a mapping of claims to values, or "):
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"required: claim names must be visible ASCII without quotes and backslashes, got {name!r}"
            )
        found[name] = required[name] if isinstance(required, Mapping) else None
    return found


def check_required(claims: Mapping[str, object], required: Mapping[str, object]) -> None:
    """Check that a token has the required claims.

    Args:
        claims: Claims of the token.
        required: Required value by claim name, or a list of alternatives; None accepts any value. A claim that is a
            list needs one matching item.

    Raises:
        InvalidTokenError: A required claim is missing or has another value.
    """
    for name, wanted in required.items():
        value = claims.get(name)
        is_met = any(
            type(one) is type(other) and one == other
            for one in several_of(value)
            for other in several_of(wanted)
        )
        if value is None or not (is_met or wanted is None):
            raise InvalidTokenError(f"the claim {name} is missing or lacks a value that this server requires")


def _time(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        if name in claims:
            raise InvalidTokenError(TIMES)
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LONGEST_TIME:
        raise InvalidTokenError(TIMES)
    return float(value)


def _is_small(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CLAIM
    return not isinstance(value, list | dict) or len(json.dumps(value)) <= MAX_CLAIM

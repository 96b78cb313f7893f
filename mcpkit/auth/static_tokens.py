"""Tokens that the author gives out: for machines, and for development."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection, Mapping
from typing import Final

from ..state.principal import Principal
from .texts import texts_in
from .verifier import AccessToken, InvalidTokenError, ProtectedResource, TokenVerifier

_BITS = 128
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What can stand behind `Bearer` (RFC 6750, section 2.1)."""
_ALPHABETS: Final = (("0123456789", 3.32), ("0123456789abcdefABCDEF", 4.0))
_FEWEST = 8  # different characters: a random token of 128 bits has more
_MAKE: Final = 'python -c "from mcpkit.auth import StaticTokens; print(*StaticTokens.make())"'

logger = logging.getLogger(__name__)


class StaticTokens(TokenVerifier):
    """Verifies tokens that the author gives out: `Server("notes", auth=StaticTokens({os.environ["TOKEN"]: "backup"}))`.

    They are for machines, and for development: no client can get one by itself, and each holds until the server is
    started without it. Only their hashes are kept.

    `StaticTokens.make()` makes one, and its hash: `python -c "from mcpkit.auth import StaticTokens;
    print(*StaticTokens.make())"`.

    Args:
        tokens: By token whose it is: a `Principal`, the id of one, or an id and its scopes. In place of the token its
            hash may stand, as `sha256:` and 64 digits.

    Raises:
        TypeError: The mapping holds something else.
        ValueError: There is no token, one is too short to be random, or two are one.
    """

    def __init__(self, tokens: Mapping[str, Principal | str | tuple[str, Collection[str]]]) -> None:
        if not isinstance(tokens, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(
                "StaticTokens: tokens must be a mapping of tokens to principals or their ids, not"
                f" {type(tokens).__name__}"
            )
        if not tokens:
            raise ValueError(f"StaticTokens({{}}) has no token. Make one with: {_MAKE}")
        grants = [(_digest_of(token), AccessToken(_principal(given))) for token, given in tokens.items()]
        if len({digest for digest, _ in grants}) < len(grants):
            raise ValueError(
                "StaticTokens: a token occurs twice, in plain text and as its hash. Remove one of them"
            )
        self._grants = tuple(grants)

    @staticmethod
    def make() -> tuple[str, str]:
        """Return a new token, for whoever uses it, and its hash, for the server."""
        token = secrets.token_urlsafe(32)
        return token, f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Return what a token grants.

        Raises:
            InvalidTokenError: It is none of these.
        """
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found: AccessToken | None = None
        for each, grant in self._grants:  # all of them, whichever it is
            if hmac.compare_digest(each, digest):
                found = grant
        if found is None:
            raise InvalidTokenError("the token is not one of the static tokens of this server")
        return found

    def enter(self, site: ProtectedResource) -> None:
        """Say in the log that nobody can log in by themselves."""
        logger.warning(
            "%s accepts %d static token%s at %s: clients cannot log in there and need a token from the operator",
            site.name,
            len(self._grants),
            "" if len(self._grants) == 1 else "s",
            site.public_url,
        )


def _digest_of(token: object) -> bytes:
    if not isinstance(token, str):
        raise TypeError(f"StaticTokens: a token must be a string, not {type(token).__name__}")
    hashed = _HASH.fullmatch(token)
    if hashed is not None:
        return bytes.fromhex(hashed[1])
    if token.startswith("sha256:"):
        raise ValueError(
            f"StaticTokens: a hash must be sha256: and 64 lower-case hexadecimal digits. Make one with: {_MAKE}"
        )
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            f"StaticTokens: a token contains characters that a bearer token cannot have. Make one with: {_MAKE}"
        )
    bits = next((bits for alphabet, bits in _ALPHABETS if not set(token) - set(alphabet)), 6.0)
    if len(token) * bits < _BITS or len(set(token)) < _FEWEST:
        raise ValueError(
            f"StaticTokens: a token has fewer than {_BITS} random bits and could be guessed. Make one with: {_MAKE}"
        )
    return hashlib.sha256(token.encode()).digest()


def _principal(given: Principal | str | tuple[str, Collection[str]]) -> Principal:
    match given:
        case Principal():
            pass
        case str():
            given = Principal(given)
        case (str(), Collection()):
            given = Principal(given[0], texts_in("the scopes of a static token", given[1]))
        case _:
            raise TypeError(
                'StaticTokens: the value of a token must be a Principal, an id such as "backup", or a tuple such as'
                ' ("backup", ["notes:read"])'
            )
    if given.id is None:
        raise ValueError("StaticTokens: the principal of a token has no id. Give it an id")
    return given

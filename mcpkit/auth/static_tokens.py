"""Static access tokens from the operator, for machines and development."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection, Mapping
from typing import Final

from ..identity.principals_and_scopes import Principal
from .verifier import AccessToken, InvalidTokenError, ProtectedResource, TokenVerifier, string_list

_MIN_BITS = 128
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""Syntax of a bearer token (RFC 6750, section 2.1)."""
_ALPHABETS: Final = (("0123456789", 3.32), ("0123456789abcdefABCDEF", 4.0))
_MIN_CHARACTERS = 8  # different characters: a random token of 128 bits has more
_ADVICE: Final = 'python -c "from mcpkit.auth import StaticTokens; print(*StaticTokens.make())"'

logger = logging.getLogger(__name__)


class StaticTokens(TokenVerifier):
    """Verifier of a fixed set of tokens: `Server("notes", auth=StaticTokens({os.environ["TOKEN"]: "backup"}))`.

    Use it for machines and for development. Clients cannot log in to get a token. A token is valid until the server
    starts without it. The verifier stores only hashes.

    `python -c "from mcpkit.auth import StaticTokens; print(*StaticTokens.make())"` prints a new token and its hash.

    Args:
        tokens: Principal by token: a `Principal`, the ID of one, or a tuple of an ID and scopes. In place of a token,
            its hash is accepted: `sha256:` and 64 hexadecimal digits.

    Raises:
        TypeError: `tokens` is not a mapping, or has a key or value of another type.
        ValueError: `tokens` is empty, a token is too short to be random, or a token occurs twice.
    """

    def __init__(self, tokens: Mapping[str, Principal | str | tuple[str, Collection[str]]]) -> None:
        if not isinstance(tokens, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(
                "StaticTokens: tokens must be a mapping of tokens to principals or their ids, not"
                f" {type(tokens).__name__}"
            )
        if not tokens:
            raise ValueError(f"StaticTokens({{}}) has no token. Make one with: {_ADVICE}")
        grants = [(_digest_of(token), AccessToken(_principal(value))) for token, value in tokens.items()]
        if len({digest for digest, _ in grants}) < len(grants):
            raise ValueError(
                "StaticTokens: a token occurs twice, in plain text and as its hash. Remove one of them"
            )
        self._grants = tuple(grants)

    @staticmethod
    def make() -> tuple[str, str]:
        """Return a new random token for the client, and its hash for the server."""
        token = secrets.token_urlsafe(32)
        return token, f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Return the principal of a token.

        Raises:
            InvalidTokenError: The token is not in the set.
        """
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        # All of them are compared, so that the time does not depend on which one matches.
        found = [grant for each, grant in self._grants if hmac.compare_digest(each, digest)]
        if not found:
            raise InvalidTokenError("the token is not one of the static tokens of this server")
        return found[0]

    def bind(self, resource: ProtectedResource) -> None:
        """Log a warning that clients cannot log in."""
        logger.warning(
            "%s accepts %d static token%s at %s: clients cannot log in there and need a token from the operator",
            resource.name,
            len(self._grants),
            "" if len(self._grants) == 1 else "s",
            resource.public_url,
        )


def _digest_of(token: object) -> bytes:
    if not isinstance(token, str):
        raise TypeError(f"StaticTokens: a token must be a string, not {type(token).__name__}")
    hashed = _HASH.fullmatch(token)
    if hashed is not None:
        return bytes.fromhex(hashed[1])
    if token.startswith("sha256:"):
        raise ValueError(
            f"StaticTokens: a hash must be sha256: and 64 lower-case hexadecimal digits. Make one with: {_ADVICE}"
        )
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            f"StaticTokens: a token contains characters that a bearer token cannot have. Make one with: {_ADVICE}"
        )
    bits = next((bits for alphabet, bits in _ALPHABETS if not set(token) - set(alphabet)), 6.0)
    if len(token) * bits < _MIN_BITS or len(set(token)) < _MIN_CHARACTERS:
        raise ValueError(
            f"StaticTokens: a token has fewer than {_MIN_BITS} random bits and could be guessed. Make one with:"
            f" {_ADVICE}"
        )
    return hashlib.sha256(token.encode()).digest()


def _principal(value: Principal | str | tuple[str, Collection[str]]) -> Principal:
    match value:
        case Principal():
            principal = value
        case str():
            principal = Principal(value)
        case (str(), Collection()):
            principal = Principal(value[0], string_list("the scopes of a static token", value[1]))
        case _:
            raise TypeError(
                'StaticTokens: the value of a token must be a Principal, an id such as "backup", or a tuple such as'
                ' ("backup", ["notes:read"])'
            )
    if principal.id is None:
        raise ValueError("StaticTokens: the principal of a token has no id. Give it an id")
    return principal

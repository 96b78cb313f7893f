"""What a token endpoint answers: tokens, or why there are none (OAuth 2.1, 3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ...auth.lifetimes import lifetime_of
from ...auth.texts import without
from ...auth.urls import shortened
from .errors import AuthorizationFailedError, TokenRefusedError
from .scopes import scopes_of
from .web import Answer

_TOKEN: Final = re.compile(r"[!-~]+")
"""What a header can have; RFC 6750 allows less, and providers send more."""
_TYPES: Final = {"bearer": "Bearer", "dpop": "DPoP"}


class Granted:
    """Tokens as a token endpoint has answered them, checked.

    Args:
        answer: The answer.
        issuer: Who has answered.
        asked: The scopes that were asked for, which are those granted where the answer names none.
        now: The time, in seconds since the epoch.

    Attributes:
        access_token: The access token.
        refresh_token: The refresh token; None where there is none.
        token_type: `Bearer` or `DPoP`.
        expires: When the access token expires, in seconds since the epoch; None where that is not said.
        scopes: What is granted.

    Raises:
        AuthorizationFailedError: The answer is none of tokens.
    """

    def __init__(self, answer: Answer, issuer: str, asked: Iterable[str], now: float) -> None:
        members = answer.members
        who = f"the token endpoint of {shortened(issuer)}"
        token = members.get("access_token")
        if answer.status != 200 or not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise AuthorizationFailedError(
                f"{who} responded with HTTP {answer.status} without a valid access token"
            )
        kind = str(members.get("token_type", "Bearer")).lower()
        if kind not in _TYPES:
            raise AuthorizationFailedError(
                f"{who} issued a token of type {shortened(kind)}, which this client does not support"
            )
        refresh = members.get("refresh_token")
        seconds = lifetime_of(members.get("expires_in"))
        self.access_token = token
        self.refresh_token = refresh if isinstance(refresh, str) and refresh else None
        self.token_type = _TYPES[kind]
        self.expires = None if seconds is None else now + seconds
        self.scopes = frozenset(scopes_of(members.get("scope")) or asked)


def refusal(answer: Answer, who: str, secrets: Iterable[str]) -> TokenRefusedError | None:
    """Return what an endpoint says is wrong; None where it does not say.

    Args:
        answer: Its answer.
        who: The endpoint, in words.
        secrets: What was sent, of which nothing is repeated.
    """
    error = answer.members.get("error")
    if not isinstance(error, str):
        return None
    may_pass = error in {"temporarily_unavailable", "server_error", "slow_down"}
    secrets = tuple(secrets)
    message = f"{who} sent an error: {in_words(answer.members, secrets)}"
    return TokenRefusedError(message, without(error, secrets), may_pass=may_pass)


def in_words(members: Mapping[str, object], secrets: Iterable[str]) -> str:
    """Return the error that an answer tells of, short and without secrets."""
    error, description = members.get("error"), members.get("error_description")
    said = f"{error} ({description})" if isinstance(description, str) and description else str(error)
    return shortened(without(said, secrets))

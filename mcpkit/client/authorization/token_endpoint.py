"""Responses of a token endpoint: tokens or an error (OAuth 2.1, 3.2)."""

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
"""Tokens of characters allowed in a header. RFC 6750 allows fewer, but providers send more."""
_TYPES: Final = {"bearer": "Bearer", "dpop": "DPoP"}


class Granted:
    """A validated token response.

    Args:
        answer: The response.
        issuer: The authorization server.
        asked: The requested scopes. They are granted if the response has no `scope`.
        now: The current time in seconds since the epoch.

    Attributes:
        access_token: The access token.
        refresh_token: The refresh token; None if there is none.
        token_type: `Bearer` or `DPoP`.
        expires: The expiry of the access token in seconds since the epoch; None if unknown.
        scopes: The granted scopes.

    Raises:
        AuthorizationFailedError: The response has no valid tokens.
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
    """Return the error of an error response; None for other responses.

    Args:
        answer: The response.
        who: The name of the endpoint in messages.
        secrets: Secrets of the request, which are removed from the message.
    """
    error = answer.members.get("error")
    if not isinstance(error, str):
        return None
    may_pass = error in {"temporarily_unavailable", "server_error", "slow_down"}
    secrets = tuple(secrets)
    message = f"{who} sent an error: {in_words(answer.members, secrets)}"
    return TokenRefusedError(message, without(error, secrets), may_pass=may_pass)


def in_words(members: Mapping[str, object], secrets: Iterable[str]) -> str:
    """Return the error of a response as a short text without secrets."""
    error, description = members.get("error"), members.get("error_description")
    said = f"{error} ({description})" if isinstance(description, str) and description else str(error)
    return shortened(without(said, secrets))

"""Responses of a token endpoint: tokens or an error (OAuth 2.1, 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ...auth.token_requests import TokenResponse, remove_secrets
from ...auth.urls import shortened
from .errors import AuthorizationFailedError, TokenRefusedError
from .web import Answer

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
        who = f"the token endpoint of {shortened(issuer)}"
        try:
            if answer.status != 200:
                raise ValueError
            tokens = TokenResponse.read(answer.members)
        except ValueError:
            raise AuthorizationFailedError(
                f"{who} responded with HTTP {answer.status} without a valid access token"
            ) from None
        if tokens.token_type not in _TYPES:
            raise AuthorizationFailedError(
                f"{who} issued a token of type {shortened(tokens.token_type)}, which this client does not support"
            )
        self.access_token = tokens.access_token
        self.refresh_token = tokens.refresh_token
        self.token_type = _TYPES[tokens.token_type]
        self.expires = None if tokens.lifetime is None else now + tokens.lifetime
        self.scopes = frozenset(tokens.scopes or asked)


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
    return TokenRefusedError(message, remove_secrets(error, secrets), may_pass=may_pass)


def in_words(members: Mapping[str, object], secrets: Iterable[str]) -> str:
    """Return the error of a response as a short text without secrets."""
    error, description = members.get("error"), members.get("error_description")
    said = f"{error} ({description})" if isinstance(description, str) and description else str(error)
    return shortened(remove_secrets(said, secrets))

"""Token responses of an identity provider: tokens and errors (OAuth 2.1, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..http_client import FetchError, HttpResponse
from ..token_requests import TokenResponse, read_error

_CLIENT_ERRORS: Final = frozenset(
    {"invalid_client", "unauthorized_client", "unsupported_grant_type"}
    | {"incorrect_client_credentials"}  # GitHub
)
"""Errors about this client, which the operator must fix. They do not end the login of a user."""
_TEMPORARY_ERRORS: Final = frozenset(
    {"temporarily_unavailable", "server_error", "slow_down", "too_many_requests"}
)


class UpstreamRefusedError(Exception):
    """The provider refused the request. A retry would have the same result.

    Args:
        error: Error code (RFC 6749, sections 4.1.2.1 and 5.2), such as `access_denied` or `invalid_grant`.
        description: The reason: bounded, visible ASCII without quotes and backslashes, and no part of the request.

    Attributes:
        error: The error code.
        description: The reason.
    """

    def __init__(self, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.error = error
        self.description = description


class UpstreamUnavailableError(Exception):
    """The provider does not respond, sent an invalid response, or rejected this client. The login is not affected.

    The message is for the log. It contains the cause and what to change, and no secret.
    """


@dataclass(frozen=True)
class UpstreamTokens:
    """Tokens of one user at a provider. `asdict` converts them for JSON.

    Attributes:
        access_token: The access token for the APIs of the provider.
        refresh_token: The refresh token; None if the provider issued none.
        expires: Unix time in seconds at which the access token expires; None if unknown or never.
        scopes: Granted scopes, which can be fewer than requested.
        id_token_claims: Verified claims of the last ID token; empty if there are none.
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires: float | None = None
    scopes: tuple[str, ...] = ()
    id_token_claims: Mapping[str, object] = field(default_factory=dict[str, object], repr=False, hash=False)


def read_token_response(
    answer: HttpResponse,
    requested_scopes: Iterable[str],
    secrets: Iterable[str],
    now: float,
    separators: str = " ",
) -> tuple[UpstreamTokens, Mapping[str, object]]:
    """Return the tokens of a token response, and its other members.

    Args:
        answer: The response. Some providers, such as GitHub, send errors with status 200.
        requested_scopes: The requested scopes, which are granted if the response has no `scope`.
        secrets: Secrets of the request, to remove from messages.
        now: Current Unix time in seconds.
        separators: Characters that separate scopes.

    Raises:
        UpstreamRefusedError: The provider refused the request.
        UpstreamUnavailableError: The response is not valid, or the provider rejected this client for any user.
    """
    source = f"{answer.name} ({answer.url})"
    if answer.status >= 500 or answer.status in {408, 425, 429}:
        raise unexpected_status(answer)
    try:
        members = answer.members()
    except FetchError as error:
        status = "" if answer.status == 200 else f" (HTTP {answer.status})"
        raise UpstreamUnavailableError(f"{error}{status}") from None
    if members.get("error") is not None:
        refusal = refusal_of(members, secrets)
        if refusal.error in _CLIENT_ERRORS:
            raise UpstreamUnavailableError(
                f"{source} rejected this client ({refusal}). Check client_id, client_secret and authentication, and "
                "the settings of the client at the provider"
            )
        if refusal.error in _TEMPORARY_ERRORS:
            raise UpstreamUnavailableError(f"{source} is temporarily unavailable ({refusal})")
        raise refusal
    if answer.status != 200:
        raise unexpected_status(answer)

    try:
        tokens = TokenResponse.read(members, separators)
    except ValueError as error:
        raise UpstreamUnavailableError(f"{source} responded with {error}") from None
    problems = tokens.problems
    if tokens.token_type != "bearer":
        problems = ("a token that is not a bearer token (token_type)",)
    if problems:
        raise UpstreamUnavailableError(f"{source} responded with {problems[0]}")
    expires = None if tokens.lifetime is None else now + tokens.lifetime
    scopes = tuple(requested_scopes) if tokens.scopes is None else tokens.scopes
    return UpstreamTokens(tokens.access_token, tokens.refresh_token, expires, scopes), members


def refusal_of(members: Mapping[str, object], secrets: Iterable[str] = ()) -> UpstreamRefusedError:
    """Return the error in a response.

    Args:
        members: The response, or the parameters of a callback.
        secrets: Secrets of the request, to remove from the description.
    """
    error, description = read_error(members, secrets)
    return UpstreamRefusedError(error or "server_error", description)


def unexpected_status(answer: HttpResponse) -> UpstreamUnavailableError:
    """Return the error for a response with another HTTP status than expected."""
    return UpstreamUnavailableError(f"{answer.name} ({answer.url}) responded with HTTP {answer.status}")

"""Token responses of an identity provider: tokens and errors (OAuth 2.1, section 3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from ..claims import MOST_SCOPES
from ..connections import Answer
from ..fetching import FetchError
from ..jws import MAX_TOKEN
from ..lifetimes import lifetime_of
from ..texts import sayable, without

MAX_DESCRIPTION: Final = 300
"""Maximum characters of an error description of a provider."""

_VISIBLE: Final = re.compile(r"[!-~]+")
_EMAIL_ADDRESS: Final = re.compile(r"[^\s'\"<>]+@[^\s'\"<>]+")
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
    answer: Answer, requested_scopes: Iterable[str], secrets: Iterable[str], now: float, separators: str = " "
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
    source = f"{answer.what} ({answer.url})"
    if answer.status >= 500 or answer.status in {408, 425, 429}:
        raise UpstreamUnavailableError(f"{source} responded with HTTP {answer.status}")
    try:
        members = answer.members()
    except FetchError as error:
        status = "" if answer.status == 200 else f" (HTTP {answer.status})"
        raise UpstreamUnavailableError(f"{error}{status}") from None
    if members.get("error") is not None:
        refusal = read_error(members, secrets)
        if refusal.error in _CLIENT_ERRORS:
            raise UpstreamUnavailableError(
                f"{source} rejected this client ({refusal}). Check client_id, client_secret and authentication, and "
                "the settings of the client at the provider"
            )
        if refusal.error in _TEMPORARY_ERRORS:
            raise UpstreamUnavailableError(f"{source} is temporarily unavailable ({refusal})")
        raise refusal
    if answer.status != 200:
        raise UpstreamUnavailableError(f"{source} responded with HTTP {answer.status}")

    kind = members.get("token_type", "Bearer")  # required, but some providers leave it out
    access_token, refresh_token = members.get("access_token"), members.get("refresh_token")
    expires_in, scope = members.get("expires_in"), members.get("scope")
    lifetime = lifetime_of(expires_in)
    scopes = [each for each in re.split(f"[{separators}]", scope) if each] if isinstance(scope, str) else []
    if not isinstance(kind, str) or kind.lower() != "bearer":
        problem = "a token that is not a bearer token (token_type)"
    elif lifetime is None and expires_in is not None:
        problem = "an invalid lifetime (expires_in)"
    elif not _is_token(access_token):
        problem = "a missing or invalid token (access_token)"
    elif refresh_token is not None and not _is_token(refresh_token):
        problem = "a missing or invalid token (refresh_token)"
    elif (
        not isinstance(scope, str | None)
        or len(scopes) > MOST_SCOPES
        or not all(map(_VISIBLE.fullmatch, scopes))
    ):
        problem = "invalid scopes (scope)"
    else:
        expires = None if lifetime is None else now + lifetime
        granted = tuple(requested_scopes) if scope is None else tuple(dict.fromkeys(scopes))
        return UpstreamTokens(access_token, refresh_token, expires, granted), members
    raise UpstreamUnavailableError(f"{source} responded with {problem}")


def read_error(members: Mapping[str, object], secrets: Iterable[str] = ()) -> UpstreamRefusedError:
    """Return the error in a response, bounded, and without secrets and e-mail addresses.

    Args:
        members: The response, or the parameters of a callback.
        secrets: Secrets of the request.
    """
    texts: list[str] = []
    for name in ("error", "error_description"):
        value = members.get(name)
        # Cut before the search for addresses, whose time grows with the length.
        text = without(value, secrets)[: 2 * MAX_DESCRIPTION] if isinstance(value, str) else ""
        texts.append(sayable(_EMAIL_ADDRESS.sub("...", text)[:MAX_DESCRIPTION]))
    return UpstreamRefusedError(texts[0] or "server_error", texts[1])


def _is_token(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= MAX_TOKEN and _VISIBLE.fullmatch(value) is not None

"""Parsing of token responses and errors (OAuth 2.1, section 3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from ..claims import MOST_SCOPES
from ..connections import Answer
from ..fetching import FetchError
from ..jws import MAX_TOKEN
from ..lifetimes import lifetime_of
from ..texts import sayable, without
from .errors import UpstreamRefusedError, UpstreamUnavailableError
from .tokens import UpstreamTokens

MOST_SAID: Final = 300
"""Maximum characters of an error description of a provider."""

_TOKEN: Final = re.compile(r"[!-~]+")
_ADDRESS: Final = re.compile(r"[^\s'\"<>]+@[^\s'\"<>]+")
_SCOPE: Final = re.compile(r"[!-~]+")
_OF_THIS_CLIENT: Final = frozenset(
    {
        "invalid_client",
        "unauthorized_client",
        "unsupported_grant_type",
        "incorrect_client_credentials",  # GitHub
    }
)
"""Errors about this client, which the operator must fix. They do not end the login of a user."""
_MAY_PASS: Final = frozenset({"temporarily_unavailable", "server_error", "slow_down", "too_many_requests"})


def members_of_tokens(answer: Answer, secrets: Iterable[str]) -> Mapping[str, object]:
    """Return the members of a successful token response.

    Args:
        answer: The response. Some providers, such as GitHub, send errors with status 200.
        secrets: Secrets of the request, to remove from messages.

    Raises:
        UpstreamRefusedError: The provider refused the request.
        UpstreamUnavailableError: The response is not valid, or the provider rejected this client for any user.
    """
    who = f"{answer.what} ({answer.url})"
    if answer.status >= 500 or answer.status in {408, 425, 429}:
        raise UpstreamUnavailableError(f"{who} responded with HTTP {answer.status}")
    try:
        members = answer.members()
    except FetchError as error:
        status = "" if answer.status == 200 else f" (HTTP {answer.status})"
        raise UpstreamUnavailableError(f"{error}{status}") from None
    if members.get("error") is not None:
        _refuse(members, who, secrets)
    if answer.status != 200:
        raise UpstreamUnavailableError(f"{who} responded with HTTP {answer.status}")
    return members


def refusal_in(members: Mapping[str, object], secrets: Iterable[str] = ()) -> UpstreamRefusedError:
    """Return the error in a response, bounded, and without secrets and e-mail addresses.

    Args:
        members: The response, or the parameters of a callback.
        secrets: Secrets of the request.
    """
    secrets = tuple(secrets)
    error, description = (_repeated(members.get(each), secrets) for each in ("error", "error_description"))
    return UpstreamRefusedError(error or "server_error", description)


def tokens_in(
    members: Mapping[str, object], who: str, asked: Iterable[str], now: float, separators: str = " "
) -> UpstreamTokens:
    """Return the tokens of a response.

    Args:
        members: The response.
        who: Name of the endpoint for messages.
        asked: The requested scopes, which are granted if the response has no `scope`.
        now: Current Unix time in seconds.
        separators: Characters that separate scopes.

    Raises:
        UpstreamUnavailableError: The response has no valid tokens.
    """
    kind = members.get("token_type", "Bearer")  # some leave it out, though it is required
    if not isinstance(kind, str) or kind.lower() != "bearer":
        _wrong(who, "a token that is not a bearer token (token_type)")
    refresh_token = members.get("refresh_token")
    seconds = members.get("expires_in")
    lifetime = lifetime_of(seconds)
    if lifetime is None and seconds is not None:
        _wrong(who, "an invalid lifetime (expires_in)")
    return UpstreamTokens(
        _token(members.get("access_token"), who, "access_token"),
        None if refresh_token is None else _token(refresh_token, who, "refresh_token"),
        None if lifetime is None else now + lifetime,
        _scopes(members.get("scope"), who, asked, separators),
    )


def _repeated(said: object, secrets: Iterable[str]) -> str:
    """Return an untrusted text, bounded and without secrets and addresses."""
    if not isinstance(said, str):
        return ""
    short = without(said, secrets)[: 2 * MOST_SAID]  # before a pattern that takes its time is looked for
    return sayable(_ADDRESS.sub("...", short)[:MOST_SAID])


def _refuse(members: Mapping[str, object], who: str, secrets: Iterable[str]) -> NoReturn:
    refusal = refusal_in(members, secrets)
    if refusal.error in _OF_THIS_CLIENT:
        raise UpstreamUnavailableError(
            f"{who} rejected this client ({refusal}). Check client_id, client_secret and authentication, and the "
            "settings of the client at the provider"
        )
    if refusal.error in _MAY_PASS:
        raise UpstreamUnavailableError(f"{who} is temporarily unavailable ({refusal})")
    raise refusal


def _token(value: object, who: str, name: str) -> str:
    if not isinstance(value, str) or not _TOKEN.fullmatch(value) or len(value) > MAX_TOKEN:
        _wrong(who, f"a missing or invalid token ({name})")
    return value


def _scopes(value: object, who: str, asked: Iterable[str], separators: str) -> tuple[str, ...]:
    if value is None:
        return tuple(asked)
    names = re.split(f"[{separators}]", value) if isinstance(value, str) else None
    if names is None or len(names) > MOST_SCOPES or not all(_SCOPE.fullmatch(each) for each in names if each):
        _wrong(who, "invalid scopes (scope)")
    return tuple(dict.fromkeys(filter(None, names)))


def _wrong(who: str, what: str) -> NoReturn:
    raise UpstreamUnavailableError(f"{who} responded with {what}")

"""Requests to a token endpoint: client authentication (RFC 6749, 2.3), token responses (5.1) and errors (5.2)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypeGuard
from urllib.parse import quote

from .jws import MAX_TOKEN
from .verifier import MAX_SCOPES

MAX_DESCRIPTION: Final = 300
"""Maximum characters of an error description that is repeated."""

_VISIBLE: Final = re.compile(r"[!-~]+")
_NOT_IN_DESCRIPTION: Final = re.compile(r"[^\x20\x21\x23-\x5B\x5D-\x7E]")
_EMAIL_ADDRESS: Final = re.compile(r"[^\s'\"<>]+@[^\s'\"<>]+")
_MIN_SECRET: Final = 6
"""Minimum characters of a secret that is removed from messages. Shorter ones can be ordinary words."""


# Client authentication

Authentication: TypeAlias = Literal["basic", "post"]
"""With the header `Authorization` (`client_secret_basic`), or in the form (`client_secret_post`)."""


@dataclass(frozen=True)
class ClientSecret:
    """Client ID and client secret of this server at an authorization server.

    Args:
        id: The client ID.
        secret: The client secret; None for a public client.

    Raises:
        TypeError: One of them is not a string, or is empty.
    """

    id: str
    secret: str | None = field(repr=False)

    def __post_init__(self) -> None:
        check_text("client_id", self.id)
        if self.secret is not None:
            check_text("client_secret", self.secret)

    def authenticate(self, method: Authentication) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form parameters and the headers that authenticate the client (RFC 6749, section 2.3.1)."""
        if self.secret is None:
            return {"client_id": self.id}, {}
        if method == "post":
            return {"client_id": self.id, "client_secret": self.secret}, {}
        return {}, {"Authorization": f"Basic {self._credentials(self.secret)}"}

    def encodings(self) -> tuple[str, ...]:
        """Return the secret in each encoding that requests contain, to remove it from messages."""
        if self.secret is None:
            return ()
        return self.secret, quote(self.secret, safe=""), self._credentials(self.secret)

    def _credentials(self, secret: str) -> str:
        """Return the credentials of the header; both parts are form-encoded first (RFC 6749, 2.3.1)."""
        # A space as %20, which servers decode that read + literally, too.
        pair = f"{quote(self.id, safe='')}:{quote(secret, safe='')}"
        return base64.b64encode(pair.encode()).decode()


def check_text(name: str, value: object) -> None:
    """Check that a value is a non-empty string.

    Raises:
        TypeError: The value is not a string, or is empty.
    """
    if not isinstance(value, str) or not value:
        raise TypeError(
            f"{name} must be a non-empty string. Pass the value that the issuer has assigned to this server"
        )


def check_authentication(authentication: object) -> None:
    """Check a client authentication method.

    Raises:
        ValueError: The value is neither `"basic"` nor `"post"`.
    """
    if authentication not in {"basic", "post"}:
        raise ValueError(f'authentication must be "basic" or "post", got {authentication!r}')


# Token responses


@dataclass(frozen=True)
class TokenResponse:
    """Tokens of a successful response.

    Attributes:
        access_token: The access token.
        refresh_token: The refresh token; None if there is no valid one.
        token_type: The token type in lower case, such as `bearer` or `dpop`.
        lifetime: Seconds until the access token expires; None if unknown.
        scopes: Granted scopes; None if they are the requested ones.
        problems: Optional members that are not valid and were ignored, such as "an invalid lifetime (expires_in)".
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    token_type: str
    lifetime: float | None
    scopes: tuple[str, ...] | None
    problems: tuple[str, ...] = ()

    @classmethod
    def read(cls, members: Mapping[str, object], separators: str = " ") -> TokenResponse:
        """Read the members of a token response.

        Args:
            members: The response.
            separators: Characters that separate scopes.

        Raises:
            ValueError: The response has no valid access token.
        """
        problems: list[str] = []
        access_token, refresh_token = members.get("access_token"), members.get("refresh_token")
        if not _is_token(access_token):
            raise ValueError("a missing or invalid token (access_token)")
        if refresh_token is not None and not _is_token(refresh_token):
            problems.append("a missing or invalid token (refresh_token)")
            refresh_token = None
        expires_in, lifetime = members.get("expires_in"), None
        # Some providers send a string.
        if isinstance(expires_in, str) and re.fullmatch(r"[0-9]{1,11}", expires_in):
            expires_in = int(expires_in)
        if isinstance(expires_in, int | float) and type(expires_in) is not bool and 0 <= expires_in < 1e11:
            lifetime = float(expires_in)
        elif expires_in is not None:
            problems.append("an invalid lifetime (expires_in)")
        scope, scopes = members.get("scope"), None
        if isinstance(scope, str):
            names = [each for each in re.split(f"[{separators}]", scope) if each]
            if len(names) <= MAX_SCOPES and all(map(_VISIBLE.fullmatch, names)):
                scopes = tuple(dict.fromkeys(names))
        if scope is not None and scopes is None:
            problems.append("invalid scopes (scope)")
        token_type = str(members.get("token_type", "Bearer")).lower()  # required, but some providers omit it
        return cls(access_token, refresh_token, token_type, lifetime, scopes, tuple(problems))


def _is_token(value: object) -> TypeGuard[str]:
    # RFC 6750 allows fewer characters, but some providers send others.
    return isinstance(value, str) and len(value) <= MAX_TOKEN and _VISIBLE.fullmatch(value) is not None


# Errors


def read_error(members: Mapping[str, object], secrets: Iterable[str] = ()) -> tuple[str, str]:
    """Return error code and description of an error response, bounded, and without secrets and e-mail addresses.

    Args:
        members: The response, or the parameters of a redirect.
        secrets: Secrets of the request.
    """
    secrets = tuple(secrets)
    texts: list[str] = []
    for name in ("error", "error_description"):
        value = members.get(name)
        # Cut before the search for addresses, because its time grows with the length.
        text = remove_secrets(value, secrets)[: 2 * MAX_DESCRIPTION] if isinstance(value, str) else ""
        texts.append(error_text(_EMAIL_ADDRESS.sub("...", text)[:MAX_DESCRIPTION]))
    return texts[0], texts[1]


def error_text(text: str) -> str:
    """Return a text for an OAuth error description: forbidden characters become question marks (RFC 6749, 5.2)."""
    return _NOT_IN_DESCRIPTION.sub("?", text)


def remove_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text with the secrets removed."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET:
            text = text.replace(secret, "...")
    return text

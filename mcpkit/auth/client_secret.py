"""Client authentication of this server at a provider (OAuth 2.1, section 2.4)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import quote_plus

Authentication: TypeAlias = Literal["basic", "post"]
"""With the header `Authorization` (`basic`), or in the form (`post`)."""


@dataclass(frozen=True)
class ClientSecret:
    """Client ID and client secret of this server at a provider.

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

    def in_form(self, authentication: Authentication) -> dict[str, str]:
        """Return the credentials for the form."""
        if self.secret is None:
            return {"client_id": self.id}
        return {} if authentication == "basic" else {"client_id": self.id, "client_secret": self.secret}

    def in_headers(self, authentication: Authentication) -> Mapping[str, str]:
        """Return the credentials for the headers, both form-encoded first (RFC 6749, section 2.3.1)."""
        if self.secret is None or authentication == "post":
            return {}
        return {"Authorization": f"Basic {self._pair(self.secret)}"}

    def spellings(self) -> tuple[str, ...]:
        """Return the secret in each encoding that requests contain, to remove it from messages."""
        return () if self.secret is None else (self.secret, quote_plus(self.secret), self._pair(self.secret))

    def _pair(self, secret: str) -> str:
        return base64.b64encode(f"{quote_plus(self.id)}:{quote_plus(secret)}".encode()).decode()


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

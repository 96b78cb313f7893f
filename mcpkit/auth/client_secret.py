"""How this server says to a provider's endpoints which client it is (OAuth 2.1, section 2.4)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import quote_plus

Authentication: TypeAlias = Literal["basic", "post"]
"""By the header `Authorization`, or in the form that is posted."""


@dataclass(frozen=True)
class ClientSecret:
    """A client of a provider, and its secret.

    Args:
        id: The client.
        secret: Its secret; None for a client without one.

    Raises:
        TypeError: One of them is no text, or is empty.
    """

    id: str
    secret: str | None = field(repr=False)

    def __post_init__(self) -> None:
        check_text("client_id", self.id)
        if self.secret is not None:
            check_text("client_secret", self.secret)

    def in_form(self, authentication: Authentication) -> dict[str, str]:
        """Return what goes into the form."""
        if self.secret is None:
            return {"client_id": self.id}
        return {} if authentication == "basic" else {"client_id": self.id, "client_secret": self.secret}

    def in_headers(self, authentication: Authentication) -> Mapping[str, str]:
        """Return what goes into the headers: both in the encoding of forms first (RFC 6749, section 2.3.1)."""
        if self.secret is None or authentication == "post":
            return {}
        return {"Authorization": f"Basic {self._pair(self.secret)}"}

    def spellings(self) -> tuple[str, ...]:
        """Return the secret in each way in which it is sent, of which nothing may be repeated."""
        return () if self.secret is None else (self.secret, quote_plus(self.secret), self._pair(self.secret))

    def _pair(self, secret: str) -> str:
        return base64.b64encode(f"{quote_plus(self.id)}:{quote_plus(secret)}".encode()).decode()


def check_text(name: str, value: object) -> None:
    """Refuse what is no text, or an empty one.

    Raises:
        TypeError: It is.
    """
    if not isinstance(value, str) or not value:
        raise TypeError(
            f"{name} must be a non-empty string. Pass the value that the issuer has assigned to this server"
        )


def check_authentication(authentication: object) -> None:
    """Refuse what is no way to say which client one is.

    Raises:
        ValueError: It is none.
    """
    if authentication not in {"basic", "post"}:
        raise ValueError(f'authentication must be "basic" or "post", got {authentication!r}')

"""Tokens and identity of a user at a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class UpstreamTokens:
    """Tokens of one user at a provider. `asdict` converts them for JSON.

    Attributes:
        access_token: The access token for the APIs of the provider.
        refresh_token: The refresh token; None if the provider issued none.
        expires: Unix time in seconds at which the access token expires; None if unknown or never.
        scopes: Granted scopes, which can be fewer than requested.
        said: Verified claims of the last ID token; empty if there are none.
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires: float | None = None
    scopes: tuple[str, ...] = ()
    said: Mapping[str, object] = field(default_factory=dict[str, object], repr=False, hash=False)


class Identity(NamedTuple):
    """Identity of a user at a provider.

    Attributes:
        subject: The subject, which never changes and is never reassigned.
        claims: Other claims of the user.
    """

    subject: str
    claims: Mapping[str, object]

"""What a provider gives out for a user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class UpstreamTokens:
    """The tokens of one user at a provider; `asdict` makes them what JSON can hold.

    Attributes:
        access_token: Opens the provider's APIs.
        refresh_token: Gets new ones; None where the provider has given none.
        expires: When the access token expires, in Unix seconds; None where it does not, or the provider does not say.
        scopes: What the access token grants, as the provider says, which may be less than was asked for.
        said: What the last ID token said of the user, which has been verified; empty where there are none.
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires: float | None = None
    scopes: tuple[str, ...] = ()
    said: Mapping[str, object] = field(default_factory=dict[str, object], repr=False, hash=False)


class Identity(NamedTuple):
    """Who a user is at a provider.

    Attributes:
        subject: What the provider calls them, which never changes and is never given to somebody else.
        claims: What else it says of them.
    """

    subject: str
    claims: Mapping[str, object]

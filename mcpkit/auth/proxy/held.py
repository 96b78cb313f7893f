"""Upstream tokens of a user in a grant."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from ...protocol.jsonrpc import Json
from ..authority.grants import GrantRecord
from ..upstream.tokens import UpstreamTokens

DUE = 60.0
"""Seconds before expiry at which tokens are refreshed, unless they were issued for less than twice as long."""


@dataclass(frozen=True)
class Held:
    """Data of a grant: encrypted in its record, and deleted with it.

    Attributes:
        tokens: Tokens of the provider.
        obtained: Unix time in seconds at which they were issued.
        looked: Unix time in seconds of the last lookup of the user at the provider.
        times: Number of refresh attempts. One process claims the next number; see `Logins`.
    """

    tokens: UpstreamTokens
    obtained: float
    looked: float
    times: int = 0

    @classmethod
    def of(cls, record: GrantRecord) -> Held:
        """Return the data of a grant."""
        members = record.held or {}
        tokens: Json = dict(members["tokens"])
        return cls(
            UpstreamTokens(scopes=tuple(tokens.pop("scopes")), **tokens),
            members["obtained"],
            members["looked"],
            members["times"],
        )

    def is_due(self, now: float) -> bool:
        """Return True if the tokens are near expiry: a minute, or half of their lifetime."""
        expires = self.tokens.expires
        return expires is not None and expires - now <= min(DUE, (expires - self.obtained) / 2)

    def written(self) -> Json:
        """Return the data for a record."""
        return asdict(self)

    def put_into(self, record: GrantRecord) -> GrantRecord:
        """Return a grant with this data."""
        return replace(record, held=self.written())

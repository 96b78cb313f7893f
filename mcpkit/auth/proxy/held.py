"""What a grant holds of its user's login at the provider."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from ...protocol.types import Json
from ..authority.grants import GrantRecord
from ..upstream.tokens import UpstreamTokens

DUE = 60.0
"""Seconds before their end in which tokens are refreshed, unless they were issued for less than twice as long."""


@dataclass(frozen=True)
class Held:
    """What a grant holds: it is in the grant's record, sealed with it, and ends with it.

    Attributes:
        tokens: The provider's.
        obtained: When they were issued, in Unix seconds.
        looked: When the provider said for the last time who the user is, in Unix seconds.
        times: How often it has been tried to refresh them. Of all who would, one takes the next time; see `Logins`.
    """

    tokens: UpstreamTokens
    obtained: float
    looked: float
    times: int = 0

    @classmethod
    def of(cls, record: GrantRecord) -> Held:
        """Return what a grant of a user holds."""
        members = record.held or {}
        tokens: Json = dict(members["tokens"])
        return cls(
            UpstreamTokens(scopes=tuple(tokens.pop("scopes")), **tokens),
            members["obtained"],
            members["looked"],
            members["times"],
        )

    def is_due(self, now: float) -> bool:
        """Say whether the tokens are near their end: a minute, or half of the time for which they were issued."""
        expires = self.tokens.expires
        return expires is not None and expires - now <= min(DUE, (expires - self.obtained) / 2)

    def written(self) -> Json:
        """Return it as a record has it."""
        return asdict(self)

    def put_into(self, record: GrantRecord) -> GrantRecord:
        """Return a grant that holds this."""
        return replace(record, held=self.written())

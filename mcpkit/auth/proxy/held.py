"""What a grant holds of its user's login at the provider."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from ...protocol.types import Json
from ..authority.grants import GrantRecord
from ..upstream.tokens import UpstreamTokens


@dataclass(frozen=True)
class Held:
    """What a grant holds: it is in the grant's record, sealed with it, and ends with it.

    Attributes:
        tokens: The provider's.
        looked: When the provider said for the last time who the user is, in Unix seconds.
        lease: Who is refreshing the tokens; empty for nobody. They may have been killed.
        leased_until: Until when nobody else begins to, in Unix seconds.
    """

    tokens: UpstreamTokens = field(repr=False)
    looked: float
    lease: str = ""
    leased_until: float = 0.0

    @classmethod
    def of(cls, record: GrantRecord) -> Held:
        """Return what a grant of a user holds."""
        members = record.held or {}
        tokens: Json = members["tokens"]
        return cls(
            UpstreamTokens(**{**tokens, "scopes": tuple(tokens["scopes"])}),
            members["looked"],
            members["lease"],
            members["leased_until"],
        )

    def written(self) -> Json:
        """Return it as a record has it."""
        return asdict(self)

    def put_into(self, record: GrantRecord) -> GrantRecord:
        """Return a grant that holds this."""
        return replace(record, held=self.written())

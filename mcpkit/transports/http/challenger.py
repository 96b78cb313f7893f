"""Interface of an endpoint that requires access tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..._utils.exceptions import ChallengeError
    from ...auth.verifier import AccessToken
    from ...identity.principals_and_scopes import Principal


class Challenger(Protocol):
    """Verifies access tokens of requests, and creates challenges."""

    def challenge(self, scopes: Sequence[str], principal: Principal, revision: str) -> ChallengeError:
        """Return the challenge for missing scopes or a missing token."""
        ...

    def dismissal(self) -> ChallengeError:
        """Return the challenge for a token that is no longer valid."""
        ...

    def check(self, grant: AccessToken) -> None:
        """Check that the token of an accepted request is still valid.

        Raises:
            RefusedError: The token was revoked (401).
        """
        ...

    async def admit(
        self, headers: Mapping[bytes, bytes], peer: tuple[str, int] | None, *, may_be_anybody: bool = True
    ) -> AccessToken:
        """Verify the token of a request, and return its grant.

        Raises:
            RefusedError: The token is not valid, or cannot be verified now.
        """
        ...

"""What takes the access tokens of requests, as what serves them knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...auth.verifier import AccessToken
    from ...common.errors import ChallengeError
    from ...state.principal import Principal


class Challenger(Protocol):
    """What takes access tokens, and says how to come by one."""

    def challenge(self, scopes: Sequence[str], principal: Principal, revision: str) -> ChallengeError:
        """Return how somebody is told to come back with scopes, or to say who they are."""
        ...

    def dismissal(self) -> ChallengeError:
        """Return how somebody is told that their access token holds no more."""
        ...

    def check(self, grant: AccessToken) -> None:
        """Refuse a request whose token has lost its worth since it was taken.

        Raises:
            RefusedError: It has (401).
        """
        ...

    async def admit(
        self, headers: Mapping[bytes, bytes], peer: tuple[str, int] | None, *, may_be_anybody: bool = True
    ) -> AccessToken:
        """Return what the token of a request grants.

        Raises:
            RefusedError: It grants nothing, or nobody can tell now.
        """
        ...

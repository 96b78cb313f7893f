"""Where tokens come from, as whoever holds them sees it."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ...protocol.types import Json
from .grant_context import GrantContext
from .roles import ClientAuthentication, Prover
from .storage import TokenStorage
from .tokens import Tokens


class Source(Protocol):
    """Gets tokens; `Authorization` says what its parts are."""

    is_interactive: ClassVar[bool]
    """Whether a person takes part."""
    scopes: tuple[str, ...] | None
    storage: TokenStorage
    issuer: str | None
    accepts_http: bool
    """Whether URLs of http on other machines may be asked."""

    @property
    def client(self) -> str:
        """What tells its tokens apart from those of other clients."""
        ...

    def prover(self, key: Json | None) -> Prover | None:
        """Return what proves that tokens are its own."""
        ...

    async def obtain(self, context: GrantContext) -> Tokens:
        """Get tokens."""
        ...

    async def authentication(self, context: GrantContext, tokens: Tokens) -> ClientAuthentication | None:
        """Return what says who the client is when tokens are refreshed."""
        ...

"""Interface of an `Authorization`, as the authorizer of a server uses it."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ...protocol.jsonrpc import Json
from .grant_context import GrantContext
from .roles import ClientAuthentication, Prover
from .storage import TokenStorage
from .tokens import Tokens


class Source(Protocol):
    """Obtains tokens; `Authorization` documents its members."""

    is_interactive: ClassVar[bool]
    """Whether a user takes part."""
    scopes: tuple[str, ...] | None
    storage: TokenStorage
    issuer: str | None
    accepts_http: bool
    """Whether URLs with `http` are accepted for other machines."""

    @property
    def client(self) -> str:
        """The key that separates its tokens from those of other clients."""
        ...

    def prover(self, key: Json | None) -> Prover | None:
        """Return the DPoP prover for the tokens; None for bearer tokens."""
        ...

    async def obtain(self, context: GrantContext) -> Tokens:
        """Obtain tokens."""
        ...

    async def authentication(self, context: GrantContext, tokens: Tokens) -> ClientAuthentication | None:
        """Return the client authentication for refreshing tokens."""
        ...

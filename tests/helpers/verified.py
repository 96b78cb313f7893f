"""A verifier with a table of tokens, and what it was asked."""

from __future__ import annotations

from collections.abc import Collection

from mcpkit import Principal
from mcpkit.auth import Grant, InvalidTokenError, TokenVerifier, VerifierUnavailableError
from mcpkit.state.principal import user

ISSUER = "https://id.example.com"


class Table(TokenVerifier):
    """Knows tokens of the form `NAME` or `NAME.SCOPE.SCOPE`, where a dash stands for the colon in a scope.

    Args:
        issuers: Where clients log in.

    Attributes:
        asked: Each token and audience that it was asked for.
        is_down: Whether nothing can be verified.
        revoked: Tokens that are none any more.
        expires: When every grant expires, in Unix seconds.
    """

    def __init__(self, *issuers: str) -> None:
        self.issuers = issuers
        self.asked: list[tuple[str, str]] = []
        self.is_down = False
        self.revoked: set[str] = set()
        self.expires: float | None = None

    async def verify(self, token: str, audience: str) -> Grant:
        self.asked.append((token, audience))
        if self.is_down:
            raise VerifierUnavailableError("the table is locked", retry_after=7)
        if token in self.revoked or token.startswith("bad"):
            raise InvalidTokenError("The access token has expired")
        return Grant(principal_of(token), expires=self.expires)


def principal_of(token: str) -> Principal:
    """Return whose token it is."""
    name, *scopes = token.split(".")
    return user(ISSUER, name, {scope.replace("-", ":") for scope in scopes}, client_id="client")


def bearer(name: str, scopes: Collection[str] = ()) -> dict[str, str]:
    """Return the header of a token."""
    return {"authorization": "Bearer " + ".".join((name, *(scope.replace(":", "-") for scope in scopes)))}

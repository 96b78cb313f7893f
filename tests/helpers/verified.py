"""A verifier with a table of tokens, and what it was asked."""

from __future__ import annotations

import time
from collections.abc import Collection

from mcpkit import Principal
from mcpkit.auth import AccessToken, InvalidTokenError, TokenVerifier, VerifierUnavailableError
from mcpkit.state.principal import user

ISSUER = "https://id.example.com"


class Table(TokenVerifier):
    """Knows tokens of the form `NAME` or `NAME.SCOPE.SCOPE`, where a dash stands for the colon in a scope.

    `NAME~CLIENT` is the same user by another client, and `NAME/ANYTHING` another token.

    Args:
        issuers: Where clients log in.

    Attributes:
        asked: Each token and audience that it was asked for.
        is_down: Whether nothing can be verified.
        revoked: Tokens that are none any more.
        expires: When every grant expires, in Unix seconds.
        issued: When every token was issued.
        fresh: Seconds after which a token has to be verified again.
    """

    def __init__(self, *issuers: str) -> None:
        self.issuers = issuers
        self.asked: list[tuple[str, str]] = []
        self.is_down = False
        self.revoked: set[str] = set()
        self.expires: float | None = None
        self.issued: float | None = None
        self.fresh: float | None = None

    async def verify(self, token: str, audience: str) -> AccessToken:
        self.asked.append((token, audience))
        if self.is_down:
            raise VerifierUnavailableError("the table is locked", retry_after=7)
        if token in self.revoked or token.startswith("bad"):
            raise InvalidTokenError("The access token has expired")
        fresh_until = None if self.fresh is None else time.time() + self.fresh
        return AccessToken(principal_of(token), self.expires, self.issued, fresh_until)


def principal_of(token: str) -> Principal:
    """Return whose token it is."""
    name, *scopes = token.split(".")
    name, _, client_id = name.partition("/")[0].partition("~")
    return user(ISSUER, name, {scope.replace("-", ":") for scope in scopes}, client_id=client_id or "client")


def bearer(name: str, scopes: Collection[str] = ()) -> dict[str, str]:
    """Return the header of a token."""
    return {"authorization": "Bearer " + ".".join((name, *(scope.replace(":", "-") for scope in scopes)))}

"""Who a request comes from, as far as that has been verified."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_NO_CLAIMS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, init=False)
class Principal:
    """Who a request comes from, and what they have been granted (basic/authorization).

    Under `Server(auth=...)` it is what a verified access token says. Without, mcpkit verifies nobody: over HTTP it is
    what an authentication middleware has found out, and what `asgi(principal=)` makes of it; elsewhere, what
    `run(principal=)` says.

    Args:
        id: Who it is, the same in all their requests; None where nobody knows.
        scopes: What the request's credentials grant, such as `{"files:read"}`. Where a request is served, those are
            among them that `Server(scopes=...)` says they imply.
        client_id: The OAuth client that asks, for itself or for a user; None where nobody knows.
        issuer: Who has said so: the authorization server's issuer; None where there is none.
        subject: What the issuer calls them; None for a client that asks for itself.
        claims: What else the token says, such as `{"org_id": "acme"}`. Not shown, and none of what tells two apart.

    Raises:
        TypeError: The id is no text, or the scopes are no set of texts.
        ValueError: The id is empty, so that all who have none would be one.
    """

    id: str | None
    scopes: frozenset[str]
    client_id: str | None
    issuer: str | None = field(compare=False)
    subject: str | None = field(compare=False)
    claims: Mapping[str, object] = field(compare=False, repr=False)

    def __init__(
        self,
        id: str | None = None,  # noqa: A002 - the attribute's name
        scopes: Collection[str] = (),
        *,
        client_id: str | None = None,
        issuer: str | None = None,
        subject: str | None = None,
        claims: Mapping[str, object] = _NO_CLAIMS,
    ) -> None:
        if id is not None and not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"id must be a string, or None for an anonymous client, got {id!r}")
        if id == "":
            raise ValueError("id must not be empty. Use None for an anonymous client")
        if isinstance(scopes, str) or not all(isinstance(scope, str) for scope in scopes):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f'scopes must be a set of strings such as {{"files:read"}}, got {scopes!r}')
        for name, value in (("client_id", client_id), ("issuer", issuer), ("subject", subject)):
            if value is not None and not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
                raise TypeError(f"{name} must be a string or None, got {value!r}")
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "scopes", frozenset(scopes))
        object.__setattr__(self, "client_id", client_id)
        object.__setattr__(self, "issuer", issuer)
        object.__setattr__(self, "subject", subject)
        object.__setattr__(self, "claims", MappingProxyType(dict(claims)) if claims else _NO_CLAIMS)

    def granted(self, scopes: Collection[str]) -> Principal:
        """Return the same with other scopes."""
        return Principal(
            self.id,
            scopes,
            client_id=self.client_id,
            issuer=self.issuer,
            subject=self.subject,
            claims=self.claims,
        )


def user(
    issuer: str,
    subject: str,
    scopes: Collection[str] = (),
    *,
    client_id: str | None = None,
    claims: Mapping[str, object] = _NO_CLAIMS,
) -> Principal:
    """Return a user that an issuer knows. No two have the same id: an issuer has no fragment (RFC 8414, section 2)."""
    return Principal(
        f"{issuer}#sub={subject}", scopes, client_id=client_id, issuer=issuer, subject=subject, claims=claims
    )


def client(
    issuer: str, client_id: str, scopes: Collection[str] = (), *, claims: Mapping[str, object] = _NO_CLAIMS
) -> Principal:
    """Return a client that asks for itself; it is never a user, whatever that is called."""
    return Principal(
        f"{issuer}#client={client_id}", scopes, client_id=client_id, issuer=issuer, claims=claims
    )


ANYONE = Principal()
"""The principal of requests without authentication."""


def checked_principal(principal: object) -> Principal:
    """Return what stands for all requests, where it is a Principal.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(principal, Principal):
        raise TypeError(f'principal must be a Principal, such as Principal("ada"), got {principal!r}')
    return principal

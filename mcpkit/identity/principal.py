"""Identity of the client or user that sent a request, as far as it is verified."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_NO_CLAIMS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, init=False)
class Principal:
    """The authenticated client or user of a request, and its scopes (basic/authorization).

    With `Server(auth=...)` it comes from the verified access token. Without, mcpkit verifies no identity: over HTTP the
    principal comes from an authentication middleware, through `asgi(principal=)`; elsewhere from `run(principal=)`.

    Args:
        id: Identifier, the same in all requests of the principal; None for an anonymous client.
        scopes: Scopes that the credentials of the request grant, such as `{"files:read"}`. While a request is served,
            they include the scopes that these imply according to `Server(scopes=...)`.
        client_id: The OAuth client that sent the request, for itself or for a user; None if unknown.
        issuer: Issuer identifier of the authorization server; None if there is none.
        subject: Identifier of the user at the issuer; None for a client that acts for itself.
        claims: Other claims of the token, such as `{"org_id": "acme"}`. They are not in the repr and are ignored when
            principals are compared.

    Raises:
        TypeError: The id is not a string, or the scopes are not a set of strings.
        ValueError: The id is empty, so that all principals without one would be equal.
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
        """Return a copy with other scopes.

        Args:
            scopes: The scopes of the copy.
        """
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
    """Return the principal of a user. Its id is unique, as an issuer has no fragment (RFC 8414, section 2)."""
    return Principal(
        f"{issuer}#sub={subject}", scopes, client_id=client_id, issuer=issuer, subject=subject, claims=claims
    )


def client(
    issuer: str, client_id: str, scopes: Collection[str] = (), *, claims: Mapping[str, object] = _NO_CLAIMS
) -> Principal:
    """Return the principal of a client that acts for itself. Its id never equals that of a user."""
    return Principal(
        f"{issuer}#client={client_id}", scopes, client_id=client_id, issuer=issuer, claims=claims
    )


ANYONE = Principal()
"""The principal of requests without authentication."""


def checked_principal(principal: object) -> Principal:
    """Return the principal of all requests, checked.

    Raises:
        TypeError: It is not a Principal.
    """
    if not isinstance(principal, Principal):
        raise TypeError(f'principal must be a Principal, such as Principal("ada"), got {principal!r}')
    return principal

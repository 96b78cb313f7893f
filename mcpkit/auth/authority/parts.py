"""Components that the endpoints of one authorization server share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from ..._utils.concurrency import run_shielded
from ...identity.audit import AuditLog
from ...identity.principal import Principal
from ...identity.principal import client as client_principal
from ...identity.principal import user as user_principal
from ...identity.scopes import Scopes, check_name
from ..urls import MetadataError, canonical
from .access_tokens import AccessTokens
from .clients import Clients
from .errors import OAuthError
from .grants import GrantRecord, Grants
from .look import Look

_PLAIN = Look()

_OPENID = frozenset({"openid", "profile", "email", "address", "phone"})
"""Scopes of OpenID Connect (Core 1.0, sections 3.1.2.1 and 5.4), which request claims of the user."""


class Keeper(Protocol):
    """Manages the data that grants hold."""

    def begun(self, record: GrantRecord) -> None:
        """Handle a new grant with an issued code."""
        ...

    async def let_go(self, record: GrantRecord) -> None:
        """Handle a grant that has ended or was not created, once in all processes: its data is no longer needed."""
        ...


class Parts(NamedTuple):
    """Components of one authorization server.

    Attributes:
        issuer: URL of the authorization server.
        name: Name of the protected server.
        resources: URLs of the endpoints of the protected server.
        scopes: Scopes of the protected server.
        clients: The clients.
        grants: The grants.
        tokens: The access tokens.
        audit: The audit log.
        look: Title and logo of the pages.
        vouching: Issuer of the user identities; None for the authorization server itself.
        keeper: Manager of the data of grants; None if they hold none.
    """

    issuer: str
    name: str
    resources: tuple[str, ...]
    scopes: Scopes
    clients: Clients
    grants: Grants
    tokens: AccessTokens
    audit: AuditLog
    look: Look = _PLAIN
    vouching: str | None = None
    keeper: Keeper | None = None

    def principal(
        self, record: GrantRecord, scopes: Collection[str], claims: Mapping[str, object] | None = None
    ) -> Principal:
        """Return the principal of a grant."""
        if record.subject is None:
            return client_principal(self.issuer, record.client_id, scopes, claims=claims or {})
        issuer = self.vouching or self.issuer
        return user_principal(issuer, record.subject, scopes, client_id=record.client_id, claims=claims or {})

    async def end(self, record: GrantRecord) -> None:
        """End a grant: invalidate its tokens, and release its data."""
        await run_shielded(self._end(record))

    async def _end(self, record: GrantRecord) -> None:
        ended = await self.grants.end(record.id)
        if ended is None:
            return
        self.audit.emit("revocation", self.principal(ended, ended.scopes))
        await self.forget(ended)

    async def forget(self, record: GrantRecord) -> None:
        """Release the data of a grant that has ended or was not created."""
        if self.keeper is not None:
            await self.keeper.let_go(record)

    def url(self, path: str) -> str:
        """Return the URL of an endpoint."""
        return self.issuer.rstrip("/") + path

    def scopes_of(self, text: str | None) -> tuple[str, ...]:
        """Return the requested scopes, or the default scopes if none are requested.

        Raises:
            OAuthError: The server does not have one of the scopes.
        """
        return self._named(text) or self.scopes.defaults

    def _named(self, text: str | None) -> tuple[str, ...]:
        """Return the requested scopes that the server has.

        Clients without known scopes request those of OpenID Connect. An authorization server may ignore requested
        scopes (RFC 6749, section 3.3). So these are ignored, unless the server has them in its table or has no table.
        `offline_access` is ignored too, because all tokens can be refreshed.

        Raises:
            OAuthError: The server does not have one of the scopes.
        """
        table = self.scopes.table
        ignored = {"", "offline_access", *(_OPENID if table else ())}.difference(table)
        names = dict.fromkeys(name for name in (text or "").split(" ") if name not in ignored)
        for name in names:
            try:
                check_name(name)
            except ValueError:
                raise OAuthError("invalid_scope", "scope must be a space-separated list of scopes") from None
            if table and name not in table:
                known = " ".join(table)
                raise OAuthError(
                    "invalid_scope", f"{name[:100]} is not a scope of this server. Its scopes are: {known}"
                )
        return tuple(names)

    def resources_of(self, given: Iterable[str], among: tuple[str, ...]) -> tuple[str, ...]:
        """Return the requested resources, or all if none are requested (RFC 8707).

        Clients of revision 2025-03-26 request none.

        Args:
            given: Values of the parameter `resource`.
            among: Allowed resources.

        Raises:
            OAuthError: A resource is not allowed.
        """
        named = tuple(dict.fromkeys(self._resource(each, among) for each in given))
        return named or among

    def _resource(self, given: str, among: tuple[str, ...]) -> str:
        try:
            wanted = canonical(given).rstrip("/") if "#" not in given else None
        except MetadataError:
            wanted = None
        for each in among:
            if canonical(each).rstrip("/") == wanted:
                return each
        raise OAuthError("invalid_target", f"resource must be one of: {' '.join(among)}")

    def granted(self, asked: Collection[str], has: Collection[str]) -> tuple[str, ...]:
        """Return the requested scopes that are also available.

        Args:
            asked: The requested scopes.
            has: The available scopes.
        """
        both = self.scopes.expanded(asked) & self.scopes.expanded(has)
        return tuple(self.scopes.reduced(sorted(both)))

    def narrowed(self, text: str | None, granted: tuple[str, ...]) -> tuple[str, ...]:
        """Return the requested scopes of a grant, or all its scopes if none are requested.

        Raises:
            OAuthError: A scope was not granted.
        """
        named = self._named(text)
        if not self.scopes.expanded(granted).issuperset(named):
            raise OAuthError("invalid_scope", "scope contains a scope that was not granted")
        return named or granted

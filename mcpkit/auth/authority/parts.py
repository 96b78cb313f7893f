"""What the endpoints of one authorization server share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from ...common.to_the_end import to_the_end
from ...state.audit import AuditLog
from ...state.principal import Principal
from ...state.principal import client as client_principal
from ...state.principal import user as user_principal
from ...state.scopes import Scopes, check_name
from ..urls import MetadataError, canonical
from .access_tokens import AccessTokens
from .clients import Clients
from .errors import OAuthError
from .grants import GrantRecord, Grants
from .look import Look

_PLAIN = Look()

_OPENID = frozenset({"openid", "profile", "email", "address", "phone"})
"""The scopes of OpenID Connect (Core 1.0, sections 3.1.2.1 and 5.4), which ask for claims of the user."""


class Keeper(Protocol):
    """Looks after what grants hold."""

    def begun(self, record: GrantRecord) -> None:
        """Hear of a grant for which a code has been given out."""
        ...

    async def let_go(self, record: GrantRecord) -> None:
        """Hear of a grant that has ended or has never begun, once in all processes: nobody needs what it held."""
        ...


class Parts(NamedTuple):
    """What one authorization server is made of.

    Attributes:
        issuer: Who it is: the URL under which its endpoints are.
        name: The name of the server that takes its tokens.
        resources: The URLs of that server's endpoints.
        scopes: What may be granted there.
        clients: Who may ask.
        grants: What has been granted.
        tokens: What is issued for it.
        audit: Hears of what happens.
        look: How its pages look.
        vouching: Who vouches for its users; None for itself.
        keeper: Looks after what grants hold; None where they hold nothing.
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
        """Return whose a grant is."""
        if record.subject is None:
            return client_principal(self.issuer, record.client_id, scopes, claims=claims or {})
        issuer = self.vouching or self.issuer
        return user_principal(issuer, record.subject, scopes, client_id=record.client_id, claims=claims or {})

    async def end(self, record: GrantRecord) -> None:
        """End a grant: all that it gave is worth nothing from now on, and what it held is let go."""
        await to_the_end(self._end(record))

    async def _end(self, record: GrantRecord) -> None:
        ended = await self.grants.end(record.id)
        if ended is None:
            return
        self.audit.emit("revocation", self.principal(ended, ended.scopes))
        await self.forget(ended)

    async def forget(self, record: GrantRecord) -> None:
        """Let go what a grant held that has ended, or has never begun."""
        if self.keeper is not None:
            await self.keeper.let_go(record)

    def url(self, path: str) -> str:
        """Return the URL of an endpoint."""
        return self.issuer.rstrip("/") + path

    def scopes_of(self, text: str | None) -> tuple[str, ...]:
        """Return the scopes that a request names; those that the table has as defaults where it names none.

        Raises:
            OAuthError: One of them is none of the server's.
        """
        return self._named(text) or self.scopes.defaults

    def _named(self, text: str | None) -> tuple[str, ...]:
        """Return the scopes of the server that a request names.

        Clients that find no scopes to ask for ask for those of OpenID Connect. An authorization server may ignore a
        part of what it is asked for (RFC 6749, section 3.3), so these are ignored, unless the server has them in its
        table or has no table; and so is `offline_access`, as all tokens are refreshed.

        Raises:
            OAuthError: One of them is none of the server's.
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
        """Return the resources that a request names; all that there are where it names none (RFC 8707).

        Clients of revision 2025-03-26 name none.

        Args:
            given: What stands in `resource`.
            among: Which ones it may name.

        Raises:
            OAuthError: One of them is another server's.
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
        """Return what somebody is granted of the scopes that are asked for.

        Args:
            asked: They.
            has: What whoever grants them has.
        """
        both = self.scopes.expanded(asked) & self.scopes.expanded(has)
        return tuple(self.scopes.reduced(sorted(both)))

    def narrowed(self, text: str | None, granted: tuple[str, ...]) -> tuple[str, ...]:
        """Return the scopes that a request names of those that have been granted; all where it names none.

        Raises:
            OAuthError: One of them has not been granted.
        """
        named = self._named(text)
        if not self.scopes.expanded(granted).issuperset(named):
            raise OAuthError("invalid_scope", "scope contains a scope that was not granted")
        return named or granted

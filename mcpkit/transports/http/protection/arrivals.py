"""Detection of logins and added scopes from valid tokens, for the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....identity.principals_and_scopes import digest_of

if TYPE_CHECKING:
    from ....identity.audit import AuditLog
    from ....identity.principals_and_scopes import Principal
    from ....identity.revocation import Revocation

_MOST_KEPT = 10_000
"""Maximum number of remembered principals. Beyond it, the least recent logins are forgotten."""


class Arrivals:
    """Writes logins and added scopes of principals to the audit log.

    Args:
        audit: The audit log.
    """

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._granted: dict[tuple[str, str | None], frozenset[str]] = {}

    def note(self, principal: Principal, url: str) -> None:
        """Process a newly verified token.

        Args:
            principal: Principal of the token.
            url: Audience of the token.
        """
        if principal.id is None:
            return
        key = principal.id, principal.client_id
        before = self._granted.pop(key, None)
        self._granted[key] = principal.scopes if before is None else before | principal.scopes
        if len(self._granted) > _MOST_KEPT:
            del self._granted[next(iter(self._granted))]
        if before is None:
            self._audit.emit("login", principal, scopes=principal.scopes, resource=url)
        elif more := principal.scopes - before:
            self._audit.emit("step_up", principal, scopes=more, resource=url)

    def forget(self, revocation: Revocation) -> None:
        """Forget a revoked principal, so that its next token counts as a login; in any thread."""
        for key in tuple(self._granted):
            if digest_of(key[0]) == revocation.digest:
                self._granted.pop(key, None)

"""Who has come to an app with good tokens: the first time, and with more than before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....state.owner import digest_of

if TYPE_CHECKING:
    from ....state.audit import AuditLog
    from ....state.principal import Principal
    from ....state.revocations import Revocation

_MOST_KEPT = 10_000
"""Maximum number of remembered principals. Beyond it, the least recent logins are forgotten."""


class Arrivals:
    """Tells of logins, and of those who come back with scopes that they did not have.

    Args:
        audit: Hears of them.
    """

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._granted: dict[tuple[str, str | None], frozenset[str]] = {}

    def note(self, principal: Principal, url: str) -> None:
        """Take notice of a token that has just been verified.

        Args:
            principal: Whose it is.
            url: What it is for.
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
        """Forget whoever has been sent away, so that they log in anew; in any thread."""
        for key in tuple(self._granted):
            if digest_of(key[0]) == revocation.digest:
                self._granted.pop(key, None)

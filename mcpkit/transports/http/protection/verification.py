"""Verification of unknown access tokens, with limits, measurements and audit events."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from ....auth.verifier import (
    AccessToken,
    InvalidTokenError,
    TokenVerifier,
    VerifierUnavailableError,
    check_unbound,
)
from ....identity.audit import measuring
from ....requests.timeouts_and_concurrency import Shares
from ..intake.refused_body import UnreadError
from .arrivals import Arrivals

if TYPE_CHECKING:
    from ....identity.audit import AuditLog
    from ....identity.principals_and_scopes import Principal, Scopes
    from ....identity.revocation import Revocation, Revocations

logger = logging.getLogger(__name__)

REVOKED = "The access token has been revoked"

MOST_AT_ONCE = 256
"""Maximum concurrent verifications. One address gets at most as many as remain for others."""

MOST_BAD = 300
WINDOW = 60.0
"""Maximum invalid tokens from one address, in this number of seconds."""

_MOST_LOGGED = 20
"""Maximum different problems of verifiers that are logged within a window."""

_MOST_ADDRESSES = 10_000
"""Maximum addresses that are counted within a window."""


class Verification:
    """Verifies access tokens for all endpoints of one app.

    An address that sends many invalid tokens is refused for a while. Tokens verified before are not affected, because
    they are cached elsewhere.

    Args:
        verifier: The token verifier.
        scopes: Scopes of the server.
        audit: The audit log.
        revocations: Revocations of principals; None if there are none.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        scopes: Scopes,
        audit: AuditLog,
        revocations: Revocations | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._verifier = verifier
        self._scopes = scopes
        self._audit = audit
        self._revocations = revocations
        self._clock = clock
        self._arrivals = Arrivals(audit)
        self._running = Shares()
        self._bad: dict[str, int] = {}  # by address, within the window
        self._window = 0.0  # when it ends
        self._logged: set[str] = set()  # the problems that have been logged within a window
        self._logged_until = 0.0
        self._advised: set[str] = set()

    async def grant(self, token: str, url: str, caller: str | None) -> AccessToken:
        """Verify a token, and return its grant with all implied scopes.

        Args:
            token: The token.
            url: Its required audience.
            caller: Address of the client; None if unknown.

        Raises:
            InvalidTokenError: The token is not valid, or was revoked.
            UnreadError: 429 after too many invalid tokens, 503 if the token cannot be verified now, 500 if the verifier
                failed.
        """
        self._check_room(url, caller)
        self._running.take(caller)
        meters = self._audit.meters
        token_of_meters = measuring.set(meters) if meters else None
        started, outcome = perf_counter(), "cancelled"
        found: AccessToken | None = None
        try:
            found = await self._verifier.verify(token, url)
            if found.principal.id is None:
                raise TypeError("verify() returned a principal without an id. Set the id of the principal")
            check_unbound(found.principal.claims)
            await self._check_revoked(found, url, caller)
            outcome = "verified"
        except InvalidTokenError as error:
            outcome = "invalid"
            self._note_bad(caller)
            whose = None if found is None else found.principal
            self._tell(401, "invalid_token", error.description, url, caller, whose)
            self._advise(error, url)
            raise
        except UnreadError:
            outcome = "unavailable"
            raise
        except VerifierUnavailableError as error:
            outcome = "unavailable"
            if self._is_new(error.description):
                logger.warning(
                    "access tokens cannot be verified at the moment, so requests are answered with "
                    "HTTP 503: %s",
                    error.description,
                )
            self._tell(503, "unavailable", error.description, url, caller)
            raise _later(
                503, "access tokens cannot be verified at the moment. Try again later", error.retry_after
            ) from None
        except Exception as error:  # noqa: BLE001 - of an author, it may be any
            outcome = "failed"
            if self._is_new(repr(type(error))):
                # Its own text may have the token, as that of a KeyError has.
                redacted = "".join(traceback.format_exception(error)).replace(token, "...")
                logger.error(  # noqa: TRY400 - the text has the traceback
                    "the token verifier raised an exception, and the request is answered with HTTP 500:\n%s",
                    redacted,
                )
            self._tell(500, "failed", "the token verifier raised an exception", url, caller)
            raise UnreadError(
                500, "the server could not verify the access token because of an internal error"
            ) from None
        finally:
            self._running.release(caller)
            for meter in meters:
                meter.verified(outcome, perf_counter() - started)
            if token_of_meters is not None:
                measuring.reset(token_of_meters)
        if caller is not None:
            self._bad.pop(
                caller, None
            )  # many may be behind one address, of whom some come with what has expired
        principal = self._scopes.of(found.principal)
        self._arrivals.note(principal, url)
        return AccessToken(principal, found.expires, found.issued, found.fresh_until)

    def revoke(self, revocation: Revocation) -> None:
        """Handle a revocation, in any thread."""
        self._arrivals.forget(revocation)

    async def _check_revoked(self, grant: AccessToken, url: str, caller: str | None) -> None:
        if self._revocations is None:
            return
        try:
            is_revoked = await self._revocations.covers(grant.principal, grant.issued)
        except OSError:
            if self._is_new("the shared store does not answer"):
                logger.exception(
                    "the shared store does not answer, so revocations of access tokens cannot be "
                    "checked. Requests are answered with HTTP 503"
                )
            self._tell(503, "unavailable", "the shared store does not answer", url, caller)
            text = "revocations of access tokens cannot be checked at the moment. Try again later"
            raise _later(503, text, 1) from None
        if is_revoked:
            raise InvalidTokenError(REVOKED)

    def _check_room(self, url: str, caller: str | None) -> None:
        if caller is not None and self._bad.get(caller, 0) >= MOST_BAD:
            seconds = self._window - self._clock()
            if seconds > 0:
                text = f"too many invalid access tokens were sent from {caller}. Try again later"
                self._tell(429, "too_many", "too many invalid access tokens", url, caller)
                raise _later(429, text, int(seconds) + 1)
        if not self._running.has_room(MOST_AT_ONCE, caller):
            excess = self._running.excess(MOST_AT_ONCE, caller)
            self._tell(503, "too_many", "too many access tokens are being verified", url, caller)
            raise _later(503, f"too many access tokens are being verified {excess}. Try again later", 1)

    def _is_new(self, problem: str) -> bool:
        """Return True if a problem has not been logged in this window, because clients control how often it occurs."""
        now = self._clock()
        if now >= self._logged_until:
            self._logged_until = now + WINDOW
            self._logged.clear()
        if problem in self._logged or len(self._logged) >= _MOST_LOGGED:
            return False
        self._logged.add(problem)
        return True

    def _advise(self, error: InvalidTokenError, url: str) -> None:
        """Log a hint for the operator once, because clients control how often it occurs."""
        if (
            error.advice is not None
            and error.advice not in self._advised
            and len(self._advised) < _MOST_LOGGED
        ):
            self._advised.add(error.advice)
            logger.warning(
                "rejected an access token for %s, %s: %s. This is logged once; the audit has every rejection",
                url,
                error.description,
                error.advice,
            )

    def _note_bad(self, caller: str | None) -> None:
        if caller is None:
            return
        now = self._clock()
        if now >= self._window:
            self._window = now + WINDOW
            self._bad.clear()
        if caller in self._bad or len(self._bad) < _MOST_ADDRESSES:
            self._bad[caller] = self._bad.get(caller, 0) + 1

    def _tell(
        self,
        status: int,
        reason: str,
        detail: str,
        url: str,
        caller: str | None,
        principal: Principal | None = None,
    ) -> None:
        self._audit.emit(
            "refusal", principal, status=status, reason=reason, detail=detail, resource=url, caller=caller
        )


def _later(status: int, text: str, seconds: int) -> UnreadError:
    return UnreadError(status, text, ((b"retry-after", b"%d" % seconds),))

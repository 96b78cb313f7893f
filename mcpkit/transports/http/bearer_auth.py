"""Access tokens of requests: extraction, verification, and challenges (RFC 6750; basic/authorization)."""

from __future__ import annotations

import hashlib
import logging
import math
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..._utils.exceptions import ChallengeError
from ...auth import verifier as verifiers
from ...auth.verifier import AccessToken, InvalidTokenError, TokenVerifier
from ...identity.audit_and_revocation import measuring
from ...identity.principals_and_scopes import ANYONE, Principal, digest_of
from ...protocol import http_headers
from ...protocol.http_headers import caller_at
from ...protocol.revisions import HANDSHAKE
from ...requests.timeouts_and_concurrency import Anonymous, Shares
from .request import UnreadError
from .response import UNDECIDED, Exchange, Receive, RefusedError, Send, headers_of

if TYPE_CHECKING:
    from ...identity.audit_and_revocation import AuditLog, Revocation, Revocations
    from ...identity.principals_and_scopes import Scopes

logger = logging.getLogger(__name__)

# Headers

_UNQUOTABLE = r"[^ !#-\[\]-~]"  # outside visible ASCII, quotes and backslashes
MAX_HEADER = 16 * 1024  # maximum bytes of an Authorization header


def bearer_token(header: bytes) -> str | None:
    """Return the access token in an Authorization header; None for another scheme.

    Raises:
        ValueError: The header has the scheme Bearer, but is malformed (400).
    """
    token = http_headers.token68(header.decode("latin-1"), "bearer")
    if token is not None and len(header) > MAX_HEADER:
        raise ValueError("the header is too long")
    return token


def challenge(parameters: Mapping[str, str | None]) -> str:
    """Return the value of a `WWW-Authenticate` header, without the parameters that are None.

    Args:
        parameters: Values by name. Characters outside visible ASCII, quotes and backslashes are removed.
    """
    found = {name: re.sub(_UNQUOTABLE, "", value) for name, value in parameters.items() if value is not None}
    pairs = ", ".join(f'{name}="{value}"' for name, value in found.items())
    return f"Bearer {pairs}" if pairs else "Bearer"


# Requests with tokens

REVOKED = "The access token has been revoked"

_MAX_GRANTS = 10_000  # maximum cached tokens. Beyond it, the oldest are verified again.

_ANONYMOUS = AccessToken(ANYONE)


class TokenExchange(Exchange):
    """HTTP request to an endpoint with access tokens, and its response.

    Attributes:
        endpoint: Endpoint that verified the token, or accepted the request without one.
    """

    endpoint: ProtectedEndpoint

    @property
    def caller(self) -> str | None:
        """Key of the client: its principal, or else its address, with a smaller share of the limits."""
        key = super().caller
        return key if self.principal.id is not None else Anonymous(key or "this machine")

    def challenge(self, scopes: Sequence[str], revision: str) -> ChallengeError | None:
        """Return the challenge for missing scopes, if the status has not been sent yet."""
        return self.endpoint.challenge(scopes, self.principal, revision) if self.state == UNDECIDED else None

    def dismissal(self) -> ChallengeError | None:
        """Return the challenge for a token that is no longer valid, if the status has not been sent yet."""
        return self.endpoint.dismissal() if self.state == UNDECIDED else None

    def check_access(self) -> None:
        """Check that the access token has not been revoked since the request arrived.

        Raises:
            RefusedError: It was revoked (401).
        """
        if self.grant is not None and self.endpoint.is_revoked(self.grant):
            error = self.endpoint.dismissal()
            raise RefusedError(error.status, error.message, headers_of(error))


class ProtectedEndpoint:
    """One URL, which is an audience: verifies the access tokens of requests, and challenges requests without one.

    Grants are cached by the hash of the token while they are fresh. The memory is bounded.

    Args:
        url: The URL, the required audience of tokens.
        metadata_url: URL of the resource metadata, for challenges if there are authorization servers.
        verification: Verification of tokens.
        allows_anonymous: Returns True if requests without a token can be served at all.

    Attributes:
        url: The URL.
    """

    def __init__(
        self, url: str, metadata_url: str, verification: Verification, allows_anonymous: Callable[[], bool]
    ) -> None:
        self.url = url
        self._verification, self._verifier = verification, verification.verifier
        self._metadata_url = metadata_url if self._verifier.issuers else None
        self._audit, self._scopes = verification.audit, verification.scopes
        self._allows_anonymous = allows_anonymous
        # A verifier that can refuse a request regardless of its token is called for each request.
        self._refuses_requests = type(self._verifier).refusal is not TokenVerifier.refusal
        # By the hash of the header in its usual form: until when the grant is fresh, and the grant.
        self._grants: dict[bytes, tuple[float, AccessToken]] = {}

    def known(self, headers: Mapping[bytes, bytes]) -> AccessToken | None:
        """Return the cached grant of the token of a request, if it is fresh."""
        header = headers.get(b"authorization")
        return None if header is None or self._refuses_requests else self._cached(header)

    def _cached(self, header: bytes) -> AccessToken | None:
        cached = self._grants.get(hashlib.sha256(header).digest())
        if cached is None or cached[0] <= time.time():
            return None
        self._audit.known_tokens += 1
        return cached[1]

    async def admit(
        self, headers: Mapping[bytes, bytes], peer: tuple[str, int] | None, *, may_be_anonymous: bool = True
    ) -> AccessToken:
        """Verify the token of a request, and return its grant.

        Args:
            headers: Headers of the request, by lower-case name.
            peer: Address and port of the client; None if unknown.
            may_be_anonymous: Allow a request without a token if the server has anonymous components.

        Raises:
            UnreadError: 401 without a valid token, 400 for a malformed header, 429 after too many invalid tokens, 503
                if the token cannot be verified now.
        """
        caller = None if peer is None else caller_at(peer[0])
        refusal = self._verifier.refusal(headers)
        if refusal is not None:
            self._verification.record_refusal(403, "invalid_request", refusal, self.url, caller)
            raise UnreadError(403, refusal)
        header = headers.get(b"authorization")
        try:
            token = None if header is None else bearer_token(header)
        except ValueError:
            raise self.malformed("the Authorization header does not contain a Bearer token", caller) from None
        if header is None or token is None:
            if header is None and may_be_anonymous and self._allows_anonymous():
                return _ANONYMOUS
            self._verification.record_refusal(401, "no_token", None, self.url, caller)
            raise _unread(self._challenge(self._scopes.defaults, "this server requires an access token"))
        header = b"Bearer " + token.encode()  # with more spaces, or in lower case, it is no other token
        if (cached := self._cached(header)) is not None:
            return cached
        try:
            grant = await self._verification.grant(token, self.url, caller)
        except InvalidTokenError as error:
            problem = self._challenge(self._scopes.defaults, error.description, error="invalid_token")
            raise _unread(problem) from None
        until = min(time for time in (grant.expires, grant.fresh_until, math.inf) if time is not None)
        while len(self._grants) >= _MAX_GRANTS:
            del self._grants[next(iter(self._grants))]
        digest = hashlib.sha256(header).digest()
        self._grants[digest] = until, grant
        if self.is_revoked(grant):  # checked once it is cached: a later revocation removes it from the cache
            self._grants.pop(digest, None)
            raise _unread(self.dismissal())
        return grant

    def exchange(
        self,
        receive: Receive,
        send: Send,
        keep_alive: float,
        headers: Mapping[bytes, bytes],
        grant: AccessToken,
        peer: tuple[str, int] | None,
    ) -> TokenExchange:
        """Return the exchange of a request with a verified grant; see `Exchange`."""
        exchange = TokenExchange(receive, send, keep_alive, headers, grant.principal, peer)
        exchange.endpoint, exchange.grant = self, grant
        return exchange

    def is_revoked(self, grant: AccessToken) -> bool:
        """Return True if a verified token has been revoked, as far as this process knows."""
        revocations = self._verification.revocations
        return revocations is not None and revocations.covers_cached(grant.principal, grant.issued)

    def revoke(self, revocation: Revocation) -> None:
        """Remove the cached tokens of a revoked principal; in any thread."""
        for digest, (_, grant) in tuple(self._grants.items()):
            if revocation.covers(grant.principal, grant.issued):
                self._grants.pop(digest, None)

    # Challenges

    def challenge(self, scopes: Sequence[str], principal: Principal, revision: str) -> ChallengeError:
        """Return the challenge for missing scopes (403) or a missing token (401).

        Args:
            scopes: All scopes that the request needs.
            principal: Principal of the request.
            revision: Protocol revision of the request. Before 2026-07-28, clients do not add the granted scopes to the
                requested ones, so the challenge contains both.
        """
        record = self._verification.record_refusal
        if principal.id is None:
            record(401, "no_token", None, self.url, scopes=scopes)
            return self._challenge(scopes or self._scopes.defaults, "this request requires an access token")
        record(403, "insufficient_scope", None, self.url, principal=principal, scopes=scopes)
        named = scopes
        if revision in HANDSHAKE:
            named = self._scopes.reduced((*(set(self._scopes.table) & principal.scopes), *scopes))
        message = f"this request requires scopes that the access token does not have: {', '.join(scopes)}"
        return self._challenge(named, message, status=403, error="insufficient_scope")

    def dismissal(self) -> ChallengeError:
        """Return the challenge for a revoked token."""
        return self._challenge(self._scopes.defaults, REVOKED, error="invalid_token")

    def malformed(self, description: str, caller: str | None = None) -> UnreadError:
        """Return the error for a request with a malformed Authorization header."""
        self._verification.record_refusal(400, "invalid_request", description, self.url, caller)
        header = challenge({"error": "invalid_request", "error_description": description})
        return UnreadError(400, description, ((b"www-authenticate", header.encode()),))

    def _challenge(
        self, scopes: Sequence[str], message: str, *, status: int = 401, error: str | None = None
    ) -> ChallengeError:
        parameters = {"error": error, "error_description": None if error is None else message}
        where = {"resource_metadata": self._metadata_url, "scope": " ".join(scopes) or None}
        header = challenge({**parameters, **where})
        return ChallengeError(401 if status == 401 else 403, header, message)


def _unread(error: ChallengeError) -> UnreadError:
    return UnreadError(error.status, error.message, headers_of(error))


# Verification

# Maximum concurrent verifications. One address gets at most as many as remain for others.
MAX_CONCURRENT = 256

MAX_INVALID, WINDOW = 300, 60.0  # maximum invalid tokens from one address, in this number of seconds
_MAX_LOGGED = 20  # maximum different problems of verifiers that are logged within a window

_MAX_ADDRESSES = 10_000  # maximum addresses that are counted within a window

_MAX_PRINCIPALS = 10_000  # maximum remembered principals. Beyond it, the least recent logins are forgotten.


class Verification:
    """Verifies access tokens for all endpoints of one app, with limits, measurements and audit events.

    An address that sends many invalid tokens is refused for a while. Tokens verified before are not affected, because
    they are cached elsewhere. The first token of a principal is recorded as a login, and added scopes as a step-up.

    Args:
        verifier: The token verifier.
        scopes: Scopes of the server.
        audit: The audit log.
        revocations: Revocations of principals; None if there are none.

    Attributes:
        verifier: The token verifier.
        scopes: Scopes of the server.
        audit: The audit log.
        revocations: Revocations of principals, or None.
    """

    def __init__(
        self, verifier: TokenVerifier, scopes: Scopes, audit: AuditLog, revocations: Revocations | None = None
    ) -> None:
        self.verifier, self.scopes, self.audit, self.revocations = verifier, scopes, audit, revocations
        self._running = Shares()
        self._invalid: dict[str, int] = {}  # number of invalid tokens by address, until `_invalid_until`
        self._invalid_until = 0.0
        self._logged: set[str] = set()  # problems that have been logged, until `_logged_until`
        self._logged_until = 0.0
        self._advised: set[str] = set()
        self._scopes_by_principal: dict[tuple[str, str | None], frozenset[str]] = {}

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
        token_of_meters = measuring.set(meters := self.audit.meters)
        started, outcome = time.perf_counter(), "cancelled"
        found: AccessToken | None = None
        try:
            found = await self.verifier.verify(token, url)
            if found.principal.id is None:
                raise TypeError("verify() returned a principal without an id. Set the id of the principal")
            verifiers.check_unbound(found.principal.claims)
            await self._check_revoked(found, url, caller)
            outcome = "verified"
        except InvalidTokenError as error:
            outcome = "invalid"
            self._count_invalid(caller)
            principal = None if found is None else found.principal
            self.record_refusal(401, "invalid_token", error.description, url, caller, principal=principal)
            self._log_advice(error, url)
            raise
        except UnreadError:
            outcome = "unavailable"
            raise
        except verifiers.VerifierUnavailableError as error:
            outcome = "unavailable"
            if self._is_new(error.description):
                logger.warning(
                    "access tokens cannot be verified at the moment, so requests are answered with HTTP 503: %s",
                    error.description,
                )
            self.record_refusal(503, "unavailable", error.description, url, caller)
            text = "access tokens cannot be verified at the moment. Try again later"
            raise _unavailable(503, text, error.retry_after) from None
        except Exception as error:  # noqa: BLE001 - of an author, it may be any
            outcome = "failed"
            if self._is_new(repr(type(error))):
                # Its text may contain the token, as that of a KeyError does.
                redacted = "".join(traceback.format_exception(error)).replace(token, "...")
                logger.error(  # noqa: TRY400 - the text has the traceback
                    "the token verifier raised an exception, and the request is answered with HTTP 500:\n%s",
                    redacted,
                )
            self.record_refusal(500, "failed", "the token verifier raised an exception", url, caller)
            text = "the server could not verify the access token because of an internal error"
            raise UnreadError(500, text) from None
        finally:
            self._running.release(caller)
            for meter in meters:
                meter.verified(outcome, time.perf_counter() - started)
            measuring.reset(token_of_meters)
        if caller is not None:  # many clients may share an address, and some of them send expired tokens
            self._invalid.pop(caller, None)
        principal = self.scopes.of(found.principal)
        self._record_login(principal, url)
        return AccessToken(principal, found.expires, found.issued, found.fresh_until)

    def revoke(self, revocation: Revocation) -> None:
        """Forget a revoked principal, so that its next token counts as a login; in any thread."""
        for key in tuple(self._scopes_by_principal):
            if digest_of(key[0]) == revocation.digest:
                self._scopes_by_principal.pop(key, None)

    def record_refusal(
        self, status: int, reason: str, detail: str | None, url: str, caller: str | None = None, **more: Any
    ) -> None:
        """Write the refusal of a request to the audit log."""
        details: dict[str, Any] = {"status": status, "reason": reason, "detail": detail, **more}
        self.audit.emit("refusal", resource=url, caller=caller, **details)

    def _record_login(self, principal: Principal, url: str) -> None:
        assert principal.id is not None
        key = principal.id, principal.client_id
        before = self._scopes_by_principal.pop(key, None)
        self._scopes_by_principal[key] = principal.scopes if before is None else before | principal.scopes
        if len(self._scopes_by_principal) > _MAX_PRINCIPALS:
            del self._scopes_by_principal[next(iter(self._scopes_by_principal))]
        if before is None:
            self.audit.emit("login", principal, scopes=principal.scopes, resource=url)
        elif added := principal.scopes - before:
            self.audit.emit("step_up", principal, scopes=added, resource=url)

    async def _check_revoked(self, grant: AccessToken, url: str, caller: str | None) -> None:
        if self.revocations is None:
            return
        try:
            is_revoked = await self.revocations.covers(grant.principal, grant.issued)
        except OSError:
            if self._is_new("the shared store does not answer"):
                logger.exception(
                    "the shared store does not answer, so revocations of access tokens cannot be "
                    "checked. Requests are answered with HTTP 503"
                )
            self.record_refusal(503, "unavailable", "the shared store does not answer", url, caller)
            text = "revocations of access tokens cannot be checked at the moment. Try again later"
            raise _unavailable(503, text, 1) from None
        if is_revoked:
            raise InvalidTokenError(REVOKED)

    def _check_room(self, url: str, caller: str | None) -> None:
        if caller is not None and self._invalid.get(caller, 0) >= MAX_INVALID:
            seconds = self._invalid_until - time.monotonic()
            if seconds > 0:
                text = f"too many invalid access tokens were sent from {caller}. Try again later"
                self.record_refusal(429, "too_many", "too many invalid access tokens", url, caller)
                raise _unavailable(429, text, int(seconds) + 1)
        if not self._running.has_room(MAX_CONCURRENT, caller):
            excess = self._running.excess(MAX_CONCURRENT, caller)
            self.record_refusal(503, "too_many", "too many access tokens are being verified", url, caller)
            text = f"too many access tokens are being verified {excess}. Try again later"
            raise _unavailable(503, text, 1)

    def _count_invalid(self, caller: str | None) -> None:
        if caller is None:
            return
        now = time.monotonic()
        if now >= self._invalid_until:
            self._invalid_until = now + WINDOW
            self._invalid.clear()
        if caller in self._invalid or len(self._invalid) < _MAX_ADDRESSES:
            self._invalid[caller] = self._invalid.get(caller, 0) + 1

    def _log_advice(self, error: InvalidTokenError, url: str) -> None:
        """Log a hint for the operator once, because clients control how often it occurs."""
        advice = error.advice
        if advice is not None and advice not in self._advised and len(self._advised) < _MAX_LOGGED:
            self._advised.add(advice)
            logger.warning(
                "rejected an access token for %s, %s: %s. This is logged once; the audit has every rejection",
                url,
                error.description,
                advice,
            )

    def _is_new(self, problem: str) -> bool:
        """Return True if a problem has not been logged in this window, because clients control how often it occurs."""
        now = time.monotonic()
        if now >= self._logged_until:
            self._logged_until = now + WINDOW
            self._logged.clear()
        if problem in self._logged or len(self._logged) >= _MAX_LOGGED:
            return False
        self._logged.add(problem)
        return True


def _unavailable(status: int, text: str, seconds: int) -> UnreadError:
    return UnreadError(status, text, ((b"retry-after", b"%d" % seconds),))
